"""The importer against a network written here in the field's names."""

import pytest
import torch
from torch import nn

from appl.encoders import import_resnet10
from appl.errors import WeightsError


class FieldBlock(nn.Module):
    def __init__(self, n_in, n_out, half):
        super().__init__()
        self.C1 = nn.Conv2d(n_in, n_out, 3, 2 if half else 1, 1, bias=False)
        self.BN1 = nn.BatchNorm2d(n_out)
        self.C2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.BN2 = nn.BatchNorm2d(n_out)
        if n_in != n_out:
            self.shortcut = nn.Conv2d(n_in, n_out, 1, 2 if half else 1, bias=False)
            self.BNshortcut = nn.BatchNorm2d(n_out)

    def forward(self, x):
        out = self.BN2(self.C2(torch.relu(self.BN1(self.C1(x)))))
        short = self.BNshortcut(self.shortcut(x)) if hasattr(self, "shortcut") else x
        return torch.relu(out + short)


class FieldEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [
            FieldBlock(a, b, a != b) for a, b in [(64, 64), (64, 128), (128, 256), (256, 512)]
        ]
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, x):
        return self.trunk(x)


class FieldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = FieldEncoder()
        self.classifier = nn.Linear(512, 200)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = FieldModel().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
    return model


def save(content, path):
    torch.save(content, path)
    return path


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: {"epoch": 399, "state": s},
        lambda s: {"model_state": s},
        lambda s: s,
        lambda s: {k.removeprefix("feature."): v for k, v in s.items() if "trunk" in k},
        lambda s: {"state": {k: v for k, v in s.items() if "num_batches" not in k}},
        lambda s: {"state": s | {"feature.trunk.4.gamma": torch.ones(1), "gnn.w": torch.ones(1)}},
    ],
)
def test_the_same_features_from_every_wrapping(model, tmp_path, wrap):
    path = save(wrap(model.state_dict()), tmp_path / "399.tar")
    encoder = import_resnet10(path)
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        expected = model.feature(encoder.normalise(images))
    torch.testing.assert_close(encoder.encode(images), expected, rtol=1e-4, atol=1e-5)


class Stranger:
    pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"feature.trunk.9.weight": torch.ones(1)}, "'feature.trunk.9.weight'"),
        (lambda s: s | {"surprise": torch.ones(1)}, "'surprise' belongs to no ResNet10"),
        (lambda s: s | {"feature.trunk.0.weight": "text"}, "is a str, not a tensor"),
        (lambda s: s | {"feature.trunk.0.weight": torch.ones(1)}, r"has shape \(1,\)"),
        (lambda s: {k: v for k, v in s.items() if "trunk.7" not in k}, "is missing"),
        (lambda s: [1, 2], "no tensors by name"),
        (lambda s: {"state": Stranger()}, "more than tensors"),
    ],
)
def test_anything_else_is_refused_by_name(model, tmp_path, change, message):
    path = save(change(dict(model.state_dict())), tmp_path / "odd.tar")
    with pytest.raises(WeightsError, match=message):
        import_resnet10(path)


def test_no_file_and_no_torch_file(tmp_path):
    with pytest.raises(WeightsError, match="no weights file"):
        import_resnet10(tmp_path / "absent.tar")
    (tmp_path / "text.tar").write_text("hello")
    with pytest.raises(WeightsError, match=r"text\.tar"):
        import_resnet10(tmp_path / "text.tar")
