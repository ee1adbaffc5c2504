import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mapie.risk_control import MultiLabelClassificationController
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from appl.labelling import confidence as module
from appl.labelling.confidence import PRIOR_DEVIATION, fit_acceptance, fit_temperature
from appl.labelling.left_out import LeftOut


def left_out(scores, class_ids):
    n = len(class_ids)
    return LeftOut(torch.arange(n), class_ids, scores, torch.zeros(n), torch.zeros(n))


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


GRID_STEP = 0.01  # of log T in fit_temperature


def drawn_scores(n, n_way, sharpness, seed):
    """Scores that are too sharp by a factor, and the classes that the true ones give."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, n_way, generator=generator, dtype=torch.float64)
    ids = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return sharpness * logits, ids


class GivenScores(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its scores, so that scikit-learn has only T to find."""

    def fit(self, scores, class_ids):
        self.classes_ = np.unique(class_ids)
        return self

    def decision_function(self, scores):
        # Two classes are one number to scikit-learn, x, which stands for the scores (−x, x).
        return scores if scores.shape[1] > 2 else (scores[:, 1] - scores[:, 0]) / 2

    def predict(self, scores):
        return self.classes_[scores.argmax(1)]


def temperature_of_scikit_learn(scores, class_ids):
    scores, class_ids = scores.numpy(), class_ids.numpy()
    frozen = FrozenEstimator(GivenScores().fit(scores, class_ids))
    fitted = CalibratedClassifierCV(frozen, method="temperature", cv=2).fit(scores, class_ids)
    # The ratio of two probabilities gives the T away: log(p0 / p1) = (s0 − s1) / T. The scores must
    # not add up to 1, or scikit-learn takes them for probabilities.
    probe = np.zeros((1, scores.shape[1]))
    probe[0, 0] = 2.0
    probs = fitted.predict_proba(probe)[0]
    return 2 / math.log(probs[0] / probs[1])


@pytest.mark.golden
@pytest.mark.parametrize("n_way", [2, 3, 10])
@pytest.mark.parametrize(("n", "sharpness"), [(60, 0.5), (60, 3.0), (500, 1.0), (500, 6.0)])
def test_with_a_flat_prior_the_temperature_is_that_of_scikit_learn(
    monkeypatch, n, n_way, sharpness
):
    monkeypatch.setattr(module, "PRIOR_DEVIATION", 1e6)
    scores, ids = drawn_scores(n, n_way, sharpness, seed=n_way)
    theirs = temperature_of_scikit_learn(scores, ids)
    ours = fit_temperature(left_out(scores, ids), 1.3)
    assert abs(math.log(ours / theirs)) < GRID_STEP


@pytest.mark.golden
@pytest.mark.parametrize("n", [1, 5, 25, 200])
@pytest.mark.parametrize("prior", [0.5, 2.0])
def test_the_temperature_is_the_mode_that_scipy_finds(n, prior):
    scores, ids = drawn_scores(n, 4, sharpness=4.0, seed=n)

    def loss(log_t):
        probs = softmax(scores.numpy() / math.exp(log_t), axis=1)
        credit = log_loss(ids.numpy(), probs, normalize=False, labels=range(4))
        return credit + (log_t - math.log(prior)) ** 2 / (2 * PRIOR_DEVIATION**2)

    theirs = minimize_scalar(loss, bounds=(-3, 3), options={"xatol": 1e-6}).x
    found = math.log(fit_temperature(left_out(scores, ids), prior))
    assert abs(found - theirs) < GRID_STEP


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


