"""A table: one row per image, in columns like those of labels.csv and whose word the label is.

A cell that a spreadsheet would run gets a leading '. Paths count from the table's folder where they
lie below it. A table of others needs `path` and `label`.
"""

import csv
import io
from pathlib import Path

from appl.errors import DataError
from appl.exchange.format import FORMATS, Format
from appl.exchange.labelled import Handover, LabelledImage, Statement, path_from, path_in
from appl.labelling.inputs import MISSING
from appl.labelling.rows import harmless, unharmed

COLUMNS = (
    "path", "label", "confidence", "runner_up", "runner_up_confidence", "decision", "novelty",
    "said_by",
)  # fmt: skip


def values_of(image: LabelledImage, folder: Path) -> tuple[str | float | None, ...]:
    """Return an image's cells, in the order of the columns."""
    path = path_from(image.path, folder)
    return (path, *(getattr(image, name) for name in COLUMNS[1:]))


def statement_of(cells: dict[str, str | None], folder: Path, where: str) -> Statement | None:
    """Read the cells of a row; None: it says nothing of a class."""
    path, label = (cells.get("path") or "").strip(), (cells.get("label") or "").strip()
    decision = (cells.get("decision") or "").strip()
    said_by = (cells.get("said_by") or "").strip()
    if path.lower() in MISSING:
        raise DataError(f"{where}: the row names no image; fill in path, or remove it")
    if label.lower() in MISSING and decision != "none-of-these":
        return None
    by_person = {"person": True, "model": False}.get(said_by)
    return Statement(path_in(unharmed(path), folder), unharmed(label), by_person, decision)


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write the table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for image in handover.images:
        writer.writerow([harmless(value) for value in values_of(image, out.parent)])
    made.write_bytes(text.getvalue().encode("utf-8", "backslashreplace"))
    return ""


def read(place: Path) -> list[Statement]:
    """Read a table with `path` and `label`."""
    try:
        text = place.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except FileNotFoundError as error:
        raise DataError(f"{place}: no such file") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    missing = {"path", "label"} - set(reader.fieldnames or ())
    if missing:
        raise DataError(
            f"{place} has no column {sorted(missing)[0]!r}; its first line must name path and label"
        )
    try:
        said = [
            statement_of(cells, place.parent, f"{place}, line {reader.line_num}")
            for cells in reader
        ]
    except csv.Error as error:
        raise DataError(f"{place} is no CSV file: {error}") from error
    return [statement for statement in said if statement is not None]


FORMATS.register("csv")(Format("a table, one row per image", "file", "all", False, write, read))
