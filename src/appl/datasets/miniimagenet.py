"""miniImageNet, the paper's source: 100 ImageNet classes × 600 images in Ravi & Larochelle's split.

Found by itself in four layouts: class folders of all classes in one place; class folders under
train, val and test; Ravi's CSV files beside one folder of images; and file lists as JSON.
"""

import csv
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from appl.datasets.folder import class_folders
from appl.datasets.listing import Listing
from appl.errors import DataError

N_IMAGES_A_CLASS = 600
PARTS = {"train": "train", "val": "validation", "test": "test"}


def ravi_split() -> dict[str, tuple[str, ...]]:
    """Return the 64 training, 16 validation and 20 test classes as ImageNet ids."""
    text = resources.files("appl.datasets").joinpath("miniimagenet_split.json").read_text()
    return {split: tuple(names) for split, names in json.loads(text).items()}


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
            return Listing("miniimagenet", root, files, _present(files), layout)
    raise DataError(f"{root} holds miniImageNet in no layout that we know ({', '.join(LAYOUTS)})")


def _present(files: dict[str, list[Path]]) -> dict[str, tuple[str, ...]]:
    """Return the splits whose classes are all there; a copy of the 64 base classes is one."""
    split = ravi_split()
    strangers = sorted(set(files) - {name for names in split.values() for name in names})
    if strangers:
        raise DataError(f"class {strangers[0]!r} is not one of miniImageNet's 100")
    return {part: names for part, names in split.items() if set(names) <= set(files)}


def _one_folder(root: Path) -> dict[str, list[Path]] | None:
    known = {name for names in ravi_split().values() for name in names}
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


def _ravi_csv(root: Path) -> dict[str, list[Path]] | None:
    tables = [root / f"{part}.csv" for part in PARTS if (root / f"{part}.csv").is_file()]
    if not tables:
        return None
    files: dict[str, list[Path]] = {}
    for table in tables:
        with table.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            if not {"filename", "label"} <= set(reader.fieldnames or []):
                raise DataError(f"{table}: expected the header filename,label")
            for row in reader:
                path = root / "images" / row["filename"]
                if not path.is_file():
                    raise DataError(f"{table} names {row['filename']!r}, which is not in images/")
                files.setdefault(row["label"], []).append(path)
    return {name: sorted(members) for name, members in sorted(files.items())}


def _json_lists(root: Path) -> dict[str, list[Path]] | None:
    lists = [root / f"{part}.json" for part in ("base", "val", "novel")]
    lists = [path for path in lists if path.is_file()]
    if not lists:
        return None
    files: dict[str, list[Path]] = {}
    for path in lists:
        content = json.loads(path.read_text(encoding="utf-8"))
        names = content["label_names"]
        for file, label in zip(content["image_names"], content["image_labels"], strict=True):
            if not Path(file).is_file():
                raise DataError(f"{path} names {file!r}, which is not there")
            files.setdefault(names[label], []).append(Path(file))
    return {name: sorted(members) for name, members in sorted(files.items())}


LAYOUTS: dict[str, Callable[[Path], dict[str, list[Path]] | None]] = {
    "class folders": _one_folder,
    "class folders under train, val and test": _three_folders,
    "train.csv, val.csv, test.csv and images/": _ravi_csv,
    "base.json, val.json, novel.json": _json_lists,
}
