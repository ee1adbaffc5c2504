"""What a user gives: a few examples of each class, and a pile; both as lists of files.

SUPPORT is a folder with a sub-folder for each class, or a CSV with `path,label`. PILE is a folder,
a text file of paths, or a glob. Only names are looked at here; `images` opens the files.
"""

import csv
import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.images.decode import SUFFIXES

MISSING = {"", "nan", "na", "n/a", "none", "null"}  # what spreadsheets write for an empty cell


@dataclass(frozen=True)
class Inputs:
    """Files of the examples with their classes, and files of the pile, each in a fixed order."""

    class_names: tuple[str, ...]
    support: tuple[Path, ...]
    class_ids: tuple[int, ...]  # of each support file, index into class_names
    pile: tuple[Path, ...]
    notes: tuple[str, ...] = field(default=())
    # Of a run that is opened from another place: the texts under which files were given.
    given_as: Mapping[Path, str] = field(default_factory=dict)

    def name(self, path: Path) -> str:
        """Return the text that stands for a file in tables."""
        return self.given_as.get(path) or shown(path)

    @property
    def n_way(self) -> int:
        """The number of classes."""
        return len(self.class_names)


def find_inputs(support: Path, pile: str) -> Inputs:
    """List examples and pile; a mistake in either is named before anything is opened."""
    return inputs_of(find_support(support), pile)


def inputs_of(files: dict[str, list[Path]], pile: str) -> Inputs:
    """Put the example files of each class beside a pile."""
    names = tuple(files)
    examples = tuple(path for members in files.values() for path in members)
    class_ids = tuple(i for i, members in enumerate(files.values()) for _ in members)
    known = {_identity(path) for path in examples}
    found = find_pile(pile)
    rest = tuple(path for path in found if _identity(path) not in known)
    notes = []
    if len(rest) < len(found):
        notes.append(f"{len(found) - len(rest)} files of the pile are examples: not labelled again")
    if not rest:
        raise DataError(f"{pile}: every file of the pile is an example; there is nothing to label")
    return Inputs(names, examples, class_ids, rest, tuple(notes))


def find_support(path: Path) -> dict[str, list[Path]]:
    """Return the example files of each class, sorted by class name."""
    if path.is_dir():
        files = _class_folders(path)
    elif path.is_file() and path.suffix.lower() == ".csv":
        files = _labelled_files(path)
    elif path.exists():
        raise DataError(f"{path} is neither a folder nor a .csv file; see `appl label --help`")
    else:
        raise DataError(f"{path}: no such folder or CSV file of examples")
    return checked_classes(path, files)


def checked_classes(path: Path, files: dict[str, list[Path]]) -> dict[str, list[Path]]:
    """Return the classes sorted by name, or say what a choice between them cannot do with."""
    if len(files) < 2:
        only = f"only the class {next(iter(files))!r}" if files else "no class"
        raise DataError(f"{path} has {only}; a choice needs at least two")
    by_folded: dict[str, str] = {}
    for name in files:
        twin = by_folded.setdefault(name.casefold().strip(), name)
        if twin != name:
            raise DataError(
                f"{path}: the classes {twin!r} and {name!r} differ by case or spaces only; "
                "rename one, or put their examples together"
            )
    return dict(sorted(files.items()))


