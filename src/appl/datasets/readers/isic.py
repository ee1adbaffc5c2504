"""ISIC 2018 task 3, training part = HAM10000: skin lesions in seven classes.

Found with the challenge's one-hot table, images beside it or in the challenge's folders; with the
metadata table of HAM10000; or as class folders. Lesions that several images show are kept as
groups where a table names them.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers._assembling import assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, read_tree
from appl.datasets.readers._tables import find_images, find_table, required_columns
from appl.errors import DataError

TRUTH = "ISIC2018_Task3_Training_GroundTruth.csv"
LESIONS = "ISIC2018_Task3_Training_LesionGroupings.csv"
METADATA = "HAM10000_metadata.csv"  # some copies lack the suffix


def read_isic(root: Path) -> Listing:
    """List ISIC below `root`."""
    require_folder(root, "ISIC")
    table = find_table(root, TRUTH)
    if table is not None:
        return _from_table(root, table, one_hot_classes(table), _lesions(root))
    table = find_table(root, METADATA, Path(METADATA).stem)
    if table is not None:
        return _from_table(root, table, *_metadata(table))
    known = published_counts("isic")
    tree = find_tree(root, ("", "ISIC"), known)
    if tree is None:
        raise no_layout(root, "ISIC", (f"{TRUTH} and images", f"{METADATA} and images", "<class>/"))
    return assemble("isic", root, layout_of(root, tree), read_tree(tree, known, "ISIC"))


def one_hot_classes(table: Path) -> dict[str, str]:
    """Return the class of each image: the one column of its row that holds a 1."""
    names = list(published_counts("isic"))
    class_of: dict[str, str] = {}
    for number, (image, *values) in enumerate(required_columns(table, "image", *names), start=2):
        marked = [name for name, value in zip(names, values, strict=True) if _is_one(value)]
        if len(marked) != 1 or not all(_is_zero_or_one(value) for value in values):
            raise DataError(f"{table}, line {number}: {image!r} has not one class but {values}")
        if image in class_of:
            raise DataError(f"{table}, line {number}: {image!r} is there a second time")
        class_of[image] = marked[0]
    return class_of


def _is_one(value: str) -> bool:
    return value in ("1", "1.0")


def _is_zero_or_one(value: str) -> bool:
    return _is_one(value) or value in ("0", "0.0")


def _lesions(root: Path) -> dict[str, str]:
    table = find_table(root, LESIONS)
    if table is None:
        return {}
    return {image: lesion for image, lesion, *_ in required_columns(table, "image", "lesion_id")}


def _metadata(table: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return class and lesion of each image of HAM10000."""
    known = {name.lower(): name for name in published_counts("isic")}
    class_of, lesion_of = {}, {}
    for lesion, image, diagnosis in required_columns(table, "lesion_id", "image_id", "dx"):
        if diagnosis not in known:
            raise DataError(f"{table}: {image!r} has the diagnosis {diagnosis!r}, unknown to ISIC")
        class_of[image], lesion_of[image] = known[diagnosis], lesion
    return class_of, lesion_of


def _from_table(
    root: Path, table: Path, class_of: dict[str, str], lesion_of: dict[str, str]
) -> Listing:
    files, missing = find_images(root, class_of, table)
    groups = {
        path: lesion_of[path.stem]
        for members in files.values()
        for path in members
        if path.stem in lesion_of
    }
    layout = f"{table.relative_to(root)} and images"
    return assemble("isic", root, layout, files, groups=groups, missing=missing)


DATASETS.register("isic")(
    DataSet(
        name="isic",
        title="ISIC",
        what="dermoscopic photographs of skin lesions, seven diagnoses, 600 × 450 px",
        domain="skin lesions",
        role="target",
        terms="CC BY-NC 4.0",
        where="challenge.isic-archive.com/data: ISIC 2018, task 3, training images and labels",
        folders=("ISIC", "ISIC2018", "HAM10000"),
        read=read_isic,
        remark="one lesion may have several images; the lesion is kept as the group",
    )
)
