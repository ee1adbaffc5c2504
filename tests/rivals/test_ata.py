from copy import deepcopy
from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F

from appl.core.distances import class_means
from appl.core.methods import METHODS
from appl.core.seeds import generator_for
from appl.rivals._adversarial import KERNELS, Adversarial, filtered
from appl.weights.heads import Head
from tests.conftest import make_episode, make_small_encoder

HOSTS = ["gnn", "prototypical", "relation", "tpn"]


def prepare(name: str, **settings):
    encoder = make_small_encoder().train()
    method = METHODS.get(name)(**settings)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = method.build_head(encoder, 3) if hasattr(method, "answer") else torch.nn.Module()
    return Head(name, method, {}, 3, module.train()), encoder


def augment(head: Head, encoder, episode, augmentation, seed=0):
    loss = lambda task: head.training_loss(encoder, task).loss  # noqa: E731
    generator = generator_for("test", seed)
    with augmentation.augmented(encoder, head.module, loss, episode, generator) as learnt:
        return learnt


@pytest.mark.parametrize("host", HOSTS)
def test_a_row_is_its_host_and_three_settings(host: str) -> None:
    plain, row = METHODS.get(host), METHODS.get(f"{host}_ata")
    assert row.card.title == f"{plain.card.title} + ATA"
    assert row.card.takes == plain.card.takes and row.card.is_meta_trained
    more = {"n_ascents", "ascent_rate", "keep_share"}
    assert {f.name for f in fields(row)} == {f.name for f in fields(plain)} | more
    values = {"tpn": (5, 20, 0.6), "prototypical": (5, 0.5, 0.5)}
    found = row().task_augmentation
    assert (found.n_ascents, found.rate, found.keep_share) == values.get(host, (5, 80, 0.5))


@pytest.mark.parametrize("host", HOSTS)
def test_the_ascent_raises_the_loss_and_touches_nothing_else(host: str) -> None:
    head, encoder = prepare(host)
    episode = make_episode(noise=0.3)
    modules = (encoder, head.module)
    before = [deepcopy(module.state_dict()) for module in modules]
    learnt = augment(head, encoder, episode, Adversarial(5, 1.0, 1.0))

    for module, state in zip(modules, before, strict=True):
        assert all(part.training for part in module.modules())
        assert all(p.requires_grad and p.grad is None for p in module.parameters())
        assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())
    assert torch.equal(learnt.task.class_ids, episode.task.class_ids)
    assert torch.equal(learnt.query_class_ids, episode.query_class_ids)
    assert not learnt.task.query.requires_grad
    for module in modules:
        module.eval()
    losses = [head.training_loss(encoder, task).loss.item() for task in (episode, learnt)]
    assert losses[1] > losses[0]


def test_the_first_step_is_the_gradient_on_normalised_pixels() -> None:
    """Worked out without `Head`, `Task` or `normalise`: x ← x + η ∂CE(−‖f(q) − p‖²)/∂x."""
    head, encoder = prepare("prototypical")
    episode = make_episode(noise=0.3)
    learnt = augment(head, encoder, episode, Adversarial(1, 3000.0, 1.0))

    encoder.eval()
    task = episode.task
    x = ((torch.cat([task.support, task.query]) - 0.5) / 0.25).requires_grad_()
    z = encoder.stages[1](encoder.stages[0](x)).mean((2, 3))
    means = class_means(z[: task.n_support], task.class_ids, 3)
    scores = -(z[task.n_support :, None] - means).square().sum(2)
    F.cross_entropy(scores, episode.query_class_ids).backward()
    found = (torch.cat([learnt.task.support, learnt.task.query]) - 0.5) / 0.25
    torch.testing.assert_close(found, x.detach() + 3000.0 * x.grad, atol=1e-3, rtol=1e-3)
    assert (found - x).abs().max() > 0.1


def test_without_steps_a_kept_task_is_the_one_that_was_drawn() -> None:
    head, encoder = prepare("gnn")
    episode = make_episode()
    assert augment(head, encoder, episode, Adversarial(0, 80.0, 1.0)) is episode


def test_the_share_of_kept_tasks() -> None:
    head, encoder = prepare("prototypical")
    episode = make_episode(n_query=1, shots=1)
    kept = [
        augment(head, encoder, episode, Adversarial(0, 1.0, 0.7), seed) is episode
        for seed in range(300)
    ]
    assert sum(kept) / len(kept) == pytest.approx(0.7, abs=0.08)


def test_one_random_filter_for_the_whole_task() -> None:
    """Linear, of the same size, equal for equal images, with Xavier's deviation."""
    encoder = make_small_encoder()
    one, other = torch.rand(2, 3, 12, 12, generator=generator_for("images"))
    grey = torch.full_like(one, 0.5)  # zero after the normalisation of this encoder
    deviations = []
    for seed in range(40):
        images = torch.stack([one, other, one, (one + other) / 2, grey])
        found = filtered(encoder, images, generator_for(seed))
        assert found.shape == images.shape
        torch.testing.assert_close(found[0], found[2])
        torch.testing.assert_close(found[3], (found[0] + found[1]) / 2, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found[4], grey)
        # The answer to a single bright point is the filter itself.
        point = grey.clone()
        point[0, 6, 6] = 0.75
        answer = (filtered(encoder, point[None], generator_for(seed))[0] - 0.5) / 0.25
        side = int(answer.abs().amax((0, 1)).gt(1e-6).sum())
        assert side in KERNELS or side in (11, 12)  # 15 is cut off at the edges
        if side < 11:
            deviations.append(float(answer.square().sum() / (3 * side**2)) * 3 * side**2)
    assert sum(deviations) / len(deviations) == pytest.approx(1, abs=0.35)
