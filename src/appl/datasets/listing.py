"""What a reader finds on disk: files, their classes, and which classes are for what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from appl.datasets.folder import class_folders
from appl.datasets.provenance import UNCHECKED, Provenance
from appl.errors import DataError


@dataclass(frozen=True)
class Listing:
    """Image files of a data set by class, both in a fixed order, and its class splits.

    `splits` maps train, validation or test to class names; `layout` says in which of the known
    forms the data was found, `provenance` how the copy compares with the published one. `groups`
    maps a file to its patient or lesion where that is known; `missing` names files that a table
    of the data set lists and that are not there.
    """

    name: str
    root: Path
    files: Mapping[str, Sequence[Path]]
    splits: Mapping[str, tuple[str, ...]]
    layout: str = "class folders"
    provenance: Provenance = UNCHECKED
    groups: Mapping[Path, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for split, names in self.splits.items():
            missing = sorted(set(names) - set(self.files))
            if missing:
                raise DataError(
                    f"{self.root}: class {missing[0]!r} of the {split} split is not there "
                    f"({len(missing)} of {len(names)} are missing)"
                )

    @property
    def n_images(self) -> int:
        """The number of image files."""
        return sum(len(members) for members in self.files.values())

    @property
    def counts(self) -> dict[str, int]:
        """The number of image files of each class."""
        return {name: len(members) for name, members in self.files.items()}

    def file_name(self, path: Path) -> str:
        """Return the name of a file that is the same wherever the data stands."""
        inside = path.is_relative_to(self.root)
        return (path.relative_to(self.root) if inside else path).as_posix()

    def part(self, split: str) -> Self:
        """Return the listing of one split's classes alone."""
        if split not in self.splits:
            has = ", ".join(self.splits) or "no split"
            raise DataError(f"{self.root} has no {split} classes (it has {has})")
        names = set(self.splits[split])
        files = {name: members for name, members in self.files.items() if name in names}
        return replace(self, files=files, splits={split: self.splits[split]})


def list_folder(root: Path, splits: Mapping[str, Sequence[str]] | None = None) -> Listing:
    """List a class-folder tree; without splits, every class is a test class."""
    files = class_folders(root)
    chosen = {split: tuple(names) for split, names in (splits or {"test": list(files)}).items()}
    return Listing(root.name, root, files, chosen)


def load_split(path: Path) -> dict[str, list[str]]:
    """Read a JSON file that maps train, validation or test to class names."""
    try:
        splits = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no JSON file with class names: {error}") from error
    if not isinstance(splits, dict) or not all(isinstance(n, list) for n in splits.values()):
        raise DataError(f"{path}: expected an object of lists, as in {{'train': ['class', …]}}")
    return splits
