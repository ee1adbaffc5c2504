from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

from appl.core.distances import class_means
from appl.core.seeds import generator_for
from appl.errors import SettingsError
from appl.rivals._memory import Belief, HierarchicalMemory, Level, divergence
from appl.rivals.hvm import HVM
from tests.conftest import make_episode, make_small_encoder


def prepare(training: bool = False, **settings):
    encoder, method = make_small_encoder().train(training), HVM(n_source_classes=8, **settings)
    torch.manual_seed(0)
    return method, encoder, method.build_head(encoder, 3).train(training)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator_for("hvm", *shape))


def random_head(method: HVM, encoder) -> HierarchicalMemory:
    """A head whose networks say something, and whose memories are full."""
    torch.manual_seed(1)
    head = method.build_head(encoder, 3)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    for level in head.levels:
        for name in ("keys", "means"):
            setattr(level, name, torch.rand_like(getattr(level, name)))
    head.written = torch.ones_like(head.written)
    return head.eval()


def test_the_divergence_is_that_of_two_gaussians() -> None:
    means, log_variances = draw(2, 4, 3, 5), draw(2, 4, 3, 5)[..., :5]
    q, p = (Belief(mean, v, mean) for mean, v in zip(means, log_variances, strict=True))
    normals = [Normal(b.mean, (0.5 * b.log_variance).exp()) for b in (q, p)]
    expected = kl_divergence(normals[0], normals[1]).sum(-1).mean()
    torch.testing.assert_close(divergence(q, p), expected)
    assert divergence(q, q).item() == 0


@torch.no_grad()
def test_untrained_with_one_level_it_is_the_nearest_class_mean() -> None:
    method, encoder, head = prepare(n_levels=1)
    task = make_episode(noise=0.3, shots=[1, 2, 5]).task
    support, query = encoder.encode(task.support), encoder.encode(task.query)
    means = class_means(support, task.class_ids, 3)
    expected = -64 * torch.cdist(query, means).square() / 6
    torch.testing.assert_close(method.answer(encoder, head, task), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_levels_of_an_answer_one_after_the_other() -> None:
    method, encoder, _ = prepare()
    head = random_head(method, encoder)
    task = make_episode(noise=0.3).task
    support = encoder.layers(encoder.normalise(task.support), 4)
    query = encoder.layers(encoder.normalise(task.query), 4)
    expected, below = torch.zeros(12, 3), torch.zeros(3, 0)
    weights = head.preference.exp() / head.preference.exp().sum()
    for number, level in enumerate(head.levels):
        mean = torch.stack([support[number][task.class_ids == c].mean(0) for c in range(3)])
        match = torch.softmax(mean @ level.keys.T / mean.shape[1] ** 0.5, 1)  # all 8 rows are read
        read = torch.cat([mean, match @ level.means, below], 1)
        network = level.believe
        move = network.last(network.hidden(read)) / 256**0.5
        below = mean + move[:, : mean.shape[1]]
        distances = (query[number][:, None] - below).square().mean(2)
        expected -= head.log_scale.exp() * weights[number] * distances
    torch.testing.assert_close(method.answer(encoder, head, task), expected, atol=1e-4, rtol=1e-4)
    assert weights.sum().item() == pytest.approx(1)
    assert torch.allclose(head.level_weights, weights)


@torch.no_grad()
def test_a_memory_is_read_at_its_nearest_rows_and_no_others() -> None:
    level = Level(2, 0, 4, 4)
    level.keys = torch.tensor([[4.0, 0.0], [0.0, 4.0], [3.0, 0.0], [9.0, 0.0]])
    level.means = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [7.0, 7.0]])
    readable = torch.tensor([True, True, True, False])
    asked = torch.tensor([[2.0, 0.0]])
    weights = torch.softmax(torch.tensor([8.0, 6.0]) / 2**0.5, 0)
    expected = weights @ level.means[[0, 2]]
    torch.testing.assert_close(level.read(asked, readable, 2)[0], expected)
    torch.testing.assert_close(level.read(asked, readable, 1)[0], level.means[0])
    assert level.read(asked, torch.zeros(4, dtype=torch.bool), 2).abs().max() == 0
    noisy = level.read(asked.expand(5000, 2), readable, 1, draw(5000, 2))
    assert noisy.std(0).tolist() == pytest.approx([1, 1], abs=0.05)  # log-variances are zero


