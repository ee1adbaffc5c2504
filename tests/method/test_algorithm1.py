from copy import deepcopy

import pytest
import torch

from appl.errors import SettingsError
from appl.method.algorithm1 import MetaTrainer, meta_train
from appl.method.pcn import PCN
from appl.settings import MetaTrainSettings
from appl.settings.files import with_changes
from appl.solver.variants import meta_training_variant
from tests.conftest import WIDTH, make_episode, make_small_encoder


def trainer(encoder=None, seed=0, average=None, **changes):
    torch.manual_seed(seed)
    pcn = PCN(WIDTH, initialisation="random")
    with torch.no_grad():
        pcn.linear.bias.fill_(0.5)  # keeps the ReLU open, so that every test has a gradient
    settings = with_changes(MetaTrainSettings(), **changes)
    return MetaTrainer(encoder or make_small_encoder(), pcn, settings, average)


def copy_of(module):
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def changed(before, module):
    return any(not torch.equal(before[n], p) for n, p in module.named_parameters())


@pytest.mark.parametrize("name", ["paper", "released", "robust"])
def test_every_preset_learns_a_task(name):
    settings = MetaTrainSettings.preset(name)
    encoder, pcn = make_small_encoder(), PCN(WIDTH)
    before = copy_of(pcn)
    record = MetaTrainer(encoder, pcn, settings).learn(make_episode())
    assert torch.isfinite(torch.tensor(record.loss))
    assert changed(before, pcn)


def test_one_literal_task_by_hand():
    """Algorithm 1 with a plain inner step, written out with torch alone."""
    episode = make_episode()
    task = episode.task
    ours = trainer(inner_rate=0.01, outer_rate=1e-3, weight_decay=0.0)
    theirs = trainer(inner_rate=0.01, outer_rate=1e-3, weight_decay=0.0)
    record = ours.learn(episode)

    encoder, pcn = theirs.encoder, theirs.pcn
    for stage in encoder.stages:
        stage.train()

    def prototypes(support):
        return torch.relu(pcn.linear(support.view(3, 5 * WIDTH)))

    support = encoder(encoder.normalise(task.support))
    distances = torch.cdist(support, prototypes(support)).square()
    inner = torch.nn.functional.cross_entropy(-distances, task.class_ids, reduction="sum")
    assert record.support_loss == pytest.approx(inner.item(), rel=1e-4)
    parameters = list(encoder.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(inner, parameters), strict=True):
        parameter.data -= 0.01 * gradient
    features = encoder(encoder.normalise(task.images())).detach()
    p = prototypes(features[:15])
    d = torch.cdist(features[15:], p).square()
    ids = episode.query_class_ids
    loss = torch.nn.functional.cross_entropy(-d, ids, reduction="sum")
    loss = loss + 0.1 / sum((p[a] - p[b]).square().sum() for a, b in [(0, 1), (0, 2), (1, 2)])
    loss = loss + 1e-3 * d[torch.arange(12), ids].sum()
    assert record.loss == pytest.approx(loss.item(), rel=1e-4)
    adam = torch.optim.Adam(pcn.parameters(), lr=1e-3)
    loss.backward()
    adam.step()
    torch.testing.assert_close(ours.pcn.linear.weight, pcn.linear.weight, rtol=1e-3, atol=2e-5)
    for a, b in zip(ours.encoder.parameters(), encoder.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("trains", "encoder_moves", "pcn_moves"),
    [("pcn", False, True), ("encoder", True, False), ("both", True, True)],
)
def test_the_outer_step_updates_what_it_should(trains, encoder_moves, pcn_moves):
    meta = trainer(trains=trains, inner_steps=0)
    encoder, pcn = copy_of(meta.encoder), copy_of(meta.pcn)
    meta.learn(make_episode())
    assert changed(encoder, meta.encoder) == encoder_moves
    assert changed(pcn, meta.pcn) == pcn_moves


