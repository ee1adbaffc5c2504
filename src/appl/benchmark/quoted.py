"""The paper's own numbers, to stand beside ours: always marked as quoted, never mixed."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from appl.errors import UnknownNameError
from appl.settings.checks import suggest


@dataclass(frozen=True)
class Quote:
    """An accuracy that the paper prints, with its interval."""

    mean: float
    interval: float
    table: int
    source: str  # whose number it is; `paper`: its own


@cache
def _quotes() -> dict[tuple[str, str, int], Quote]:
    text = resources.files("appl.benchmark").joinpath("paper_tables.csv").read_text("utf-8")
    quotes: dict[tuple[str, str, int], Quote] = {}
    for row in csv.DictReader(text.splitlines()):
        cell = (row["method"], row["dataset"].lower(), int(row["shots"]))
        quote = Quote(float(row["mean"]), float(row["ci95"]), int(row["table"]), row["source_mark"])
        # Table 3 repeats rows of Table 1, one cell of them with a slip: the first print counts.
        quotes.setdefault(cell, quote)
    return quotes


def quoted(method: str, target: str, n_shot: int) -> Quote | None:
    """Return what the paper prints for a method, if it prints anything."""
    return _quotes().get((method, target.lower(), n_shot))


def quoted_methods() -> list[str]:
    """Name the rows of the paper's tables."""
    return sorted({method for method, _, _ in _quotes()})


def check_quoted(names: tuple[str, ...]) -> None:
    """Refuse a row that the paper does not have, naming the nearest that it has."""
    for name in names:
        if name not in quoted_methods():
            raise UnknownNameError(
                f"the paper has no row {name!r}; {suggest(name, quoted_methods())}"
            )
