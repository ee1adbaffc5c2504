import pytest
import torch

from appl.encoders import ENCODERS, KeptFeatures, features_of, layers_of
from tests.conftest import make_small_encoder
from tests.token_encoder import make_token_encoder


def test_the_layers_of_resnet10_are_its_four_blocks() -> None:
    encoder = ENCODERS.get("resnet10")()
    encoder.train()
    assert encoder.layer_widths(4) == [64, 128, 256, 512]
    assert all(module.training for module in encoder.modules())


@pytest.mark.parametrize("make", [make_small_encoder, make_token_encoder])
@torch.no_grad()
def test_layers_are_pooled_outputs_of_stages(make) -> None:
    encoder = make().eval()
    pixels = encoder.normalise(torch.rand(2, 3, 12, 12))
    layers = encoder.layers(pixels, 2)
    assert [layer.shape[1] for layer in layers] == encoder.layer_widths(2)
    torch.testing.assert_close(layers[-1], encoder(pixels))
    earlier = encoder.run(pixels, 0, encoder.n_stages - 1)
    torch.testing.assert_close(layers[-2], encoder.pool(earlier))


@pytest.mark.parametrize("kind", ["vector", "map", "layers"])
@torch.no_grad()
def test_kept_features_answer_as_the_encoder_would(kind) -> None:
    encoder = make_small_encoder().eval()
    images = torch.rand(40, 3, 12, 12)  # more than fit into one part
    kept = KeptFeatures(encoder, kind)
    features = kept.normalise(features_of(encoder, images, kind))
    pixels = encoder.normalise(images)
    torch.testing.assert_close(kept(features), encoder(pixels))
    if kind == "map":
        torch.testing.assert_close(kept.run(features), encoder.run(pixels))
    if kind == "layers":
        for ours, theirs in zip(kept.layers(features, 2), encoder.layers(pixels, 2), strict=True):
            torch.testing.assert_close(ours, theirs)
    assert not list(kept.parameters())


@torch.no_grad()
def test_layers_by_name() -> None:
    encoder, head = make_small_encoder().eval(), torch.nn.Linear(6, 9)
    images = torch.rand(40, 3, 12, 12)
    found = layers_of(encoder, images, ("blocks", "map", "logits"), head)
    pixels = encoder.normalise(images)
    expected = [*encoder.layers(pixels, 2), encoder.run(pixels).flatten(1), head(encoder(pixels))]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