def test_what_becomes_of_the_encoder_between_tasks():
    episode = make_episode()
    for rule, after_task, after_epoch in [
        ("kept", True, True),
        ("reset_task", False, False),
        ("reset_epoch", True, False),
    ]:
        meta = trainer(encoder_between_tasks=rule, inner_rate=0.01)
        before = copy_of(meta.encoder)
        running = meta.encoder.stages[0][1].running_mean.clone()
        meta.learn(episode)
        assert changed(before, meta.encoder) == after_task
        assert torch.equal(running, meta.encoder.stages[0][1].running_mean) != after_task
        meta.start_epoch()
        assert changed(before, meta.encoder) == after_epoch


def test_the_second_order_gradient_equals_finite_differences():
    """d/dφ of the outer loss through θ'(φ) = θ − γ1 ∇θ L_CE(S; θ, φ), in float64."""
    episode = make_episode(n_query=2)
    # Scaled down and smooth at the point, so that differences are not taken across a ReLU's kink.
    options = dict(
        inner_rate=0.05, batch_norm="running", distance_scale="width", ce_reduction="mean"
    )

    def outer_gradient(derivative):
        meta = trainer(derivative=derivative, **options)
        meta.encoder.double()
        meta.pcn.double()
        meta.learn(episode)
        return meta.pcn.linear.weight.grad

    def outer_loss(shift):
        meta = trainer(derivative="second", **options)
        meta.encoder.double()
        meta.pcn.double()
        with torch.no_grad():
            meta.pcn.linear.weight[2, 7] += shift
        return meta.learn(episode).loss

    step = 1e-5
    expected = (outer_loss(step) - outer_loss(-step)) / (2 * step)
    second, first = outer_gradient("second")[2, 7].item(), outer_gradient("first")[2, 7].item()
    assert second == pytest.approx(expected, rel=1e-3)
    assert abs(first - expected) > 10 * abs(second - expected)


def test_decay_pulls_towards_zero_or_towards_the_start():
    episode = make_episode()

    def moved(form, decay):
        meta = trainer(decay_form=form, weight_decay=decay, outer_rate=1e-2)
        start = copy_of(meta.pcn)["linear.weight"]
        for _ in range(5):
            meta.learn(episode)
        weight = meta.pcn.linear.weight.detach()
        return (weight - start).norm().item(), weight.norm().item()

    free, anchored = moved("initial", 0.0), moved("initial", 20.0)
    assert anchored[0] < 0.8 * free[0]
    assert moved("adamw", 20.0)[1] < 0.8 * free[1]


def test_earlier_prototypes_are_those_before_the_inner_steps():
    episode = make_episode()
    options = dict(inner_rate=0.1, batch_norm="running")
    before = trainer(outer_prototypes="before", **options).learn(episode)
    after = trainer(outer_prototypes="recomputed", **options).learn(episode)
    still = trainer(inner_steps=0, **options).learn(episode)
    assert before.separation_loss == pytest.approx(still.separation_loss, rel=1e-5)
    assert before.separation_loss != pytest.approx(after.separation_loss, rel=1e-5)


def test_meta_training_lowers_the_outer_loss():
    meta = trainer(
        outer_rate=1e-2, inner_steps=0, ce_reduction="mean", batch_norm="running", weight_decay=0.0
    )
    episodes = [make_episode(seed=seed) for seed in range(8)]
    losses = [[meta.learn(e).loss for e in episodes] for _ in range(15)]
    assert sum(losses[-1]) < 0.8 * sum(losses[0])


def test_the_whole_loop_visits_every_task_of_every_epoch():
    seen, records = [], []

    def draw(epoch, index):
        seen.append((epoch, index))
        return make_episode(seed=10 * epoch + index)

    settings = with_changes(
        MetaTrainSettings(), n_epochs=2, n_tasks=3, inner_rate=0.01, outer_rate=0.01
    )
    encoder, pcn = make_small_encoder(), PCN(WIDTH)
    meta_train(encoder, pcn, draw, settings, lambda epoch, record: records.append(record))
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    # The same as six tasks by hand.
    by_hand = MetaTrainer(make_small_encoder(), PCN(WIDTH), settings)
    assert records == [by_hand.learn(make_episode(seed=10 * e + i)) for e, i in seen]
    assert torch.equal(by_hand.pcn.linear.weight, pcn.linear.weight)


