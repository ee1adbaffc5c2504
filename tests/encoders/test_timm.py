"""Networks of timm by name, built over a stand-in for torchvision (see fake_torchvision)."""

import sys

import pytest
import torch
from safetensors.torch import save_file

from appl.encoders import RECOMMENDED, from_spec, from_timm
from appl.errors import WeightsError
from appl.weights import load_pretrained

TINY = {
    "vit_tiny_patch16_224": dict(depth=2, embed_dim=24, num_heads=3),
    "convnext_atto": dict(depths=(1, 1, 1, 1), dims=(4, 8, 12, 16)),
}


@pytest.mark.parametrize("name", list(TINY))
def test_a_network_is_cut_into_stages_that_give_what_the_whole_gives(name):
    import timm

    torch.manual_seed(0)
    encoder = from_timm(name, pretrained=False, **TINY[name])
    assert encoder.n_stages > 3 and encoder.meta.stages[-1] == "tail"
    whole = timm.create_model(name, num_classes=0, **TINY[name]).eval()
    parts = {id(p) for stage in encoder.stages for p in stage.parameters()}
    assert len(parts) == len(list(whole.parameters()))
    images = torch.rand(2, 3, 224, 224)
    late = encoder.encode(images, 2)
    with torch.no_grad():
        again = encoder.pool(encoder.run(late, 2))
    torch.testing.assert_close(again, encoder.encode(images))
    assert encoder.meta.non_negative is False and encoder.meta.weights is None


def test_it_is_built_again_from_its_specification():
    encoder = from_timm("convnext_atto", pretrained=False, **TINY["convnext_atto"])
    again = from_spec(encoder.spec, encoder.meta.to_dict())
    again.load_state_dict(encoder.state_dict())
    images = torch.rand(1, 3, 64, 64)
    assert again.meta == encoder.meta
    torch.testing.assert_close(again.encode(images), encoder.encode(images))


def test_a_file_that_was_brought_along(tmp_path):
    import timm

    torch.manual_seed(1)
    network = timm.create_model("test_vit", num_classes=10).eval()
    save_file(network.state_dict(), tmp_path / "f.safetensors")
    found = load_pretrained(f"timm:test_vit@{tmp_path / 'f.safetensors'}")
    assert (
        found.encoder.meta.name == "timm:test_vit" and len(found.encoder.meta.weights.sha256) == 64
    )
    side = found.encoder.meta.input_px
    images = torch.rand(2, 3, side, side)
    with torch.no_grad():
        tokens = network.forward_features(found.encoder.normalise(images))
        expected = network.forward_head(tokens, pre_logits=True)
    torch.testing.assert_close(found.encoder.encode(images), expected, rtol=1e-4, atol=1e-4)

    bad = {k: v for k, v in network.state_dict().items() if "blocks.1" not in k}
    save_file(bad, tmp_path / "bad.safetensors")
    with pytest.raises(WeightsError, match=r"is no whole test_vit: 'blocks\.1\."):
        load_pretrained(f"timm:test_vit@{tmp_path / 'bad.safetensors'}")


def test_an_unknown_model_names_those_that_are_near():
    with pytest.raises(WeightsError, match="timm has no model 'resnet1o'; try"):
        load_pretrained("timm:resnet1o")


def test_timm_is_asked_for_by_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(WeightsError, match=r"pip install 'appl\[timm\]'"):
        load_pretrained("timm:resnet18")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [r.name.removeprefix("timm:") for r in RECOMMENDED if r.name.startswith("timm:")]
)
def test_every_recommended_model_is_built(model):
    recommended = {r.name: r for r in RECOMMENDED}[f"timm:{model}"]
    encoder = from_timm(model, pretrained=False)
    assert (encoder.meta.width, encoder.meta.input_px) == (recommended.width, recommended.size_px)
    side = encoder.meta.input_px
    assert encoder.encode(torch.rand(1, 3, side, side)).shape == (1, recommended.width)
