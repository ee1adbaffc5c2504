import math

import pytest
import torch
from torch import nn

from appl.encoders import Describer
from appl.encoders.batch_statistics import take_task_statistics
from appl.encoders.views import PROBES
from appl.errors import SettingsError
from appl.method.algorithm2 import adapt
from appl.method.learner import TaskLearner
from appl.method.pcn import PCN
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from tests.conftest import WIDTH, make_episode, make_small_encoder
from tests.method.test_algorithm2 import preset


@pytest.mark.parametrize("batch_norm", ["running", "task"])
@pytest.mark.parametrize("micro_batch", [1, 4, 100])
def test_micro_batches_give_the_same_gradient(small_encoder, batch_norm, micro_batch):
    task = make_episode().task
    whole = preset(parameters={"batch_norm": batch_norm})
    parts = with_changes(whole, micro_batch=micro_batch)
    first, second = (adapt(small_encoder, PCN(WIDTH), task, s) for s in (whole, parts))
    torch.testing.assert_close(first.scores, second.scores, rtol=1e-3, atol=1e-4)
    assert second.notes == ()


@pytest.mark.parametrize("batch_norm", ["joint", "separate"])
def test_micro_batches_are_declined_in_words_where_statistics_need_the_whole(
    small_encoder, batch_norm
):
    task = make_episode().task
    chosen = preset(parameters={"batch_norm": batch_norm})
    whole = adapt(small_encoder, PCN(WIDTH), task, chosen)
    result = adapt(small_encoder, PCN(WIDTH), task, with_changes(chosen, micro_batch=4))
    assert "micro_batch was not used" in result.notes[0]
    assert torch.equal(result.scores, whole.scores)


def test_the_four_kinds_of_statistics_differ(small_encoder):
    task = make_episode(noise=0.4).task
    scores = [
        adapt(small_encoder, PCN(WIDTH), task, preset(parameters={"batch_norm": kind})).scores
        for kind in ("joint", "separate", "running", "task")
    ]
    for i in range(4):
        for j in range(i):
            assert not torch.allclose(scores[i], scores[j], rtol=1e-4)


def test_task_statistics_are_those_of_one_joint_batch(small_encoder):
    images = make_episode(noise=0.4).task.images()
    with torch.no_grad():
        maps = small_encoder.stages[0][0](small_encoder.normalise(images))
    take_task_statistics(small_encoder, images)
    norm = small_encoder.stages[0][1]
    torch.testing.assert_close(norm.running_mean, maps.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, maps.var((0, 2, 3)), rtol=1e-4, atol=1e-5)
    assert norm.momentum == 0.1 and not norm.training


@pytest.fixture
def prefix_runs(small_encoder, monkeypatch):
    """How many images each run of the first stage alone has taken."""
    runs = []
    real = type(small_encoder).run

    def counted(self, maps, start=0, stop=None):
        if start == 0 and stop == 1:
            runs.append(len(maps))
        return real(self, maps, start, stop)

    monkeypatch.setattr(type(small_encoder), "run", counted)
    return runs


def test_a_frozen_prefix_does_not_change_and_is_run_once_for_each_view(small_encoder, prefix_runs):
    parameters = {"frozen_stages": 1, "batch_norm": "running"}
    chosen = preset("robust", n_iterations=5, parameters=parameters)
    task = make_episode().task
    result = adapt(small_encoder, PCN(WIDTH), task, chosen)
    assert sum(prefix_runs) == 4 * (task.n_support + task.n_query)
    before, after = small_encoder.state_dict(), result.encoder.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith("stages.0"))
    assert not torch.equal(before["stages.1.1.weight"], after["stages.1.1.weight"])


def test_two_descriptions_of_a_task_cost_the_prefix_one_pass_over_the_mirror_images(
    small_encoder, prefix_runs
):
    chosen = preset(
        "robust", n_iterations=5, parameters={"frozen_stages": 1}, views={"kinds": "all"}
    )
    task = make_episode().task
    answer = SolveSettings.preset("robust").answer
    result = solve_task(small_encoder, PCN(WIDTH), task, SolveSettings(chosen, answer))
    assert result.describer.mirrored
    assert sum(prefix_runs) == (4 + 1) * (task.n_support + task.n_query)


@pytest.mark.parametrize("frozen_stages", [0, 1])
def test_a_description_from_kept_maps_is_that_of_the_images(small_encoder, frozen_stages):
    task = make_episode(noise=0.3).task
    chosen = preset("robust", parameters={"frozen_stages": frozen_stages}, views={"kinds": "all"})
    learner = TaskLearner(small_encoder, task, chosen, ask_mirror=True)
    assert learner.tolerates_mirroring
    found = learner.describe(texture_weight=0.5, mirrored=True)
    describer = Describer((small_encoder,), (0,), mirrored=True, texture_weight=0.5)
    for images, rows in ((task.support, slice(15)), (task.query, slice(15, None))):
        expected = describer.in_parts(images)
        assert len(found) == len(expected) == 2
        for kind, vectors in zip(found, expected, strict=True):
            torch.testing.assert_close(kind[rows], vectors)


