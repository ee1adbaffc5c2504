"""The charts of the adaptation: what changed from step to step."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from appl.report.chart_axes import (
    PERCENT_TICKS,
    Scale,
    Ticks,
    chart_svg,
    count_ticks,
    set_scales,
)
from appl.report.embedding import Chart
from appl.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Records = Sequence[dict[str, Any]]


def curve_charts(records: Records) -> list[Chart]:
    """Draw what changed from step to step while the software adapted itself."""
    # The first step has none before it to differ from.
    changes = [math.nan, *(float(record["n_label_changes"]) for record in records[1:])]
    finite = [value for value in changes if math.isfinite(value)]
    return [
        _curve(
            records,
            changes,
            Scale("images", count_ticks(max(finite, default=0))),
            "Labels that changed",
            "How many differ from the step before. It should fall: then the labels settle.",
        ),
        _curve(
            records,
            [record["selected_share"] for record in records],
            Scale("share of the images", PERCENT_TICKS),
            "Images it felt sure about",
            "Only these taught it something; it should rise or stay high.",
        ),
        _curve(
            records,
            [record["support_accuracy"] for record in records],
            Scale("share of the examples", PERCENT_TICKS),
            "Your examples that it got right",
            "It should stay near 100%: a fall means that it forgets what you showed it.",
        ),
    ]


def balance_chart(records: Records, class_names: Sequence[str], slots: dict[str, int]) -> Chart:
    """Draw the share of every class among the labels, step by step, one upon the other."""
    words = {f"k{slot}": name for name, slot in slots.items()}
    if len(slots) < len(class_names):
        words["other"] = "other classes"
    bands = {style: [0.0] * len(records) for style in words}
    for class_id, name in enumerate(class_names):
        band = bands[f"k{slots[name]}" if name in slots else "other"]
        for step, record in enumerate(records):
            share = float(record["class_balance"][class_id])
            band[step] += share if math.isfinite(share) else 0.0

    def draw(axes: "Axes") -> None:
        axes.stackplot(
            _steps(records),
            *bands.values(),
            colors=[LIGHT[style] for style in bands],
            edgecolor=LIGHT["card"],
            linewidth=1.2,
        )
        axes.set_axisbelow(False)  # the bands would hide the grid,
        axes.spines["bottom"].set_zorder(3)  # and the grid the axis
        set_scales(axes, _step_scale(records), Scale("share of the labels", PERCENT_TICKS))

    return Chart(
        "Share of each class",
        "Each band is a class; one that swallows the others would be a bad sign.",
        chart_svg(draw, "Share of each class among the labels at every step"),
        tuple(words.items()),
    )


def _curve(records: Records, values: Sequence[float], y: Scale, title: str, how: str) -> Chart:
    def draw(axes: "Axes") -> None:
        colour = LIGHT["accept"]
        axes.plot(_steps(records), values, color=colour, linewidth=2)
        if math.isfinite(values[-1]):
            axes.plot(
                _steps(records)[-1],
                values[-1],
                "o",
                color=colour,
                markersize=8,
                markeredgecolor=LIGHT["card"],
                markeredgewidth=1.6,
                zorder=3,
            )
        set_scales(axes, _step_scale(records), y)

    return Chart(title, how, chart_svg(draw, f"{title} at every step"))


def _steps(records: Records) -> list[int]:
    return [record["iteration"] for record in records]


def _step_scale(records: Records) -> Scale:
    """Return ticks at the first and the last step, and at round ones between that leave room."""
    first, last = records[0]["iteration"], records[-1]["iteration"]
    inner = [(v, t) for v, t in count_ticks(last) if first < v <= last - (last - first) / 12]
    ticks: Ticks = [(float(step), str(step)) for step in dict.fromkeys((first, last))] + inner
    return Scale("step", ticks)
