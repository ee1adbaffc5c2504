"""The weights that ship inside the package."""

import re
from importlib import resources

import pytest
import torch

from appl import load_pretrained
from appl.errors import UnknownNameError, WeightsError
from appl.training.shipped import SHIPPED, weights_digest

WEIGHTS = resources.files("appl.weights")


def test_encoder_pcn_and_preprocessing_come_together() -> None:
    pretrained = load_pretrained()
    meta = pretrained.encoder.meta
    assert (meta.name, meta.input_px, meta.width) == ("resnet10", 84, 512)
    assert "miniImageNet" in meta.source
    assert not pretrained.encoder.training and not pretrained.pcn.training
    images = torch.rand(3, 3, meta.input_px, meta.input_px)
    features = pretrained.encoder.encode(images)
    assert features.shape == (3, 512) and features.isfinite().all() and features.std() > 0


def test_the_files_are_small() -> None:
    for name in SHIPPED.values():
        assert len(WEIGHTS.joinpath(name).read_bytes()) < 20e6


def test_the_card_states_what_the_file_says() -> None:
    """Accuracy and length of the training, as recorded in the weights' own header."""
    card = WEIGHTS.joinpath("README.md").read_text(encoding="utf-8")
    history = load_pretrained().provenance["history"]
    best = max(epoch["validation_accuracy"] for epoch in history)
    stated = re.search(r"Validation accuracy of these weights: \*\*(\d+\.\d+) ±", card)
    assert stated and float(stated.group(1)) == pytest.approx(best, abs=0.005)


def test_the_digest_tells_weights_apart() -> None:
    first, second = load_pretrained(), load_pretrained()
    assert weights_digest(first) == weights_digest(second)
    with torch.no_grad():
        next(second.pcn.parameters()).add_(1e-3)
    assert weights_digest(first) != weights_digest(second)


def test_an_encoder_with_its_own_weights_gets_a_plain_pcn() -> None:
    pretrained = load_pretrained("efficientnet_lite0")
    slots = torch.rand(2, 5, 1280)
    torch.testing.assert_close(pretrained.pcn.symmetric(slots.mean(1)), slots.mean(1))


def test_wrong_names_are_one_line(tmp_path) -> None:
    with pytest.raises(UnknownNameError, match="resnet10"):
        load_pretrained("resnet1")
    with pytest.raises(WeightsError, match="no weights file"):
        load_pretrained(str(tmp_path / "none.safetensors"))
