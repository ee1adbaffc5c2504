"""A rival's meta-training: the loop, its checkpoints, and the weights that it leaves."""

from pathlib import Path

import pytest
import torch

from appl.encoders import ENCODERS, Encoder
from appl.errors import SettingsError, WeightsError
from appl.settings.files import load_settings, structure_settings
from appl.settings.rival_training import RivalTrainSettings
from appl.training.distributed import Processes
from appl.training.episodes import draw_task
from appl.training.rival import train_rival
from appl.weights import export_weights, load_file, load_pretrained
from tests.conftest import make_small_encoder
from tests.map_encoder import make_map_encoder
from tests.training.conftest import TRAIN, VALIDATION, assert_same_state, start_from

SMALL = dict(
    n_way=3, n_shot=2, n_query=3, n_epochs=3, n_tasks=4, n_validation_episodes=4, encoder_rate=1e-3
)


def settings_of(method: str = "prototypical", **changes) -> RivalTrainSettings:
    return structure_settings(RivalTrainSettings, {"method": method, **SMALL, **changes})


def make_resnet() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ENCODERS.get("resnet10")()


def train(source, folder: Path, settings: RivalTrainSettings, encoder=None, **hooks):
    start = start_from("a1", {"before": "pretraining"}, encoder)
    return train_rival(start, source, TRAIN, VALIDATION, settings, folder, **hooks)


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "settings",
    [
        settings_of(),
        settings_of("gnn"),
        settings_of("tpn", tasks_a_step=2),
        settings_of("hvm"),
        settings_of("lrp_can"),
    ],
    ids=["no head", "a head", "two tasks a step", "memory", "source classes"],
)
def test_a_killed_run_goes_on_to_the_same_weights_to_the_bit(source, tmp_path, settings):
    whole = train(source, tmp_path / "whole", settings)

    def kill(done, _total, _record):
        if done == 6:  # in the middle of the second epoch
            raise Killed

    with pytest.raises(Killed):
        train(source, tmp_path / "parts", settings, on_task=kill)
    resumed = train(source, tmp_path / "parts", settings)

    assert resumed.history == whole.history
    for ours, theirs in zip(whole.trainer.modules, resumed.trainer.modules, strict=True):
        assert_same_state(ours.state_dict(), theirs.state_dict())
    fresh = make_small_encoder().state_dict()
    learnt = whole.trainer.encoder.state_dict()
    assert any(not torch.equal(learnt[name], fresh[name]) for name in fresh)


def test_training_tells_its_own_classes_apart_better(source, tmp_path):
    run = train(source, tmp_path, settings_of(n_epochs=8, n_tasks=8, augment=False))
    accuracies = [epoch.tasks.query_accuracy for epoch in run.history[1:]]
    assert sum(accuracies[-2:]) > sum(accuracies[:2])


def test_the_rate_falls_to_nothing(source, tmp_path):
    rates = []
    settings = settings_of("gnn")
    start = start_from()
    run = train_rival(start, source, TRAIN, VALIDATION, settings, tmp_path)
    rates = [group["lr"] for group in run.trainer.optimiser.param_groups]
    # The last of 12 tasks: half of 1 + cos(11/12 π).
    assert rates == pytest.approx([0.01704 * 1e-3, 0.01704 * 1e-3], rel=1e-3)


def test_weights_come_back_with_their_head(source, tmp_path):
    settings = settings_of("relation", method_settings={"loss_form": "mse"}, n_epochs=1, n_tasks=1)
    run = train(source, tmp_path, settings, make_resnet())
    found = load_file(tmp_path / "last.pt")
    assert found.head is not None
    assert found.head.name == "relation" and found.head.settings == {"loss_form": "mse"}
    for ours, theirs in zip(run.trainer.modules, (found.encoder, found.head.module), strict=True):
        assert_same_state(ours.state_dict(), theirs.state_dict())
    assert load_settings(RivalTrainSettings, tmp_path / "settings.toml") == settings
    task = draw_task(source, TRAIN, settings, 1, 0).task
    export_weights(tmp_path / "last.pt", tmp_path / "weights.safetensors")
    shipped = load_pretrained(str(tmp_path / "weights.safetensors"))
    assert shipped.head is not None and not shipped.head.module.training
    scores = [head_of.answer(shipped.encoder, task) for head_of in (shipped.head, found.head)]
    torch.testing.assert_close(scores[0], scores[1], atol=0.05, rtol=0.05)  # fp16 in the file


