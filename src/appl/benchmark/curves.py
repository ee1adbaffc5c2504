"""The curves of the sensitivity plots, from the rows of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from appl.benchmark.collection import Collection
from appl.benchmark.sensitivity import KNOBS, Knob, base_title, swept_titles
from appl.benchmark.statistics import Estimate
from appl.benchmark.tables import make_table
from appl.settings.solving import SolveSettings


@dataclass(frozen=True)
class Point:
    """One value of a setting: accuracy in the mean of the targets, and what the change makes."""

    value: float
    accuracy: Estimate
    difference: Estimate  # to the preset as it is, paired; of the preset itself: zero


@dataclass(frozen=True)
class Curve:
    """Accuracy over the values of one setting; values without results are left out."""

    knob: Knob
    base: float  # the preset's own value
    points: tuple[Point, ...]


def sensitivity_curves(collection: Collection) -> tuple[Curve, ...]:
    """Return a curve for each setting that has results."""
    settings = collection.outline.settings
    preset = SolveSettings.preset(settings.sensitivity.preset)
    curves = [
        Curve(knob, knob.value(preset), tuple(_points(collection, swept_titles(settings, knob))))
        for knob in KNOBS
    ]
    return tuple(curve for curve in curves if curve.points)


def _points(collection: Collection, titles: dict[float, str]) -> Sequence[Point]:
    settings = collection.outline.settings
    table = make_table([collection], base_title(settings))
    n_shot = settings.protocol.n_shot
    points = []
    for value, title in titles.items():
        accuracy = table.mean_accuracy(title, n_shot)
        difference = table.mean_difference(title, n_shot)
        if accuracy and difference:
            points.append(Point(value, accuracy, difference))
    return points
