from itertools import pairwise

import numpy as np
import pytest
import torch

from appl.datasets.packed import PackedImages
from appl.errors import WeightsError
from appl.settings.pretraining import PretrainSettings
from appl.training.pretrain import one_cycle, pretrain
from tests.conftest import make_small_encoder

SETTINGS = PretrainSettings(
    n_epochs=3,
    batch_size=16,
    crop_px=32,
    peak_rate=0.05,
    n_validation_episodes=5,
    n_validation_images=20,
)
CLASSES = [f"c{i}" for i in range(8)]


@pytest.fixture(scope="module")
def source():
    draw = np.random.default_rng(0)
    patterns = draw.integers(0, 200, (8, 1, 4, 4, 3))
    small = patterns + draw.integers(0, 56, (8, 20, 4, 4, 3))
    pixels = small.repeat(9, axis=2).repeat(9, axis=3).reshape(160, 36, 36, 3).astype(np.uint8)
    return PackedImages(pixels, torch.arange(8).repeat_interleave(20), tuple(CLASSES), "x")


def train(source, folder, settings=SETTINGS, **hooks):
    return pretrain(
        make_small_encoder(), source, CLASSES[:3], CLASSES[3:], settings, folder, **hooks
    )


def test_a_killed_run_goes_on_to_the_same_weights_to_the_bit(source, tmp_path):
    whole = train(source, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(step, _total, _loss):
        if step == 5:  # in the middle of the second epoch
            raise Killed

    with pytest.raises(Killed):
        train(source, tmp_path / "parts", on_step=kill)
    resumed = train(source, tmp_path / "parts")
    assert [e.epoch for e in resumed.history] == [1, 2, 3]
    assert resumed.history == whole.history
    for (name, a), b in zip(
        whole.encoder.state_dict().items(), resumed.encoder.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_training_learns_and_keeps_the_best(source, tmp_path):
    settings = PretrainSettings(**{**SETTINGS.__dict__, "n_epochs": 12, "rotated_share": 0.0})
    run = train(source, tmp_path, settings)
    assert run.history[-1].train_accuracy > 0.6
    best = torch.load(tmp_path / "best.pt", weights_only=True)["history"][-1]
    assert best["validation_accuracy"] == max(e.validation_accuracy for e in run.history)


def test_other_settings_do_not_continue_a_run(source, tmp_path):
    train(source, tmp_path)
    other = PretrainSettings(**{**SETTINGS.__dict__, "n_epochs": 4})
    with pytest.raises(WeightsError, match="made with other settings"):
        train(source, tmp_path, other)


def test_the_rate_rises_to_its_peak_and_falls_to_zero():
    rates = [one_cycle(step, 100, PretrainSettings()) for step in range(100)]
    assert max(rates) == pytest.approx(0.2) and rates.index(max(rates)) in (14, 15)
    assert all(b > a for a, b in pairwise(rates[:15]))
    assert all(b < a for a, b in pairwise(rates[16:]))
    assert rates[-1] < 1e-3
