"""ChestX: X-rays of NIH ChestX-ray14 with exactly one finding, and that one of seven.

Pneumonia and the six rarer findings stay out, as do images without a finding (Guo et al., 2020).
The images may be in one folder or in twelve (images_001 … images_012), as the archives unpack.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers._assembling import Files, assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, read_tree
from appl.datasets.readers._tables import find_images, find_table, required_columns

TABLE = "Data_Entry_2017.csv"


def read_chestx(root: Path) -> Listing:
    """List ChestX below `root`."""
    require_folder(root, "ChestX")
    known = published_counts("chestx")
    table = find_table(root, TABLE, "Data_Entry_2017*.csv")
    if table is not None:
        files, missing = find_images(root, single_findings(table), table)
        layout = f"{table.relative_to(root)} and images"
        groups = _patients(files)
        return assemble("chestx", root, layout, files, groups=groups, missing=missing)
    tree = find_tree(root, ("", "chestX", "ChestX"), known)
    if tree is None:
        raise no_layout(root, "ChestX", (f"{TABLE} and images", "<finding>/"))
    files = read_tree(tree, known, "ChestX")
    return assemble("chestx", root, layout_of(root, tree), files, groups=_patients(files))


def single_findings(table: Path) -> dict[str, str]:
    """Return the finding of each image that has one alone, if the benchmark uses it."""
    known = published_counts("chestx")
    rows = required_columns(table, "Image Index", "Finding Labels")
    # Several findings are joined by a bar, so a joined text is no name of a class.
    return {Path(image).stem: finding for image, finding in rows if finding in known}


def _patients(files: Files) -> dict[Path, str]:
    """Return the patient of each image: a file is called <patient>_<visit>."""
    return {path: path.stem.split("_")[0] for members in files.values() for path in members}


DATASETS.register("chestx")(
    DataSet(
        name="chestx",
        title="ChestX",
        what="chest X-rays with exactly one of seven findings, 1024 px, grey",
        domain="X-rays",
        role="target",
        terms="free to use with a link to NIH's page and a citation of Wang et al., CVPR 2017",
        where="kaggle.com/datasets/nih-chest-xrays/data or nihcc.app.box.com/v/ChestXray-NIHCC",
        folders=("chestX", "ChestX", "ChestX-ray14"),
        read=read_chestx,
        remark="labels are mined from reports and noisy; the patient is kept as the group",
    )
)
