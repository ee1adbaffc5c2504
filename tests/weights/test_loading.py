"""Weights by name: those that ship inside the package, and those of packages or runs."""

import re
from importlib import resources

import pytest
import torch

from appl import load_pretrained
from appl.errors import UnknownNameError, WeightsError
from appl.method.pcn import PCN
from appl.weights import Pretrained, save_weights, weights_digest
from appl.weights.loading import RUN_WEIGHTS, SHIPPED
from tests.conftest import are_equal

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
    """The end of the stored curve, which was taken on other episodes than the card's own number."""
    card = WEIGHTS.joinpath("README.md").read_text(encoding="utf-8")
    history = load_pretrained().provenance["history"]
    best = max(epoch["validation_accuracy"] for epoch in history)
    stated = re.search(r"curves below .* where it has (\d+\.\d+) ±", card, re.DOTALL)
    assert stated and float(stated.group(1)) == pytest.approx(best, abs=0.005)


def test_the_shipped_prototype_network_says_that_it_is_untrained() -> None:
    pcn = load_pretrained().pcn
    assert pcn.is_class_mean and pcn.summary == "class mean (untrained)"
    slots = torch.rand(2, 5, 512)
    torch.testing.assert_close(pcn(slots), slots.mean(1), rtol=1e-3, atol=1e-3)  # fp16 in the file
    # One weight of a million that is another makes it a trained one.
    with torch.no_grad():
        pcn.linear.weight[3, 700] += 1e-2
    assert not pcn.is_class_mean and pcn.summary == "trained"


def test_the_folder_of_a_run_holds_what_it_has_learnt(tmp_path) -> None:
    shipped = load_pretrained()
    with torch.no_grad():
        shipped.encoder.stages[4].norm2.weight += 1e-6  # less than fp16 can tell
    learnt = Pretrained(shipped.encoder, shipped.pcn, {"run": "leaves"})
    save_weights(tmp_path / RUN_WEIGHTS, learnt, exact=True)
    for folder in (tmp_path, (tmp_path / RUN_WEIGHTS).parent):
        found = load_pretrained(folder)
        assert are_equal(found.encoder.state_dict(), shipped.encoder.state_dict())
        assert are_equal(found.pcn.state_dict(), shipped.pcn.state_dict())
        assert found.provenance == {"previous_run": {"run": "leaves"}}
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsError, match="holds no model; give the folder of a finished run"):
        load_pretrained(tmp_path / "empty")


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
    assert not pretrained.holds_pcn and are_equal(
        pretrained.pcn.state_dict(), PCN(1280).state_dict()
    )


def test_wrong_names_are_one_line(tmp_path) -> None:
    with pytest.raises(UnknownNameError, match="resnet10"):
        load_pretrained("resnet1")
    with pytest.raises(WeightsError, match="no weights file"):
        load_pretrained(str(tmp_path / "none.safetensors"))


def test_two_encoders_by_a_plus(tmp_path) -> None:
    both = load_pretrained("resnet10+efficientnet_lite0")
    assert both.name == "resnet10+efficientnet_lite0" and both.pcn.width == 512
    assert both.source == "miniImageNet, 64 training classes; ImageNet-1k"
    alone = load_pretrained("resnet10")
    assert weights_digest(both) != weights_digest(alone) and not alone.beside
    odd = tmp_path / "a+b.safetensors"  # a file may be called so
    save_weights(odd, alone)
    assert load_pretrained(odd).name == "resnet10"
    with pytest.raises(UnknownNameError, match="no encoder is called 'resnet1o'"):
        load_pretrained("efficientnet_lite0+resnet1o")
