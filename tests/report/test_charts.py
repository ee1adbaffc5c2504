import math
import re
from typing import Any

import pytest
import torch

from appl.labelling.left_out import LeftOut
from appl.labelling.rows import LabelRow
from appl.report.adaptation_charts import balance_chart, curve_charts
from appl.report.chart_axes import count_ticks
from appl.report.embedding import Chart
from appl.report.image_map import EDGE, WIDTH, fitted
from appl.report.label_charts import confidence_chart, trust_chart
from appl.report.words import listed, percent, short
from tests.report.fake_run import Page


def record(step: int, share: float) -> dict[str, Any]:
    values = {"iteration": step, "n_label_changes": 0, "selected_share": share}
    return values | {"support_accuracy": 1.0}


def painted(chart: Chart, style: str) -> list[dict[str, str]]:
    """Return the shapes of a chart that have a colour, but for those defined to be used."""
    drawn = Page(chart.svg).elements
    shapes = [v for tag, v in drawn if tag == "use" or (tag == "path" and "id" not in v)]
    return [values for values in shapes if style in values.get("style", "")]


@pytest.mark.parametrize(
    ("highest", "texts"),
    [
        (0, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (7, ["0", "2", "4", "6", "8"]),
        (41, ["0", "20", "40", "60"]),
        (9_900, ["0", "5,000", "10,000"]),
    ],
)
def test_ticks_are_round_and_cover_the_highest(highest: int, texts: list[str]) -> None:
    assert [text for _, text in count_ticks(highest)] == texts


def test_a_line_has_a_gap_where_a_value_is_not_finite() -> None:
    shares = (0.5, 0.6, math.nan, 0.7, 0.8)
    _, chart, _ = curve_charts([record(i + 1, share) for i, share in enumerate(shares)])
    lines = [path["d"] for path in painted(chart, "stroke: var(--accept)") if "d" in path]

    assert len(lines) == 1
    assert re.sub(r"[^A-Z]", "", lines[0]) == "MLML"


def test_places_run_from_the_lower_left() -> None:
    points = torch.tensor([[0.0, 0.0], [WIDTH - 2 * EDGE, 4.0]])
    low, high = fitted(points, 100.0).tolist()

    # The widest span fills the width; the other keeps its proportion, in the middle.
    assert low == [EDGE, 52.0]
    assert high == [WIDTH - EDGE, 48.0]
    assert fitted(torch.full((3, 2), 7.0), 100.0).tolist() == [[WIDTH / 2, 50.0]] * 3


def test_trust_places_the_share_of_right_labels() -> None:
    # Eight examples, each three quarters sure by softmax(log 3, 0); six are right.
    ids = torch.zeros(8, dtype=torch.int64)
    scores = torch.tensor([[math.log(3), 0.0]] * 6 + [[0.0, math.log(3)]] * 2)
    chart = trust_chart(LeftOut(torch.arange(8), ids, scores, torch.ones(8), torch.ones(8)), 1.0)

    assert chart is not None
    assert "8 examples: 75% sure, 75% right" in chart.svg


def test_curves_survive_one_step_and_no_numbers() -> None:
    charts = curve_charts([record(1, math.nan)])

    assert len(charts) == 3
    assert all("nan" not in chart.svg for chart in charts)


def test_a_column_has_a_bar_for_each_decision_and_says_its_count() -> None:
    decisions = {"accept": [0.92, 0.93, 0.71], "review": [0.72, 0.3]}
    rows = [
        LabelRow("a.png", "rust", sure, "healthy", 0.0, decision, 0.5, "")  # type: ignore[arg-type]
        for decision, confidences in decisions.items()
        for sure in confidences
    ]
    chart = confidence_chart(rows, 0.6)

    assert chart is not None
    assert [len(painted(chart, f"fill: var(--{kind})")) for kind in decisions] == [2, 2]
    titles = re.findall("<title>(.*?)</title>", chart.svg)
    assert titles == ["1 image accepted", "2 images accepted", *["1 image to review"] * 2]
    assert chart.legend == (("f-accept", "accepted"), ("f-review", "to review"))


def test_each_class_has_a_band_in_its_colour() -> None:
    records = [record(i, 0.5) | {"class_balance": [0.25, 0.5, 0.25]} for i in (1, 2)]
    chart = balance_chart(records, ["a", "b", "c"], {"a": 0, "c": 1})

    for style in ("k0", "k1", "other"):
        assert len(painted(chart, f"fill: var(--{style})")) == 1
    assert chart.legend == (("k0", "a"), ("k1", "c"), ("other", "other classes"))


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, ">99%"), (0.9949, "99%"), (0.5, "50%"), (0.001, "<1%"), (None, "–")],
)
def test_percents_do_not_overstate(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_long_names_keep_both_ends() -> None:
    assert short("a" * 50 + "z" * 50, 11) == "aaaaa…zzzzz"
    assert short("short", 11) == "short"
    assert listed(["a", "b", "c"]) == "a, b and c"
