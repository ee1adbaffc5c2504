"""Tables from stored results only: accuracy, paired differences, seconds.

A table holds one protocol, one encoder and one set of data; a row of the paper stands in it in
italics, marked as quoted.
"""

import statistics
from dataclasses import dataclass

from appl.benchmark.plan import Plan, Row, Target
from appl.benchmark.quoted import quoted
from appl.benchmark.statistics import Estimate, estimate, mean_of, paired_difference
from appl.store import ResultStore


@dataclass(frozen=True)
class Cell:
    """A row on a target."""

    accuracy: Estimate
    difference: Estimate  # to the reference row, over the episodes that both have
    seconds: float


@dataclass(frozen=True)
class ResultTable:
    """Cells by row title and target name; rows and targets in the order of the plan."""

    plan: Plan
    reference: str
    cells: dict[tuple[str, str], Cell]

    def estimates(self, row: Row) -> list[Estimate]:
        """Return the row's accuracy on every target that has results."""
        found = [self.cells.get((row.title, target)) for target in self.plan.targets]
        return [cell.accuracy for cell in found if cell is not None]

    def differences(self, row: Row) -> list[Estimate]:
        """Return the row's paired differences on every target that has results."""
        found = [self.cells.get((row.title, target)) for target in self.plan.targets]
        return [cell.difference for cell in found if cell is not None]


def make_table(plan: Plan, store: ResultStore, reference: str = "ProtoNet") -> ResultTable:
    """Collect what the store has for the plan; differences are to the row titled `reference`."""
    cells = {}
    references = {row.title: row for row in plan.rows}
    for target in plan.targets.values():
        base: dict[int, float] = {}
        if reference in references:
            base = _accuracies(plan, store, references[reference], target)
        for row in plan.rows:
            results = store.results(plan.run(row, target))[: row.n_episodes]
            if not results:
                continue
            ours = {result.episode: result.accuracy for result in results}
            cells[row.title, target.name] = Cell(
                estimate(list(ours.values())),
                paired_difference(ours, base),
                statistics.median(result.seconds for result in results),
            )
    return ResultTable(plan, reference, cells)


def to_markdown(table: ResultTable, quoted_rows: tuple[str, ...] = ()) -> str:
    """Write accuracies with intervals, then paired differences and seconds, in Markdown."""
    plan = table.plan
    titles = [target.title for target in plan.targets.values()]
    head = ["", *titles, "mean", "episodes", "s / episode"]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in plan.rows:
        cells = [table.cells.get((row.title, name)) for name in plan.targets]
        shown = [_plus_minus(cell.accuracy) if cell else "–" for cell in cells]
        estimates = table.estimates(row)
        whole = _plus_minus(mean_of(estimates)) if len(estimates) == len(titles) else "–"
        counts = sorted({cell.accuracy.n for cell in cells if cell}) or [0]
        episodes = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        seconds = statistics.median(cell.seconds for cell in cells if cell) if any(cells) else 0.0
        lines.append(_line([row.title, *shown, whole, episodes, f"{seconds:.2g}"]))
    for name in quoted_rows:
        values = [quoted(name, target, plan.settings.protocol.n_shot) for target in plan.targets]
        shown = ["–" if value is None else f"*{value:.2f}*" for value in values]
        lines.append(_line([f"*quoted: the paper's {name}, 224 px*", *shown, "", "*600*", ""]))
    lines += ["", f"Paired difference to {table.reference}, the same episodes (bold: the 95 % "]
    lines[-1] += "interval excludes zero):"
    head = ["", *titles, "mean"]
    lines += ["", _line(head), _line(["---"] * len(head))]
    for row in plan.rows:
        if row.title == table.reference:
            continue
        cells = [table.cells.get((row.title, name)) for name in plan.targets]
        shown = [_signed(cell.difference) if cell else "–" for cell in cells]
        differences = table.differences(row)
        whole = _signed(mean_of(differences)) if len(differences) == len(titles) else "–"
        lines.append(_line([row.title, *shown, whole]))
    lines += _standings(plan)
    return "\n".join(lines) + "\n"


def _standings(plan: Plan) -> list[str]:
    """Say what every copy is, so that a part or a stand-in never passes for the original."""
    notes = [f"- {t.title}: {t.standing}" for t in plan.targets.values() if t.standing.remark]
    return ["", "Data:", "", *notes] if notes else []


def _accuracies(plan: Plan, store: ResultStore, row: Row, target: Target) -> dict[int, float]:
    return {result.episode: result.accuracy for result in store.results(plan.run(row, target))}


def _plus_minus(value: Estimate) -> str:
    return f"{value.mean:.2f} ± {value.interval:.2f}"


def _signed(value: Estimate) -> str:
    if not value.n:
        return "–"
    text = f"{value.mean:+.2f} ± {value.interval:.2f}"
    return f"**{text}**" if value.excludes_zero else text


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
