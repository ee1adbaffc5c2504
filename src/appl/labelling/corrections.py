"""What a person said of single images: an append-only file, so that nothing said is ever lost.

Every line says who said what, when, and which answer was on the screen. What was said at once is
one act; taking it back is an act, too, so there is no end to undoing, and undoing can be undone.
Logs of two people are merged line by line; where they differ, that is written down as a conflict,
and nobody's word counts until one of them is said again.
"""

import csv
import io
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.labelling.rows import LabelRow

FILE = "corrections.csv"
LONGEST_NAME = 100

Kind = Literal["label", "skip", "undo", "conflict"]


@dataclass(frozen=True)
class Correction:
    """One line: the class of one image of the pile; an empty name: none of the classes."""

    at: str  # UTC
    image: int  # number in the pile; −1 in an undo
    class_name: str
    kind: Kind = "label"
    act: str = ""  # the same for all that was said at once
    who: str = ""
    answer: int = 0  # the number of the answer that was looked at
    was: str = ""  # its label
    undoes: str = ""  # an act

    @classmethod
    def now(cls, image: int, class_name: str) -> "Correction":
        """Make one that is said now."""
        return cls(datetime.now(UTC).isoformat(timespec="milliseconds"), image, class_name)


COLUMNS = tuple(field.name for field in fields(Correction))


def said_at_once(
    labels: Mapping[int, str],
    *,
    kind: Kind = "label",
    who: str = "",
    answer: int = 0,
    was: Mapping[int, str] | None = None,
) -> list[Correction]:
    """Return the lines of one act."""
    act = uuid.uuid4().hex[:16]
    return [
        replace(
            Correction.now(image, name),
            kind=kind,
            act=act,
            who=who,
            answer=answer,
            was=(was or {}).get(image, ""),
        )
        for image, name in labels.items()
    ]


def append_corrections(folder: Path, corrections: Iterable[Correction]) -> None:
    """Add to the file; on disk when this returns."""
    path = folder / FILE
    _make_ready(path)
    with path.open("ab") as file:
        file.write(_csv_lines(astuple(correction) for correction in corrections))
        file.flush()
        os.fsync(file.fileno())


def read_corrections(folder: Path) -> tuple[Correction, ...]:
    """Read all, oldest first; a line that a kill cut short was never said to be saved."""
    path = folder / FILE
    if not path.exists():
        return ()
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    found = []
    for number, row in enumerate(csv.DictReader(io.StringIO(whole))):
        values = {name: row.get(name) or "" for name in COLUMNS}
        # A log of the first version has neither acts nor kinds.
        values["act"] = values["act"] or f"line-{number}"
        found.append(
            Correction(
                **{
                    **values,
                    "kind": values["kind"] or "label",
                    "image": int(values["image"]),
                    "answer": int(values["answer"] or 0),
                }  # type: ignore[arg-type]
            )
        )
    return tuple(found)


def in_force(corrections: Sequence[Correction]) -> list[Correction]:
    """Return what was said of images and not taken back, oldest first."""
    undone = _undone(corrections)
    return [c for c in corrections if c.kind != "undo" and c.act not in undone]


def known_classes(corrections: Sequence[Correction]) -> dict[int, str]:
    """Return the class name of each image that has one by the last word on it; "": none."""
    known: dict[int, str] = {}
    for correction in in_force(corrections):
        if correction.kind == "label":
            known[correction.image] = correction.class_name
        elif correction.kind == "conflict":
            known.pop(correction.image, None)
    return known


def images_with(corrections: Sequence[Correction], kind: Kind) -> set[int]:
    """Return the images whose last word is of a kind: skipped ones, those in conflict."""
    last = {correction.image: correction.kind for correction in in_force(corrections)}
    return {image for image, found in last.items() if found == kind}


def undo_last(corrections: Sequence[Correction], who: str = "") -> list[Correction]:
    """Return the line that takes back the last act in force; nothing where there is none."""
    standing = in_force(corrections)
    return [_undo(standing[-1].act, who)] if standing else []


def redo_last(corrections: Sequence[Correction], who: str = "") -> list[Correction]:
    """Return the line that takes back the last undo; nothing where something was said since."""
    undone = _undone(corrections)
    # A redo takes back an undo: behind the undo that still stands, there may only be those.
    for correction in reversed(corrections):
        if correction.kind != "undo":
            return []
        is_redo = correction.undoes in {c.act for c in corrections if c.kind == "undo"}
        if not is_redo and correction.act not in undone:
            return [_undo(correction.act, who)]
    return []


def merge_corrections(folder: Path, other: Path) -> int:
    """Add what another log of the same pile says; return how many images are in conflict.

    Acts that are known already are left out, so merging twice changes nothing.
    """
    ours, theirs = read_corrections(folder), read_corrections(other)
    acts = {correction.act for correction in ours}
    new = [correction for correction in theirs if correction.act not in acts]
    if not new:
        return 0
    before, claimed = known_classes(ours), known_classes(theirs)
    touched = {correction.image for correction in new}
    clash = [
        image
        for image, name in before.items()
        if image in touched and claimed.get(image, name) != name
    ]
    conflicts = said_at_once(
        {image: claimed[image] for image in clash}, kind="conflict", who=new[-1].who
    )
    append_corrections(folder, [*new, *conflicts])
    return len(clash)


def with_corrections(rows: Sequence[LabelRow], known: Mapping[int, str]) -> list[LabelRow]:
    """Return rows in which a person's word stands above the model's."""
    found = list(rows)
    for image, name in known.items():
        row = found[image]
        if row.decision == "unreadable":
            continue
        if not name:
            found[image] = replace(row, decision="none-of-these")
            continue
        second = row.runner_up if row.label == name else row.label
        found[image] = replace(
            row,
            label=name,
            confidence=1.0,
            runner_up=second,
            runner_up_confidence=0.0,
            decision="accept",
        )
    return found


def check_class_name(name: str, known: Iterable[str]) -> str:
    """Return the name of a class, new or known, without spaces around it; raise where it is none.

    Two names that differ by case only would be one folder on some machines.
    """
    known = tuple(known)
    if name in known:
        return name
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise DataError(f"a class needs a name of 1 to {LONGEST_NAME} printable characters")
    if name.startswith("."):
        raise DataError(f"{name!r}: a class whose name begins with a dot would be a hidden folder")
    return next((n for n in known if n.casefold().strip() == name.casefold()), name)


def _undone(corrections: Sequence[Correction]) -> set[str]:
    """Return the acts that were taken back, of which some are undos themselves."""
    undone: set[str] = set()
    for correction in reversed(corrections):
        if correction.kind == "undo" and correction.act not in undone:
            undone.add(correction.undoes)
    return undone


def _undo(act: str, who: str) -> Correction:
    (line,) = said_at_once({-1: ""}, kind="undo", who=who)
    return replace(line, undoes=act)


def _make_ready(path: Path) -> None:
    """Make sure of today's columns, and that the next line does not continue one cut short."""
    head = _csv_lines([COLUMNS])
    if not path.exists():
        write_atomically(path, head)
        return
    data = path.read_bytes()
    if not data.startswith(head):
        known = read_corrections(path.parent)
        write_atomically(path, head + _csv_lines(astuple(correction) for correction in known))
    elif not data.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)


def _csv_lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")
