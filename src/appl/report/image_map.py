"""The map of the images: alike ones lie together, before and after the adaptation.

It is a picture that needs no script; `report.js` adds the thumbnail under the pointer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from markupsafe import Markup

from appl.report.content import RunContent
from appl.report.svg import Plot, tag
from appl.report.words import counted, file_name, percent, short

WIDTH, EDGE = 520.0, 14.0
HEIGHTS = (280.0, 440.0)
MOST_POINTS = 1500  # of the pile
SHAPES = (  # around (0, 0), alike in area
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.9L4.6 3.4H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.9L4.6-3.4H-4.6z",
)
CROSS = "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5"


@dataclass(frozen=True)
class Marker:
    """How a class is drawn: its colour in the style sheet and its shape."""

    style: str
    shape: str
    words: str


@dataclass(frozen=True)
class ImageMaps:
    """One map, or one before and one after."""

    titles: tuple[str, ...]
    drawings: tuple[Markup, ...]
    legend: tuple[Marker, ...]
    rows: tuple[int, ...]  # of the pile that are on the map
    note: str


def draw_maps(content: RunContent, slots: dict[str, int]) -> ImageMaps:
    """Draw the examples and the pile's images that the adaptation knew."""
    history = content.history
    n_examples = history.maps.shape[1] - len(history.pool)
    pool = history.pool.tolist()
    places = _drawn_places(pool, len(content.rows))
    maps = history.maps
    is_moved = content.is_adapted and not torch.equal(maps[0], maps[1])
    shown = [*maps] if is_moved else [maps[0]]
    height = _height(shown)
    drawings = []
    for points in shown:
        plot = _frame(points, height)
        parts = [
            _pile_point(content, slots, pool[place], plot, points[n_examples + place].tolist())
            for place in places
        ]
        parts += [
            _example_point(content, slots, i, plot, points[i].tolist())
            for i in range(min(n_examples, len(content.examples)))
        ]
        label = f"Map of {counted(len(places), 'image')} and {counted(n_examples, 'example')}"
        drawings.append(plot.drawing(label, *parts, class_="map"))
    rows = tuple(pool[place] for place in places)
    note = ""
    if len(rows) < len(content.rows) - content.decisions["unreadable"]:
        note = f"It shows {counted(len(rows), 'image')} of {len(content.rows):,}, drawn by chance."
    return ImageMaps(
        ("Before the adaptation", "After the adaptation") if is_moved else ("Your images",),
        tuple(drawings),
        _legend(content, slots, rows),
        rows,
        note,
    )


def marker_of(slots: dict[str, int], class_name: str) -> Marker:
    """Return colour and shape of a class; both differ, so that colour is not needed."""
    if class_name not in slots:
        return Marker("other", SHAPES[0], "other classes")
    slot = slots[class_name]
    return Marker(f"k{slot}", SHAPES[slot % len(SHAPES)], class_name)


def _legend(content: RunContent, slots: dict[str, int], rows: Sequence[int]) -> tuple[Marker, ...]:
    markers = {
        marker.style: marker for marker in (marker_of(slots, n) for n in content.class_names)
    }
    legend = [marker for style, marker in sorted(markers.items()) if style != "other"]
    legend += [markers["other"]] if "other" in markers else []
    if any(content.rows[row].decision == "none-of-these" for row in rows):
        legend.append(Marker("stranger", CROSS, "none of these"))
    return tuple(legend)


def _drawn_places(pool: Sequence[int], n_rows: int) -> list[int]:
    known = [place for place, row in enumerate(pool) if row < n_rows]
    n = min(len(known), MOST_POINTS)
    return [known[i * len(known) // n] for i in range(n)]


def _height(maps: Sequence[torch.Tensor]) -> float:
    """Return a height that leaves little empty, the same for every map."""
    spans = [points.amax(0) - points.amin(0) for points in maps]
    tallest = max(float(span[1]) / (float(span[0]) or 1.0) for span in spans)
    return min(max(tallest * (WIDTH - 2 * EDGE) + 2 * EDGE, HEIGHTS[0]), HEIGHTS[1])


def _frame(points: torch.Tensor, height: float) -> Plot:
    """Return a frame in which the points fill the picture and keep their proportions."""
    low, high = points.amin(0), points.amax(0)
    room = torch.tensor([WIDTH - 2 * EDGE, height - 2 * EDGE])
    scale = float(((high - low) / room).max()) or 1.0
    middle, half = (low + high) / 2, room * scale / 2
    (x_low, y_low), (x_high, y_high) = (middle - half).tolist(), (middle + half).tolist()
    return Plot((x_low, x_high), (y_low, y_high), WIDTH, height, EDGE, EDGE, EDGE, EDGE)


def _pile_point(
    content: RunContent, slots: dict[str, int], row: int, plot: Plot, at: list[float]
) -> Markup:
    found = content.rows[row]
    marker = marker_of(slots, found.label)
    words = f"{short(found.label, 40)}, {percent(found.confidence)}"
    if found.decision == "none-of-these":
        marker, words = Marker("stranger", CROSS, ""), f"none of these ({words})"
    return _point(marker, f"r{row}", plot, at, f"{short(file_name(found.path), 60)}\n{words}")


def _example_point(
    content: RunContent, slots: dict[str, int], index: int, plot: Plot, at: list[float]
) -> Markup:
    example = content.examples[index]
    name = content.class_names[example.class_id]
    words = f"{short(file_name(example.path), 60)}\nyour example of {short(name, 40)}"
    return _point(marker_of(slots, name), f"e{index}", plot, at, words)


def _point(marker: Marker, key: str, plot: Plot, at: list[float], words: str) -> Markup:
    size = 2.0 if key.startswith("e") else 1.0
    return tag(
        "path",
        tag("title", words),
        class_=f"{marker.style} example" if size > 1 else marker.style,
        d=marker.shape,
        transform=f"translate({plot.x(at[0]):.1f} {plot.y(at[1]):.1f})"
        + (f" scale({size:.1f})" if size > 1 else ""),
        data_p=key,
    )
