import math

import pytest

from appl.benchmark.statistics import estimate, mean_of, paired_difference


def test_interval_is_the_fields_own() -> None:
    value = estimate([50.0, 60.0, 70.0])
    assert value.mean == 60.0
    # Population deviation √(200/3), over √3.
    assert value.interval == pytest.approx(1.96 * math.sqrt(200 / 3) / math.sqrt(3))


def test_nothing_is_not_a_number() -> None:
    assert math.isnan(estimate([]).mean) and estimate([]).n == 0
    assert not estimate([]).excludes_zero


def test_pairs_are_the_shared_episodes_only() -> None:
    difference = paired_difference({0: 60.0, 1: 70.0, 5: 1.0}, {0: 50.0, 1: 58.0, 9: 99.0})
    assert (difference.mean, difference.n) == (11.0, 2)
    assert difference.interval == pytest.approx(1.96 / math.sqrt(2))
    assert difference.excludes_zero


def test_mean_over_targets() -> None:
    whole = mean_of([estimate([0.0, 2.0]), estimate([10.0, 14.0])])
    assert whole.mean == 6.5
    spread = 1.96 / math.sqrt(2)
    assert whole.interval == pytest.approx(math.hypot(spread, 2 * spread) / 2)
