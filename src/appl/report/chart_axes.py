"""The axes that the charts of the labelling report share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from appl.report.drawing import Margins, Panel
from appl.report.embedding import inline_svg
from appl.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ticks = Sequence[tuple[float, str]]
PERCENT_TICKS: Ticks = [(share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]
SIZE = (5.8, 3.2)  # inches
MARGINS = Margins(left=46, right=18, top=32, bottom=44)


@dataclass(frozen=True)
class Scale:
    """What an axis measures, and its ticks, which reach from end to end."""

    title: str
    ticks: Ticks

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value; around a single one, some room."""
        values = [value for value, _ in self.ticks]
        low, high = min(values), max(values)
        return (low, high) if low < high else (low - 0.5, high + 0.5)


def count_ticks(highest: float, n_steps: int = 4) -> Ticks:
    """Return ticks from 0 to just above a count: steps of 1, 2 or 5 times a power of ten."""
    rough = max(highest, 1) / n_steps
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    step = max(1, round(step))
    n = max(1, math.ceil(highest / step))
    return [(float(i * step), f"{i * step:,}") for i in range(n + 1)]


def set_scales(axes: "Axes", x: Scale, y: Scale) -> None:
    """Give axes their ticks and titles: that of y stands above its axis, level, to be read."""
    axes.set_xlim(*x.ends)
    axes.set_ylim(*y.ends)
    axes.set_xticks([value for value, _ in x.ticks], [text for _, text in x.ticks])
    axes.set_yticks([value for value, _ in y.ticks], [text for _, text in y.ticks])
    axes.tick_params(axis="x", pad=7)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel(x.title, color=LIGHT["ink"], labelpad=7)
    axes.annotate(
        y.title,
        (0, 1),
        xycoords="axes fraction",
        xytext=(3 - MARGINS.left, 15),
        textcoords="offset points",
    )


def chart_svg(panel: Panel, label: str) -> Markup:
    """Draw a panel for the page, as large as its neighbours and level with them."""
    return inline_svg(panel, label, SIZE, MARGINS)
