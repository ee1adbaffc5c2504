"""Figures of the benchmark: accuracy over settings, paired differences, episodes one by one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from appl.benchmark.compare import Comparison
from appl.benchmark.curves import Curve
from appl.benchmark.grids import column_titles
from appl.benchmark.tables import ResultTable
from appl.report.drawing import Panel
from appl.report.palette import LIGHT, colour_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curve_panels(curves: Sequence[Curve]) -> list[Panel]:
    """Draw a panel for each curve, all with one scale of accuracy."""
    spans = [
        (point.accuracy.mean, max(point.accuracy.interval, point.difference.interval))
        for curve in curves
        for point in curve.points
    ]
    low = min((mean - half for mean, half in spans), default=0.0)
    high = max((mean + half for mean, half in spans), default=0.0)
    return [_curve_panel(curve, (low - 1, high + 1)) for curve in curves]


def _curve_panel(curve: Curve, ends: tuple[float, float]) -> Panel:
    """Draw accuracy over the values of a setting, evenly spaced.

    The band is the interval over the episodes, which vary much but are the same at every value;
    the bars, of the paired difference to the preset, show what the setting does.
    """

    def draw(axes: "Axes") -> None:
        places = range(len(curve.points))
        accuracies = [point.accuracy for point in curve.points]
        means = [accuracy.mean for accuracy in accuracies]
        low = [accuracy.mean - accuracy.interval for accuracy in accuracies]
        high = [accuracy.mean + accuracy.interval for accuracy in accuracies]
        colour = LIGHT["accept"]
        axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
        bars = [point.difference.interval for point in curve.points]
        axes.errorbar(places, means, bars, color=colour, marker="o", linewidth=2, capsize=3)
        own = [i for i, point in enumerate(curve.points) if point.value == curve.base]
        axes.plot(
            own,
            [means[i] for i in own],
            "o",
            markersize=9,
            markeredgewidth=2.5,
            markerfacecolor=LIGHT["card"],
            markeredgecolor=colour,
            zorder=5,
        )
        axes.set_xticks(places, [f"{point.value:g}" for point in curve.points])
        axes.set_ylim(*ends)
        axes.set_xlabel(f"{curve.knob.symbol} (ring: the preset's own)")
        axes.set_ylabel("accuracy, %")

    return draw


def difference_panel(table: ResultTable, title: str = "") -> Panel:
    """Draw the paired differences to the reference: one line per column, one colour per row.

    With a title the panel stands by itself and says which colour is which row.
    """
    rows = [row for row in table.rows if row != table.reference]
    names = colour_names(rows)

    def draw(axes: "Axes") -> None:
        for i, row in enumerate(rows):
            places, means, halves = [], [], []
            for place, column in enumerate(table.columns):
                cell = table.cells.get((row, column))
                if cell and cell.difference.n:
                    places.append(place + 0.7 * ((i + 0.5) / len(rows) - 0.5))
                    means.append(cell.difference.mean)
                    halves.append(cell.difference.interval)
            axes.errorbar(
                means,
                places,
                xerr=halves,
                fmt="o",
                markersize=5,
                color=LIGHT[names[row]],
                label=row,
            )
        axes.axvline(0, color=LIGHT["soft"], linewidth=1.5, zorder=1)
        axes.set_yticks(range(len(table.columns)), column_titles(table))
        axes.set_ylim(len(table.columns) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        for place in range(0, len(table.columns), 2):
            axes.axhspan(place - 0.5, place + 0.5, color=LIGHT["shade"], zorder=0)
        axes.set_xlabel(f"points above {table.reference}")
        if title:
            axes.set_title(title, loc="left")
            axes.legend(loc="upper left", bbox_to_anchor=(0, -0.1), ncols=2, frameon=False)

    return draw


def scatter_panel(
    comparison: Comparison,
    names: Mapping[str, str] | None = None,
    *,
    legend: bool = True,
    n_drawn: int | None = None,
) -> Panel:
    """Draw one point per episode: what row b reaches against what row a reaches.

    `names` are the colours of the targets, where other drawings have them too; `n_drawn` limits
    the points of a target to its first.
    """
    titles = [pairs.title for pairs in comparison.targets]
    chosen = names or colour_names(titles)

    def draw(axes: "Axes") -> None:
        for pairs in comparison.targets:
            colour = LIGHT[chosen[pairs.title]]
            x, y = pairs.b[:n_drawn], pairs.a[:n_drawn]
            axes.scatter(x, y, s=16, color=colour, alpha=0.75, linewidths=0)
        values = [v for pairs in comparison.targets for v in (*pairs.a, *pairs.b)]
        ends = (min(values) - 2, max(values) + 2)
        axes.plot(ends, ends, color=LIGHT["soft"], linewidth=1, linestyle="--", zorder=0)
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.set_aspect("equal")
        axes.set_xlabel(f"{comparison.b}, %")
        axes.set_ylabel(f"{comparison.a}, %")
        if legend:
            axes.legend(
                axes.collections, titles, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False
            )

    return draw
