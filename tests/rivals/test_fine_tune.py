import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from appl.core.episode import Task
from appl.encoders import Encoder
from appl.rivals.fine_tune import FineTune
from tests.conftest import WIDTH, make_episode, make_small_encoder

PCN = torch.nn.Identity()  # none of them looks at it


def solve(encoder: Encoder, task: Task, **settings):
    return FineTune(**settings).solve(encoder, PCN, task)


def test_without_an_epoch_it_is_an_untrained_head(small_encoder: Encoder) -> None:
    """Scores are an affine function of the features, weights evenly within ±1/√width."""
    task = make_episode(n_way=40, n_query=1).task
    scores = solve(small_encoder, task, n_epochs=0).scores.double()
    features = small_encoder.encode(task.query).double()
    inputs = torch.cat([features, torch.ones(len(features), 1)], 1)
    head, *_ = np.linalg.lstsq(inputs.numpy(), scores.numpy(), rcond=None)
    np.testing.assert_allclose(inputs.numpy() @ head, scores.numpy(), atol=1e-5)
    bound = WIDTH**-0.5
    assert np.abs(head).max() < bound * 1.0001
    assert np.abs(head).mean() == pytest.approx(bound / 2, rel=0.15)
    other = solve(small_encoder, task, n_epochs=0, seed=1).scores
    assert not torch.allclose(other, scores.float(), atol=1e-2)


