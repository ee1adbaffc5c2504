"""The report of a benchmark: one HTML file with tables, plots, time, and where numbers come from.

Benchmarks of one title share a table; each other one has a part of its own.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appl.benchmark.adaptation_logs import adaptation_log_grid
from appl.benchmark.collection import Collection, Stored
from appl.benchmark.compare import Comparison, compare_rows
from appl.benchmark.curves import sensitivity_curves
from appl.benchmark.grids import Grid, column_titles, make_grids
from appl.benchmark.tables import ResultTable, make_table
from appl.core.files import write_atomically
from appl.errors import DataError
from appl.report.benchmark_figures import curve_panels, difference_panel, scatter_panel
from appl.report.embedding import Chart, inline_svg
from appl.report.palette import colour_names
from appl.report.rendering import render_template
from appl.report.words import counted, listed

FULL = 600  # episodes of a target, as the field runs them
N_DRAWN = 150  # points of a target in a scatter: more make the page heavy and show no more


@dataclass(frozen=True)
class RowTime:
    """What a row costs: one thread of the machine that ran it."""

    title: str
    n_episodes: int
    seconds: float  # median of an episode
    spent_h: float
    full_h: float  # for 600 episodes of every column
    share: float  # of the dearest row's seconds


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a cell come from."""

    row: str
    target: str
    n_shot: int
    n_episodes: int
    run: str
    data: str
    versions: str
    finished: str


@dataclass(frozen=True)
class Part:
    """A table with all that belongs to it."""

    anchor: str
    title: str
    weights: str
    is_sweep: bool  # curves, which come first, in place of episodes
    grids: tuple[Grid, ...]
    charts: tuple[Chart, ...]  # wide ones
    panels: tuple[Chart, ...]  # small ones, side by side
    times: tuple[RowTime, ...]
    origins: tuple[Origin, ...]


def write_benchmark_page(collections: Sequence[Collection], path: Path) -> None:
    """Write the page of benchmarks, in their order."""
    if not any(collection.stored for collection in collections):
        raise DataError("the store has no result for these configurations; run them first")
    groups: dict[str, list[Collection]] = {}
    for i, collection in enumerate(collections):
        title = collection.outline.settings.title
        groups.setdefault(title or f"Benchmark {i + 1}", []).append(collection)
    parts = [_part(f"part{i + 1}", *group) for i, group in enumerate(groups.items())]
    text = render_template(
        "benchmark.html.j2",
        parts=parts,
        numbers=_numbers(collections),
        full=FULL,
        n_drawn=N_DRAWN,
    )
    write_atomically(path, text.encode("utf-8", "backslashreplace"))


def _part(anchor: str, title: str, collections: list[Collection]) -> Part:
    table = make_table(collections)
    is_sweep = bool(collections[0].outline.settings.sensitivity.preset)
    log = adaptation_log_grid(collections)
    return Part(
        anchor=anchor,
        title=title,
        weights=table.outline.weights_digest,
        is_sweep=is_sweep,
        grids=(*make_grids(table), *([log] if log else [])),
        charts=() if is_sweep else tuple(_difference_charts(table)),
        panels=tuple(_curves(collections[0]) if is_sweep else _scatters(table, collections)),
        times=tuple(_times(table, collections)),
        origins=tuple(_origins(collections)),
    )


def _difference_charts(table: ResultTable) -> Iterator[Chart]:
    rows = [row for row in table.rows if row != table.reference]
    shown = [row for row in rows if any(cell.difference.n for cell in table.found(row))]
    if not table.reference or not shown:
        return
    names = colour_names(rows)
    height = 0.8 + 0.09 * max(len(rows), 3) * len(table.columns)
    label = f"Paired differences to {table.reference} with 95 % intervals"
    yield Chart(
        f"Points above {table.reference}",
        "Over the same episodes, with 95 % intervals: right of the line is better. An interval "
        "that touches the line may be chance.",
        inline_svg(difference_panel(table), label, (7.2, height)),
        tuple((names[row], row) for row in shown),
    )


