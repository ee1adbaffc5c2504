"""The files of a pile in folders, one for each label."""

import shutil
from pathlib import Path

from appl.labelling.inputs import Inputs
from appl.labelling.rows import LabelRow


def sort_files(rows: list[LabelRow], inputs: Inputs, folder: Path, how: str) -> None:
    """Put every image of the pile into a folder of its label, or of its decision if not accepted.

    Images that nobody should take for sorted ones go to folders whose names start with `_`.
    """
    taken: set[Path] = set()
    for row, path in zip(rows, inputs.pile, strict=True):
        name = folder_name(row.label) if row.decision == "accept" else f"_{row.decision}"
        place = folder / name / path.name
        for number in range(2, len(rows) + 2):
            if place not in taken:
                break
            place = folder / name / f"{path.stem}-{number}{path.suffix}"
        taken.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or place.exists():
            continue
        if how == "link":
            place.symlink_to(path.resolve())
        elif path.is_file():
            shutil.copyfile(path, place)


def folder_name(class_name: str) -> str:
    """Return a class name that is one folder on every system, never a way out of it."""
    kept = "".join("_" if c in '/\\:*?"<>|' or ord(c) < 32 else c for c in class_name)
    # Of bytes a file system takes 255, and something may be put behind it.
    kept = kept.strip(" .").encode("utf-8", "ignore")[:150].decode("utf-8", "ignore")
    kept = kept.rstrip(" .") or "_"
    return f"class {kept}" if kept.startswith("_") else kept
