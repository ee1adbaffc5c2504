"""What a reader finds on disk: files, their classes, and which classes are for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appl.datasets.folder import class_folders
from appl.errors import DataError


@dataclass(frozen=True)
class Listing:
    """Image files of a data set by class, both in a fixed order, and its class splits.

    `splits` maps train, validation or test to class names; `layout` says in which of the known
    forms the data was found.
    """

    name: str
    root: Path
    files: Mapping[str, Sequence[Path]]
    splits: Mapping[str, tuple[str, ...]]
    layout: str = "class folders"

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


def list_folder(root: Path, splits: Mapping[str, Sequence[str]] | None = None) -> Listing:
    """List a class-folder tree; without splits, every class is a test class."""
    files = class_folders(root)
    chosen = {split: tuple(names) for split, names in (splits or {"test": list(files)}).items()}
    return Listing(root.name, root, files, chosen)
