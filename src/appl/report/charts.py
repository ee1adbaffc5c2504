"""The charts of the report: confidence, how far to trust it, and how the adaptation went."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from markupsafe import Markup

from appl.labelling.left_out import LeftOut
from appl.labelling.rows import LabelRow
from appl.report.svg import PERCENT_TICKS, Plot, Ticks, count_ticks, path_through, tag
from appl.report.words import DECISION_WORDS, counted, percent

N_BINS = 20
FEW_LEFT_OUT = 20
Z_95 = 1.96


@dataclass(frozen=True)
class Chart:
    """A picture, how to read it, and what its colours mean."""

    title: str
    how: str
    svg: Markup
    legend: tuple[tuple[str, str], ...] = ()  # (class in the style sheet, words)


def confidence_chart(rows: Sequence[LabelRow], threshold: float) -> Chart | None:
    """Draw how many images have which confidence, and from where on labels are accepted."""
    bins: dict[str, list[int]] = {}
    for row in rows:
        if row.confidence is not None:
            counts = bins.setdefault(row.decision, [0] * N_BINS)
            counts[min(int(row.confidence * N_BINS), N_BINS - 1)] += 1
    if not bins:
        return None
    kinds = [kind for kind in DECISION_WORDS if kind in bins]
    y_ticks = count_ticks(max(sum(column) for column in zip(*bins.values(), strict=True)))
    plot = Plot((0, 1), (0, y_ticks[-1][0]))
    parts = [plot.axes(PERCENT_TICKS, y_ticks, "confidence", "images")]
    for i in range(N_BINS):
        floor = 0
        left, right = plot.x(i / N_BINS) + 1, plot.x((i + 1) / N_BINS) - 1
        for kind in kinds:
            n = bins[kind][i]
            top, bottom = plot.y(floor + n), plot.y(floor)
            floor += n
            if n:
                words = f"{counted(n, 'image')} {DECISION_WORDS[kind]}"
                parts.append(
                    tag(
                        "rect",
                        tag("title", words),
                        class_=f"f-{kind}",
                        x=left,
                        y=top,
                        width=right - left,
                        height=max(bottom - top, 1.0),
                    )
                )
    at = plot.x(threshold)
    words = f"accepted above {percent(threshold)}" if threshold < 1 else "none is accepted"
    toward_left = threshold > 0.5
    line = {"x1": at, "x2": at, "y1": plot.top - 8, "y2": plot.height - plot.bottom}
    parts += [tag("line", class_=style, **line) for style in ("halo", "mark")]
    parts.append(
        tag(
            "text",
            words,
            class_="strong",
            x=at - 6 if toward_left else at + 6,
            y=plot.top,
            text_anchor="end" if toward_left else "start",
        )
    )
    return Chart(
        "How sure the labels are",
        "Each column counts the images with that confidence: the further right, the surer. Labels "
        "right of the line are accepted without you, the others wait for a look.",
        plot.drawing(f"Histogram of the confidence; {words}", *parts),
        tuple((f"f-{kind}", DECISION_WORDS[kind]) for kind in kinds),
    )


def trust_chart(left_out: LeftOut, temperature: float) -> Chart | None:
    """Draw whether confidence keeps its word on examples that the rule had not seen."""
    n = len(left_out)
    if n == 0:
        return None
    sure, judged = torch.softmax(left_out.scores / temperature, 1).max(1)
    right = (judged == left_out.class_ids)[sure.argsort()].tolist()
    plot = Plot((0, 1), (0, 1))
    parts = [
        plot.axes(PERCENT_TICKS, PERCENT_TICKS, "confidence", "really right"),
        tag("path", class_="guide", d=path_through([(plot.x(v), plot.y(v)) for v in (0, 1)])),
    ]
    n_bins = max(1, min(5, n // 8))
    edges = [n * i // n_bins for i in range(n_bins + 1)]
    for start, end in pairwise(edges):
        share = sum(right[start:end]) / (end - start)
        confidence = float(sure.sort().values[start:end].mean())
        low, high = _plausible(share, end - start)
        at = plot.x(confidence)
        words = f"{counted(end - start, 'example')}: {percent(confidence)} sure, {share:.0%} right"
        parts.append(tag("line", class_="spread", x1=at, x2=at, y1=plot.y(low), y2=plot.y(high)))
        parts.append(tag("circle", tag("title", words), class_="dot", cx=at, cy=plot.y(share), r=6))
    few = " That is too few to see anything." if n < FEW_LEFT_OUT else ""
    return Chart(
        "Can the confidence be trusted?",
        f"It rests on {counted(n, 'example')} of yours, each judged as if its class were unknown."
        f"{few} A dot on the dashed line keeps its word, one below it promises too much; the bars "
        "show how far chance alone may have moved it.",
        plot.drawing(f"Confidence against the share of right labels, {n} examples", *parts),
    )


def curve_charts(records: Sequence[dict[str, Any]]) -> list[Chart]:
    """Draw what changed from step to step while the software adapted itself."""
    # The first step has none before it to differ from.
    changes = [math.nan, *(float(record["n_label_changes"]) for record in records[1:])]
    finite = [value for value in changes if math.isfinite(value)]
    return [
        _curve(
            records,
            changes,
            count_ticks(max(finite, default=0)),
            ("Labels that changed", "images"),
            "How many differ from the step before. It should fall: then the labels settle.",
        ),
        _curve(
            records,
            [record["selected_share"] for record in records],
            PERCENT_TICKS,
            ("Images it felt sure about", "share of the images"),
            "Only these taught it something; it should rise or stay high.",
        ),
        _curve(
            records,
            [record["support_accuracy"] for record in records],
            PERCENT_TICKS,
            ("Your examples that it got right", "share of the examples"),
            "It should stay near 100%: a fall means that it forgets what you showed it.",
        ),
    ]


def balance_chart(
    records: Sequence[dict[str, Any]], class_names: Sequence[str], slots: dict[str, int]
) -> Chart:
    """Draw the share of every class among the labels, step by step, one upon the other."""
    plot = _steps_plot(records, (0, 1))
    words = {f"k{slot}": name for name, slot in slots.items()}
    if len(slots) < len(class_names):
        words["other"] = "other classes"
    bands = {style: [0.0] * len(records) for style in words}
    for class_id, name in enumerate(class_names):
        band = bands[f"k{slots[name]}" if name in slots else "other"]
        for step, record in enumerate(records):
            share = float(record["class_balance"][class_id])
            band[step] += share if math.isfinite(share) else 0.0
    steps = [plot.x(record["iteration"]) for record in records]
    tops = [list(accumulate(column)) for column in zip(*bands.values(), strict=True)]
    parts = []
    for i, style in enumerate(bands):
        upper = [(x, plot.y(column[i])) for x, column in zip(steps, tops, strict=True)]
        lower = [
            (x, plot.y(column[i - 1] if i else 0)) for x, column in zip(steps, tops, strict=True)
        ]
        parts.append(
            tag("path", class_=f"band {style}", d=path_through([*upper, *lower[::-1]], closed=True))
        )
    parts.append(plot.axes(_step_ticks(records), PERCENT_TICKS, "step", "share of the labels"))
    return Chart(
        "Share of each class",
        "Each band is a class; one that swallows the others would be a bad sign.",
        plot.drawing("Share of each class among the labels at every step", *parts),
        tuple(words.items()),
    )


def _curve(
    records: Sequence[dict[str, Any]],
    values: Sequence[float],
    y_ticks: Ticks,
    titles: tuple[str, str],
    how: str,
) -> Chart:
    plot = _steps_plot(records, (0, y_ticks[-1][0]))
    points = [
        (plot.x(record["iteration"]), plot.y(value))
        for record, value in zip(records, values, strict=True)
    ]
    parts = [
        plot.axes(_step_ticks(records), y_ticks, "step", titles[1]),
        tag("path", class_="curve", d=path_through(points)),
    ]
    if math.isfinite(points[-1][1]):
        parts.append(tag("circle", class_="dot", cx=points[-1][0], cy=points[-1][1], r=5))
    return Chart(titles[0], how, plot.drawing(f"{titles[0]} at every step", *parts))


def _steps_plot(records: Sequence[dict[str, Any]], y_range: tuple[float, float]) -> Plot:
    return Plot((records[0]["iteration"], records[-1]["iteration"]), y_range)


def _step_ticks(records: Sequence[dict[str, Any]]) -> Ticks:
    first, last = records[0]["iteration"], records[-1]["iteration"]
    inner = [(v, t) for v, t in count_ticks(last) if first < v <= last - (last - first) / 12]
    return [(float(step), str(step)) for step in dict.fromkeys((first, last))] + inner


def _plausible(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval: where the true share is, 19 times of 20."""
    spread = Z_95 * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    middle, whole = share + Z_95**2 / (2 * n), 1 + Z_95**2 / n
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)
