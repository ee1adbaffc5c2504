"""The audit's arithmetic: against scipy, by every way to place errors, and by simulation."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest, hypergeom

from appl.labelling.audit import (
    Certificate,
    Design,
    at_most,
    certify,
    draw_sample,
    fewest_wrong,
    interval,
    most_wrong,
    n_to_look,
    plan,
)

N_RUNS = 2000


def limits(design, confidence=0.95):
    """Return the ends of the interval and the bound, as counts, for each number found."""
    found = range(design.n_looked + 1)
    alpha = (1 - confidence) / 2
    low = np.array([fewest_wrong(x, design, alpha) for x in found])
    high = np.array([most_wrong(x, design, alpha) for x in found])
    bound = np.array([most_wrong(x, design, 2 * alpha) for x in found])
    return low, high, bound


@pytest.mark.parametrize("n_wrong", [0, 1, 2, 5, 17, 50, 99, 100])
def test_of_a_large_pile_it_is_the_interval_of_clopper_and_pearson(n_wrong):
    design = plan(10**8, 100)
    expected = binomtest(n_wrong, 100).proportion_ci(0.95, "exact")
    low, high = interval(n_wrong, design)
    # One wrong, or one right: Markov stands in for the binomial, a hundredth further out.
    assert low == pytest.approx(expected.low, rel=0.02, abs=1e-7) and low <= expected.low + 1e-7
    assert high == pytest.approx(expected.high, rel=1e-3) and high >= expected.high - 1e-7
    one_sided = binomtest(n_wrong, 100, alternative="less").proportion_ci(0.95, "exact").high
    assert at_most(n_wrong, design) == pytest.approx(one_sided, rel=1e-3)


def test_fifty_nine_without_a_fault_show_five_per_cent():
    assert at_most(0, Design((10**7,), (59,))) <= 0.05 < at_most(0, Design((10**7,), (58,)))
    assert n_to_look(10**6, 0.05) == 60  # of five strata, equally many from each
    assert n_to_look(10**6, 0.05, n_wrong=1) == 95  # one-sided Clopper–Pearson: 93
    assert n_to_look(10**6, 0.01) == 300
    assert n_to_look(200, 0.05) < 60 and n_to_look(40, 0.0) == 40


def test_when_all_were_looked_at_nothing_is_left_open():
    for n_accepted, n_wrong in ((1, 0), (1, 1), (75, 0), (75, 4), (1013, 1013), (40, 1)):
        design = plan(n_accepted, n_accepted)
        assert design.looked == design.sizes
        assert interval(n_wrong, design) == (n_wrong / n_accepted,) * 2
        assert at_most(n_wrong, design) == n_wrong / n_accepted


@pytest.mark.parametrize(("n_accepted", "n"), [(30, 10), (40, 28), (200, 60), (1000, 500)])
def test_a_small_pile_is_known_nearly_as_well_as_without_strata(n_accepted, n):
    """The hypergeometric interval of a plain sample is exact; ours is not much wider."""
    design = plan(n_accepted, n)
    n = design.n_looked
    for found in range(4):
        every = np.arange(n_accepted + 1)
        exact = every[hypergeom.cdf(found, n_accepted, every, n) > 0.05].max()
        binomial = every[binom.cdf(found, n, every / n_accepted) > 0.05].max()
        ours = most_wrong(found, design, 0.05)
        assert exact - 1 <= ours <= binomial
        assert ours <= exact * 1.1 + 2


@pytest.mark.parametrize(
    ("sizes", "looked"),
    [((9, 9), (4, 4)), ((10, 9), (6, 6)), ((6, 6, 5), (2, 2, 2)), ((7, 7, 7), (6, 6, 6))],
)
def test_coverage_is_kept_wherever_the_errors_lie(sizes, looked):
    """Every way to put errors into strata, every sample by its exact chance."""
    design = Design(sizes, looked)
    low, high, bound = limits(design)
    worst, worst_bound = 1.0, 1.0
    for wrong in itertools.product(*(range(size + 1) for size in sizes)):
        chances = np.ones(1)
        for size, drawn, bad in zip(sizes, looked, wrong, strict=True):
            chances = np.convolve(chances, hypergeom.pmf(np.arange(drawn + 1), size, bad, drawn))
        total = sum(wrong)
        worst = min(worst, chances[(low <= total) & (total <= high)].sum())
        worst_bound = min(worst_bound, chances[total <= bound].sum())
    assert worst >= 0.95 - 1e-9 and worst_bound >= 0.95 - 1e-9
    assert worst < 0.999  # an interval of everything would be no evidence


def crowded(kind, n_accepted, share):
    """Return the errors among labels that are ordered by confidence, and their classes."""
    draw = np.random.default_rng(7)
    classes = draw.integers(0, 8, n_accepted)
    n_wrong = round(share * n_accepted)
    order = {
        "anywhere": draw.permutation(n_accepted),
        "least sure": np.arange(n_accepted),
        "surest": np.arange(n_accepted)[::-1],
        "one class": np.argsort(classes, kind="stable"),
        "one end of each stratum": np.argsort(np.arange(n_accepted) % (n_accepted // 5)),
    }[kind]
    wrong = np.zeros(n_accepted, dtype=bool)
    wrong[order[:n_wrong]] = True
    return wrong, classes


@pytest.mark.parametrize(
    "kind", ["anywhere", "least sure", "surest", "one class", "one end of each stratum"]
)
@pytest.mark.parametrize(
    ("n_accepted", "n", "share"),
    [(1013, 60, 0.04), (1013, 60, 0.12), (77, 40, 0.08), (400, 300, 0.02)],
)
def test_two_thousand_audits_hold_what_they_promise(kind, n_accepted, n, share):
    wrong, _ = crowded(kind, n_accepted, share)
    confidences = np.linspace(0.5, 1, n_accepted)
    low, high, bound = limits(plan(n_accepted, n))
    chosen = np.array([draw_sample(confidences, n, seed).chosen for seed in range(N_RUNS)])
    found = wrong[chosen].sum(1)
    total = wrong.sum()
    assert np.mean((low[found] <= total) & (total <= high[found])) >= 0.95
    assert np.mean(total <= bound[found]) >= 0.95


def test_the_interval_of_a_class_holds_in_two_thousand_audits():
    wrong, classes = crowded("one class", 1013, 0.06)
    labels = [f"class {i}" for i in classes]
    confidences = np.linspace(0.5, 1, 1013)
    misses, n_given = np.zeros(8), np.zeros(8)
    truth = np.array([wrong[classes == i].mean() for i in range(8)])
    known = {}
    for seed in range(N_RUNS):
        sample = draw_sample(confidences, 90, seed)
        chosen = np.array(sample.chosen)
        for i in range(8):
            own = chosen[classes[chosen] == i]
            key = (i, len(own), int(wrong[own].sum()))
            if key not in known:
                verdicts = ["wrong" if wrong[c] else "right" for c in chosen]
                of_class = {c.name: c for c in certified(sample, verdicts, labels).classes}
                known[key] = of_class[f"class {i}"]
            count = known[key]
            if count.low is not None:
                n_given[i] += 1
                misses[i] += not count.low <= truth[i] <= count.high
    assert (n_given > 400).all() and (misses / n_given <= 0.05).all()


def certified(sample, verdicts, labels, wanted=0.05, **more):
    confidences = np.linspace(0.5, 1, sum(sample.sizes)).tolist()
    return certify(sample, verdicts, labels, confidences, wanted=wanted, **more)


def test_a_sample_is_stratified_seeded_and_grows_without_losing_any():
    confidences = np.random.default_rng(0).permutation(np.linspace(0, 1, 503))
    small, large = (draw_sample(confidences, n, 3) for n in (60, 95))
    assert set(small.chosen) < set(large.chosen) and len(set(large.chosen)) == 95
    assert small == draw_sample(confidences, 60, 3) != draw_sample(confidences, 60, 4)
    assert small.design.looked == (12,) * 5 and sum(small.sizes) == 503
    ranks = confidences.argsort().argsort()
    for chosen, stratum in zip(large.chosen, large.strata, strict=True):
        assert sum(large.sizes[:stratum]) <= ranks[chosen] < sum(large.sizes[: stratum + 1])
    assert set(draw_sample([0.9] * 30, 99, 0).chosen) == set(range(30))
    first = [draw_sample([0.99] * 300, 5, seed).chosen for seed in range(200)]
    assert len(set(np.array(first).ravel())) > 250  # equal confidences: nobody is left out


def test_a_certificate_counts_and_says_how_many_more():
    labels = ["rust"] * 150 + ["healthy"] * 150
    sample = draw_sample(np.linspace(0.5, 1, 300).tolist(), 60, 0)
    clean = certified(sample, ["right"] * 60, labels)
    assert clean.is_kept and clean.n_more == 0 and clean.share == clean.low == 0
    assert clean.at_most < clean.high  # one side is easier to promise than two
    assert [s.n_looked for s in clean.strata] == [12] * 5
    assert clean.strata[0].least_confidence == 0.5 and clean.strata[-1].most_confidence == 1
    assert sum(c.n_looked for c in clean.classes) == 60
    assert all(c.high is not None and c.high < 0.2 for c in clean.classes)

    verdicts = ["wrong", "unsure"] + ["right"] * 58
    doubtful = certified(sample, verdicts, labels)
    assert (doubtful.n_wrong, doubtful.n_unsure) == (1, 1) and not doubtful.is_kept
    assert doubtful.share == pytest.approx(1 / 60)
    # Who cannot tell is counted against the labels above, for them below.
    assert doubtful.at_most == at_most(2, sample.design)
    assert doubtful.low == interval(1, sample.design)[0]
    assert doubtful.n_more > 0
    enough = plan(300, 60 + doubtful.n_more)
    assert at_most(2, enough) <= 0.05 < at_most(2, plan(300, enough.n_looked - 5))
    hopeless = certified(sample, ["wrong"] * 20 + ["right"] * 40, labels)
    assert hopeless.n_more_at_this_rate is None
    slow = certified(sample, ["wrong"] + ["right"] * 59, labels, wanted=0.03)
    assert slow.n_more_at_this_rate >= slow.n_more > 0
    assert Certificate.of_dict(doubtful.to_dict()) == doubtful


def test_a_class_of_which_too_few_were_seen_has_no_interval():
    labels = ["common"] * 290 + ["rare"] * 10
    sample = draw_sample(np.linspace(0.5, 1, 300).tolist(), 60, 0)
    common, rare = certified(sample, ["right"] * 60, labels).classes
    assert common.low == 0 and common.high > 0
    assert rare.low is None and rare.high is None and rare.n_accepted == 10
    whole = draw_sample(np.linspace(0.5, 1, 300).tolist(), 300, 0)
    rare = certified(whole, ["right"] * 300, labels).classes[1]
    assert (rare.low, rare.high) == (0, 0)  # few, but all of them
