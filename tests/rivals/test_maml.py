from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from appl.encoders import from_module
from appl.encoders.resnet10 import BasicBlock
from appl.errors import TaskError
from appl.rivals._episodic import query_cross_entropy
from appl.rivals.maml import MAML
from tests.conftest import WIDTH, make_episode, make_small_encoder, small_meta


def make(encoder=None, **settings):
    """Return a method with a large inner rate, so that second derivatives count; in float64."""
    torch.manual_seed(0)
    method = MAML(**({"inner_rate": 0.5, "n_steps": 2, "n_test_steps": 2} | settings))
    encoder = (encoder or make_small_encoder()).double()
    return method, encoder, method.build_head(encoder, 3).double()


def residual_encoder():
    """The stem and two blocks of ResNet10, narrow: the same in-place ReLUs."""
    torch.manual_seed(1)
    stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    stages = [nn.Sequential(stem, BasicBlock(4, 4, 1)), BasicBlock(4, WIDTH, 2)]
    return from_module(stages, small_meta())


def gradients(method, encoder, head, episode):
    weights = [*encoder.parameters(), *head.parameters()]
    scores = method.answer(encoder, head, episode.task)
    return torch.autograd.grad(query_cross_entropy(scores, episode.query_class_ids), weights)


@pytest.mark.parametrize("build", [make_small_encoder, residual_encoder])
def test_the_meta_gradient_is_that_of_differences(build) -> None:
    """Along a random direction of all weights, by central differences of the whole answer.

    Small ones: where a ReLU changes sides the inner gradient jumps, and the loss with it.
    """
    method, encoder, head = make(build())
    episode = make_episode(noise=0.3)
    slope = gradients(method, encoder, head, episode)
    weights = [*encoder.parameters(), *head.parameters()]
    direction = [torch.randn_like(weight) for weight in weights]
    expected = sum((a * b).sum() for a, b in zip(slope, direction, strict=True)).item()
    losses = []
    for shift in (1e-8, -2e-8):
        for weight, change in zip(weights, direction, strict=True):
            weight.data += shift * change
        scores = method.answer(encoder, head, episode.task)
        losses.append(query_cross_entropy(scores, episode.query_class_ids).item())
    assert expected == pytest.approx((losses[0] - losses[1]) / 2e-8, rel=1e-4)
    # The first order is another number here, so the test sees the second derivatives.
    for weight, change in zip(weights, direction, strict=True):
        weight.data += 1e-8 * change
    first = gradients(make(order="first")[0], encoder, head, episode)
    other = sum((a * b).sum() for a, b in zip(first, direction, strict=True)).item()
    assert other != pytest.approx(expected, rel=1e-2)


class Bare(nn.Module):
    """Features without a weight: the colours of four quarters."""

    def forward(self, pixels):
        return nn.AdaptiveAvgPool2d(2)(pixels).flatten(1)


def bare_encoder():
    meta = small_meta(width=12, stages=("whole",), max_frozen_stages=0, texture_stage=None)
    return from_module(Bare(), meta)


@pytest.mark.parametrize("order", ["first", "second"])
def test_two_steps_of_a_linear_head_by_hand(order: str) -> None:
    """With g_t = Aᵀ(p_t − y)/n the Jacobian of a step is I − ηH, here by autograd of g alone."""
    method, encoder, head = make(bare_encoder(), order=order)
    episode = make_episode(noise=0.3)
    task = episode.task
    x, q = (encoder(encoder.normalise(part)) for part in (task.support, task.query))
    x, q = (torch.cat([part, torch.ones(len(part), 1)], 1) for part in (x, q))
    labels = F.one_hot(task.class_ids, 3).double()

    def step(w):
        gradient = x.mT @ (torch.softmax(x @ w, 1) - labels) / len(x)
        return w - 0.5 * (gradient if order == "second" else gradient.detach())

    first = torch.cat([head.weight.mT, head.bias[None]]).detach().requires_grad_()
    scores = q @ step(step(first))
    torch.testing.assert_close(method.answer(encoder, head, task), scores)
    (expected,) = torch.autograd.grad(F.cross_entropy(scores, episode.query_class_ids), first)
    weight, bias = gradients(method, encoder, head, episode)
    torch.testing.assert_close(torch.cat([weight.mT, bias[None]]), expected)


