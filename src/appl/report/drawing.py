"""The one way to draw: panels of matplotlib in the palette's colours, as files or for a page.

matplotlib takes long to load, so it is imported where something is drawn.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl.core.files import write_atomically
from appl.errors import DataError, SettingsError
from appl.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png", ".pdf")
PANEL = (3.9, 3.0)  # inches
POINTS = 72  # per inch
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "appl",  # the same figure is the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "xtick.bottom": False,
    "ytick.left": False,
    "figure.dpi": POINTS,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["soft"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "axes.edgecolor": LIGHT["soft"],
    "grid.color": LIGHT["grid"],
    "figure.facecolor": LIGHT["card"],
    "axes.facecolor": LIGHT["card"],
}
Panel = Callable[["Axes"], None]


@dataclass(frozen=True)
class Margins:
    """Points from the edges of a figure to its axes, so that the axes of neighbours lie level."""

    left: float
    right: float
    top: float
    bottom: float


def save_figure(panels: Sequence[Panel], path: Path, size: tuple[float, float] = PANEL) -> None:
    """Draw panels, two in a row, into a file whose ending says its format; inches of a panel."""
    form = figure_format(path)
    if not panels:
        raise DataError(f"nothing to draw in {path}: the store has no results for it yet")
    write_atomically(path, draw(panels, form, size))


def figure_format(path: Path) -> str:
    """Tell the format from a file's ending."""
    if path.suffix not in FORMATS:
        raise SettingsError(
            f"{path}: no figure is drawn as {path.suffix!r}; end it in {', '.join(FORMATS)}"
        )
    return path.suffix[1:]


def draw(
    panels: Sequence[Panel],
    form: str,
    size: tuple[float, float] = PANEL,
    margins: Margins | None = None,
) -> bytes:
    """Return a figure of panels, two in a row; without margins it is as large as its words need.

    `size` is that of a panel in inches; margins are for a single one.
    """
    import matplotlib
    from matplotlib.figure import Figure

    n_columns = min(2, len(panels))
    n_rows = -(-len(panels) // n_columns)
    with matplotlib.rc_context(_STYLE):
        figure = Figure((size[0] * n_columns, size[1] * n_rows))
        if margins:
            width, height = size[0] * POINTS, size[1] * POINTS
            figure.subplots_adjust(
                left=margins.left / width,
                right=1 - margins.right / width,
                top=1 - margins.top / height,
                bottom=margins.bottom / height,
            )
        else:
            figure.set_layout_engine("constrained")
        for i, panel in enumerate(panels):
            panel(figure.add_subplot(n_rows, n_columns, i + 1))
        data = io.BytesIO()
        # No date: the same results give the same file.
        stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        bounds = None if margins else "tight"
        figure.savefig(data, format=form, dpi=160, metadata=stamp, bbox_inches=bounds)
    return data.getvalue()
