"""File lists as the field's scripts write them: base.json, val.json and novel.json."""

import json
from dataclasses import dataclass
from pathlib import Path

from appl.datasets.readers._assembling import Files
from appl.errors import DataError

LAYOUT = "base.json, val.json, novel.json"
_PARTS = {"base": "train", "val": "validation", "novel": "test"}


@dataclass(frozen=True)
class FileLists:
    """Files by class, and the classes that each list holds files of."""

    files: Files
    splits: dict[str, tuple[str, ...]]


def read_file_lists(root: Path) -> FileLists | None:
    """Read the lists in `root`, if there are any; each names all classes and its own files."""
    files: Files = {}
    splits: dict[str, tuple[str, ...]] = {}
    for stem, part in _PARTS.items():
        path = root / f"{stem}.json"
        if not path.is_file():
            continue
        own: dict[str, None] = {}
        for file, name in _entries(path):
            place = root / file  # an absolute path stays as it is
            if not place.is_file():
                raise DataError(f"{path} names {file!r}, which is not there")
            files.setdefault(name, []).append(place)
            own[name] = None
        splits[part] = tuple(own)
    return FileLists(files, splits) if files else None


def _entries(path: Path) -> list[tuple[str, str]]:
    """Return the files of a list with the names of their classes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        # A dict, since a label of −1 would be the last class of a list.
        names, labels = dict(enumerate(content["label_names"])), content["image_labels"]
        pairs = zip(content["image_names"], labels, strict=True)
        return [(str(file), str(names[label])) for file, label in pairs]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is no file list: expected label_names, image_names and image_labels of one "
            f"length ({error!r})"
        ) from error
