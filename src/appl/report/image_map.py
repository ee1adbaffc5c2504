"""The map of the images: alike ones lie together, before and after the adaptation.

The template draws the points, which need no script; `report.js` adds the thumbnail under the
pointer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from appl.report.content import RunContent
from appl.report.maps import two_maps
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


@dataclass(frozen=True)
class Marker:
    """How a class is drawn: its colour in the style sheet and its shape."""

    style: str
    shape: str
    words: str


OUT_OF_DISTRIBUTION = Marker("outside", "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5", "none of these")


@dataclass(frozen=True)
class MapPoint:
    """An image on a map: where, as which class, and what is said of it."""

    key: str  # of its picture
    x: float
    y: float
    marker: Marker
    words: str
    is_example: bool


@dataclass(frozen=True)
class ImageMap:
    """Points in a frame as wide as that of every map; `label` is for a screen reader."""

    title: str
    label: str
    width: float
    height: float
    points: tuple[MapPoint, ...]


@dataclass(frozen=True)
class ImageMaps:
    """One map, or one before and one after."""

    maps: tuple[ImageMap, ...]
    legend: tuple[Marker, ...]
    rows: tuple[int, ...]  # of the pile that are on the map
    note: str


def make_maps(content: RunContent, slots: dict[str, int]) -> ImageMaps:
    """Place the examples and the pile's images that the adaptation knew."""
    history = content.history
    n_examples = history.vectors.shape[1] - len(history.pool)
    pool = history.pool.tolist()
    places = _drawn_places(pool, len(content.rows))
    before, after = two_maps(history.vectors)
    shown = {"Your images": before}
    if content.is_adapted and not torch.equal(before, after):
        shown = {"Before the adaptation": before, "After the adaptation": after}
    height = _height([*shown.values()])
    label = f"Map of {counted(len(places), 'image')} and {counted(n_examples, 'example')}"
    maps = []
    for title, points in shown.items():
        at = fitted(points, height).tolist()
        marks = [
            *(_pile_point(content, slots, pool[i], at[n_examples + i]) for i in places),
            *(
                _example_point(content, slots, i, at[i])
                for i in range(min(n_examples, len(content.examples)))
            ),
        ]
        maps.append(ImageMap(title, label, WIDTH, height, tuple(marks)))
    rows = tuple(pool[place] for place in places)
    note = ""
    if len(rows) < len(content.rows) - content.decisions["unreadable"]:
        note = f"It shows {counted(len(rows), 'image')} of {len(content.rows):,}, drawn by chance."
    return ImageMaps(tuple(maps), _legend(content, slots, rows), rows, note)


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
        legend.append(OUT_OF_DISTRIBUTION)
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


def fitted(points: torch.Tensor, height: float) -> torch.Tensor:
    """Move points into a picture, whose y counts downwards; they fill it and keep proportions."""
    low, high = points.amin(0), points.amax(0)
    size = torch.tensor([WIDTH, height])
    scale = float(((high - low) / (size - 2 * EDGE)).max()) or 1.0
    upright = torch.tensor([1.0, -1.0])
    return (points - (low + high) / 2) / scale * upright + size / 2


def _pile_point(
    content: RunContent, slots: dict[str, int], row: int, at: Sequence[float]
) -> MapPoint:
    found = content.rows[row]
    marker = marker_of(slots, found.label)
    words = f"{short(found.label, 40)}, {percent(found.confidence)}"
    if found.decision == "none-of-these":
        marker, words = OUT_OF_DISTRIBUTION, f"none of these ({words})"
    words = f"{short(file_name(found.path), 60)}\n{words}"
    return MapPoint(f"r{row}", at[0], at[1], marker, words, is_example=False)


def _example_point(
    content: RunContent, slots: dict[str, int], index: int, at: Sequence[float]
) -> MapPoint:
    example = content.examples[index]
    name = content.class_names[example.class_id]
    words = f"{short(file_name(example.path), 60)}\nyour example of {short(name, 40)}"
    return MapPoint(f"e{index}", at[0], at[1], marker_of(slots, name), words, is_example=True)
