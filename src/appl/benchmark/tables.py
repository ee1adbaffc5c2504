"""Tables from stored results only: accuracy, paired differences, seconds.

A table holds one protocol, one encoder and one set of data; it may join several numbers of shots,
a column each. The paper's rows are quotes: below ours of the same method, or below all.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from appl.benchmark.collection import Collection, Stored
from appl.benchmark.mixing import check_mixable
from appl.benchmark.plan import Outline
from appl.benchmark.quoted import check_quoted
from appl.benchmark.sensitivity import base_title
from appl.benchmark.statistics import Estimate, mean_of, paired_difference
from appl.errors import UnknownNameError
from appl.settings.checks import suggest
from appl.store import RunKey


@dataclass(frozen=True)
class Column:
    """A target at a number of shots."""

    target: str
    title: str
    n_shot: int


@dataclass(frozen=True)
class Cell:
    """A row in a column."""

    accuracy: Estimate
    difference: Estimate  # to the reference row, over the episodes that both have
    seconds: float  # median of an episode
    run: RunKey


@dataclass(frozen=True)
class ResultTable:
    """Cells by row title and column; rows and columns in the order of the configurations."""

    title: str
    outline: Outline  # of the first benchmark; what the others share with it is checked
    rows: dict[str, str]  # what each takes from the queries, by title
    columns: tuple[Column, ...]
    cells: dict[tuple[str, Column], Cell]
    reference: str  # title; none: no differences
    beside: dict[str, str]  # the paper's row that stands below one of ours, by its title
    quotes: tuple[str, ...]  # the paper's rows that stand below all of ours
    provenances: dict[str, str]  # what the copy of a target is, by its title

    @property
    def shots(self) -> tuple[int, ...]:
        """The numbers of shots, fewest first."""
        return tuple(sorted({column.n_shot for column in self.columns}))

    @property
    def all_quotes(self) -> tuple[str, ...]:
        """The paper's rows, in the order of the table."""
        beside = [self.beside[row] for row in self.rows if row in self.beside]
        return tuple(dict.fromkeys([*beside, *self.quotes]))

    def found(self, row: str, n_shot: int | None = None) -> list[Cell]:
        """Return the cells of a row that have results, of one number of shots or all."""
        columns = [c for c in self.columns if n_shot in (None, c.n_shot)]
        return [self.cells[row, column] for column in columns if (row, column) in self.cells]

    def mean_accuracy(self, row: str, n_shot: int) -> Estimate | None:
        """Return the mean over the targets of a number of shots, if the row has them all."""
        return self._mean(n_shot, [cell.accuracy for cell in self.found(row, n_shot)])

    def mean_difference(self, row: str, n_shot: int) -> Estimate | None:
        """Return the mean paired difference over these targets, if the row has them all."""
        return self._mean(n_shot, [cell.difference for cell in self.found(row, n_shot)])

    def _mean(self, n_shot: int, estimates: list[Estimate]) -> Estimate | None:
        n_columns = sum(column.n_shot == n_shot for column in self.columns)
        is_whole = len(estimates) == n_columns and all(estimate.n for estimate in estimates)
        return mean_of(estimates) if is_whole else None


def make_table(
    collections: Sequence[Collection], reference: str = "", quotes: Sequence[str] = ()
) -> ResultTable:
    """Join benchmarks that differ in their shots only into one table.

    Without a reference or quotes, those of the configurations and their rows count.
    """
    check_mixable(collections)
    settings = [collection.outline.settings for collection in collections]
    beside = {r.title: r.quote for c in collections for r in c.outline.rows if r.quote}
    names = tuple(dict.fromkeys(name for s in settings for name in s.quote))
    if quotes:
        beside, names = {}, tuple(quotes)
    check_quoted((*beside.values(), *names))
    rows = {row.title: row.takes for c in collections for row in c.outline.rows}
    chosen = _reference(collections[0].outline, rows, reference)
    stored = {
        (row, _column(collection.outline, target)): found
        for collection in collections
        for (row, target), found in collection.stored.items()
    }
    targets = list(dict.fromkeys(target for s in settings for target in s.targets))
    columns = {
        _column(c.outline, target) for c in collections for target in c.outline.settings.targets
    }
    return ResultTable(
        next((s.title for s in settings if s.title), ""),
        collections[0].outline,
        rows,
        tuple(sorted(columns, key=lambda c: (targets.index(c.target), c.n_shot))),
        {(row, c): _cell(found, stored.get((chosen, c))) for (row, c), found in stored.items()},
        chosen,
        beside,
        names,
        {
            c.outline.settings.targets[target]: provenance
            for c in collections
            for target, provenance in c.provenances.items()
        },
    )


def _column(outline: Outline, target: str) -> Column:
    settings = outline.settings
    return Column(target, settings.targets[target], settings.protocol.n_shot)


def _cell(stored: Stored, base: Stored | None) -> Cell:
    return Cell(
        stored.accuracy,
        paired_difference(stored.accuracies, base.accuracies if base else {}),
        statistics.median(result.seconds for result in stored.results),
        stored.run,
    )


def _reference(outline: Outline, rows: dict[str, str], asked: str) -> str:
    settings = outline.settings
    asked = asked or settings.reference
    if asked and asked not in rows:
        raise UnknownNameError(f"no row is called {asked!r}; {suggest(asked, list(rows))}")
    default = base_title(settings) if settings.sensitivity.preset else "ProtoNet"
    return asked or (default if default in rows else "")
