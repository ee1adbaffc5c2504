"""A class-folder tree: one sub-folder a class, images below it, everything sorted by name."""

from pathlib import Path

from appl.errors import DataError
from appl.images.decode import SUFFIXES


def class_folders(root: Path, first: int | None = None) -> dict[str, list[Path]]:
    """Return the image files of each class by its name, both sorted; no class may be empty.

    With `first`, only so many of each class: of two million files few need to be remembered.
    """
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give one with a sub-folder for each class")
    files = {
        folder.name: sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)[:first]
        for folder in sorted(root.iterdir())
        if folder.is_dir()
    }
    if not files:
        raise DataError(f"{root} has no sub-folders; make one for each class")
    for name, members in files.items():
        if not members:
            raise DataError(f"{root / name} holds no image; remove it or add images")
    return files
