"""Which pictures the report shows: examples of each class, contact sheets, what to look at first.

The number of pictures has a bound, so that the page of a large pile is no larger than that of a
small one: the more classes, the fewer pictures each.
"""

import filecmp
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from appl.labelling.rows import LabelRow
from appl.report.content import RunContent
from appl.report.words import NAME_LETTERS, file_name, percent, short

MAX_PICTURES = 400
EXAMPLE_PICTURES, CLASS_PICTURES = 120, 192  # for all classes together
MOST_EXAMPLES, MOST_OF_CLASS = 5, 24  # for one class
MOST_OF_PILE = 24  # novel, and as many to review first
MANY_CLASSES = 100  # only so many, the largest, have pictures


@dataclass(frozen=True)
class Tile:
    """A picture and what stands below it."""

    path: str
    name: str
    key: str  # of the point on the map: r12 is row 12, e3 example 3
    head: str = ""  # the confidence
    label: str = ""
    second: str = ""
    mark: str = ""  # accept, review, none-of-these: the colour of its edge

    @property
    def short_name(self) -> str:
        """The file's name as it fits below a picture."""
        fits = len(self.name) <= NAME_LETTERS
        return self.name if fits else short(PurePath(self.name).stem, NAME_LETTERS)


@dataclass(frozen=True)
class ClassView:
    """A class: how many images got it, its examples, its surest and its least sure images."""

    name: str
    n_examples: int
    n_accepted: int
    n_review: int
    accepted_share: float  # of the largest class, for a bar
    review_share: float
    examples: tuple[Tile, ...]
    surest: tuple[Tile, ...]
    least_sure: tuple[Tile, ...]

    @property
    def n_labelled(self) -> int:
        """How many images got this label."""
        return self.n_accepted + self.n_review


@dataclass(frozen=True)
class Sheets:
    """All pictures of the page."""

    classes: tuple[ClassView, ...]
    review_first: tuple[Tile, ...]
    novel: tuple[Tile, ...]

    @property
    def tiles(self) -> list[Tile]:
        """Every tile, as often as it is shown."""
        of_classes = [
            tile
            for view in self.classes
            for tile in (*view.examples, *view.surest, *view.least_sure)
        ]
        return [*of_classes, *self.review_first, *self.novel]


def choose_sheets(content: RunContent) -> Sheets:
    """Choose the pictures of every part of the page."""
    rows = content.rows
    unsure = sorted(
        (i for i, row in enumerate(rows) if row.decision == "review"),
        key=lambda i: _margin(rows[i]),
    )
    novel = sorted(
        (i for i, row in enumerate(rows) if row.decision == "none-of-these"),
        key=lambda i: -(rows[i].novelty or 0),
    )
    return Sheets(
        _class_views(content),
        tuple(
            _unsure_tile(rows, i, names_label=True)
            for i in _Shown(rows).first(unsure, MOST_OF_PILE)
        ),
        tuple(_novel_tile(rows, i) for i in _Shown(rows).first(novel, MOST_OF_PILE)),
    )


def example_tile(content: RunContent, index: int) -> Tile:
    """Return the tile of an example."""
    path = content.examples[index].path
    return Tile(path, file_name(path), f"e{index}")


