from itertools import pairwise

import pytest
import torch

from appl.errors import DataError, SettingsError, WeightsError
from appl.settings.files import load_settings, with_changes
from appl.settings.pretraining import PretrainSettings
from appl.training.distributed import Processes
from appl.training.pretrain import one_cycle, pretrain, squared_singular_values
from appl.weights.checkpoint import read_checkpoint, write_checkpoint
from tests.conftest import make_small_encoder
from tests.training.conftest import TRAIN, VALIDATION, assert_same_state, start_from

SETTINGS = PretrainSettings(
    n_epochs=3,
    batch_size=16,
    crop_px=32,
    peak_rate=0.05,
    n_validation_episodes=5,
    n_validation_images=20,
)


def train(source, folder, settings=SETTINGS, **hooks):
    return pretrain(make_small_encoder(), source, TRAIN, VALIDATION, settings, folder, **hooks)


class Killed(Exception):
    pass


def kill_in_the_second_epoch(step, _total, _loss):
    if step == 5:
        raise Killed


def test_a_killed_run_goes_on_to_the_same_weights_to_the_bit(source, tmp_path):
    whole = train(source, tmp_path / "whole")
    with pytest.raises(Killed):
        train(source, tmp_path / "parts", on_step=kill_in_the_second_epoch)
    resumed = train(source, tmp_path / "parts")
    assert [e.epoch for e in resumed.history] == [1, 2, 3]
    assert resumed.history == whole.history
    assert_same_state(whole.encoder.state_dict(), resumed.encoder.state_dict())


def test_a_checkpoint_of_the_first_version_goes_on(source, tmp_path):
    whole = train(source, tmp_path / "whole")
    with pytest.raises(Killed):
        train(source, tmp_path / "parts", on_step=kill_in_the_second_epoch)
    path = tmp_path / "parts" / "last.pt"
    saved = read_checkpoint(path)
    del saved["history"][0]["loading_share"]
    known = ("settings", "encoder", "class_head", "turn_head", "optimiser", "history")
    write_checkpoint(path, {key: saved[key] for key in known})
    resumed = train(source, tmp_path / "parts", start=start_from("a"))
    assert resumed.history == whole.history and resumed.history[0].loading_share == 0
    assert_same_state(whole.encoder.state_dict(), resumed.encoder.state_dict())


def test_the_share_of_loading_is_measured_and_kept(source, tmp_path):
    train(source, tmp_path)
    for epoch in read_checkpoint(tmp_path / "last.pt")["history"]:
        assert 0 < epoch["loading_share"] < 1


def test_the_settings_are_left_beside_the_checkpoints(source, tmp_path):
    train(source, tmp_path)
    assert load_settings(PretrainSettings, tmp_path / "settings.toml") == SETTINGS


def test_training_learns_and_keeps_the_best(source, tmp_path):
    settings = PretrainSettings(**{**SETTINGS.__dict__, "n_epochs": 12, "rotated_share": 0.0})
    run = train(source, tmp_path, settings)
    assert run.history[-1].train_accuracy > 0.6
    best = torch.load(tmp_path / "best.pt", weights_only=True)["history"][-1]
    assert best["validation_accuracy"] == max(e.validation_accuracy for e in run.history)


def test_another_training_does_not_continue_a_run(source, tmp_path):
    start = start_from("a1", {"of": "that file"})
    train(source, tmp_path, start=start)
    train(source, tmp_path, start=start)
    with pytest.raises(WeightsError, match="made with other settings"):
        train(source, tmp_path, with_changes(SETTINGS, n_epochs=4), start=start)
    assert load_settings(PretrainSettings, tmp_path / "settings.toml") == SETTINGS
    with pytest.raises(WeightsError, match="made from other first weights"):
        train(source, tmp_path)
    with pytest.raises(WeightsError, match="made from other first weights"):
        train(source, tmp_path, start=start_from("a2", encoder=start.encoder))
    with pytest.raises(WeightsError, match="other images or another split"):
        pretrain(
            make_small_encoder(), source, VALIDATION, VALIDATION, SETTINGS, tmp_path, start=start
        )
    saved = read_checkpoint(tmp_path / "last.pt")
    assert saved["started_from"] == {"sha256": "a1", "provenance": {"of": "that file"}}


def test_a_batch_that_cannot_be_filled_or_shared_is_refused_at_once(source, tmp_path):
    with pytest.raises(DataError, match="60 training images do not fill a batch"):
        train(source, tmp_path, with_changes(SETTINGS, batch_size=64))
    with pytest.raises(SettingsError, match="batch_size = 16 cannot be shared out among 3"):
        train(source, tmp_path, processes=Processes(0, 3))


def test_the_rate_rises_to_its_peak_and_falls_to_zero():
    rates = [one_cycle(step, 100, PretrainSettings()) for step in range(100)]
    assert max(rates) == pytest.approx(0.2) and rates.index(max(rates)) in (14, 15)
    assert all(b > a for a, b in pairwise(rates[:15]))
    assert all(b < a for a, b in pairwise(rates[16:]))
    assert rates[-1] < 1e-3


DISTILLED = with_changes(SETTINGS, distillation_weight=1.0)


def test_a_distilled_run_killed_goes_on_to_the_same_weights_to_the_bit(source, tmp_path):
    start = start_from("a")
    whole = train(source, tmp_path / "whole", DISTILLED, start=start)
    with pytest.raises(Killed):
        train(source, tmp_path / "parts", DISTILLED, start=start, on_step=kill_in_the_second_epoch)
    resumed = train(source, tmp_path / "parts", DISTILLED, start=start)
    assert resumed.history == whole.history
    assert_same_state(whole.encoder.state_dict(), resumed.encoder.state_dict())
    assert_same_state(whole.teacher.state_dict(), resumed.teacher.state_dict())
    plain = train(source, tmp_path / "plain", start=start)
    assert plain.history != whole.history


def test_fresh_weights_cannot_teach(source, tmp_path):
    with pytest.raises(SettingsError, match="fresh weights cannot teach"):
        train(source, tmp_path, DISTILLED)


def test_the_spectral_penalty_is_that_of_the_singular_values():
    features = torch.randn(7, 5, dtype=torch.float64)
    expected = torch.linalg.svdvals(features).square().sum()
    torch.testing.assert_close(squared_singular_values(features), expected)


def test_the_spectral_penalty_makes_features_shorter(source, tmp_path):
    runs = [
        train(source, tmp_path / str(weight), with_changes(SETTINGS, spectral_weight=weight))
        for weight in (0.0, 1.0)
    ]
    images = source.images(torch.arange(60))
    lengths = [run.encoder.eval().encode(images).norm(dim=1).mean().item() for run in runs]
    assert lengths[1] < 0.8 * lengths[0]
    assert runs[1].history[0].loss > runs[0].history[0].loss
