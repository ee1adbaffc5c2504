import numpy as np
import pytest
import torch
from torch import nn

from appl.core.propagation import diffuse
from appl.rivals.tpn import TPN, nearest_weights
from tests.conftest import encoder_of_width, make_episode, make_small_encoder


class Constant(nn.Module):
    """σ of every image."""

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.sigma = sigma

    def forward(self, maps):
        return maps.new_full((len(maps), 1), self.sigma)


@torch.no_grad()
def expected(encoder, task, sigma: float, k: int, alpha: float) -> np.ndarray:
    """F as a limit: F ← αSF + (1 − α)Y, with numpy; equal shots."""
    x = encoder.encode(task.images()).double().numpy() / sigma
    weights = np.exp(-0.5 * np.square(x[:, None] - x[None]).mean(2))
    keeps = np.zeros_like(weights, dtype=bool)
    for row, kept in zip(weights, keeps, strict=True):
        kept[np.argsort(-row, kind="stable")[:k]] = True
    weights = weights * (keeps | keeps.T)
    root = 1 / np.sqrt(weights.sum(1))
    similarity = root[:, None] * weights * root
    start = np.zeros((len(x), 3))
    start[np.arange(task.n_support), task.class_ids.numpy()] = 1
    spread = np.zeros_like(start)
    for _ in range(3000):
        spread = alpha * similarity @ spread + (1 - alpha) * start
    return spread[task.n_support :] / (1 - alpha)


@pytest.mark.parametrize(("sigma", "k", "alpha"), [(1.0, 6, 0.99), (0.3, 20, 0.9)])
@torch.no_grad()
def test_the_closed_form_is_the_limit_of_the_iteration(sigma, k, alpha) -> None:
    encoder, task = make_small_encoder(), make_episode(noise=0.3).task
    method = TPN(alpha=alpha, n_neighbours=k, batch_norm="running")
    scores = method.answer(encoder, Constant(sigma), task)
    assert (scores >= 0).all() and scores.std() > 1e-2
    np.testing.assert_allclose(
        scores.numpy(), expected(encoder, task, sigma, k, alpha), rtol=1e-4, atol=1e-4
    )


def test_diffusion_solves_its_equation() -> None:
    torch.manual_seed(0)
    weights = torch.rand(6, 6, dtype=torch.float64)
    weights, start = weights + weights.mT, torch.rand(6, 2, dtype=torch.float64)
    root = weights.sum(1).rsqrt()
    spread = diffuse(weights, start, 0.7)
    again = 0.7 * (root[:, None] * weights * root) @ spread + start
    torch.testing.assert_close(again, spread)


def test_neighbours_are_kept_if_one_of_the_two_wants_them() -> None:
    points = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    weights = nearest_weights(points, 2)
    assert weights[1, 2] == weights[2, 1] == pytest.approx(np.exp(-2))  # 2 wants 1, not 1 wants 2
    assert weights[0, 2] == weights[2, 0] == 0
    assert (weights.diagonal() == 1).all()


@torch.no_grad()
def test_a_scale_of_zero_and_one_below_zero_are_harmless() -> None:
    encoder, task = make_small_encoder(), make_episode(noise=0.3).task
    assert TPN().answer(encoder, Constant(0.0), task).isfinite().all()
    plus, minus = (TPN().answer(encoder, Constant(sigma), task) for sigma in (0.5, -0.5))
    assert torch.equal(plus, minus)


@torch.no_grad()
def test_a_class_with_more_supports_has_no_more_weight() -> None:
    """With images that all look alike only the labels' mass is left to decide."""
    task = make_episode(shots=[1, 2, 5]).task
    scores = TPN().answer(make_small_encoder(), Constant(1e9), task)
    torch.testing.assert_close(scores, scores[:, :1].expand(-1, 3), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("side", [1, 2, 3, 7, 10])
def test_the_scale_comes_from_maps_of_any_size(side) -> None:
    head = TPN().build_head(encoder_of_width(4), 5)
    assert head(torch.rand(6, 4, side, side)).shape == (6, 1)


def test_the_head_has_the_published_size() -> None:
    n_parameters = sum(p.numel() for p in TPN().build_head(encoder_of_width(512), 5).parameters())
    assert round(n_parameters / 1e6, 2) == 2.37


@torch.no_grad()
def test_batch_norms_use_the_task_and_remember_nothing() -> None:
    encoder, task = make_small_encoder(), make_episode(noise=0.3).task
    head = TPN().build_head(encoder, 3).eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    own, remembered = (
        TPN(batch_norm=form).answer(encoder, head, task) for form in ("batch", "running")
    )
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert not encoder.training and not head.training
    assert not torch.allclose(own, remembered)
    encoder.train(), head.train()
    torch.testing.assert_close(TPN(batch_norm="running").answer(encoder, head, task), own)
