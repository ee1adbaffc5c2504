import math

import pytest
import torch

from appl.labelling.left_out import LeftOut
from appl.report.charts import curve_charts, trust_chart
from appl.report.image_map import EDGE, WIDTH, fitted
from appl.report.svg import count_ticks, path_through, tag
from appl.report.words import listed, percent, short


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
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, math.nan), (3.0, 4.5)]
    assert path_through(points) == "M0 1L1 2M3 4.5"


def test_elements_escape_what_they_hold() -> None:
    made = tag("text", "</svg><b>", class_='"x', text_anchor="end", x=1.25, y=None)
    assert made == ('<text class="&#34;x" text-anchor="end" x="1.2">&lt;/svg&gt;&lt;b&gt;</text>')


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
    record = {"iteration": 1, "n_label_changes": 0, "selected_share": math.nan}
    charts = curve_charts([record | {"support_accuracy": 1.0}])

    assert len(charts) == 3
    assert all("nan" not in chart.svg for chart in charts)


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
