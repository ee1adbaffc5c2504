"""Algorithm 2 as the paper has it, by its own loop and answer."""

import pytest
import torch

from appl.core.distances import class_means, squared_distances
from appl.core.episode import Task
from appl.encoders import from_module
from appl.method import objective as module
from appl.method.algorithm2 import adapt, nearest_prototypes, self_train, task_classifier
from appl.method.learner import TaskLearner
from appl.method.objective import confidence_threshold
from appl.method.pcn import PCN
from appl.settings import AdaptSettings
from appl.settings.files import with_changes
from tests.conftest import (
    WIDTH,
    are_equal,
    make_episode,
    make_small_encoder,
    small_meta,
    weights_of,
)


def preset(name="paper", **changes):
    return with_changes(AdaptSettings.preset(name), **({"n_iterations": 4} | changes))


@pytest.mark.parametrize("name", ["paper", "released", "robust"])
def test_every_preset_answers_by_the_nearest_prototype(small_encoder, name):
    """Also `robust`, whose own answer is not part of Algorithm 2."""
    episode = make_episode()
    before, pcn, seen = weights_of(small_encoder), PCN(WIDTH), []
    result = adapt(small_encoder, pcn, episode.task, preset(name), seen.append)
    assert result.termination == "finished" and list(result.records) == seen
    assert [r.iteration for r in result.records] == [1, 2, 3, 4]
    assert are_equal(before, weights_of(small_encoder))
    assert not are_equal(before, weights_of(result.encoder))
    assert all(p.requires_grad for p in pcn.parameters())
    torch.testing.assert_close(result.probs.sum(1), torch.ones(12))
    # The rule is the same answer, for images that come later.
    assert result.rule.prototypes is result.prototypes and result.prototypes.shape == (3, WIDTH)
    with torch.no_grad():
        features = result.encoder(result.encoder.normalise(episode.task.images()))
    scores = result.rule.scores(result.rule.place([features[15:]]))
    torch.testing.assert_close(scores, result.scores, rtol=1e-4, atol=1e-4)
    nearest = -result.rule.scale * squared_distances(features[15:], result.prototypes)
    torch.testing.assert_close(nearest, result.scores, rtol=1e-4, atol=1e-4)


def test_the_average_of_the_distances_may_answer(small_encoder):
    """B12, one iteration: h̃ = α₁ h with α₁ = .495, so it is that share of the first distances."""
    task = make_episode().task
    settings = preset(n_iterations=1, answer="average", parameters={"batch_norm": "running"})
    result = adapt(small_encoder, PCN(WIDTH), task, settings)
    support, query = small_encoder.encode(task.support), small_encoder.encode(task.query)
    h = squared_distances(query, class_means(support, task.class_ids, 3))
    torch.testing.assert_close(result.scores, -0.495 * h, rtol=1e-4, atol=1e-5)
    # Without an iteration there is no average yet.
    settings = with_changes(settings, n_iterations=0)
    torch.testing.assert_close(adapt(small_encoder, PCN(WIDTH), task, settings).scores, -h)


def test_a_threshold_of_one_is_the_same_as_no_query_loss(small_encoder):
    task = make_episode().task
    one, none, with_loss = (
        adapt(small_encoder, PCN(WIDTH), task, preset(**changes))
        for changes in (
            {"pseudo_labels": {"threshold": 1.0}},
            {"objective": {"use_query_loss": False}},
            {"pseudo_labels": {"threshold": 0.0}},
        )
    )
    assert torch.equal(one.scores, none.scores)
    assert not torch.equal(one.scores, with_loss.scores)
    assert [r.selected_share for r in one.records] == [0] * 4


