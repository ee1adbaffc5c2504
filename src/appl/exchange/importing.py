"""Labels from files of others: as examples of a new run, or as corrections of one that is there."""

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from appl.errors import DataError
from appl.exchange.format import FORMATS
from appl.exchange.labelled import Statement
from appl.exchange.reading import read_json
from appl.labelling.corrections import known_classes, read_corrections
from appl.labelling.inputs import (
    Inputs,
    checked_classes,
    find_support,
    from_shown,
    inputs_of,
    shown,
)
from appl.labelling.rows import class_names_of
from appl.labelling.run_folder import RunFolder


@dataclass(frozen=True)
class Lessons:
    """What a file teaches of a run's pile."""

    by_image: dict[int, str]  # class by number; "" is none of the classes
    n_agreeing: int  # said what the run says, by nobody in particular: left out
    not_in_pile: tuple[Path, ...]


def readable_formats() -> list[str]:
    """Name the formats that can be read."""
    return [name for name in FORMATS.names() if FORMATS.get(name).read]


def read_statements(place: Path, from_: str | None = None) -> list[Statement]:
    """Read what a file or folder says of images; None finds out the format."""
    name = from_ or guess_format(place)
    read = FORMATS.get(name).read
    if read is None:
        raise DataError(f"{name} is written only; labels come from {', '.join(readable_formats())}")
    return read(place)


def guess_format(place: Path) -> str:
    """Tell a format by what is there."""
    if place.is_dir():
        return "label-studio" if (place / "tasks.json").is_file() else "folders"
    suffix = place.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return "csv"
    if suffix == ".parquet":
        return "parquet"
    if suffix == ".json":
        return "label-studio" if isinstance(read_json(place), list) else "coco"
    if not place.exists():
        raise DataError(f"{place}: no such file or folder")
    raise DataError(f"{place}: what is it? Say --from {', '.join(readable_formats())}")


def find_examples(place: Path) -> dict[str, list[Path]]:
    """Return the example files of each class, from whatever holds labels.

    Of what `appl export` wrote, labels that were accepted or that a person gave count. Folders and
    tables of one's own are read as `appl label` always read them.
    """
    if _is_plain(place):
        return find_support(place)
    files: dict[str, list[Path]] = {}
    for statement in read_statements(place):
        is_meant = statement.by_person or statement.decision in ("", "accept")
        if statement.label and is_meant:
            files.setdefault(statement.label, []).append(statement.path)
    for members in files.values():
        for example in members:
            if not example.is_file():
                raise DataError(f"{place}: {shown(example)} is not there; bring it back")
    whose = {
        name: sorted(dict.fromkeys(members), key=os.fsencode) for name, members in files.items()
    }
    return checked_classes(place, whose)


def find_inputs(examples: Path, pile: str) -> Inputs:
    """List examples, from whatever holds labels, and pile."""
    return inputs_of(find_examples(examples), pile)


def find_lessons(
    run: RunFolder, statements: Iterable[Statement], *, with_agreeing: bool = False
) -> Lessons:
    """Find what statements teach of a run's pile, for `Session.correct`.

    Taken are the words of a person, and labels that differ from the run's. Labels that agree, in a
    file that does not say whose they are, may be the run's own: `with_agreeing` takes them, too.
    """
    rows = run.rows()
    by_path = {os.path.realpath(from_shown(row.path)): i for i, row in enumerate(rows)}
    by_name: defaultdict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        by_name[Path(row.path).name].append(i)
    known = known_classes(read_corrections(run.path))
    class_names = class_names_of(run.record["classes"], rows, known)
    taught: dict[int, str] = {}
    n_agreeing, strange = 0, []
    for statement in statements:
        if statement.label and statement.label not in class_names:
            raise DataError(
                f"{shown(statement.path)}: no class of {run.path} is called {statement.label!r}; "
                f"there are {', '.join(class_names[:10])}"
            )
        image = by_path.get(os.path.realpath(statement.path))
        if image is None:
            same = by_name.get(shown(statement.path.name), [])
            if len(same) > 1:
                raise DataError(
                    f"{shown(statement.path)}: the pile has {len(same)} images of that name; give "
                    "whole paths"
                )
            image = same[0] if same else None
        if image is None:
            strange.append(statement.path)
            continue
        row = rows[image]
        now = "" if row.decision == "none-of-these" else row.label
        if not statement.by_person and statement.label == now and not with_agreeing:
            n_agreeing += 1
            continue
        if taught.setdefault(image, statement.label) != statement.label:
            raise DataError(
                f"{row.path} is called {taught[image]!r} and {statement.label!r}; keep one"
            )
    return Lessons(taught, n_agreeing, tuple(strange))


def _is_plain(place: Path) -> bool:
    """Whether it is in no need of this package: a tree or a table of the user's own."""
    if place.is_dir():
        return not any((place / name).is_file() for name in ("tasks.json", "classes.json"))
    if place.suffix.lower() not in (".csv", ".json", ".parquet"):
        return True
    if place.suffix.lower() == ".csv" and place.is_file():
        with place.open(encoding="utf-8-sig", errors="replace") as file:
            return "said_by" not in file.readline()
    return not place.is_file()
