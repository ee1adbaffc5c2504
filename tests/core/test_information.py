import math

import pytest
import torch
import torch.nn.functional as F

from appl.core.distances import class_means
from appl.core.information import information_scores, information_weights, marginal_weight_for


def blobs(counts, spread=0.25, seed=0):
    """Unit vectors around random directions, so many queries of each class."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(len(counts), 12, generator=generator)

    def draw(ids):
        noise = spread * torch.randn(len(ids), 12, generator=generator) * centres.norm(dim=1).mean()
        return F.normalize(centres[ids] + noise, dim=1)

    class_ids = torch.arange(len(counts)).repeat_interleave(2)
    answers = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return draw(class_ids), class_ids, draw(answers), answers


def shares(marginal_weight, task):
    support, class_ids, query, _ = task
    weights = information_weights(support, class_ids, query, marginal_weight=marginal_weight)
    return torch.softmax(information_scores(query, weights), 1).mean(0)


def test_one_step_by_the_formulas_written_out() -> None:
    support, class_ids, query, _ = blobs([4, 3, 5])
    w = class_means(support, class_ids, 3)
    tau, lam, a, c = 10.0, 0.5, 0.7, 0.2
    found = information_weights(
        support, class_ids, query, n_iterations=1,
        temperature=tau, support_weight=lam, marginal_weight=a, conditional_weight=c,
    )  # fmt: skip
    p_s, p_q = (torch.softmax(-tau / 2 * torch.cdist(x, w).square(), 1) for x in (support, query))
    q = p_q ** (1 + c) / (p_q ** (1 + c)).sum(0) ** (a / (1 + a))
    q /= q.sum(1, keepdim=True)
    kappa, rho = lam / (1 + c), len(support) / len(query)
    for n in range(3):
        top, bottom = torch.zeros(12), 0.0
        for z, y, p in zip(support, class_ids == n, p_s[:, n], strict=True):
            top += kappa * (y * z + p * (w[n] - z))
            bottom += kappa * y
        for z, label, p in zip(query, q[:, n], p_q[:, n], strict=True):
            top += rho * (label * z + p * (w[n] - z))
            bottom += rho * label
        torch.testing.assert_close(found[n], top / bottom, atol=1e-5, rtol=1e-5)


def test_a_strong_pull_makes_shares_even_and_a_weak_one_leaves_them() -> None:
    task = blobs([40, 5, 5], spread=0.6)
    strong, weak = shares(5.0, task), shares(0.02, task)
    assert strong.tolist() == pytest.approx([1 / 3] * 3, abs=0.05)
    assert weak[0] > 0.55  # of 0.8 in truth


def test_no_steps_give_the_class_means() -> None:
    support, class_ids, query, _ = blobs([3, 3])
    weights = information_weights(support, class_ids, query, n_iterations=0)
    torch.testing.assert_close(weights, class_means(support, class_ids, 2))


def fitting(task, **changes):
    support, class_ids, query, _ = task
    settings = {
        "marginal_weight": 1.0,
        "least_marginal_weight": 0.04,
        "uneven_at": 0.035,
        "n_iterations": 20,
    }
    settings |= {"temperature": 15.0, "support_weight": 3.0, "conditional_weight": 0.1} | changes
    return marginal_weight_for(support, class_ids, query, **settings)


def test_the_pull_to_equal_shares_fits_the_pile() -> None:
    assert fitting(blobs([20, 20, 20])) > 0.9
    assert fitting(blobs([50, 5, 5])) < 0.05


def test_the_fitting_pull_by_the_formula_written_out() -> None:
    task = blobs([11, 10, 9], spread=0.5)
    support, class_ids, query, _ = task
    weights = information_weights(
        support, class_ids, query,
        n_iterations=20, support_weight=3.0, marginal_weight=0.04, conditional_weight=0.1,
    )  # fmt: skip
    shares = torch.softmax(information_scores(query, weights), 1).mean(0)
    divergence = sum(share * math.log(3 * share) for share in shares.tolist())
    expected = 0.04 + 0.96 * math.exp(-((divergence / 0.035) ** 2))
    assert 0.05 < expected < 0.95
    assert fitting(task) == pytest.approx(expected, rel=1e-4)


def test_the_weakest_pull_is_what_asks_how_even_a_pile_is() -> None:
    # A stronger one would find the equal shares that it brings about.
    task = blobs([30, 10, 10], spread=0.8)
    assert shares(1.0, task).amax() < shares(0.04, task).amax() - 0.1
    assert fitting(task) < 0.05


def test_one_pull_for_all_piles_where_least_and_most_are_the_same() -> None:
    assert fitting(blobs([50, 5, 5]), least_marginal_weight=1.0) == 1.0
