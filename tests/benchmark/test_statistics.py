import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

from appl.benchmark.statistics import (
    Bin,
    calibration_error,
    estimate,
    mean_of,
    paired_difference,
    reliability_bins,
)


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
    # Differences of 10 and 12: s = √2, and t of one degree of freedom is 12.706.
    assert difference.interval == pytest.approx(12.7062, rel=1e-5)
    assert not difference.excludes_zero


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_the_interval_of_a_difference_is_that_of_scipys_t_test(differences: list[float]) -> None:
    ours = {episode: 50 + value for episode, value in enumerate(differences)}
    found = paired_difference(ours, dict.fromkeys(ours, 50.0))
    assume(max(differences) - min(differences) > 1e-3)  # scipy warns where all are alike
    low, high = stats.ttest_rel(list(ours.values()), [50.0] * len(ours)).confidence_interval()
    assert found.interval == pytest.approx((high - low) / 2, rel=1e-6)


def test_one_episode_decides_nothing() -> None:
    difference = paired_difference({3: 90.0}, {3: 10.0})
    assert (difference.mean, difference.n, difference.signed) == (80.0, 1, "+80.00")
    assert math.isnan(difference.interval) and not difference.excludes_zero
    assert not mean_of([difference, estimate([80.0, 81.0])]).excludes_zero


def test_mean_over_targets() -> None:
    whole = mean_of([estimate([0.0, 2.0]), estimate([10.0, 14.0])])
    assert whole.mean == 6.5
    spread = 1.96 / math.sqrt(2)
    assert whole.interval == pytest.approx(math.hypot(spread, 2 * spread) / 2)


def drawn_labels(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences over all of [0, 1], right somewhat less often than they say."""
    generator = np.random.default_rng(seed)
    confidence = generator.beta(2, 1, n)
    return confidence, generator.random(n) < 0.9 * confidence


@pytest.mark.golden
@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 100])
@pytest.mark.parametrize("n", [1, 7, 500])
def test_the_calibration_error_is_that_of_torchmetrics(n: int, n_bins: int) -> None:
    confidence, right = drawn_labels(n, seed=n_bins)
    theirs = binary_calibration_error(
        torch.from_numpy(confidence), torch.from_numpy(right).long(), n_bins=n_bins, norm="l1"
    )
    assert calibration_error(confidence, right, n_bins) == pytest.approx(theirs.item(), abs=1e-12)


@pytest.mark.golden
def test_the_calibration_error_of_the_likeliest_class_is_that_of_torchmetrics() -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.softmax(2 * torch.randn(400, 5, generator=generator), 1)
    class_ids = torch.multinomial(probs.sqrt(), 1, generator=generator)[:, 0]
    confidence, found = probs.max(1)
    # Its default number of bins is the field's 15, and ours.
    theirs = multiclass_calibration_error(probs, class_ids, num_classes=5, norm="l1")
    ours = calibration_error(confidence.numpy(), (found == class_ids).numpy())
    assert ours == pytest.approx(theirs.item(), abs=1e-6) and ours > 0.02


@pytest.mark.golden
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 15), st.booleans()), min_size=1, max_size=30),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_a_confidence_on_an_edge_counts_as_in_torchmetrics(
    pairs: list[tuple[int, bool]], n_bins: int
) -> None:
    # Sixteenths are exact, so every edge of the bins is hit. 1 is left out: see the next test.
    confidence = np.array([k / 16 for k, _ in pairs])
    right = np.array([r for _, r in pairs])
    theirs = binary_calibration_error(
        torch.from_numpy(confidence), torch.from_numpy(right).long(), n_bins=n_bins, norm="l1"
    )
    assert calibration_error(confidence, right, n_bins) == pytest.approx(theirs.item(), abs=1e-12)


@pytest.mark.golden
def test_certainty_belongs_to_the_last_bin() -> None:
    # |0.975 − 0.5|. torchmetrics gives 1 a bin of its own and says (0.05 + 1) / 2 = 0.525.
    assert calibration_error([0.95, 1.0], [True, False]) == pytest.approx(0.475)
    assert reliability_bins([0.95, 1.0, 0.0], [1, 0, 0]) == [
        Bin(0.0, 0.0, 1),
        Bin(pytest.approx(0.975), 0.5, 2),
    ]


@pytest.mark.golden
def test_a_written_edge_belongs_to_the_upper_bin() -> None:
    assert [b.n for b in reliability_bins([0.25, 0.3, 0.35], [1, 1, 1], n_bins=10)] == [1, 2]


@pytest.mark.golden
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_the_reliability_diagram_is_that_of_scikit_learn(n_bins: int) -> None:
    confidence, right = drawn_labels(300, seed=0)
    confidence[:20] = 1.0
    bins = reliability_bins(confidence, right, n_bins)
    right_share, mean_confidence = calibration_curve(right, confidence, n_bins=n_bins)
    assert [b.right_share for b in bins] == pytest.approx(right_share)
    assert [b.confidence for b in bins] == pytest.approx(mean_confidence)
    # scikit-learn gives no counts; numpy's histogram does.
    counts = np.histogram(confidence, n_bins, (0, 1))[0]
    assert [b.n for b in bins] == counts[counts > 0].tolist()


def test_the_calibration_error_of_nothing_is_not_a_number() -> None:
    assert math.isnan(calibration_error([], [])) and reliability_bins([], []) == []
