import pytest
import torch

from appl.core.seeds import generator_for
from appl.rivals._relevance import (
    relevance_weights,
    stabilised,
    start_relevance,
    through_linear,
    through_mixing,
    through_sum,
)

TINY = 1e-12


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator_for("relevance", *shape), dtype=torch.float64)


def test_chance_has_no_relevance_whatever_the_number_of_classes() -> None:
    for n_way in (2, 5, 20):
        even = start_relevance(torch.zeros(3, n_way), epsilon=1e-7)
        torch.testing.assert_close(even, torch.zeros(3, n_way), atol=1e-4, rtol=0)
    certain = start_relevance(torch.tensor([[50.0, 0, 0, 0, 0]]))
    assert certain[0, 0].item() == pytest.approx(torch.tensor(4 * 1.01 / 0.01).log().item(), 1e-4)
    assert certain[0, 1].item() == pytest.approx(torch.tensor(4 * 0.01 / 1.01).log().item(), 1e-4)


def test_a_linear_layer_is_gradient_times_input_and_conserves() -> None:
    x, weight = draw(4, 6).requires_grad_(), draw(3, 6)
    y = x @ weight.mT
    found = through_linear(x.detach(), weight, y.detach(), TINY)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(found, gradient * x.detach())
    relevance = draw(4, 3)
    found = through_linear(x.detach(), weight, relevance, TINY)
    torch.testing.assert_close(found.sum(1), relevance.sum(1))


def test_one_output_shares_out_by_products() -> None:
    found = through_linear(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 0.5]]), torch.ones(1), 0.0)
    torch.testing.assert_close(found, torch.tensor([0.75, 0.25]))


def test_mixing_conserves_and_gives_to_neighbours() -> None:
    mixing, x, relevance = draw(2, 5, 5).softmax(2), draw(2, 5, 3), draw(2, 5, 3)
    found = through_mixing(mixing, x, relevance, TINY)
    torch.testing.assert_close(found.sum(1), relevance.sum(1))
    alone = torch.zeros(5, 5, dtype=torch.float64)
    alone[:, 2] = 1  # everyone gathers from node 2
    found = through_mixing(alone, x[0], relevance[0], TINY)
    torch.testing.assert_close(found[2], relevance[0].sum(0))
    assert found[[0, 1, 3, 4]].abs().max() == 0


def test_a_sum_shares_out_in_proportion() -> None:
    parts, relevance = torch.tensor([[1.0, 3.0], [2.0, -1.0]]), torch.tensor([[8.0], [5.0]])
    expected = torch.tensor([[2.0, 6.0], [10.0, -5.0]])
    torch.testing.assert_close(through_sum(parts, relevance, 1, 0.0), expected)


def test_weights_lie_between_nothing_and_double() -> None:
    weights = relevance_weights(draw(4, 6), 1)
    assert weights.min() >= 0 and weights.max() <= 2
    extremes = torch.maximum(weights.amax(1) - 1, 1 - weights.amin(1))
    torch.testing.assert_close(extremes, torch.ones(4, dtype=torch.float64))
    assert torch.equal(relevance_weights(torch.zeros(2, 3), 1), torch.ones(2, 3))


def test_sums_stay_away_from_zero() -> None:
    expected = torch.tensor([0.01, 1.01, -1.01])
    torch.testing.assert_close(stabilised(torch.tensor([0.0, 1.0, -1.0])), expected)
