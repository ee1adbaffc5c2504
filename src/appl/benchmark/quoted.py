"""The paper's own numbers, to stand beside ours: always marked as quoted, never mixed."""

import csv
from functools import cache
from importlib import resources

MARK = "*quoted*"


@cache
def _numbers() -> dict[tuple[str, str, int], float]:
    text = resources.files("appl.benchmark").joinpath("paper_tables.csv").read_text("utf-8")
    return {
        (row["method"], row["dataset"].lower(), int(row["shots"])): float(row["mean"])
        for row in csv.DictReader(text.splitlines())
        if row["table"] in ("1", "2")
    }


def quoted(method: str, target: str, n_shot: int) -> float | None:
    """Return the accuracy that the paper prints for a method, if it prints one."""
    return _numbers().get((method, target.lower(), n_shot))


def quoted_methods() -> list[str]:
    """Name the rows of the paper's tables 1 and 2."""
    return sorted({method for method, _, _ in _numbers()})