def test_the_first_iteration_by_hand(small_encoder):
    """Preset `paper`, one iteration, written out with torch alone."""
    task = make_episode().task
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=1))
    encoder = make_small_encoder().requires_grad_()
    for stage in encoder.stages:
        stage.train()
    features = encoder(encoder.normalise(task.images()))
    support, query = features[:15], features[15:]
    prototypes = torch.stack([support[i : i + 5].mean(0) for i in (0, 5, 10)])
    h = torch.cdist(query, prototypes).square()
    d_support = torch.cdist(support, prototypes).square()
    soft = torch.softmax(-0.495 * h.detach(), 1)  # h̃⁰ = 0, α_1 = .495
    chosen = soft.amax(1) > 0.4
    ce_query = -(soft * torch.log_softmax(-h, 1)).sum(1)[chosen].sum()
    ce_support = torch.nn.functional.cross_entropy(-d_support, task.class_ids, reduction="sum")
    pairs = [(0, 1), (0, 2), (1, 2)]
    dis = 1 / sum((prototypes[a] - prototypes[b]).square().sum() for a, b in pairs)
    coh = sum(d_support[i, task.class_ids[i]] for i in range(15))
    loss = ce_support + ce_query + 0.1 * dis + 1e-3 * coh
    record = result.records[0]
    assert record.loss == pytest.approx(loss.item(), rel=1e-4)
    assert record.query_loss == pytest.approx(ce_query.item(), rel=1e-3, abs=1e-5)
    assert record.selected_share == pytest.approx(chosen.float().mean().item())
    parameters = list(encoder.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 1e-2 * gradient
    for ours, expected in zip(result.encoder.parameters(), parameters, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)


def test_the_loop_learns_from_whatever_labels_the_queries(small_encoder):
    """A labeller that names one class for all: the loop hands it what it sees, and believes it."""
    task, settings = make_episode().task, preset()
    seen = []

    def always_the_last(support, query, h, rows):
        seen.append((support.shape, query.shape, h.requires_grad, rows))
        assert nearest_prototypes(support, query, h, rows) is h
        return 100 * torch.ones_like(h).index_fill(1, torch.tensor([2]), 0.0)

    learner = TaskLearner(small_encoder, task, settings)
    classifier = task_classifier(small_encoder, PCN(WIDTH), task, settings)
    run = self_train(learner, classifier, settings, always_the_last)
    assert seen == [((15, WIDTH), (12, WIDTH), False, None)] * 4
    assert all(r.class_balance == (0, 0, 1) and r.labels.tolist() == [2] * 12 for r in run.records)
    assert run.records[-1].n_label_changes == 0 and run.termination == "finished"
    own = adapt(small_encoder, PCN(WIDTH), task, settings)
    assert not are_equal(weights_of(own.encoder), weights_of(learner.encoder))


def test_renaming_the_classes_permutes_the_scores(small_encoder):
    task = make_episode().task
    renamed = torch.tensor([2, 0, 1])
    other = Task(task.support, renamed[task.class_ids], task.query)
    first = adapt(small_encoder, PCN(WIDTH), task, preset()).scores
    second = adapt(small_encoder, PCN(WIDTH), other, preset()).scores
    torch.testing.assert_close(first, second[:, renamed], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("at", [1, 3])
def test_a_loss_that_is_not_finite_stops_with_the_last_good_state(small_encoder, monkeypatch, at):
    """The step before iteration 3 is poisoned: its loss is infinite, so the state goes back."""
    task = make_episode().task
    calls = []
    real = module.separation_loss

    def poisoned(prototypes, pairs):
        calls.append(1)
        return real(prototypes, pairs) * (torch.inf if len(calls) == at else 1)

    monkeypatch.setattr(module, "separation_loss", poisoned)
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=6))
    assert result.termination == f"the loss was not finite at iteration {at}"
    assert len(result.records) == at - 1
    assert result.scores.isfinite().all()
    monkeypatch.undo()
    good = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=max(0, at - 2)))
    expected, found = dict(good.encoder.named_parameters()), dict(result.encoder.named_parameters())
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_gradient_that_is_not_finite_keeps_the_steps_before_it(small_encoder, monkeypatch):
    """The loss of the third iteration is finite, so what the second step left is a good state."""
    task = make_episode().task
    calls = []
    real = module.separation_loss

    def poisoned(prototypes, pairs):
        calls.append(1)
        harm = (prototypes.sum() * 0).sqrt()  # zero, with a gradient of 0 · ∞
        return real(prototypes, pairs) + (harm if len(calls) == 3 else 0)

    monkeypatch.setattr(module, "separation_loss", poisoned)
    settings = preset(n_iterations=6, parameters={"batch_norm": "running"})
    result = adapt(small_encoder, PCN(WIDTH), task, settings)
    assert result.termination == "a gradient was not finite at iteration 3"
    assert len(result.records) == 2
    monkeypatch.undo()
    good = adapt(small_encoder, PCN(WIDTH), task, with_changes(settings, n_iterations=2))
    assert are_equal(weights_of(good.encoder), weights_of(result.encoder))
    assert torch.equal(good.scores, result.scores)


def test_an_exploding_rate_ends_finite(small_encoder):
    task = make_episode().task
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=20, learning_rate=1e30))
    assert "not finite" in result.termination
    assert result.scores.isfinite().all()
    assert all(p.isfinite().all() for p in result.encoder.parameters())


@pytest.mark.golden
def test_the_threshold_by_the_number_of_classes():
    robust = AdaptSettings.preset("robust").pseudo_labels  # ε = .4
    by_hand = {2: 0.625, 3: 0.5, 4: 0.4375, 5: 0.4, 10: 0.2, 38: 2 / 38}
    for n_way, threshold in by_hand.items():
        assert confidence_threshold(n_way, robust) == pytest.approx(threshold)
        paper = AdaptSettings.preset("paper").pseudo_labels
        assert confidence_threshold(n_way, paper) == 0.4


def test_a_feature_scale_is_an_encoder_whose_features_are_that_much_longer(small_encoder):
    """A19: the same losses, steps and answers as with the factor inside the network."""

    class Longer(torch.nn.Module):
        def forward(self, maps):
            return 0.5 * maps

    longer = from_module(
        [*small_encoder.stages, Longer()], small_meta(stages=("early", "late", "longer"))
    )
    task = make_episode().task
    torch.manual_seed(0)
    pcn = PCN(WIDTH, initialisation="random")
    ours = adapt(small_encoder, pcn, task, preset(feature_scale=0.5))
    theirs = adapt(longer, pcn, task, preset())
    assert [r.loss for r in ours.records] == pytest.approx([r.loss for r in theirs.records])
    assert ours.records[0].loss != ours.records[-1].loss
    torch.testing.assert_close(ours.scores, theirs.scores, rtol=1e-4, atol=1e-5)
    features = torch.rand(3, WIDTH)
    torch.testing.assert_close(ours.rule.scores(features), theirs.rule.scores(0.5 * features))
