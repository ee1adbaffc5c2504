"""The charts of the labels: how sure they are, and whether that can be trusted."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from appl.labelling.left_out import LeftOut
from appl.labelling.rows import LabelRow
from appl.report.chart_axes import (
    PERCENT_TICKS,
    Scale,
    Ticks,
    chart_svg,
    count_ticks,
    set_scales,
)
from appl.report.embedding import Chart, hover
from appl.report.palette import LIGHT
from appl.report.words import DECISION_WORDS, counted, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BINS = 20
LEAST_SHARE = 1 / 200  # of the height: a single image among thousands is still seen
FEW_LEFT_OUT = 20
Z_95 = 1.96


def confidence_chart(rows: Sequence[LabelRow], threshold: float) -> Chart | None:
    """Draw how many images have which confidence, and from where on labels are accepted."""
    bins = _histogram(rows)
    if not bins:
        return None
    y_ticks = count_ticks(max(sum(column) for column in zip(*bins.values(), strict=True)))
    words = f"accepted above {percent(threshold)}" if threshold < 1 else "none is accepted"

    def draw(axes: "Axes") -> None:
        set_scales(axes, Scale("confidence", PERCENT_TICKS), Scale("images", y_ticks))
        _draw_bars(axes, bins, y_ticks)
        _draw_threshold(axes, threshold, words)

    return Chart(
        "How sure the labels are",
        "Each column counts the images with that confidence: the further right, the surer. Labels "
        "right of the line are accepted without you, the others wait for a look.",
        chart_svg(draw, f"Histogram of the confidence; {words}"),
        tuple((f"f-{kind}", DECISION_WORDS[kind]) for kind in bins),
    )


def trust_chart(left_out: LeftOut, temperature: float) -> Chart | None:
    """Draw whether confidence keeps its word on examples that the rule had not seen."""
    n = len(left_out)
    if n == 0:
        return None
    sure, judged = torch.softmax(left_out.scores / temperature, 1).max(1)
    right = (judged == left_out.class_ids)[sure.argsort()].tolist()
    n_bins = max(1, min(5, n // 8))
    edges = [n * i // n_bins for i in range(n_bins + 1)]

    def draw(axes: "Axes") -> None:
        set_scales(axes, Scale("confidence", PERCENT_TICKS), Scale("really right", PERCENT_TICKS))
        axes.plot((0, 1), (0, 1), color=LIGHT["soft"], linewidth=1, linestyle=(0, (4, 3)))
        for start, end in pairwise(edges):
            share = sum(right[start:end]) / (end - start)
            confidence = float(sure.sort().values[start:end].mean())
            _draw_trust(axes, confidence, share, end - start)

    few = " That is too few to see anything." if n < FEW_LEFT_OUT else ""
    return Chart(
        "Can the confidence be trusted?",
        f"It rests on {counted(n, 'example')} of yours, each judged as if its class were unknown."
        f"{few} A dot on the dashed line keeps its word, one below it promises too much; the bars "
        "show how far chance alone may have moved it.",
        chart_svg(draw, f"Confidence against the share of right labels, {n} examples"),
    )


def _histogram(rows: Sequence[LabelRow]) -> dict[str, list[int]]:
    """Count images by decision and confidence, the decisions in the order of their words."""
    bins: dict[str, list[int]] = {}
    for row in rows:
        if row.confidence is not None:
            counts = bins.setdefault(row.decision, [0] * N_BINS)
            counts[min(int(row.confidence * N_BINS), N_BINS - 1)] += 1
    return {kind: bins[kind] for kind in DECISION_WORDS if kind in bins}


def _draw_bars(axes: "Axes", bins: Mapping[str, Sequence[int]], y_ticks: Ticks) -> None:
    least = LEAST_SHARE * y_ticks[-1][0]
    tops = [0] * N_BINS
    for kind, counts in bins.items():
        for i, n in enumerate(counts):
            tops[i] += n
            if n:
                height = max(n, least)
                bars = axes.bar(
                    (i + 0.5) / N_BINS,
                    height,
                    0.91 / N_BINS,
                    bottom=tops[i] - height,
                    color=LIGHT[kind],
                )
                hover(bars.patches[0], f"{counted(n, 'image')} {DECISION_WORDS[kind]}")


def _draw_threshold(axes: "Axes", threshold: float, words: str) -> None:
    # The halo keeps the line apart from bars that are as dark.
    for colour, width in (("card", 4.8), ("ink", 1.6)):
        axes.axvline(threshold, ymax=1.04, color=LIGHT[colour], linewidth=width)
    toward_left = threshold > 0.5
    axes.annotate(
        words,
        (threshold, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-5 if toward_left else 5, 2),
        textcoords="offset points",
        ha="right" if toward_left else "left",
        weight="bold",
    )


def _draw_trust(axes: "Axes", confidence: float, share: float, n: int) -> None:
    colour = LIGHT["accept"]
    low, high = _plausible(share, n)
    axes.plot((confidence, confidence), (low, high), color=colour, linewidth=1.6, alpha=0.6)
    (dot,) = axes.plot(
        confidence,
        share,
        "o",
        color=colour,
        markersize=9.6,
        markeredgecolor=LIGHT["card"],
        markeredgewidth=1.6,
        zorder=3,
    )
    words = f"{counted(n, 'example')}: {percent(confidence)} sure, {share:.0%} right"
    hover(dot, words)


def _plausible(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval: where the true share is, 19 times of 20."""
    spread = Z_95 * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    middle, whole = share + Z_95**2 / (2 * n), 1 + Z_95**2 / n
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)
