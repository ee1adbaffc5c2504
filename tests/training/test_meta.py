from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from appl.errors import SettingsError, TaskError, WeightsError
from appl.images.store import ImageArray
from appl.method.pcn import PCN
from appl.settings import MetaTrainSettings
from appl.settings.files import load_settings, with_changes
from appl.training.distributed import Processes
from appl.training.episodes import draw_task
from appl.training.meta import train_meta
from appl.training.pretrain import pretrain
from appl.weights.checkpoint import read_checkpoint
from tests.conftest import WIDTH, make_small_encoder
from tests.training.conftest import TRAIN, VALIDATION, assert_same_state, start_from
from tests.training.test_pretrain import SETTINGS as PRETRAIN_SETTINGS

SMALL = dict(
    n_way=3, n_query=4, n_epochs=3, n_tasks=4, n_validation_episodes=5, n_validation_images=20
)


def settings_of(preset="robust", **changes):
    return with_changes(MetaTrainSettings.preset(preset), **(SMALL | changes))


def train(source, folder, settings=None, sha256="a1", pcn=None, **hooks):
    start = start_from(sha256, {"before": "pretraining"}, pcn=pcn)
    chosen = settings or settings_of()
    return train_meta(start, source, TRAIN, VALIDATION, chosen, folder, **hooks)


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "settings",
    [
        settings_of(outer_rate=1e-2),
        settings_of(weight_decay=10.0, trains="both", encoder_rate=1e-2),
        settings_of("paper", inner_rate=1e-2, outer_rate=1e-2),
        settings_of("paper", inner_rate=1e-2, encoder_between_tasks="reset_epoch"),
        settings_of("released", outer_rate=1e-2),
    ],
    ids=["robust", "anchors of both", "paper", "reset every epoch", "released"],
)
def test_a_killed_run_goes_on_to_the_same_weights_to_the_bit(source, tmp_path, settings):
    whole = train(source, tmp_path / "whole", settings)

    def kill(done, _total, _record):
        if done == 6:  # in the middle of the second epoch
            raise Killed

    with pytest.raises(Killed):
        train(source, tmp_path / "parts", settings, on_task=kill)
    resumed = train(source, tmp_path / "parts", settings)
    assert [e.epoch for e in resumed.history] == [0, 1, 2, 3]
    assert resumed.history == whole.history
    assert_same_state(whole.trainer.encoder.state_dict(), resumed.trainer.encoder.state_dict())
    assert_same_state(whole.trainer.pcn.state_dict(), resumed.trainer.pcn.state_dict())
    # Something was learnt, or equality would say nothing.
    assert whole.history[1].tasks != whole.history[3].tasks
    first = train(source, tmp_path / "none", with_changes(settings, n_epochs=0)).trainer.pcn
    assert not torch.equal(first.linear.weight, whole.trainer.pcn.linear.weight)


def test_without_a_task_the_mean_pcn_validates_as_pretraining_does(source, tmp_path):
    run = train(source, tmp_path / "meta", settings_of(n_epochs=0))
    assert len(run.history) == 1 and run.history[0].tasks is None
    still = with_changes(PRETRAIN_SETTINGS, n_epochs=1, peak_rate=0.0)
    encoder = make_small_encoder()
    for module in encoder.modules():  # what they remember stays as it is
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.0
    other = pretrain(encoder, source, TRAIN, VALIDATION, still, tmp_path / "pre")
    expected = other.history[0].validation_accuracy
    assert run.history[0].validation_accuracy == pytest.approx(expected)


def test_best_and_last_are_kept_with_the_start_and_the_settings(source, tmp_path):
    settings = settings_of(outer_rate=1e-2)
    run = train(source, tmp_path, settings)
    last, best = (read_checkpoint(tmp_path / f"{name}.pt") for name in ("last", "best"))
    assert_same_state(last["pcn"], run.trainer.pcn.state_dict())
    accuracies = [e.validation_accuracy for e in run.history]
    assert best["history"][-1]["validation_accuracy"] == max(accuracies)
    assert len(last["history"]) == 4 and last["history"][1]["tasks"]["loss"] > 0
    assert all(0 < e["loading_share"] < 1 for e in last["history"][1:])
    assert last["started_from"]["provenance"] == {"before": "pretraining"}
    assert load_settings(MetaTrainSettings, tmp_path / "settings.toml") == settings


def test_another_training_does_not_continue_a_run(source, tmp_path):
    train(source, tmp_path)
    with pytest.raises(WeightsError, match="made with other settings"):
        train(source, tmp_path, settings_of(n_epochs=4))
    with pytest.raises(WeightsError, match="made from other first weights"):
        train(source, tmp_path, sha256="a2")
    with pytest.raises(WeightsError, match="made by `appl train meta`"):
        pretrain(make_small_encoder(), source, TRAIN, VALIDATION, PRETRAIN_SETTINGS, tmp_path)


def test_a_task_is_a_function_of_seed_epoch_and_index(source):
    def images(epoch=1, index=0, **changes):
        return draw_task(source, TRAIN, settings_of(**changes), epoch, index).task.images()

    assert torch.equal(images(), images())
    others = [images(epoch=2), images(index=1), images(seed=1), images(augment=False)]
    assert all(not torch.equal(images(), other) for other in others)
    # The images of the plain task are the source's own.
    stored = {image.numpy().tobytes() for image in source.images(torch.arange(160))}
    plain = draw_task(source, TRAIN, settings_of(augment=False), 1, 0).task
    assert all(image.numpy().tobytes() in stored for image in plain.images().mul(255).byte())


def test_augmentation_is_drawn_anew_for_every_task(source):
    pixels = source.store.pixels
    one_image = replace(source, store=ImageArray(np.broadcast_to(pixels[:1], pixels.shape)))
    views = [
        draw_task(one_image, TRAIN, settings_of(), epoch, index).task.images()
        for epoch in (1, 2)
        for index in (0, 1)
    ]
    assert all(not torch.equal(a, b) for a, b in combinations(views, 2))
    assert not torch.equal(views[0][0], views[0][1])


def test_no_two_epochs_share_a_task(source):
    settings = settings_of(augment=False)
    drawn = [
        draw_task(source, TRAIN, settings, epoch, index).task.images().numpy().tobytes()
        for epoch in (1, 2, 3)
        for index in range(settings.n_tasks)
    ]
    assert len(set(drawn)) == 12


def test_the_pcn_starts_as_the_settings_say(source, tmp_path):
    trained = PCN(WIDTH, initialisation="random")
    weights = {}
    for choice in ("mean", "random", "start"):
        settings = settings_of(n_epochs=0, pcn_initialisation=choice)
        run = train(source, tmp_path / choice, settings, pcn=trained)
        weights[choice] = run.trainer.pcn.linear.weight
    assert torch.equal(weights["mean"], PCN(WIDTH).linear.weight)
    assert weights["start"] is trained.linear.weight
    assert not torch.equal(weights["random"], weights["start"])
    for pcn in (None, PCN(WIDTH, 3)):
        with pytest.raises(WeightsError, match="hold no PCN of 5 slots"):
            train(source, tmp_path / "no", settings_of(pcn_initialisation="start"), pcn=pcn)


def test_tasks_that_cannot_be_drawn_or_shared_are_refused(source, tmp_path):
    with pytest.raises(TaskError, match="3 classes are too few for a 5-way episode"):
        train(source, tmp_path, settings_of(n_way=5))
    with pytest.raises(SettingsError, match="n_tasks = 4 cannot be shared out among 3"):
        train(source, tmp_path, processes=Processes(0, 3))
