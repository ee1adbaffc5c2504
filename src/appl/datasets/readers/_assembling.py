"""From files by class to a listing: what every reader does last, and the errors it may end in."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from appl.datasets.listing import Listing
from appl.datasets.provenance import Provenance, judge, published_counts
from appl.errors import DataError

Files = dict[str, list[Path]]


def assemble(
    name: str,
    root: Path,
    layout: str,
    files: Files,
    *,
    splits: Mapping[str, Sequence[str]] | None = None,
    provenance: Provenance | None = None,
    groups: Mapping[Path, str] | None = None,
    missing: Sequence[str] = (),
) -> Listing:
    """Sort classes and files, keep the classes of each split that are there, judge the copy.

    Without splits every class is a test class. Groups that a JSON file beside the folder gives
    come before those that the reader found.
    """
    files = {class_name: sorted(files[class_name]) for class_name in sorted(files)}
    wanted = splits or {"test": tuple(files)}
    present = {part: tuple(n for n in names if n in files) for part, names in wanted.items()}
    counts = {class_name: len(members) for class_name, members in files.items()}
    return Listing(
        name,
        root,
        files,
        {part: names for part, names in present.items() if names},
        layout,
        provenance or judge(counts, published_counts(name), missing),
        _groups_beside(root, files) or groups or {},
        tuple(missing),
    )


def require_folder(root: Path, title: str) -> None:
    """Refuse what is no folder."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give the one that holds {title}")


def no_layout(root: Path, title: str, layouts: Sequence[str]) -> DataError:
    """Say that a folder does not hold a data set, and in which layouts it was looked for."""
    return DataError(f"{root} holds {title} in no layout that we know ({'; '.join(layouts)})")


def notes_beside(root: Path) -> dict[str, Any]:
    """Read the JSON file that a pack of class folders has beside it, named as the folder is."""
    path = root.parent / f"{root.name}.json"
    if not path.is_file():
        return {}
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is no JSON: {error}; mend it or move it away") from error
    return notes if isinstance(notes, dict) else {}


def _groups_beside(root: Path, files: Files) -> dict[Path, str]:
    """Return the group of each file: the notes name files as class/name, without the suffix."""
    group_of = notes_beside(root).get("group_of", {})
    if not isinstance(group_of, dict):
        raise DataError(f"{root}.json: group_of is no object of files and groups; mend it")
    return {
        path: str(group_of[key])
        for class_name, members in files.items()
        for path in members
        if (key := f"{class_name}/{path.stem}") in group_of
    }
