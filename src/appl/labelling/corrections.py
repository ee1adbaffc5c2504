"""What a person said of single images: an append-only file, so that nothing said is ever lost."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

FILE = "corrections.csv"


@dataclass(frozen=True)
class Correction:
    """The class of one image of the pile; an empty name: none of the classes."""

    at: str  # UTC
    image: int  # number in the pile
    class_name: str

    @classmethod
    def now(cls, image: int, class_name: str) -> "Correction":
        """Make one that is said now."""
        return cls(datetime.now(UTC).isoformat(timespec="milliseconds"), image, class_name)


COLUMNS = tuple(field.name for field in fields(Correction))


def said_at_once(labels: Mapping[int, str]) -> list[Correction]:
    """Return what is said now of several images."""
    return [Correction.now(image, name) for image, name in labels.items()]


def append_corrections(folder: Path, corrections: Iterable[Correction]) -> None:
    """Add to the file; on disk when this returns."""
    path = folder / FILE
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists():
        writer.writerow(COLUMNS)
    writer.writerows(astuple(correction) for correction in corrections)
    with path.open("ab") as file:
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())


def read_corrections(folder: Path) -> tuple[Correction, ...]:
    """Read all, oldest first; a line that a kill cut short was never said to be saved."""
    path = folder / FILE
    if not path.exists():
        return ()
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    rows = csv.DictReader(io.StringIO(whole))
    return tuple(Correction(row["at"], int(row["image"]), row["class_name"]) for row in rows)


def known_classes(corrections: Sequence[Correction]) -> dict[int, str]:
    """Return the class name of each image by the last word on it; "": none of the classes."""
    return {correction.image: correction.class_name for correction in corrections}