@pytest.mark.parametrize("name", ["tim", "appl", "linear_probe"])
def test_what_has_nothing_to_learn_is_refused(source, tmp_path, name):
    with pytest.raises(SettingsError, match=f"{name} has nothing to learn on the source"):
        train(source, tmp_path, settings_of(name))


def test_tasks_of_a_step_divide_an_epoch(source, tmp_path):
    with pytest.raises(SettingsError, match="n_tasks = 4 is no multiple of the 3 tasks"):
        train(source, tmp_path, settings_of(tasks_a_step=3))


def test_a_memory_is_not_shared_out_among_processes(source, tmp_path):
    with pytest.raises(SettingsError, match="hvm keeps a memory of classes"):
        train(source, tmp_path, settings_of("hvm"), processes=Processes(0, 2))


def test_another_method_does_not_continue_a_run(source, tmp_path):
    train(source, tmp_path, settings_of("gnn"))
    with pytest.raises(WeightsError, match="made by `appl train meta --method gnn`"):
        train(source, tmp_path, settings_of())


def test_a_task_knows_which_training_classes_it_has(source):
    """By the images themselves: each support is of the class that its id stands for."""
    settings = settings_of(augment=False, n_way=2)
    for index in range(6):
        episode = draw_task(source, TRAIN, settings, 1, index)
        for image, class_id in zip(episode.task.support, episode.task.class_ids, strict=True):
            name = TRAIN[episode.source_ids[class_id]]
            members = source.images(source.members(name))
            assert any(torch.equal(image, member) for member in members)


def test_feature_wise_noise_is_there_in_training_only(source, tmp_path):
    few = dict(n_epochs=1, n_tasks=2)
    fwt = settings_of("prototypical_fwt", **few)
    plain = train(source, tmp_path / "plain", settings_of(**few), make_resnet())
    noisy = train(source, tmp_path / "noisy", fwt, make_resnet())
    assert plain.history[0].validation_accuracy == noisy.history[0].validation_accuracy
    assert plain.history[1].tasks.loss != noisy.history[1].tasks.loss
    again = train(source, tmp_path / "again", fwt, make_resnet())
    assert again.history == noisy.history


def test_adversarial_tasks_without_ascent_train_the_host_to_the_bit(source, tmp_path):
    few = dict(n_epochs=1, n_tasks=3)
    host = train(source, tmp_path / "host", settings_of("gnn", **few))
    none = settings_of("gnn_ata", method_settings={"n_ascents": 0, "keep_share": 1.0}, **few)
    still = train(source, tmp_path / "still", none)
    for ours, theirs in zip(host.trainer.modules, still.trainer.modules, strict=True):
        assert_same_state(ours.state_dict(), theirs.state_dict())
    raised = train(source, tmp_path / "raised", settings_of("gnn_ata", **few))
    assert raised.history[1].tasks.loss > host.history[1].tasks.loss


def test_a_row_can_start_from_the_head_of_its_host(source, tmp_path):
    first = train(source, tmp_path / "gnn", settings_of("gnn", n_epochs=1), make_map_encoder())
    start = load_file(tmp_path / "gnn" / "last.pt")
    settings = settings_of("lrp_gnn", n_epochs=0, head_initialisation="start")
    place = (source, TRAIN, VALIDATION)
    run = train_rival(start, *place, settings, tmp_path / "lrp")
    assert_same_state(run.trainer.head.module.state_dict(), first.trainer.head.module.state_dict())
    assert run.history[0].validation_accuracy == first.history[-1].validation_accuracy
    other = settings_of("relation", n_epochs=0, head_initialisation="start")
    with pytest.raises(WeightsError, match="the head of gnn does not fit relation"):
        train_rival(start, *place, other, tmp_path / "relation")
    with pytest.raises(WeightsError, match="hold no head"):
        train(source, tmp_path / "none", settings)
