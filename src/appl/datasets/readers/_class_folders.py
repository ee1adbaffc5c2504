"""Class folders of a known data set: where they are, and which official class each of them is."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from appl.datasets.folder import class_folders
from appl.datasets.provenance import name_key
from appl.datasets.readers._assembling import Files
from appl.errors import DataError


def find_tree(root: Path, places: Sequence[str], known: Iterable[str]) -> Path | None:
    """Return the first of these places below `root` that has a folder of a known class."""
    keys = {name_key(name) for name in known}
    for place in places:
        folder = root / place
        if folder.is_dir() and any(
            name_key(child.name) in keys for child in folder.iterdir() if child.is_dir()
        ):
            return folder
    return None


def read_tree(tree: Path, known: Iterable[str], title: str) -> Files:
    """Read class folders under their official names, however they are spelt."""
    return official(class_folders(tree), known, f"{tree}", title)


def official(files: Files, known: Iterable[str], where: str, title: str) -> Files:
    """Give classes their official names; a class that the data set does not have is refused."""
    names = {name_key(name): name for name in known}
    result: Files = {}
    for found, members in files.items():
        if name_key(found) not in names:
            raise DataError(
                f"{where}: class {found!r} is not one of the {len(names)} of {title}; remove it, "
                "or register a data set of your own with 'appl data add'"
            )
        result.setdefault(names[name_key(found)], []).extend(members)
    return result


def layout_of(root: Path, tree: Path) -> str:
    """Say where class folders were found."""
    return "class folders" if tree == root else f"class folders in {tree.relative_to(root)}"
