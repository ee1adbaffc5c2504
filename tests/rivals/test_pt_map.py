import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from appl.rivals.pt_map import PTMAP
from tests.rivals.test_every_method import blobs


def plan_of(method: PTMAP, costs: torch.Tensor) -> torch.Tensor:
    return method.log_plan(costs.double()).exp()


@pytest.mark.parametrize("n_query", [48, 41])  # of four classes: 12, and no whole number
def test_every_class_gets_an_equal_share_of_the_queries(n_query: int) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    plan = PTMAP().scores(support, class_ids, query[:n_query].double()).exp()
    np.testing.assert_allclose(plan.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(plan.sum(0), n_query / 4, atol=1e-5)


def test_two_queries_of_two_classes_have_a_closed_form() -> None:
    """P = [[s, 1−s], [1−s, s]] with s/(1−s) = exp(−λ(a + d − b − c)/2)."""
    costs = torch.tensor([[0.1, 0.3], [0.2, 0.25]])
    odds = np.exp(-10 * (0.1 + 0.25 - 0.3 - 0.2) / 2)
    s = odds / (1 + odds)
    expected = [[s, 1 - s], [1 - s, s]]
    np.testing.assert_allclose(plan_of(PTMAP(), costs), expected, atol=1e-6)


def test_the_plan_between_no_cost_and_nothing_but_cost() -> None:
    costs = torch.rand(8, 4, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(plan_of(PTMAP(strength=0.0), costs), 0.25, atol=1e-9)
    # Two places in each class: the cheapest assignment of all, found by another algorithm.
    rows, columns = linear_sum_assignment(costs.repeat(1, 2).numpy())
    expected = np.zeros((8, 4))
    expected[rows, columns % 4] = 1
    hard = plan_of(PTMAP(strength=1000.0), costs)
    assert np.array_equal(hard.argmax(1).numpy(), expected.argmax(1))
    np.testing.assert_allclose(hard, expected, atol=1e-2)


def test_the_plan_is_that_of_plain_sweeps() -> None:
    costs = 4 * torch.rand(9, 3, generator=torch.Generator().manual_seed(0)).double()
    plan = torch.exp(-10 * costs)
    for _ in range(3000):
        plan = plan * (9 / 3 / plan.sum(0))
        plan = plan / plan.sum(1, keepdim=True)
    np.testing.assert_allclose(plan_of(PTMAP(), costs), plan, atol=1e-6)


def test_a_rotation_of_the_features_changes_nothing() -> None:
    """So that the authors' QR reduction, which is one, can be left out."""
    generator = torch.Generator().manual_seed(0)
    rotation = torch.linalg.qr(torch.randn(16, 16, generator=generator).double()).Q
    support, class_ids, query, _ = blobs(spread=0.3)
    support, query = support.double(), query.double()
    method = PTMAP()
    turned = method.assign(support @ rotation, class_ids, query @ rotation)
    np.testing.assert_allclose(turned, method.assign(support, class_ids, query), atol=1e-5)


def test_the_centres_go_a_share_of_the_way() -> None:
    """One iteration by hand, on three points of a line."""
    support, class_ids = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])
    query = torch.tensor([[0.1], [0.7]])
    points = query.double().numpy()
    plan = plan_of(PTMAP(), torch.tensor((points - np.array([[0.0, 1.0]])) ** 2)).numpy()
    means = (plan * points).sum(0) + np.array([0.0, 1.0])
    means = means / (plan.sum(0) + 1)
    centres = np.array([0.0, 1.0]) + 0.2 * (means - np.array([0.0, 1.0]))
    expected = plan_of(PTMAP(), torch.tensor((points - centres) ** 2))
    found = PTMAP(n_iterations=1).assign(support.double(), class_ids, query.double())
    np.testing.assert_allclose(found.exp(), expected, atol=1e-5)


def test_root_then_length_then_centre_then_length() -> None:
    """Each set by its own centre, as the authors do."""
    support, class_ids, query, _ = blobs(spread=0.3)

    def transformed(features):
        features = np.sqrt(features.double().numpy() + 1e-6)
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
        features = features - features.mean(0)
        return torch.from_numpy(features / np.linalg.norm(features, axis=1, keepdims=True))

    expected = PTMAP().assign(transformed(support), class_ids, transformed(query))
    scores = PTMAP().scores(support, class_ids, query)
    np.testing.assert_allclose(scores, expected, atol=1e-3, rtol=1e-4)


def test_features_below_zero_are_cut_off() -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    support, query = support - 0.3, query - 0.3
    method = PTMAP()
    scores = method.scores(support, class_ids, query)
    assert scores.isfinite().all()
    torch.testing.assert_close(
        scores, method.scores(support.clamp(min=0), class_ids, query.clamp(min=0))
    )


def test_one_query_alone_is_shared_out_evenly() -> None:
    support, class_ids, query, _ = blobs()
    scores = PTMAP().scores(support, class_ids, query[:1])
    np.testing.assert_allclose(scores.exp(), 0.25, atol=1e-5)
