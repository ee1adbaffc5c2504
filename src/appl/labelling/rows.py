"""The rows of `labels.csv`: one per image of the pile, in columns that do not change in silence."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.labelling.model import Judgement, LabelModel
from appl.labelling.novelty import NOVEL_AT

LABELS_VERSION = 1
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run such a cell

Decision = Literal["accept", "review", "none-of-these", "unreadable"]


@dataclass(frozen=True)
class LabelRow:
    """What was found for one image; docs/labelling.md says what each column means."""

    path: str
    label: str
    confidence: float | None
    runner_up: str
    runner_up_confidence: float | None
    decision: Decision
    novelty: float | None
    nearest_example: str
    problem: str = ""


COLUMNS = tuple(field.name for field in fields(LabelRow))


def rows_of(model: LabelModel, names: Sequence[str], judgement: Judgement) -> list[LabelRow]:
    """Turn a judgement into rows: the two likeliest classes and what to do."""
    top = judgement.probs.topk(2, dim=1)
    # Lists: to ask a tensor for one number takes longer than all else here.
    values, indices = top.values.tolist(), top.indices.tolist()
    accepted = model.acceptance.accepts(top.values[:, 0]).tolist()
    novelty, nearest = judgement.novelty.tolist(), judgement.nearest_example.tolist()
    rows = []
    for i, name in enumerate(names):
        decision: Decision = "accept" if accepted[i] else "review"
        if novelty[i] > NOVEL_AT:
            decision = "none-of-these"
        first, second = indices[i]
        rows.append(
            LabelRow(
                path=name,
                label=model.class_names[first],
                confidence=round(values[i][0], 4),
                runner_up=model.class_names[second],
                runner_up_confidence=round(values[i][1], 4),
                decision=decision,
                novelty=round(novelty[i], 3),
                nearest_example=model.example_names[nearest[i]],
            )
        )
    return rows


def unreadable_row(name: str, problem: str) -> LabelRow:
    """Return the row of an image that could not be read: named, never left out."""
    return LabelRow(name, "", None, "", None, "unreadable", None, "", problem)


def write_rows(path: Path, rows: Iterable[LabelRow]) -> None:
    """Write labels as CSV (UTF-8); a cell that a spreadsheet would run gets a leading '."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([harmless(value) for value in astuple(row)])
    write_atomically(path, text.getvalue().encode("utf-8", "backslashreplace"))


def read_rows(path: Path) -> list[LabelRow]:
    """Read what `write_rows` wrote, cells as they were before they were made harmless."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise DataError(
                    f"{path} has other columns than this version writes: {', '.join(COLUMNS)}"
                )
            return [_row(cells) for cells in reader]
    except FileNotFoundError as error:
        raise DataError(f"no labels at {path}; is the run finished?") from error


def harmless(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; numbers and None stay."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value


def unharmed(cell: str) -> str:
    """Return a cell as it was before it was made harmless."""
    is_escaped = cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS)
    return cell[1:] if is_escaped else cell


def _row(cells: dict[str, str]) -> LabelRow:
    values: dict[str, object] = {}
    for name, cell in cells.items():
        if name in ("confidence", "runner_up_confidence", "novelty"):
            values[name] = float(cell) if cell else None
        else:
            values[name] = unharmed(cell)
    return LabelRow(**values)  # type: ignore[arg-type]


def class_names_of(
    given: Iterable[str], rows: Iterable[LabelRow], known: Mapping[int, str]
) -> tuple[str, ...]:
    """Return the classes that were given, and those that only labels or a person name."""
    found = dict.fromkeys((*given, *known.values(), *(row.label for row in rows)))
    found.pop("", None)
    return tuple(found)


def label_counts(rows: Iterable[LabelRow]) -> dict[str, int]:
    """Count the decisions."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.decision] = counts.get(row.decision, 0) + 1
    return counts
