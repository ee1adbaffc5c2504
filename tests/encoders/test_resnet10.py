import pytest
import torch

from appl.encoders import ENCODERS


def conv(n_in, n_out, k):
    return n_in * n_out * k * k


@pytest.fixture(scope="module")
def encoder():
    return ENCODERS.get("resnet10")().eval()


@pytest.mark.golden
def test_parameters_by_an_independent_count(encoder):
    stem = conv(3, 64, 7) + 2 * 64
    blocks = [
        conv(a, b, 3) + conv(b, b, 3) + 4 * b + (conv(a, b, 1) + 2 * b if a != b else 0)
        for a, b in [(64, 64), (64, 128), (128, 256), (256, 512)]
    ]
    assert blocks == [73_984, 230_144, 919_040, 3_673_088]
    assert sum(p.numel() for p in encoder.parameters()) == stem + sum(blocks) == 4_905_792


@pytest.mark.golden
@pytest.mark.parametrize(("size", "sides"), [(84, [21, 21, 11, 6, 3]), (32, [8, 8, 4, 2, 1])])
def test_map_sizes(encoder, size, sides):
    with torch.no_grad():
        outputs = encoder.stage_outputs(encoder.normalise(torch.rand(1, 3, size, size)))
    assert [m.shape[-1] for m in outputs.values()] == sides
    assert [m.shape[1] for m in outputs.values()] == [64, 64, 128, 256, 512]


def test_pooling_equals_the_benchmarks_at_224_px(encoder):
    with torch.no_grad():
        pixels = encoder.normalise(torch.rand(1, 3, 224, 224))
        last = encoder.stage_outputs(pixels)["stage4"]
        expected = torch.nn.AvgPool2d(7)(last).flatten(1)
        torch.testing.assert_close(encoder(pixels), expected)


@pytest.mark.golden
def test_initial_weights_have_the_fan_outs_deviation(encoder):
    weight = encoder.stages[4].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 512)) ** 0.5, rel=0.01)
