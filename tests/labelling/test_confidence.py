import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appl.labelling.confidence import PRIOR_DEVIATION, fit_acceptance, fit_temperature
from appl.labelling.left_out import LeftOut


def left_out(scores, class_ids):
    n = len(class_ids)
    return LeftOut(torch.arange(n), class_ids, scores, torch.zeros(n))


def test_without_examples_the_temperature_is_the_prior():
    assert fit_temperature(left_out(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)), 2.5) == (
        pytest.approx(2.5)
    )


@pytest.mark.golden
def test_with_many_examples_the_temperature_is_the_true_one():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 4, generator=generator)
    ids = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    # Scores that are three times too sharp need T = 3.
    assert fit_temperature(left_out(3 * logits, ids), 1.0) == pytest.approx(3.0, rel=0.06)


@pytest.mark.golden
def test_few_examples_are_weighed_against_the_prior():
    # One example, two classes, right by d: −log p(T) = log(1 + e^(−d/T)); add the prior's part.
    d, prior = 2.0, 1.5

    def loss(t):
        return math.log1p(math.exp(-d / t)) + (math.log(t) - math.log(prior)) ** 2 / (
            2 * PRIOR_DEVIATION**2
        )

    best = min((loss(t / 1000), t / 1000) for t in range(100, 5000))[1]
    found = fit_temperature(left_out(torch.tensor([[d, 0.0]]), torch.tensor([0])), prior)
    assert found == pytest.approx(best, rel=0.02)


@pytest.mark.golden
def test_the_threshold_by_hand():
    confidence = torch.tensor([0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
    right = torch.tensor([1, 1, 0, 1, 0, 1, 1, 0, 1], dtype=torch.bool)
    # n = 9, so (k + 1) / 10 <= level. Level .1: k = 0, above .9. Level .2: k = 1, above .7.
    assert fit_acceptance(confidence, right, 0.1).threshold == pytest.approx(0.9)
    assert fit_acceptance(confidence, right, 0.2).threshold == pytest.approx(0.7)
    assert fit_acceptance(confidence, right, 0.3).threshold == pytest.approx(0.4)
    assert fit_acceptance(confidence, right, 0.4).threshold == 0


def test_no_level_below_one_over_n_plus_one_is_promised():
    confidence, right = torch.full((9,), 0.9), torch.ones(9, dtype=torch.bool)
    found = fit_acceptance(confidence, right, 0.05)
    assert found.promised == pytest.approx(0.1) and not found.is_kept
    assert fit_acceptance(confidence, right, 0.1).is_kept


def test_without_examples_nothing_is_accepted():
    found = fit_acceptance(torch.zeros(0), torch.zeros(0, dtype=torch.bool), 0.05)
    assert found.promised == 1 and not found.accepts(torch.tensor([1.0])).any()


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=1, max_size=60),
    st.floats(0.001, 0.999),
)
def test_the_promise_holds_on_the_examples_themselves_and_no_lower_threshold_keeps_it(pairs, level):
    confidence = torch.tensor([c for c, _ in pairs])
    right = torch.tensor([r for _, r in pairs])
    found = fit_acceptance(confidence, right, level)
    wrong = (found.accepts(confidence) & ~right).sum().item()
    assert (wrong + 1) / (len(pairs) + 1) <= found.promised + 1e-6
    lower = confidence[~right & (confidence <= found.threshold)]
    if len(lower) and found.threshold < 1:
        too_many = ((confidence >= lower.max()) & ~right).sum().item()
        assert (too_many + 1) / (len(pairs) + 1) > found.promised - 1e-6


def test_the_promise_holds_on_new_images_on_average():
    """Exchangeable scores, many draws: wrong and accepted stays below the level."""
    generator = torch.Generator().manual_seed(0)
    n, level, total = 25, 0.1, 0.0
    for _ in range(400):
        confidence = torch.rand(n + 200, generator=generator)
        right = torch.rand(n + 200, generator=generator) < 0.4 + 0.6 * confidence
        found = fit_acceptance(confidence[:n], right[:n], level)
        total += (found.accepts(confidence[n:]) & ~right[n:]).float().mean().item()
    assert 0.05 < total / 400 <= level + 0.005