def _scatters(table: ResultTable, collections: list[Collection]) -> Iterator[Chart]:
    colours = colour_names(column_titles(table))
    for row in table.rows:
        if not table.reference or row == table.reference:
            continue
        try:
            comparison = compare_rows(collections, row, table.reference)
        except DataError:
            continue  # no episode in common yet
        label = f"{row} against {table.reference}, one point per episode"
        panel = scatter_panel(comparison, colours, legend=False, n_drawn=N_DRAWN)
        yield Chart(
            row,
            _verdict(comparison),
            inline_svg(panel, label, (4.2, 4.0)),
            tuple((colours[pairs.title], pairs.title) for pairs in comparison.targets),
        )


def _verdict(comparison: Comparison) -> str:
    n = sum(len(pairs.episodes) for pairs in comparison.targets)
    return (
        f"Better than {comparison.b} in {comparison.win_share:.0%} of {counted(n, 'episode')}, "
        f"by {comparison.difference.signed} points in the mean of the targets."
    )


def _curves(collection: Collection) -> Iterator[Chart]:
    settings = collection.outline.settings
    where = listed(list(settings.targets.values()))
    curves = sensitivity_curves(collection)
    for curve, panel in zip(curves, curve_panels(curves), strict=True):
        counts = sorted({point.accuracy.n for point in curve.points})
        n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        yield Chart(
            f"{curve.knob.symbol} ({curve.knob.name})",
            f"Accuracy on {where}, all else as in the preset, {n} episodes a point.",
            inline_svg(panel, f"Accuracy over {curve.knob.symbol}", (5.4, 3.4)),
        )


def _times(table: ResultTable, collections: list[Collection]) -> Iterator[RowTime]:
    seconds = {
        row: [
            result.seconds
            for collection in collections
            for (title, _), stored in collection.stored.items()
            if title == row
            for result in stored.results
        ]
        for row in table.rows
    }
    medians = {row: statistics.median(values) for row, values in seconds.items() if values}
    dearest = max(medians.values(), default=0.0)
    for row, median in medians.items():
        mean = statistics.fmean(seconds[row])
        yield RowTime(
            row,
            len(seconds[row]),
            median,
            sum(seconds[row]) / 3600,
            mean * FULL * len(table.columns) / 3600,
            median / dearest if dearest else 0.0,
        )


def _origins(collections: list[Collection]) -> Iterator[Origin]:
    for collection in collections:
        for (row, target), stored in collection.stored.items():
            settings = collection.outline.settings
            times = sorted(result.finished_at for result in stored.results)
            ends = dict.fromkeys(time[:16].replace("T", " ") for time in (times[0], times[-1]))
            yield Origin(
                row,
                settings.targets[target],
                settings.protocol.n_shot,
                len(stored.results),
                stored.run.key,
                stored.run.data_digest,
                ", ".join(sorted({result.version for result in stored.results})),
                " to ".join(ends),
            )


def _numbers(collections: Sequence[Collection]) -> list[tuple[str, str]]:
    """Count what the page rests on; a run that stands in several tables counts once."""
    runs: dict[str, Stored] = {}
    for collection in collections:
        for stored in collection.stored.values():
            known = runs.setdefault(stored.run.key, stored)
            if len(stored.results) > len(known.results):
                runs[stored.run.key] = stored
    results = [result for stored in runs.values() for result in stored.results]
    hours = sum(result.seconds for result in results) / 3600
    n_data = len({stored.run.data_digest for stored in runs.values()})
    numbers = [
        counted(len(results), "episode solved", "episodes solved"),
        counted(n_data, "data set"),
        counted(len(runs), "run: a row on a data set under a protocol", "runs: rows on data sets"),
        f"{hours:.1f} hours of one thread",
    ]
    return [(n, words) for n, _, words in (number.partition(" ") for number in numbers)]
