import pytest
import torch
from safetensors.torch import save_file

from appl.encoders import ENCODERS, WeightsSource
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.training.weights import load_weights, save_weights

SOURCE = WeightsSource("appl", "0.1.0", "research use", "miniImageNet")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    encoder = ENCODERS.get("resnet10")().eval()
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_weights(path, encoder, PCN(512), SOURCE, {"command": "appl train", "hours": 2})
    return path, encoder


def test_a_round_trip_keeps_features_terms_and_provenance(saved):
    path, encoder = saved
    found = load_weights(path)
    images = torch.rand(2, 3, 48, 48)
    expected = encoder.encode(images)
    assert (found.encoder.encode(images) - expected).norm() / expected.norm() < 5e-3
    assert torch.equal(found.pcn.linear.weight[0, :2], torch.tensor([0.2, 0.0]).half().float())
    assert found.encoder.meta.source == "miniImageNet" and found.provenance["hours"] == 2
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
    header = {"format": "appl-weights-1", "encoder": "resnet10", "n_slots": "5"}
    save_file({"encoder.a": torch.ones(1)}, tmp_path / "odd.safetensors", metadata=header)
    with pytest.raises(WeightsError, match="does not fit resnet10"):
        load_weights(tmp_path / "odd.safetensors")