def test_a_cached_prefix_gives_the_features_of_an_uncached_one(small_encoder):
    task = make_episode().task
    whole, cached = (
        TaskLearner(small_encoder, task, preset(parameters=parameters)).features()
        for parameters in (
            {"frozen_stages": 0, "batch_norm": "running"},
            {"frozen_stages": 1, "batch_norm": "running"},
        )
    )
    for one, other in zip(whole, cached, strict=True):
        torch.testing.assert_close(one, other)


def test_the_task_is_asked_for_its_views_unless_all_are_wanted(small_encoder):
    task = make_episode(noise=0.0).task
    asked = TaskLearner(small_encoder, task, preset("robust"))
    told = TaskLearner(small_encoder, task, preset("robust", views={"kinds": "all"}))
    assert told.augmentations == list(PROBES)
    assert asked.augmentations != told.augmentations
    paper = TaskLearner(small_encoder, task, preset("paper"))
    assert paper.augmentations == [] and not paper.tolerates_mirroring
    assert asked.has_views and not paper.has_views


def test_the_task_is_asked_where_the_answer_alone_wants_to_know(small_encoder):
    task = make_episode(noise=0.3).task
    asked = TaskLearner(small_encoder, task, preset("robust"))
    alone = TaskLearner(small_encoder, task, preset("paper"), ask_mirror=True)
    assert alone.augmentations == asked.augmentations == ["mirror", "upside_down"]
    assert alone.tolerates_mirroring and not alone.has_views


@pytest.mark.parametrize(
    ("move", "kinds"),
    [
        ("all", {nn.Conv2d, nn.BatchNorm2d}),
        ("weights", {nn.Conv2d}),
        ("norms", {nn.BatchNorm2d}),
        ("low_rank", {nn.Conv2d}),
    ],
)
def test_what_learns_is_what_was_asked_for(small_encoder, move, kinds):
    chosen = preset(parameters={"move": move})
    result = adapt(small_encoder, PCN(WIDTH), make_episode().task, chosen)
    changed = set()
    for old, new in zip(small_encoder.modules(), result.encoder.modules(), strict=True):
        pairs = zip(old.parameters(recurse=False), new.parameters(recurse=False), strict=True)
        if any(not torch.equal(a, b) for a, b in pairs):
            changed.add(type(old))
    assert changed == kinds


def test_freezing_too_much_or_learning_nothing_is_an_error():
    encoder, task = make_small_encoder(), make_episode().task
    with pytest.raises(SettingsError, match="small can freeze 1 of its 2 stages"):
        TaskLearner(encoder, task, preset(parameters={"frozen_stages": 2}))
    plain = make_small_encoder()
    plain.stages[1] = nn.Conv2d(4, WIDTH, 3)
    chosen = preset(parameters={"frozen_stages": 1, "move": "norms"})
    with pytest.raises(SettingsError, match="nothing of that kind after 1 frozen"):
        TaskLearner(plain, task, chosen)
    # Where nothing is to learn, that is no mistake.
    assert TaskLearner(plain, task, with_changes(chosen, n_iterations=0)).parameters == []


def test_released_images_are_standardised_one_by_one(small_encoder):
    task = make_episode().task
    model = TaskLearner(small_encoder, task, preset("released"))
    pixels = model.encoder.normalise(task.support)
    torch.testing.assert_close(pixels.mean((1, 2, 3)), torch.zeros(15), atol=1e-5, rtol=0)
    torch.testing.assert_close(pixels.std((1, 2, 3)), torch.ones(15), atol=1e-3, rtol=0)
    assert not small_encoder.standardise


@pytest.mark.golden
def test_the_rate_rises_for_five_iterations_and_falls_as_a_cosine(small_encoder):
    task = make_episode().task
    chosen = preset(n_iterations=10, learning_rate=0.01, rate_decay="cosine")
    learner = TaskLearner(small_encoder, task, chosen)
    rates = []
    for _ in range(10):
        rates.append(learner.optimiser.param_groups[0]["lr"])
        support, _ = learner.features()
        assert learner.step(support.square().mean())
    halves = [0.5 * (1 + math.cos(math.pi * i / 10)) for i in range(10)]
    warm = [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1, 1]
    assert rates == pytest.approx([0.01 * a * b for a, b in zip(warm, halves, strict=True)])
    constant = TaskLearner(small_encoder, task, with_changes(chosen, rate_decay="none"))
    assert constant.optimiser.param_groups[0]["lr"] == 0.01


@pytest.mark.golden
def test_the_average_of_the_weights_answers(small_encoder):
    task = make_episode().task
    learner = TaskLearner(small_encoder, task, preset(weight_average=0.25, n_iterations=3))
    expected = learner.parameters[0].detach().clone()
    for _ in range(3):
        support, _ = learner.features()
        learner.step(support.square().mean())
        expected = 0.75 * expected + 0.25 * learner.parameters[0].detach()
    last = learner.parameters[0].detach().clone()
    learner.predict_mode()
    torch.testing.assert_close(learner.parameters[0].detach(), expected)
    assert not torch.equal(last, learner.parameters[0].detach())
