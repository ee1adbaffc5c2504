"""Images that a table names: each found by its name, so that a missing one shifts no label."""

import csv
from collections.abc import Mapping
from pathlib import Path

from appl.datasets.readers._assembling import Files
from appl.errors import DataError
from appl.images.decode import SUFFIXES


def columns(table: Path, *names: str) -> list[list[str]] | None:
    """Return these columns of a CSV file, row by row; None where its header has others."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines, restval="")
            if not set(names) <= set(reader.fieldnames or []):
                return None
            return [[row[name] for name in names] for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table} is no CSV file: {error}") from error


def required_columns(table: Path, *names: str) -> list[list[str]]:
    """Return these columns of a CSV file, row by row."""
    rows = columns(table, *names)
    if rows is None:
        raise DataError(f"{table}: expected the columns {', '.join(names)} in its header")
    return rows


def find_table(root: Path, *patterns: str) -> Path | None:
    """Return the first table below `root` by one of these names, sorted."""
    for pattern in patterns:
        found = sorted(root.rglob(pattern))
        if found:
            return found[0]
    return None


def find_images(folder: Path, class_of: Mapping[str, str], table: Path) -> tuple[Files, list[str]]:
    """Return the files below `folder` by class, and the names that no file has.

    `class_of` maps a file's name without suffix to its class: copies in another format are found
    too. One name in two places is refused, since nothing says which of the two is meant.
    """
    places: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in SUFFIXES or path.stem not in class_of:
            continue
        if path.stem in places:
            raise DataError(f"{path} and {places[path.stem]} have one name; remove one of them")
        places[path.stem] = path
    if not places:
        raise DataError(f"{table} names {len(class_of):,} images, none of which is in {folder}")
    files: Files = {}
    for stem, path in places.items():
        files.setdefault(class_of[stem], []).append(path)
    return files, [stem for stem in class_of if stem not in places]