def test_one_step_by_hand() -> None:
    """One batch of all supports: head W − η(g + μW), encoder θ − ηg, then the queries in eval."""
    encoder, task = make_small_encoder(), make_episode().task
    model = copy.deepcopy(encoder)
    first = solve(encoder, task, n_epochs=0)
    features = model.encode(task.query)
    inputs = torch.cat([features, torch.ones(len(features), 1)], 1).double()
    start = np.linalg.lstsq(inputs.numpy(), first.scores.double().numpy(), rcond=None)[0]
    head = torch.nn.Linear(WIDTH, 3)
    head.weight.data, head.bias.data = (
        torch.from_numpy(part.copy()).float() for part in (start[:-1].T, start[-1])
    )
    model.train()
    F.cross_entropy(head(model(model.normalise(task.support))), task.class_ids).backward()
    with torch.no_grad():
        for weight in head.parameters():
            weight -= 0.3 * (weight.grad + 0.5 * weight)
        for weight in model.parameters():
            weight -= 0.2 * weight.grad
        expected = head(model.eval().encode(task.query))
    found = solve(
        encoder, task, n_epochs=1, batch_size=99, head_rate=0.3, head_decay=0.5, encoder_rate=0.2
    )
    torch.testing.assert_close(found.scores, expected, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(first.scores, expected, atol=1e-2)


def test_three_steps_of_the_head_by_hand(small_encoder: Encoder) -> None:
    """v ← g at first, then v ← 0.9v + 0.1g; the head alone, all supports in one batch."""
    task = make_episode().task
    z, q = (
        torch.cat([small_encoder.encode(images), torch.ones(len(images), 1)], 1).double()
        for images in (task.support, task.query)
    )
    still = solve(small_encoder, task, n_epochs=0).scores.double()
    head = torch.from_numpy(np.linalg.lstsq(q.numpy(), still.numpy(), rcond=None)[0])
    targets = F.one_hot(task.class_ids, 3).double()
    velocity = None
    for _ in range(3):
        gradient = z.mT @ (torch.softmax(z @ head, 1) - targets) / len(z) + 0.1 * head
        velocity = gradient if velocity is None else 0.9 * velocity + 0.1 * gradient
        head = head - 0.5 * velocity
    settings = dict(trains="head", n_epochs=3, batch_size=99, head_rate=0.5, head_decay=0.1)
    found = solve(small_encoder, task, **settings).scores
    torch.testing.assert_close(found, (q @ head).float(), atol=1e-4, rtol=1e-4)


def test_the_supports_are_learnt_by_heart(small_encoder: Encoder) -> None:
    episode = make_episode(noise=0.3)
    task = episode.task
    learnt = Task(task.support, task.class_ids, task.support)
    solution = solve(small_encoder, learnt, n_epochs=40, head_rate=0.1, encoder_rate=0.1)
    assert torch.equal(solution.scores.argmax(1), task.class_ids)
    losses = solution.record["loss"]
    assert losses[0] == pytest.approx(np.log(3), abs=0.35) and losses[-1] < 0.3


def test_the_first_loss_is_that_of_guessing(small_encoder: Encoder) -> None:
    still = dict(n_epochs=1, head_rate=0.0, encoder_rate=0.0, batch_norm="keep")
    losses = [
        solve(small_encoder, make_episode().task, **still, seed=seed).record["loss"][0]
        for seed in range(10)
    ]
    assert np.mean(losses) == pytest.approx(np.log(3), abs=0.1)


def test_the_seed_decides_everything(small_encoder: Encoder) -> None:
    task = make_episode().task
    first = solve(small_encoder, task, n_epochs=2).scores
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert torch.equal(solve(small_encoder, task, n_epochs=2).scores, first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(solve(small_encoder, task, n_epochs=2, seed=1).scores, first)


def test_the_head_alone_leaves_the_features_as_they_are(small_encoder: Encoder) -> None:
    """Scores stay affine in the source's features; with the encoder they do not."""
    task = make_episode(n_query=9).task
    features = small_encoder.encode(task.query).double()
    inputs = torch.cat([features, torch.ones(len(features), 1)], 1).numpy()

    def residual(**settings) -> float:
        scores = solve(small_encoder, task, n_epochs=10, **settings).scores.double().numpy()
        return float(np.abs(inputs @ np.linalg.lstsq(inputs, scores, rcond=None)[0] - scores).max())

    assert residual(trains="head") < 1e-5
    assert residual(trains="all") > 1e-3
    untrained = solve(small_encoder, task, n_epochs=0).scores
    trained = solve(small_encoder, task, n_epochs=10, trains="head").scores
    assert not torch.allclose(trained, untrained, atol=1e-2)


def test_batch_norms_follow_the_batches_or_keep_the_source(small_encoder: Encoder) -> None:
    """With rates of zero only remembered statistics can change the answer."""
    task = make_episode().task
    still = dict(n_epochs=3, head_rate=0.0, encoder_rate=0.0)
    untrained = solve(small_encoder, task, n_epochs=0).scores
    assert torch.equal(solve(small_encoder, task, **still, batch_norm="keep").scores, untrained)
    followed = solve(small_encoder, task, **still, batch_norm="follow").scores
    assert not torch.allclose(followed, untrained, atol=1e-2)


@pytest.mark.parametrize("size_px", [8, 12])
def test_batches_of_one_image(size_px: int) -> None:
    """At 8 px and three halvings the last map has one position, and batch norms cannot follow."""
    encoder = make_small_encoder()
    encoder.stages[1].append(torch.nn.MaxPool2d(2, ceil_mode=True))
    encoder.stages[1].append(torch.nn.BatchNorm2d(WIDTH))
    task = make_episode().task
    task = Task(task.support[..., :size_px, :size_px], task.class_ids, task.query[..., :8, :8])
    can_follow = size_px == 12
    assert (encoder.run(encoder.normalise(task.support)).shape[-1] > 1) == can_follow
    untrained = solve(encoder, task, n_epochs=0).scores
    still = dict(n_epochs=2, head_rate=0.0, encoder_rate=0.0)
    alone = solve(encoder, task, batch_size=1, **still).scores
    assert torch.allclose(alone, untrained) != can_follow
    last = solve(encoder, task, batch_size=7, n_epochs=2).scores  # 15 supports: 7, 7 and one
    assert last.isfinite().all() and not torch.allclose(last, untrained)


def test_a_frozen_source_is_fine_tuned_all_the_same(small_encoder: Encoder) -> None:
    task = make_episode().task
    expected = solve(small_encoder, task, n_epochs=2).scores
    small_encoder.requires_grad_(False)
    assert torch.equal(solve(small_encoder, task, n_epochs=2).scores, expected)
    assert not any(weight.requires_grad for weight in small_encoder.parameters())
