"""Weights from the checkpoints of a training."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from appl.encoders import ENCODERS
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.settings import MetaTrainSettings
from appl.settings.pretraining import PretrainSettings
from appl.training.checkpoint import origin_of, trained_on
from appl.weights import export_weights, load_file, load_pretrained, load_weights
from appl.weights.checkpoint import read_checkpoint, write_checkpoint
from tests.training.conftest import assert_same_state


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    encoder = ENCODERS.get("resnet10")()
    trained_on(encoder, "birds", 64)
    return encoder


def write(path, encoder, training="pretrain", settings=None, **more):
    settings = settings or PretrainSettings()
    origin = origin_of(training, encoder, settings, "digest", None, 1)
    state = {"encoder": encoder.state_dict(), "history": [{"epoch": 1}]}
    write_checkpoint(path, origin | state | more)
    return path


def test_a_pretraining_checkpoint_has_an_encoder_and_becomes_weights(encoder, tmp_path):
    path = write(tmp_path / "best.pt", encoder)
    start = load_file(path)
    assert not start.holds_pcn and start.encoder.meta.input_px == 64
    assert_same_state(start.pcn.state_dict(), PCN(512).state_dict())
    assert start.encoder.meta.source == "birds"
    assert_same_state(start.encoder.state_dict(), encoder.state_dict())
    assert start.provenance["settings"] == asdict(PretrainSettings())
    assert not start.encoder.training and not start.pcn.training

    export_weights(path, tmp_path / "weights.safetensors")
    exported = load_file(tmp_path / "weights.safetensors")
    assert exported.sha256 != start.sha256
    assert exported.encoder.meta.input_px == 64 and exported.encoder.meta.source == "birds"
    assert exported.provenance["history"] == [{"epoch": 1}]
    assert exported.provenance["checkpoint"] == "best.pt"
    assert torch.equal(exported.pcn.linear.weight, PCN(512).linear.weight.half().float())


def test_a_meta_training_checkpoint_has_its_pcn(encoder, tmp_path):
    pcn = PCN(512, 3, "random")
    settings = MetaTrainSettings()
    settings = replace(settings, prototypes=replace(settings.prototypes, n_slots=3))
    path = write(tmp_path / "last.pt", encoder, "meta", settings, pcn=pcn.state_dict())
    found = load_file(path)
    assert_same_state(found.pcn.state_dict(), pcn.state_dict())
    assert found.holds_pcn and found.pcn.summary == "trained"
    export_weights(path, tmp_path / "weights.safetensors")
    exported = load_weights(tmp_path / "weights.safetensors")
    assert exported.pcn.n_slots == 3 and exported.pcn.summary == "trained"


def test_a_name_that_is_a_path_is_read_as_the_file_that_it_is(encoder, tmp_path):
    checkpoint, weights = tmp_path / "best.pt", tmp_path / "weights.safetensors"
    write(checkpoint, encoder)
    export_weights(checkpoint, weights)
    for path in (checkpoint, weights):
        direct = load_file(path)
        for name in (path, str(path)):
            found = load_pretrained(name)
            assert_same_state(found.encoder.state_dict(), direct.encoder.state_dict())
            assert found.encoder.meta == direct.encoder.meta
            assert found.provenance == direct.provenance
            assert found.sha256 == direct.sha256 and len(found.sha256) == 64
    assert load_pretrained(checkpoint).sha256 != load_pretrained(weights).sha256
    assert_same_state(load_pretrained(checkpoint).encoder.state_dict(), encoder.state_dict())


def test_a_checkpoint_of_the_first_version_is_a_resnet10(encoder, tmp_path):
    content = {"settings": {}, "encoder": encoder.state_dict(), "history": []}
    write_checkpoint(tmp_path / "last.pt", content)
    start = load_file(tmp_path / "last.pt")
    assert start.encoder.meta.name == "resnet10" and start.encoder.meta.input_px == 84
    assert start.encoder.meta.source == "not recorded"
    for given, expected in [(None, "not recorded"), (encoder.meta.weights, "birds")]:
        export_weights(tmp_path / "last.pt", tmp_path / "weights.safetensors", given)
        assert load_weights(tmp_path / "weights.safetensors").encoder.meta.source == expected


def test_what_is_no_start_is_refused_in_one_line(encoder, tmp_path):
    def message(path):
        with pytest.raises(WeightsError) as caught:
            load_file(path)
        text = str(caught.value)
        assert str(path) in text and "\n" not in text
        return text

    assert "no weights file" in message(tmp_path / "absent.pt")
    assert "no weights file" in message(tmp_path)
    (tmp_path / "text.pt").write_text("hello")
    assert "not a whole safetensors file" in message(tmp_path / "text.pt")
    whole = write(tmp_path / "whole.pt", encoder)
    (tmp_path / "cut.pt").write_bytes(whole.read_bytes()[:5000])
    assert "not a whole checkpoint" in message(tmp_path / "cut.pt")
    np.savez(tmp_path / "arrays.npz", a=np.ones(1))
    assert "not a whole checkpoint" in message(tmp_path / "arrays.npz")
    torch.save({"model": torch.ones(1)}, tmp_path / "other.pt")
    assert "give best.pt or last.pt" in message(tmp_path / "other.pt")
    content = {"settings": {}, "encoder": {"a": torch.ones(1)}, "history": []}
    write_checkpoint(tmp_path / "odd.pt", content)
    assert "does not fit" in message(tmp_path / "odd.pt")


def test_copies_are_whole_and_stay_when_the_first_is_written_again(tmp_path):
    first, copy = tmp_path / "best.pt", tmp_path / "last.pt"
    content = {"settings": {}, "encoder": {}, "history": [{"epoch": 1}]}
    write_checkpoint(first, content, copy)
    write_checkpoint(first, content | {"history": []})
    assert read_checkpoint(copy)["history"] == [{"epoch": 1}]
    assert read_checkpoint(first)["history"] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.pt", "last.pt"]
