"""miniImageNet, the paper's source: 100 ImageNet classes × 600 images in Ravi & Larochelle's split.

Found by itself in five layouts: CSV files that name ImageNet's original files, beside ImageNet's
training tree; class folders of all classes in one place; class folders under train, val and test;
Ravi's CSV files beside one folder of images; and file lists as JSON. Pickles are converted first,
by `miniimagenet_pickles`. In every layout the class decides the split, never the file it is in:
few-shot-ssl-public, the source of one form of pickles, exchanges validation and test.
"""

import json
import shlex
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.folder import class_folders
from appl.datasets.listing import Listing
from appl.datasets.provenance import judge, published_counts
from appl.datasets.readers._file_lists import LAYOUT as FILE_LISTS
from appl.datasets.readers._file_lists import read_file_lists
from appl.datasets.readers._tables import columns
from appl.errors import DataError

N_IMAGES_A_CLASS = 600
PARTS = ("train", "val", "test")
# Where ImageNet's class folders may be; the last two are how its archive unpacks.
TREES = ("", "images", *PARTS, "ILSVRC/Data/CLS-LOC/train", "Data/CLS-LOC/train")
# The second form has train_phase_val and train_phase_test besides: more images of the 64 training
# classes, which belong neither to the 600 a class nor to validation and test.
PICKLES = (
    tuple(f"mini-imagenet-cache-{part}.pkl" for part in (*PARTS, "validation")),
    tuple(
        f"miniImageNet_category_split_{part}.pickle"
        for part in ("train_phase_train", "val", "test")
    ),
)


def ravi_split() -> dict[str, tuple[str, ...]]:
    """Return the 64 training, 16 validation and 20 test classes as ImageNet ids."""
    text = resources.files("appl.datasets").joinpath("miniimagenet_split.json").read_text()
    return {split: tuple(names) for split, names in json.loads(text).items()}


def class_names() -> frozenset[str]:
    """Return the 100 classes of all splits."""
    return frozenset(name for names in ravi_split().values() for name in names)


def find_pickles(root: Path) -> list[Path]:
    """Return the pickles of miniImageNet in `root`, of one of their two forms."""
    for names in PICKLES:
        found = [root / name for name in names if (root / name).is_file()]
        if found:
            return found
    return []


def read_miniimagenet(root: Path) -> Listing:
    """List miniImageNet below `root`, in whichever layout it is there."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give the one that holds miniImageNet")
    if (root / "images_background").is_dir():
        raise DataError(
            f"{root} has images_background (80 classes) and images_evaluation (20): "
            "this is not the Ravi split; use a copy with its 64, 16 and 20 classes"
        )
    for layout, find in LAYOUTS.items():
        files = find(root)
        if files:
            counts = {name: len(members) for name, members in files.items()}
            provenance = judge(counts, published_counts("miniimagenet"))
            return Listing("miniimagenet", root, files, _present(files), layout, provenance)
    if find_pickles(root):
        raise DataError(
            f"{root} holds miniImageNet as pickles; convert them once with 'python -m "
            f"appl.datasets.miniimagenet_pickles {shlex.quote(str(root))} NEW_FOLDER' "
            "and give NEW_FOLDER"
        )
    raise DataError(f"{root} holds miniImageNet in no layout that we know ({', '.join(LAYOUTS)})")


def _present(files: dict[str, list[Path]]) -> dict[str, tuple[str, ...]]:
    """Return the splits whose classes are all there; a copy of the 64 base classes is one."""
    unknown = sorted(set(files) - class_names())
    if unknown:
        raise DataError(f"class {unknown[0]!r} is not one of miniImageNet's 100")
    for name, members in files.items():
        if len(members) > N_IMAGES_A_CLASS:
            raise DataError(
                f"class {name} has {len(members)} images, miniImageNet {N_IMAGES_A_CLASS}; if this "
                "is ImageNet itself, put the CSV files that choose miniImageNet's images beside it"
            )
    return {part: names for part, names in ravi_split().items() if set(names) <= set(files)}


def _one_folder(root: Path) -> dict[str, list[Path]] | None:
    known = class_names()
    if sum((root / name).is_dir() for name in known) < 2:
        return None
    return {name: f for name, f in class_folders(root).items() if name in known}


def _three_folders(root: Path) -> dict[str, list[Path]] | None:
    parts = [root / part for part in PARTS if (root / part).is_dir()]
    if not parts:
        return None
    files: dict[str, list[Path]] = {}
    for part in parts:
        files |= class_folders(part)
    return dict(sorted(files.items()))


def _tables(root: Path) -> list[Path]:
    return [root / f"{part}.csv" for part in PARTS if (root / f"{part}.csv").is_file()]


def _original_csv(root: Path) -> dict[str, list[Path]] | None:
    tables = {table: columns(table, "class_name", "image_name") for table in _tables(root)}
    if all(rows is None for rows in tables.values()):
        return None
    files: dict[str, list[Path]] = {}
    folders: dict[str, Path] = {}
    for table, rows in tables.items():
        if rows is None:
            raise DataError(f"{table}: expected the header class_name,image_name of its neighbours")
        for name, file in rows:
            if name not in folders:
                folders[name] = _class_folder(root, table, name)
            path = folders[name] / file
            if not path.is_file():
                raise DataError(f"{table} names {file!r}, which is not in {folders[name]}")
            files.setdefault(name, []).append(path)
    return {name: sorted(members) for name, members in sorted(files.items())}


def _class_folder(root: Path, table: Path, name: str) -> Path:
    for tree in TREES:
        if (root / tree / name).is_dir():
            return root / tree / name
    raise DataError(
        f"{table} names class {name!r}, which has no folder; put ImageNet's training tree, "
        f"or a link to it, at {root / 'train'}"
    )


def _ravi_csv(root: Path) -> dict[str, list[Path]] | None:
    tables = _tables(root)
    if not tables:
        return None
    files: dict[str, list[Path]] = {}
    for table in tables:
        rows = columns(table, "filename", "label")
        if rows is None:
            raise DataError(f"{table}: expected the header filename,label or class_name,image_name")
        for file, name in rows:
            path = root / "images" / file
            if not path.is_file():
                raise DataError(f"{table} names {file!r}, which is not in images/")
            files.setdefault(name, []).append(path)
    return {name: sorted(members) for name, members in sorted(files.items())}


def _json_lists(root: Path) -> dict[str, list[Path]] | None:
    lists = read_file_lists(root)
    if lists is None:
        return None
    return {name: sorted(members) for name, members in sorted(lists.files.items())}


LAYOUTS: dict[str, Callable[[Path], dict[str, list[Path]] | None]] = {
    # First, since its tree alone would pass for class folders, with all of ImageNet in them.
    "CSV files of ImageNet's original names": _original_csv,
    "class folders": _one_folder,
    "class folders under train, val and test": _three_folders,
    "train.csv, val.csv, test.csv and images/": _ravi_csv,
    FILE_LISTS: _json_lists,
}


DATASETS.register("miniimagenet")(
    DataSet(
        name="miniimagenet",
        title="miniImageNet",
        what="100 classes of ImageNet × 600 images; 64 train, 16 validation, 20 test classes",
        domain="objects, web photographs",
        role="source",
        terms="ImageNet's: non-commercial research and education",
        where="image-net.org with Ravi's CSV files, or a copy at 84 px: zenodo.org/records/7978538",
        folders=("miniImageNet", "mini_imagenet", "mini_imagenet_full_size", "mini-imagenet"),
        read=read_miniimagenet,
        remark="Ravi & Larochelle's split; Vinyals et al. have other classes",
    )
)
