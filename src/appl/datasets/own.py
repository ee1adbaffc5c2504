"""Data sets that a user registered: a small TOML file in the data root, written by `appl data add`.

A path inside the data root is kept relative to it, so that the root can move as a whole.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from appl.core.files import write_atomically
from appl.datasets.listing import Listing, list_folder, load_split
from appl.errors import DataError
from appl.settings.checks import check_ranges
from appl.settings.files import load_settings, to_toml

FILE = "appl-data.toml"
Role = Literal["target", "source"]


@dataclass(frozen=True)
class OwnSet:
    """Where a data set is, what it is for, and the JSON file of its class split, if it has one."""

    path: str
    role: Role = "target"
    split: str = ""

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class OwnSets:
    """All data sets that are registered in one data root."""

    sets: dict[str, OwnSet] = field(default_factory=dict)


def own_sets(data_root: Path) -> dict[str, OwnSet]:
    """Return what is registered in a data root, by name."""
    path = data_root / FILE
    return load_settings(OwnSets, path).sets if path.is_file() else {}


def read_own(name: str, own: OwnSet, data_root: Path) -> Listing:
    """List a registered class-folder tree; without a split all its classes are for its role."""
    root = data_root / own.path
    if own.split:
        listing = list_folder(root, load_split(data_root / own.split))
    else:
        listing = list_folder(root)
        part = "test" if own.role == "target" else "train"
        listing = replace(listing, splits={part: tuple(listing.files)})
    return replace(listing, name=name)


def register(name: str, own: OwnSet, data_root: Path) -> None:
    """Write a data set into the file of a data root, in place of one that has its name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"{name!r} is no name for a data set; use letters, digits, '_', '-', '.'")
    kept = replace(own, path=_kept(own.path, data_root), split=_kept(own.split, data_root))
    sets = own_sets(data_root) | {name: kept}
    write_atomically(data_root / FILE, to_toml(OwnSets(sets)).encode())


def _kept(path: str, data_root: Path) -> str:
    if not path:
        return path
    place, root = Path(path).resolve(), data_root.resolve()
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