def find_pile(pile: str) -> tuple[Path, ...]:
    """Return the files of a folder, a text file of paths or a glob: sorted, each once."""
    path = Path(pile)
    if path.is_dir():
        found = list(images_below(path))
        if not found:
            raise DataError(f"{pile} holds no image ({', '.join(sorted(SUFFIXES))})")
    elif path.is_file():
        found = [path] if path.suffix.lower() in SUFFIXES else _listed_files(path)
    elif glob.has_magic(pile):
        names = glob.glob(pile, recursive=True)  # noqa: PTH207  a pattern may be absolute
        found = [Path(name) for name in names if Path(name).is_file()]
        if not found:
            raise DataError(f"{pile}: no file matches")
    else:
        raise DataError(f"{pile}: no such folder, list or file")
    return tuple(sorted(dict.fromkeys(found), key=os.fsencode))


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the image files below a folder, through links but never twice through one folder."""
    seen: set[tuple[int, int]] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        status = Path(here).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield Path(here) / name


def shown(path: Path | str) -> str:
    """Return a path as text that every file and screen can hold; foreign bytes are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def from_shown(text: str) -> Path:
    """Return the file that `shown` gave this text for: as it is, or with its foreign bytes."""
    path = Path(text)
    if "\\x" not in text or path.exists():
        return path
    parts = re.split(r"\\x([0-9a-f]{2})", text)
    parts[1::2] = [os.fsdecode(bytes.fromhex(code)) for code in parts[1::2]]
    foreign = Path("".join(parts))
    return foreign if foreign.exists() else path


def write_inputs(inputs: Inputs, path: Path) -> None:
    """Write down files and classes, so that a run can be opened from anywhere."""
    values = {
        "folder": str(Path.cwd()),
        "class_names": inputs.class_names,
        "class_ids": inputs.class_ids,
        "support": [str(file) for file in inputs.support],
        "pile": [str(file) for file in inputs.pile],
    }
    # ASCII: bytes that are no UTF-8 come back as they were.
    write_atomically(path, json.dumps(values, ensure_ascii=True).encode())


def read_inputs(path: Path) -> Inputs:
    """Read what `write_inputs` wrote; files keep the names under which they were given."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        folder = Path(values["folder"])
        given = {folder / name: shown(name) for name in (*values["support"], *values["pile"])}
        return Inputs(
            tuple(values["class_names"]),
            tuple(folder / name for name in values["support"]),
            tuple(values["class_ids"]),
            tuple(folder / name for name in values["pile"]),
            given_as=given,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}; give the `appl label` command") from error


def _class_folders(root: Path) -> dict[str, list[Path]]:
    files = {
        folder.name: sorted(images_below(folder), key=os.fsencode)
        for folder in sorted(root.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
    }
    if not files:
        loose = next(images_below(root), None)
        hint = "its images lie loose" if loose else "it is empty"
        raise DataError(f"{root} has no sub-folders ({hint}); make one for each class")
    for name, members in files.items():
        if not members:
            raise DataError(f"{root / name} holds no image; add examples or remove the folder")
    return {shown(name): members for name, members in files.items()}


def _labelled_files(path: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            rows = csv.DictReader(file)
            missing = {"path", "label"} - set(rows.fieldnames or ())
            if missing:
                raise DataError(
                    f"{path} has no column {sorted(missing)[0]!r}; its first line must be "
                    "path,label"
                )
            for row in rows:
                for column in ("path", "label"):
                    if (row[column] or "").strip().lower() in MISSING:
                        raise DataError(
                            f"{path}, line {rows.line_num}: {column} is {row[column] or 'empty'!r};"
                            " fill it in or remove the line"
                        )
                files.setdefault(shown(row["label"].strip()), []).append(path.parent / row["path"])
    except csv.Error as error:
        raise DataError(f"{path} is no CSV file: {error}") from error
    if not files:
        raise DataError(f"{path} lists no example")
    for members in files.values():
        for example in members:
            if not example.is_file():
                raise DataError(f"{path}: {shown(example)} is not there; paths count from its own")
    return {
        name: sorted(dict.fromkeys(members), key=os.fsencode) for name, members in files.items()
    }


def _listed_files(path: Path) -> list[Path]:
    content = path.read_bytes()
    if b"\0" in content:
        raise DataError(f"{path} is no list of paths; give a folder, a text file or a glob")
    lines = [os.fsdecode(line.strip()) for line in content.splitlines()]
    found = [path.parent / line for line in lines if line and not line.startswith("#")]
    if not found:
        raise DataError(f"{path} lists no file")
    return found


def _identity(path: Path) -> str:
    return os.path.realpath(path)
