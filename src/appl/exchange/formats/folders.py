"""A folder for each class, with its images: the form that `appl label` takes examples in.

Images that are not accepted, where they are asked for, go to `_review`, `_none-of-these` and
`_unreadable`. classes.json says which class a folder stands for: not every name can be a folder.
"""

import json
from pathlib import Path

from appl.errors import DataError
from appl.exchange.format import FORMATS, Format
from appl.exchange.labelled import NONE_OF_THESE, Handover, Statement
from appl.exchange.placing import Names, class_folders, file_stem, file_suffix, put
from appl.labelling.inputs import images_below, shown

NAMES = "classes.json"
DECISIONS = ("review", NONE_OF_THESE, "unreadable")


def write(handover: Handover, made: Path, out: Path) -> str:  # noqa: ARG001
    """Write the folders."""
    folders = class_folders(handover.class_names)
    taken: dict[str, Names] = {}
    for image in handover.images:
        folder = folders[image.label] if image.decision == "accept" else f"_{image.decision}"
        names = taken.setdefault(folder, Names())
        name = names.take(file_stem(image.path), file_suffix(image.path))
        put(image.path, made / folder / name, link=handover.link)
    named = {folder: name for name, folder in folders.items()}
    (made / NAMES).write_text(json.dumps(named, indent=1, ensure_ascii=False), encoding="utf-8")
    return ""


def read(place: Path) -> list[Statement]:
    """Read a folder with a sub-folder for each class."""
    if not place.is_dir():
        raise DataError(f"{place}: no such folder")
    named = folder_classes(place)
    said = []
    for folder in sorted(place.iterdir()):
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        if folder.name in (f"_{decision}" for decision in DECISIONS):
            if folder.name != f"_{NONE_OF_THESE}":
                continue
            label, decision = "", NONE_OF_THESE
        else:
            label, decision = named.get(folder.name, shown(folder.name)), ""
        said += [Statement(path, label, None, decision) for path in images_below(folder)]
    if not said:
        raise DataError(f"{place} holds no sub-folder with images; make one for each class")
    return said


def folder_classes(place: Path) -> dict[str, str]:
    """Return what classes.json says of the folders beside it; nothing where there is none."""
    path = place / NAMES
    if not path.is_file():
        return {}
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; mend or remove it") from error
    if not isinstance(named, dict) or not all(isinstance(n, str) for n in named.values()):
        raise DataError(f"{path} does not name classes by folders; mend or remove it")
    return named


FORMATS.register("folders")(
    Format("a folder for each class", "folder", "accepted", True, write, read)
)