@torch.no_grad()
def test_a_row_is_mixed_with_what_it_held() -> None:
    _, _, head = prepare()
    first, second = ([draw(2, width) + shift for width in (4, 6)] for shift in (0, 3))
    classes = torch.tensor([5, 2])
    head.remember(classes, first, 0.2)
    for level, mean in zip(head.levels, first, strict=True):
        torch.testing.assert_close(level.keys[classes], mean)  # nothing was there
    head.remember(classes, second, 0.2)
    for level, *means in zip(head.levels, first, second, strict=True):
        torch.testing.assert_close(level.keys[classes], 0.2 * means[0] + 0.8 * means[1])
        torch.testing.assert_close(level.means[classes], level.keys[classes])  # untrained guides
        assert level.keys[[0, 1, 3, 4, 6, 7]].abs().max() == 0
    assert head.written.nonzero().flatten().tolist() == [2, 5] and int(head.n_tasks) == 2


def test_memories_are_written_in_training_only_and_never_read_for_their_own_classes() -> None:
    method, encoder, head = prepare(training=True)
    episode = replace(make_episode(noise=0.3), source_ids=torch.tensor([4, 0, 6]))
    before = deepcopy(head.state_dict())
    head.eval()
    method.training_loss(encoder, head, episode).loss.backward()
    assert all(torch.equal(v, before[k]) for k, v in head.state_dict().items())
    head.train()
    once = method.training_loss(encoder.eval(), head, episode).loss
    assert head.written.nonzero().flatten().tolist() == [0, 4, 6]
    # What the classes left behind is no help to them: with the same draws, the same loss.
    head.n_tasks = torch.zeros_like(head.n_tasks)
    again = method.training_loss(encoder, head, episode).loss
    torch.testing.assert_close(again, once)


def test_gradients_survive_the_writing_of_what_was_read() -> None:
    method, encoder, head = prepare(training=True)
    for ids in ([0, 1, 2], [3, 4, 5], [0, 4, 7]):
        episode = replace(make_episode(noise=0.3), source_ids=torch.tensor(ids))
        method.training_loss(encoder, head, episode).loss.backward()
    assert head.levels[0].believe.last.weight.grad.abs().sum() > 0


def test_without_spread_the_likelihood_is_the_cross_entropy_of_the_means() -> None:
    method, encoder, head = prepare(kl_weight=0.0)
    for level in head.levels:
        width = level.keys.shape[1]
        level.believe.last.bias.data[width:] = -1e6  # the least variance that there is
    episode = make_episode(noise=0.3)
    found = method.training_loss(encoder, head, episode)
    expected = F.cross_entropy(method.answer(encoder, head, episode.task), episode.query_class_ids)
    torch.testing.assert_close(found.loss, expected, atol=0.03, rtol=0.03)
    wide = HVM(n_source_classes=8, kl_weight=1e-2).training_loss(encoder, head, episode)
    assert wide.loss > found.loss


def test_what_is_saved_answers_the_same() -> None:
    method, encoder, _ = prepare()
    head, task = random_head(method, encoder), make_episode(noise=0.3).task
    copy = method.build_head(encoder, 3).eval()
    copy.load_state_dict(head.state_dict())
    assert torch.equal(method.answer(encoder, copy, task), method.answer(encoder, head, task))


def test_more_classes_than_rows_are_refused() -> None:
    method, encoder, head = prepare()
    episode = replace(make_episode(), source_ids=torch.tensor([0, 1, 8]))
    with pytest.raises(SettingsError, match="n_source_classes = 8"):
        method.training_loss(encoder, head, episode)
