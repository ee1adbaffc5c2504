import numpy as np
import pytest
import torch
import torch.nn.functional as F

from appl.core.episode import Task
from appl.encoders import Encoder, from_module
from appl.rivals.entropy_fine_tune import EntropyFineTune
from tests.conftest import make_episode, small_meta

PCN = torch.nn.Identity()


def solve(encoder: Encoder, task: Task, **settings):
    return EntropyFineTune(**settings).solve(encoder, PCN, task)


@pytest.mark.parametrize("batch_norm", ["follow", "keep"])
def test_without_a_rate_it_is_the_nearest_mean_of_unit_features(
    small_encoder: Encoder, batch_norm: str
) -> None:
    task = make_episode(shots=[3, 5, 1]).task
    scores = solve(small_encoder, task, rate=0.0, n_steps=3, batch_norm=batch_norm).scores
    small_encoder.train(batch_norm == "follow")
    support, query = (
        F.normalize(small_encoder(small_encoder.normalise(images)), dim=1).detach()
        for images in (task.support, task.query)
    )
    means = torch.stack([support[task.class_ids == n].mean(0) for n in range(3)])
    expected = -7.5 * torch.cdist(query, means).square()
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)


def test_queries_become_certain_and_supports_stay_right(small_encoder: Encoder) -> None:
    task = make_episode(noise=0.4).task
    solution = solve(small_encoder, task, rate=5e-3)
    before, after = solution.record["query_entropy"]
    log_probs = torch.log_softmax(solution.scores, 1)
    entropy = -(log_probs.exp() * log_probs).sum(1).mean()
    assert after == pytest.approx(float(entropy), abs=1e-3)
    assert after < 0.7 * before
    assert np.sum(solution.record["balance"]) == pytest.approx(1, abs=2e-3)
    learnt = Task(task.support, task.class_ids, task.support)
    answers = solve(small_encoder, learnt, rate=5e-3).scores.argmax(1)
    assert (answers == task.class_ids).float().mean() > 0.9


@pytest.mark.parametrize("weight", [0.0, 20.0])
def test_one_step_of_the_class_weights_by_hand(weight: float) -> None:
    """An encoder that has no weights: Adam's first step is the rate along each sign."""
    encoder = from_module(torch.nn.AvgPool2d(6), small_meta(stages=("whole",), width=3))
    task = make_episode(noise=0.3).task
    z, q = (F.normalize(encoder.encode(images), dim=1) for images in (task.support, task.query))
    means = torch.stack([z[task.class_ids == n].mean(0) for n in range(3)]).requires_grad_()

    def probs(features):
        return torch.softmax(-7.5 * (features[:, None] - means).square().sum(2), 1)

    own = probs(z)[torch.arange(len(z)), task.class_ids]
    entropy = -(probs(q) * probs(q).log()).sum(1).mean()
    (weight * entropy - own.log().mean()).backward()
    moved = means.detach() - 0.01 * means.grad.sign()
    scores = solve(encoder, task, n_steps=1, rate=0.01, entropy_weight=weight).scores
    expected = -7.5 * torch.cdist(q, moved).square()
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)


def test_without_the_entropy_queries_stay_less_certain(small_encoder: Encoder) -> None:
    task = make_episode(noise=0.4).task
    settings = dict(rate=5e-3, batch_norm="keep")
    with_entropy, without = (
        solve(small_encoder, task, entropy_weight=weight, **settings).record["query_entropy"]
        for weight in (1.0, 0.0)
    )
    assert with_entropy[0] == without[0] and with_entropy[1] < without[1]


def test_equal_queries_get_equal_answers(small_encoder: Encoder) -> None:
    task = make_episode().task
    twice = Task(task.support, task.class_ids, task.query[[0, 1, 0, 2]])
    scores = solve(small_encoder, twice, rate=1e-3, n_steps=3).scores
    torch.testing.assert_close(scores[0], scores[2])
