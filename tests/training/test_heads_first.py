"""The phase in which a head learns alone, on features that are made once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from appl.core.episode import Episode, Task
from appl.core.seeds import generator_for
from appl.encoders import features_of
from appl.errors import SettingsError
from appl.training.episodes import TrainedEpoch, draw_task, n_tasks_since_best
from appl.training.noise import FeatureNoise
from appl.training.views import SHIFTS, encode_views, shifted_views_of
from appl.weights import export_weights, load_pretrained
from appl.weights.heads import new_head
from tests.conftest import make_episode, make_small_encoder
from tests.map_encoder import make_map_encoder
from tests.training.conftest import TRAIN, assert_same_state
from tests.training.test_rival import Killed, settings_of, train

FIRST = dict(n_epochs=2, n_tasks=3, n_views=0, patience=0)


def settings_with(method: str = "gnn", first: dict | None = None, **changes):
    return settings_of(method, n_epochs=0, heads_first={**FIRST, **(first or {})}, **changes)


@pytest.mark.parametrize("n_views", [0, 2])
@pytest.mark.parametrize("method", ["gnn", "relation", "hvm"])
def test_it_is_the_training_on_images_with_the_encoder_as_it_is(source, tmp_path, method, n_views):
    """Against a plain loop: images, a frozen encoder in evaluation mode, Adam on the head."""
    settings = settings_with(method, {"n_views": n_views})
    fast = train(source, tmp_path, settings)

    encoder = make_small_encoder().eval().requires_grad_(False)
    head = new_head(method, {}, settings.n_way, settings.seed, encoder)
    head.module.train()
    adam = torch.optim.Adam(head.module.parameters(), lr=1e-3)
    for epoch in (1, 2):
        for index in range(3):
            episode = draw_task(source, TRAIN, settings.head_phase, epoch, index)
            assert episode.task.support.dim() == 4
            adam.zero_grad()
            head.training_loss(encoder, episode).loss.backward()
            adam.step()
    saved = torch.load(tmp_path / "heads" / "last.pt", weights_only=True)
    # By their answers: some biases stand before a batch norm and have a will of their own.
    task, answers = draw_task(source, TRAIN, settings.head_phase, 9, 0).task, []
    head.module.eval()
    untrained = new_head(method, {}, settings.n_way, settings.seed, encoder).module.eval()
    for state in (head.module.state_dict(), saved["head"], untrained.state_dict()):
        head.module.load_state_dict(state)
        answers.append(head.answer(encoder, task))
    torch.testing.assert_close(answers[0], answers[1], atol=2e-3, rtol=2e-2)
    assert not torch.allclose(answers[0], answers[2], atol=1e-2)
    assert_same_state(fast.trainer.encoder.state_dict(), encoder.state_dict())


def test_the_training_goes_on_from_the_best_head_and_keeps_both_curves(source, tmp_path):
    settings = replace(settings_with(), n_epochs=1)
    run = train(source, tmp_path, settings, make_map_encoder())
    best = torch.load(tmp_path / "heads" / "best.pt", weights_only=True)
    assert run.history[0].epoch == 0
    values = [epoch["validation_accuracy"] for epoch in best["history"]]
    assert values[-1] == max(values)
    export_weights(tmp_path / "last.pt", tmp_path / "w.safetensors")
    provenance = load_pretrained(str(tmp_path / "w.safetensors")).provenance
    assert [epoch["epoch"] for epoch in provenance["head_history"]] == [0, 1, 2]
    assert [epoch["epoch"] for epoch in provenance["history"]] == [0, 1]
    # The joint phase validates on images what the first one validated on features.
    assert run.history[0].validation_accuracy == pytest.approx(values[-1], abs=1e-6)


@pytest.mark.parametrize("killed_at", [4, 8], ids=["heads", "joint"])
def test_killed_in_either_phase_it_ends_with_the_same_weights(source, tmp_path, killed_at):
    noisy = {"noise": 0.2, "dropout": 0.2, "shifted_share": 0.5, "n_views": 1}
    settings = replace(settings_with(first=noisy), n_epochs=2)
    whole = train(source, tmp_path / "whole", settings)
    n_done = 0

    def kill(_done, _total, _record):
        nonlocal n_done
        n_done += 1
        if n_done == killed_at:
            raise Killed

    with pytest.raises(Killed):
        train(source, tmp_path / "parts", settings, on_task=kill)
    resumed = train(source, tmp_path / "parts", settings)
    assert resumed.history == whole.history
    for ours, theirs in zip(whole.trainer.modules, resumed.trainer.modules, strict=True):
        assert_same_state(ours.state_dict(), theirs.state_dict())


def test_it_ends_when_validation_has_not_risen_for_long_enough(source, tmp_path):
    still = {"n_epochs": 9, "rate": 0.0, "patience": 6}
    train(source, tmp_path, settings_with(first=still))
    history = torch.load(tmp_path / "heads" / "last.pt", weights_only=True)["history"]
    best = max(range(len(history)), key=lambda i: history[i]["validation_accuracy"])
    assert history[-1]["epoch"] == best + 2 < 9


def test_tasks_since_the_best_validation():
    history = [TrainedEpoch(e, a, 1.0) for e, a in [(0, 50.0), (1, 60.0), (2, 60.0), (4, 59.0)]]
    assert n_tasks_since_best([], 10) == 0
    assert n_tasks_since_best(history[:2], 10) == 0
    assert n_tasks_since_best(history, 10) == 30


@pytest.mark.parametrize(("method", "words"), [("maml", "changes"), ("prototypical", "no head")])
def test_where_there_is_no_such_phase_it_is_refused(source, tmp_path, method, words):
    with pytest.raises(SettingsError, match=f"{method} .*{words}"):
        train(source, tmp_path, settings_with(method))


def test_noise_and_dropout_have_their_sizes():
    maps = 5 + 2 * torch.randn(400, 3, 2, 2, generator=generator_for("maps"))
    class_ids = torch.arange(2).repeat_interleave(100)
    whole = Episode(Task(maps[:200], class_ids, maps[200:]), class_ids)

    def changed(noise: FeatureNoise) -> torch.Tensor:
        with noise.augmented(None, None, None, whole, generator_for(0)) as episode:
            return episode.task.images()

    noise = changed(FeatureNoise(0.5, 0.0)) - maps
    assert noise.std().item() == pytest.approx(1.0, rel=0.05)
    dropped = changed(FeatureNoise(0.0, 0.25))
    is_gone = (dropped == 0).all((2, 3))
    assert is_gone.float().mean().item() == pytest.approx(0.25, abs=0.04)
    torch.testing.assert_close(dropped[~is_gone], maps[~is_gone] / 0.75)
    episode = make_episode()
    with FeatureNoise(0.0, 0.0).augmented(None, None, None, episode, generator_for(0)) as same:
        assert same is episode


def test_shifted_copies_are_tasks_of_their_own(source, tmp_path):
    encoder = make_small_encoder().eval()
    made = encode_views(encoder, "a", source, TRAIN, 1, tmp_path, shifted_share=0.5)
    assert len(list(tmp_path.glob("*.npy"))) == 1 + len(SHIFTS)
    index, found = torch.tensor([3, 41, 20]), []
    expected = {
        shift: encoder.encode(shifted_views_of(source, index, shift)) for shift in SHIFTS
    } | {"plain": made.of(index, torch.zeros_like(index))}
    for seed in range(60):
        features = made.of_task(index, 1, generator_for(seed))
        (name,) = (n for n, e in expected.items() if torch.allclose(e, features, atol=1e-5))
        found.append(name)
    assert set(found) == set(expected) and 18 < found.count("plain") < 42


def test_shifts_by_hand():
    images = torch.rand(2, 3, 8, 8, generator=generator_for("shifts"))
    assert torch.equal(SHIFTS["inverted"](images), 1 - images)
    grey, coarse = SHIFTS["grey"](images), SHIFTS["coarse"](images)
    torch.testing.assert_close(grey[0, 1], images[0].mean(0))
    assert len(coarse[0, 0].unique()) == 4
    torch.testing.assert_close(coarse[1, 2, 0, 0], images[1, 2, :4, :4].mean())


def test_maps_are_kept_as_they_are_but_for_half_precision(source, tmp_path):
    encoder = make_small_encoder().eval()
    made = encode_views(encoder, "a", source, TRAIN, 0, tmp_path, kind="map")
    index = torch.tensor([3, 41])
    maps = features_of(encoder, source.images(index), "map")
    found = made.of(index, torch.zeros_like(index))
    assert found.dtype == torch.float32 and found.shape == maps.shape
    torch.testing.assert_close(found, maps, atol=1e-3, rtol=1e-3)
    (path,) = tmp_path.glob("*-map-plain.npy")
    assert np.load(path, mmap_mode="r").dtype == np.float16
