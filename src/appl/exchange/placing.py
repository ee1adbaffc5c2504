"""Images in folders: names that every system takes, none twice, none that leads elsewhere."""

import os
import shutil
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from appl.labelling.sorting import folder_name

RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}


class Names:
    """Gives each wish a name of its own, alike in no spelling that a file system takes for one."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wish: str, suffix: str = "") -> str:
        """Return the wish, or the wish with a number."""
        number = 1
        name = f"{wish}{suffix}"
        while _spelled(name) in self._taken:
            number += 1
            name = f"{wish}-{number}{suffix}"
        self._taken.add(_spelled(name))
        return name


def class_folders(class_names: Iterable[str]) -> dict[str, str]:
    """Give each class a folder name of its own."""
    names = Names()
    return {name: names.take(_unreserved(folder_name(name))) for name in class_names}


def file_stem(path: Path) -> str:
    """Return a file's name without its ending, harmless on every system."""
    text = os.fsencode(path.stem).decode("utf-8", "replace").replace("\ufffd", "_")
    return _unreserved(folder_name(text))


def file_suffix(path: Path) -> str:
    """Return a file's ending; a name chosen by others decides nothing but letters."""
    suffix = path.suffix.lower()
    return suffix if suffix[1:].isalnum() and suffix.isascii() and len(suffix) < 9 else ""


def _spelled(name: str) -> str:
    """Return what all spellings that some file system takes for one name have in common."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _unreserved(name: str) -> str:
    """Return a name that is no device on Windows, whatever its ending."""
    first, dot, rest = name.partition(".")
    return f"{first}_{dot}{rest}" if first.strip().casefold() in RESERVED else name


def put(source: Path, place: Path, *, link: bool) -> None:
    """Put an image in its place: a copy, or a link to where it is."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if link:
        place.symlink_to(source.resolve())
    else:
        shutil.copyfile(source, place)
