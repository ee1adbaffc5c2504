from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from appl.core.distances import class_means
from appl.core.information import information_weights
from appl.errors import SettingsError
from appl.rivals.tim import TIM
from tests.rivals.test_every_method import blobs


def unit_task():
    support, class_ids, query, answers = blobs(spread=0.3)
    return F.normalize(support, dim=1), class_ids, F.normalize(query, dim=1), answers


def test_alternation_lowers_the_objective_at_every_iteration() -> None:
    support, class_ids, query, _ = unit_task()
    values = []
    for n_iterations in range(12):
        method = TIM(features="unit", n_iterations=n_iterations)
        weights = information_weights(support, class_ids, query, n_iterations=n_iterations)
        values.append(float(method.objective(weights, support, class_ids, query)))
    assert all(after <= before + 1e-6 for before, after in pairwise(values))
    assert values[-1] < values[0] - 1e-3


def test_objective_by_hand() -> None:
    """Two classes on one axis, one support each, one query in the middle and one at a support."""
    method = TIM(temperature=2.0, support_weight=0.5, marginal_weight=2.0, conditional_weight=3.0)
    weights = torch.tensor([[0.0], [1.0]])
    support, class_ids = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])
    query = torch.tensor([[0.5], [0.0]])
    p = 1 / (1 + np.exp(-1))  # distance² 0 against 1, times τ/2 = 1
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    marginal = (0.5 + p) / 2
    marginal_entropy = -(marginal * np.log(marginal) + (1 - marginal) * np.log(1 - marginal))
    expected = 0.5 * -np.log(p) - 2 * marginal_entropy + 3 * (np.log(2) + entropy) / 2
    value = method.objective(weights, support, class_ids, query)
    assert float(value) == pytest.approx(expected, abs=1e-6)


def test_both_solvers_reach_about_the_same_answer() -> None:
    support, class_ids, query, answers = blobs(spread=0.15)
    right = [
        (method.scores(support, class_ids, query).argmax(1) == answers).float().mean().item()
        for method in (TIM(), TIM(solver="gradient", n_iterations=300, rate=1e-3))
    ]
    assert min(right) > 0.95


def test_no_iterations_is_the_nearest_class_mean() -> None:
    support, class_ids, query, _ = unit_task()
    scores = TIM(features="unit", n_iterations=0).scores(support, class_ids, query)
    distances = torch.cdist(query, class_means(support, class_ids, 4)).square()
    torch.testing.assert_close(scores, -7.5 * distances, atol=1e-4, rtol=1e-4)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(SettingsError, match="marginal_weight"):
        TIM(marginal_weight=-1.0)
