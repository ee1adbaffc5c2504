import numpy as np
import pytest
import torch
import torch.nn.functional as F

from appl.core.distances import class_means
from appl.core.information import descend, information_scores
from appl.errors import SettingsError
from appl.rivals.alpha_tim import AlphaTIM, alpha_entropy
from appl.rivals.tim import TIM
from tests.rivals.test_every_method import blobs

QUICK = dict(n_iterations=100, rate=1e-3)


def unit_task():
    support, class_ids, query, _ = blobs(spread=0.3)
    support, query = F.normalize(support, dim=1).double(), F.normalize(query, dim=1).double()
    return class_means(support, class_ids, 4), support, class_ids, query


@pytest.mark.parametrize("alpha", [1.0, 1.0001])
def test_alpha_one_is_tim(alpha: float) -> None:
    task = unit_task()
    tim = TIM(support_weight=1.0, marginal_weight=1.0, conditional_weight=1.0)
    value = float(AlphaTIM(alpha=alpha).objective(*task))
    assert value == pytest.approx(float(tim.objective(*task)), abs=1e-3)
    assert value != pytest.approx(float(AlphaTIM(alpha=2.0).objective(*task)), abs=1e-1)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 5.0, 7.0])
def test_entropy_of_equal_shares(alpha: float) -> None:
    expected = np.log(5) if alpha == 1 else (1 - 5 ** (1 - alpha)) / (alpha - 1)
    assert float(alpha_entropy(torch.full((5,), 0.2), alpha)) == pytest.approx(expected, abs=1e-6)
    assert float(alpha_entropy(torch.eye(5)[0], alpha)) == pytest.approx(0, abs=1e-6)


def test_objective_by_hand() -> None:
    """Two classes on one axis, one support each, one query in the middle and one at a support."""
    method = AlphaTIM(alpha=3.0, temperature=2.0, marginal_weight=2.0, conditional_weight=5.0)
    weights = torch.tensor([[0.0], [1.0]])
    query = torch.tensor([[0.5], [0.0]])
    p = 1 / (1 + np.exp(-1))  # distance² 0 against 1, times τ/2 = 1

    def entropy(share):
        return (1 - share**3 - (1 - share) ** 3) / 2

    marginal = (0.5 + p) / 2
    expected = -np.log(p) - 2 * entropy(marginal) + 5 * (entropy(0.5) + entropy(p)) / 2
    value = method.objective(weights, weights, torch.tensor([0, 1]), query)
    assert float(value) == pytest.approx(expected, abs=1e-6)


def test_the_slope_is_finite_where_a_class_is_not_used() -> None:
    probs = torch.tensor([1.0, 0.0], requires_grad=True)
    alpha_entropy(probs, 2.0).backward()
    assert probs.grad is not None and torch.equal(probs.grad, torch.tensor([-2.0, 0.0]))


def test_an_uneven_pile_is_pulled_less_to_equal_shares() -> None:
    support, class_ids, query, answers = blobs(spread=0.3, n_query=30)
    pile = query[answers <= 1]  # two of the four classes
    shares = [
        torch.softmax(AlphaTIM(alpha=alpha, **QUICK).scores(support, class_ids, pile), 1)
        .mean(0)[:2]
        .sum()
        for alpha in (1.0, 7.0)
    ]
    assert shares[1] > shares[0] + 0.02


def test_descent_lowers_the_objective_from_the_class_means() -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    support, query = F.normalize(support, dim=1), F.normalize(query, dim=1)
    means = class_means(support, class_ids, 4)
    none = AlphaTIM(features="unit", n_iterations=0)
    torch.testing.assert_close(
        none.scores(support, class_ids, query),
        -7.5 * torch.cdist(query, means).square(),
        atol=1e-4,
        rtol=0,
    )
    moved = descend(lambda w: none.objective(w, support, class_ids, query), means, 100, 1e-3)
    before, after = (float(none.objective(w, support, class_ids, query)) for w in (means, moved))
    assert after < before - 1e-2
    expected = information_scores(query, moved)
    scores = AlphaTIM(features="unit", **QUICK).scores(support, class_ids, query)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=0)


def test_an_alpha_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="alpha"):
        AlphaTIM(alpha=0.5)
