"""SVG by hand: text stays text, colours come from the page's style sheet, every name is escaped."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

Ticks = Sequence[tuple[float, str]]
PERCENT_TICKS: Ticks = [(share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]


def tag(name: str, *content: str, **attributes: object) -> Markup:
    """Return an element; `class_` becomes class, `text_anchor` text-anchor, None is left out."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _written(value))
        for key, value in attributes.items()
        if value is not None
    )
    if not content:
        return Markup("<{}{}/>").format(name, written)
    return Markup("<{}{}>{}</{}>").format(name, written, Markup("").join(content), name)


def path_through(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """Return the `d` of a line through points; a gap where one is not finite."""
    parts, is_down = [], False
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{_written(x)} {_written(y)}")
        is_down = True
    return "".join(parts) + ("Z" if closed and parts else "")


def count_ticks(highest: float, n_steps: int = 4) -> Ticks:
    """Return ticks from 0 to just above a count: steps of 1, 2 or 5 times a power of ten."""
    rough = max(highest, 1) / n_steps
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    step = max(1, round(step))
    n = max(1, math.ceil(highest / step))
    return [(float(i * step), f"{i * step:,}") for i in range(n + 1)]


@dataclass(frozen=True)
class Plot:
    """A frame with two axes: it turns values into places, and draws its lines and numbers."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: float = 520
    height: float = 290
    left: float = 60
    right: float = 22
    top: float = 38
    bottom: float = 56

    def x(self, value: float) -> float:
        """Place a value from left to right."""
        low, high = self.x_range
        share = (value - low) / ((high - low) or 1)
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Place a value from the bottom to the top."""
        low, high = self.y_range
        share = (value - low) / ((high - low) or 1)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def axes(self, x_ticks: Ticks, y_ticks: Ticks, x_title: str, y_title: str) -> Markup:
        """Draw grid lines, numbers, and what they mean: the y title above its axis, level."""
        right, floor = self.width - self.right, self.height - self.bottom
        parts = []
        for value, text in y_ticks:
            y = self.y(value)
            parts.append(tag("line", class_="grid", x1=self.left, x2=right, y1=y, y2=y))
            parts.append(tag("text", text, x=self.left - 8, y=y, dy="0.35em", text_anchor="end"))
        for value, text in x_ticks:
            parts.append(tag("text", text, x=self.x(value), y=floor + 22, text_anchor="middle"))
        parts.append(tag("line", class_="axis", x1=self.left, x2=right, y1=floor, y2=floor))
        middle = (self.left + right) / 2
        parts.append(
            tag("text", x_title, class_="of", x=middle, y=self.height - 8, text_anchor="middle")
        )
        parts.append(tag("text", y_title, class_="of", x=4, y=18))
        return Markup("").join(parts)

    def drawing(self, label: str, *parts: str, class_: str = "plot") -> Markup:
        """Return the whole picture; `label` is what a screen reader says of it."""
        box = f"0 0 {_written(self.width)} {_written(self.height)}"
        return tag("svg", *parts, class_=class_, viewBox=box, role="img", aria_label=label)


def _written(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return value