def test_both_orders_agree_where_the_inner_loss_is_linear() -> None:
    class Linear(MAML):
        def inner_loss(self, scores, class_ids):
            return -scores.gather(1, class_ids[:, None]).mean()

    episode, found = make_episode(noise=0.3), {}
    for order in ("first", "second"):
        _, encoder, head = make(bare_encoder())
        method = Linear(order=order, inner_rate=0.5)
        scores = method.answer(encoder, head, episode.task)
        # A curved loss outside: it must be the inner one that makes them equal.
        outer = F.cross_entropy(scores, episode.query_class_ids)
        found[order] = torch.autograd.grad(outer, list(head.parameters()))
    for one, other in zip(found["first"], found["second"], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("order", ["first", "second"])
def test_learning_touches_no_weight_and_no_statistic(order: str) -> None:
    method, encoder, head = make(order=order)
    encoder.train(), head.train()
    before = deepcopy(encoder.state_dict()), deepcopy(head.state_dict())
    episode = make_episode()
    loss = query_cross_entropy(method.answer(encoder, head, episode.task), episode.query_class_ids)
    loss.backward()
    for module, state in zip((encoder, head), before, strict=True):
        assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())
    assert all(part.training for part in encoder.modules())


@torch.no_grad()
def test_steps_lower_the_supports_loss() -> None:
    """Each step goes downhill, also where the caller wants no gradients."""
    _, encoder, head = make()
    task = make_episode(noise=0.3).task
    own = type(task)(task.support, task.class_ids, task.support)
    losses = []
    for n_steps in (0, 1, 5):
        method = MAML(inner_rate=0.1, n_test_steps=n_steps)
        scores = method.answer(encoder.eval(), head.eval(), own)
        losses.append(query_cross_entropy(scores, task.class_ids).item())
    assert losses[0] > losses[1] > losses[2]


@torch.no_grad()
def test_the_mode_says_how_many_steps() -> None:
    method, encoder, head = make(n_steps=0, n_test_steps=3)
    task = make_episode().task
    learning = method.answer(encoder.train(), head.train(), task)
    tested = method.answer(encoder.eval(), head.eval(), task)
    same = make(n_steps=0, n_test_steps=0)[0].answer(encoder, head, task)
    assert torch.equal(learning, same) and not torch.allclose(tested, same)


@torch.no_grad()
def test_classes_may_be_renamed_if_the_head_is() -> None:
    method, encoder, head = make()
    task = make_episode(noise=0.3).task
    renamed, other = torch.tensor([2, 0, 1]), deepcopy(head)
    other.weight[renamed], other.bias[renamed] = head.weight.clone(), head.bias.clone()
    scores = method.answer(encoder, head, task)
    renamed_task = type(task)(task.support, renamed[task.class_ids], task.query)
    again = method.answer(encoder, other, renamed_task)
    torch.testing.assert_close(again[:, renamed], scores)


def test_frozen_weights_can_be_adapted_in_a_benchmark() -> None:
    method, encoder, head = make()
    task = make_episode().task
    expected = method.answer(encoder, head, task)
    encoder.requires_grad_(False), head.requires_grad_(False)
    torch.testing.assert_close(method.answer(encoder, head, task), expected)


def test_another_number_of_classes_is_refused() -> None:
    method, encoder, head = make()
    with pytest.raises(TaskError, match="trained for 3 classes, the task has 2"):
        method.answer(encoder, head, make_episode(n_way=2).task)