@pytest.mark.parametrize(
    ("changes", "theta_too"),
    [
        (dict(), True),
        (dict(inner_steps=0), True),  # the batch norms have still learnt
        (dict(inner_steps=0, batch_norm="running"), False),
        (dict(encoder_between_tasks="reset_task"), False),
    ],
)
def test_trainers_that_learn_together_agree_on_what_a_task_changes(changes, theta_too):
    seen = []
    meta = trainer(average=seen.append, **changes)
    meta.learn(make_episode())
    (tensors,) = seen
    gradients, theta = tensors[:2], tensors[2:]
    assert [g.shape for g in gradients] == [p.shape for p in meta.pcn.parameters()]
    state = [v for v in meta.encoder.state_dict().values() if v.is_floating_point()]
    assert len(theta) == (len(state) if theta_too else 0)
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(theta, state, strict=False))


def test_an_averaged_gradient_is_what_the_outer_step_takes():
    def zero(tensors):
        for tensor in tensors:
            tensor.zero_()

    settings = with_changes(
        MetaTrainSettings(), encoder_between_tasks="reset_task", weight_decay=0.0, outer_rate=0.1
    )
    pcn = PCN(WIDTH)
    before = copy_of(pcn)
    MetaTrainer(make_small_encoder(), pcn, settings, zero).learn(make_episode())
    assert not changed(before, pcn)
    MetaTrainer(make_small_encoder(), pcn, settings).learn(make_episode())
    assert changed(before, pcn)


@pytest.mark.parametrize(
    "changes",
    [
        dict(decay_form="initial", weight_decay=5.0, trains="both", encoder_rate=1e-2),
        dict(encoder_between_tasks="reset_epoch", inner_rate=0.01),
    ],
)
def test_a_trainer_goes_on_from_the_state_of_another(changes):
    """Also where it was built on other weights: what it decays or goes back to is in the state."""
    options = dict(outer_rate=1e-2, **changes)
    one, other = trainer(**options), trainer(make_small_encoder(seed=5), seed=5, **options)
    one.learn(make_episode(seed=1))
    other.load_state(deepcopy(one.state()))
    for meta in (one, other):
        meta.start_epoch()
        meta.learn(make_episode(seed=2))
    for a, b in [(one.encoder, other.encoder), (one.pcn, other.pcn)]:
        assert not changed(copy_of(a), b)


def test_an_epoch_brings_batch_norms_back_into_their_mode():
    for batch_norm, trains in [("joint", True), ("running", False)]:
        meta = trainer(batch_norm=batch_norm)
        meta.encoder.train(not trains)  # as a validation might leave them
        meta.start_epoch()
        assert meta.encoder.stages[0][1].training == trains


def test_adam_inside_moves_every_weight_by_its_rate():
    meta = trainer(inner_optimiser="adam", inner_rate=1e-3)
    before = copy_of(meta.encoder)
    meta.learn(make_episode())
    moves = [(p - before[n]).abs().max().item() for n, p in meta.encoder.named_parameters()]
    assert max(moves) == pytest.approx(1e-3, rel=0.01)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(SettingsError, match="plain gradient steps only"):
        trainer(derivative="second", inner_optimiser="adam")
    with pytest.raises(SettingsError, match="would undo"):
        trainer(encoder_between_tasks="reset_epoch", trains="both")


def test_ablations_of_the_regularisers_reach_meta_training():
    settings = MetaTrainSettings()
    assert meta_training_variant(settings, "without_separation").lambda_dis == 0
    assert meta_training_variant(settings, "without_cohesion").lambda_coh == 0
    assert meta_training_variant(settings, "without_wma") == settings
    with pytest.raises(SettingsError, match="no variant"):
        meta_training_variant(settings, "nonsense")
