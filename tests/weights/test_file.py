from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from appl.encoders import ENCODERS, WeightsSource
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.weights import Pretrained, class_mean_pcn, load_file, load_weights, save_weights
from tests.conftest import are_equal, make_small_encoder

SOURCE = WeightsSource("appl", "0.1.0", "research use", "miniImageNet")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    encoder = ENCODERS.get("resnet10")().eval()
    encoder.meta = replace(encoder.meta, weights=SOURCE)
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_weights(path, Pretrained(encoder, PCN(512), {"command": "appl train", "hours": 2}))
    return path, encoder


def test_a_round_trip_keeps_features_terms_and_provenance(saved):
    path, encoder = saved
    found = load_weights(path)
    images = torch.rand(2, 3, 48, 48)
    expected = encoder.encode(images)
    assert (found.encoder.encode(images) - expected).norm() / expected.norm() < 5e-3
    assert torch.equal(found.pcn.linear.weight[0, :2], torch.tensor([0.2, 0.0]).half().float())
    assert found.encoder.meta.source == "miniImageNet" and found.provenance["hours"] == 2
    assert found.encoder.meta.weights == SOURCE
    assert found.encoder.meta.input_px == 84
    assert found.encoder.stages[0][0].weight.dtype == torch.float32
    assert path.stat().st_size < 13e6


def test_what_is_not_such_a_file_is_refused_by_name(saved, tmp_path):
    path, _ = saved
    with pytest.raises(WeightsError, match="no weights file"):
        load_weights(tmp_path / "absent.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(WeightsError, match="not a whole safetensors file"):
        load_weights(tmp_path / "cut.safetensors")
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors", metadata={"format": "x-9"})
    with pytest.raises(WeightsError, match="has format 'x-9', this version reads 'appl-weights-1'"):
        load_weights(tmp_path / "other.safetensors")
    header = first_header()
    save_file({"encoder.a": torch.ones(1)}, tmp_path / "odd.safetensors", metadata=header)
    with pytest.raises(WeightsError, match="does not fit resnet10"):
        load_weights(tmp_path / "odd.safetensors")


def first_header(**changes: str) -> dict[str, str]:
    """What the first format wrote beside the tensors."""
    return {
        "format": "appl-weights-1",
        "encoder": "resnet10",
        "input_px": "64",
        "n_slots": "3",
        "source": '["appl", "0.0.9", "MIT", "birds", ""]',
        "provenance": '{"hours": 3}',
        **changes,
    }


def test_a_file_of_the_first_format_is_read(saved, tmp_path):
    _, encoder = saved
    torch.manual_seed(1)
    pcn = PCN(512, 3, "random")
    tensors = {f"encoder.{k}": v.contiguous() for k, v in encoder.state_dict().items()}
    tensors |= {f"pcn.{k}": v for k, v in pcn.state_dict().items()}
    save_file(tensors, tmp_path / "first.safetensors", metadata=first_header())
    found = load_weights(tmp_path / "first.safetensors")
    assert are_equal(found.encoder.state_dict(), encoder.state_dict())
    assert are_equal(found.pcn.state_dict(), pcn.state_dict())
    assert found.pcn.n_slots == 3 and found.pcn.rectifies
    assert found.encoder.meta.weights == WeightsSource("appl", "0.0.9", "MIT", "birds")
    assert found.encoder.meta.input_px == 64 and found.provenance == {"hours": 3}


@pytest.mark.parametrize("exact", [True, False])
def test_values_are_kept_as_they_are_where_a_run_needs_them(saved, tmp_path, exact):
    _, encoder = saved
    torch.manual_seed(1)
    pcn = PCN(512, initialisation="random")
    path = tmp_path / "w.safetensors"
    save_weights(path, Pretrained(encoder, pcn), exact=exact)
    found = load_weights(path)
    kept = are_equal(found.encoder.state_dict(), encoder.state_dict())
    assert kept == exact == are_equal(found.pcn.state_dict(), pcn.state_dict())
    with safe_open(path, framework="pt") as file:
        kind = torch.float32 if exact else torch.float16
        assert file.get_tensor("pcn.linear.weight").dtype == kind


def test_what_the_prototype_network_is_travels_with_it(saved, tmp_path):
    """A class mean stays one through fp16; without its ReLU it stays without."""
    _, encoder = saved
    path = tmp_path / "w.safetensors"
    torch.manual_seed(0)
    for pcn, summary in [
        (PCN(512), "class mean (untrained)"),
        (PCN(512, 3, rectifies=False), "class mean (untrained)"),
        (PCN(512, initialisation="random"), "trained"),
    ]:
        save_weights(path, Pretrained(encoder, pcn))
        found = load_weights(path).pcn
        assert found.summary == pcn.summary == summary
        assert (found.n_slots, found.rectifies) == (pcn.n_slots, pcn.rectifies)


def test_how_images_are_seen_travels_with_an_adapted_encoder(saved, tmp_path):
    _, encoder = saved
    path = tmp_path / "w.safetensors"
    encoder.standardise = True
    try:
        save_weights(path, Pretrained(encoder, PCN(512)), exact=True)
        images = torch.rand(2, 3, 48, 48)
        expected = encoder.encode(images)
    finally:
        encoder.standardise = False
    found = load_weights(path).encoder
    assert found.standardise and torch.equal(found.encode(images), expected)


def test_the_same_weights_are_the_same_file(saved, tmp_path):
    _, encoder = saved
    content = Pretrained(encoder, PCN(512), {"b": 1, "a": [2, None]})
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for path in paths:
        save_weights(path, content)
    assert len({path.read_bytes() for path in paths}) == 1


def test_an_encoder_of_your_own_is_handed_over_again(tmp_path):
    encoder = make_small_encoder()
    path = tmp_path / "own.safetensors"
    save_weights(path, Pretrained(encoder, class_mean_pcn(encoder)), exact=True)
    for load in (load_weights, load_file):
        with pytest.raises(WeightsError, match="'small' was a module of your own") as caught:
            load(path)
        assert "\n" not in str(caught.value)
    other = make_small_encoder(seed=1)
    assert not are_equal(other.state_dict(), encoder.state_dict())
    found = load_weights(path, own=other)
    assert found.encoder is other and are_equal(other.state_dict(), encoder.state_dict())
    assert found.encoder.meta == encoder.meta
    with pytest.raises(WeightsError, match="'small' was a module of your own"):
        load_weights(path, own=make_small_encoder(name="large"))