def spare_rows(tiles: Sequence[Tile], candidates: Sequence[int], n_left: int) -> list[int]:
    """Choose rows without a picture, evenly, to show when the map is pointed at."""
    have = {tile.key for tile in tiles}
    rest = [row for row in candidates if f"r{row}" not in have]
    n = max(0, min(n_left, len(rest)))
    return [rest[i * len(rest) // n] for i in range(n)]


def _class_views(content: RunContent) -> tuple[ClassView, ...]:
    names = content.class_names
    largest = max((len(rows) for rows in content.labelled.values()), default=0) or 1
    by_size = sorted(names, key=lambda name: -len(content.labelled[name]))
    pictured = set(by_size[:MANY_CLASSES])
    n_examples = _part(EXAMPLE_PICTURES, len(pictured), MOST_EXAMPLES)
    n_of_class = _part(CLASS_PICTURES, len(pictured), MOST_OF_CLASS)
    views = []
    for class_id, name in enumerate(names):
        members = content.labelled[name]
        own = [i for i, example in enumerate(content.examples) if example.class_id == class_id]
        n_accepted = sum(content.rows[i].decision == "accept" for i in members)
        n_review = len(members) - n_accepted
        surest, least = _ends(content.rows, members, n_of_class if name in pictured else 0)
        views.append(
            ClassView(
                name=name,
                n_examples=len(own),
                n_accepted=n_accepted,
                n_review=n_review,
                accepted_share=n_accepted / largest,
                review_share=n_review / largest,
                examples=tuple(
                    example_tile(content, i) for i in own[: n_examples if name in pictured else 0]
                ),
                surest=tuple(_class_tile(content.rows, i) for i in surest),
                least_sure=tuple(_unsure_tile(content.rows, i) for i in least),
            )
        )
    return tuple(views)


def _part(whole: int, n_parts: int, most: int) -> int:
    return max(1, min(whole // max(n_parts, 1), most))


def _ends(rows: Sequence[LabelRow], members: list[int], n: int) -> tuple[list[int], list[int]]:
    """Return the surest, surest first, and the least sure, least sure first; none twice."""
    ordered = sorted(members, key=lambda i: -(rows[i].confidence or 0))
    n_least = min((n + 1) // 3, len(ordered) // 2)
    shown = _Shown(rows)
    surest = shown.first(ordered, min(n, len(ordered)) - n_least)
    return surest, shown.first(ordered[::-1], n_least)


class _Shown:
    """The pictures of one sheet: a pile may hold an image many times, a sheet shows it once."""

    def __init__(self, rows: Sequence[LabelRow]) -> None:
        self._rows = rows
        self._alike: defaultdict[LabelRow, list[str]] = defaultdict(list)

    def first(self, ordered: Iterable[int], n: int) -> list[int]:
        """Return the first n rows whose image is not on the sheet yet."""
        found: list[int] = []
        for i in ordered:
            if len(found) == n:
                break
            row = self._rows[i]
            # Copies are judged alike, so only images that were judged alike are compared.
            alike = self._alike[replace(row, path="")]
            if not any(_is_copy(row.path, path) for path in alike):
                alike.append(row.path)
                found.append(i)
        return found


def _is_copy(path: str, other: str) -> bool:
    try:
        return filecmp.cmp(path, other, shallow=False)
    except OSError:  # moved away since: its tile says so
        return path == other


def _margin(row: LabelRow) -> float:
    return (row.confidence or 0) - (row.runner_up_confidence or 0)


def _class_tile(rows: Sequence[LabelRow], i: int) -> Tile:
    return _row_tile(rows, i, second=_runner_up(rows[i]) if rows[i].decision == "review" else "")


def _unsure_tile(rows: Sequence[LabelRow], i: int, *, names_label: bool = False) -> Tile:
    return _row_tile(rows, i, rows[i].label if names_label else "", _runner_up(rows[i]))


def _novel_tile(rows: Sequence[LabelRow], i: int) -> Tile:
    novelty = rows[i].novelty
    second = "" if novelty is None else f"distance {novelty:.1f}"
    return _row_tile(rows, i, rows[i].label, second)


def _row_tile(rows: Sequence[LabelRow], i: int, label: str = "", second: str = "") -> Tile:
    row = rows[i]
    sure = percent(row.confidence)
    return Tile(row.path, file_name(row.path), f"r{i}", sure, label, second, row.decision)


def _runner_up(row: LabelRow) -> str:
    if not row.runner_up or row.runner_up_confidence is None:
        return ""
    return f"or {percent(row.runner_up_confidence)} {row.runner_up}"