def accepted_by_mapie(confidence, right, level, new):
    """Tell which new labels MAPIE's conformal risk control would accept; one example is wrong.

    It bounds the share of a picture's labels that are missing from {label: prob > λ}. A picture
    with one label, of probability 1 − confidence if we are wrong and 1 if we are right, has that
    label missing where we are wrong and our confidence is at least 1 − λ: accepted and wrong.
    """
    probs = np.where(right, 1.0, 1 - confidence)[:, None]
    control = MultiLabelClassificationController(
        lambda given: given,
        risk="recall",
        method="crc",
        # The paper asks for a risk of at most the level, MAPIE for one below it.
        target_level=1 - (level + 1e-9),
        # Between the thirty-seconds that the confidences are, from none accepted to all.
        predict_params=np.arange(-1, 64, 2) / 64,
    )
    control.calibrate(probs, np.ones_like(probs))
    return ~control.predict(1 - new[:, None])[:, 0, 0]


@pytest.mark.golden
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 32), st.booleans()), min_size=2, max_size=20), st.data())
def test_what_is_accepted_is_what_mapie_accepts(pairs, data):
    confidence = np.array([k / 32 for k, _ in pairs])
    right = np.array([r for _, r in pairs])
    assume(not right.all())  # without a wrong one MAPIE cannot tell which way the risk goes
    # On a level that n examples can give, and between two of them.
    n = len(pairs)
    steps = data.draw(st.integers(1, n)) + data.draw(st.sampled_from([0, 0.3, 0.9]))
    found = fit_acceptance(torch.tensor(confidence), torch.tensor(right), steps / (n + 1))
    new = np.arange(1, 33) / 32
    theirs = accepted_by_mapie(confidence, right, steps / (n + 1), new)
    assert found.accepts(torch.tensor(new)).tolist() == theirs.tolist()


@pytest.mark.golden
@pytest.mark.parametrize("wanted", ["0.01", "0.05", "0.07", "0.1", "0.29", "0.3", "0.58"])
def test_the_threshold_is_the_quantile_of_split_conformal_prediction(wanted):
    """Its rank ⌈(n + 1)(1 − α)⌉ in exact fractions, among confidences where a right label has 0."""
    generator = torch.Generator().manual_seed(0)
    level = Fraction(wanted)
    for n in range(math.ceil(1 / level) - 1, 301):
        confidence = torch.rand(n, generator=generator)
        right = torch.rand(n, generator=generator) < 0.3
        rank = math.ceil((n + 1) * (1 - level))
        quantile = np.sort(np.where(right, 0, confidence))[rank - 1]
        assert fit_acceptance(confidence, right, float(wanted)).threshold == quantile, n


def n_wrong_and_accepted_when_left_out(confidence, right, wanted):
    """Judge every example by the threshold that all the others give."""
    n_broken = 0
    for i in range(len(confidence)):
        others = torch.arange(len(confidence)) != i
        found = fit_acceptance(confidence[others], right[others], wanted)
        n_broken += bool(found.accepts(confidence[i]) & ~right[i])
    return n_broken, found.promised


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=2, max_size=25),
    st.floats(0.01, 0.99),
)
def test_the_promise_holds_exactly_over_all_choices_of_the_new_image(pairs, wanted):
    """The theorem without a simulation: whichever of n + 1 images is the new one, on average."""
    confidence = torch.tensor([k / 12 for k, _ in pairs])
    right = torch.tensor([r for _, r in pairs])
    n_broken, promised = n_wrong_and_accepted_when_left_out(confidence, right, wanted)
    assert n_broken <= promised * len(pairs) + 1e-6


@pytest.mark.parametrize("n_images", [2, 10, 20, 41])
@pytest.mark.parametrize("wanted", ["0.05", "0.1", "0.3", "0.55"])
def test_the_promise_is_not_kept_by_more_than_is_needed(n_images, wanted):
    """All are wrong and none tied: as many are accepted as the level lets through, not one less."""
    confidence = torch.linspace(0.1, 0.9, n_images)
    right = torch.zeros(n_images, dtype=torch.bool)
    n_broken, _ = n_wrong_and_accepted_when_left_out(confidence, right, float(wanted))
    assert n_broken == max(1, math.floor(Fraction(wanted) * n_images))
