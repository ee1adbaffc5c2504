"""ResNet10, the paper's encoder: one basic block a stage, widths 64-128-256-512, 512-d features.

Layer for layer the network of the BSCD-FSL benchmark (4,905,792 parameters), but with adaptive
pooling in place of its 7×7 average, so that any size from 32 px up works (equal at 224 px).
"""

import math
import re
from collections.abc import Mapping

from torch import Tensor, nn

from appl.encoders._conv import WideConv2d
from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta
from appl.encoders._registry import ENCODERS, EncoderEntry
from appl.errors import WeightsError

META = EncoderMeta(
    name="resnet10",
    width=512,
    input_px=84,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    stages=("stem", "stage1", "stage2", "stage3", "stage4"),
    max_frozen_stages=4,
    advised_frozen_stages=4,
    texture_stage="stage3",
    temperature=2.0,
)

# Heads and feature-wise transformations that belong to a training method, not to the encoder.
_LEFT_OUT = re.compile(r"^(classifier|gnn|fc|relation_module|loss_fn)\.|\.(gamma|beta)$")
_BLOCK_NAMES = {
    "C1": "conv1",
    "BN1": "norm1",
    "C2": "conv2",
    "BN2": "norm2",
    "shortcut": "shortcut.0",
    "BNshortcut": "shortcut.1",
}


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, ReLU after the sum: outputs are >= 0."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = WideConv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(n_out)
        self.conv2 = WideConv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if n_in != n_out:
            self.shortcut = nn.Sequential(
                WideConv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def output_norms(self) -> list[nn.BatchNorm2d]:
        """List the norms whose outputs are added up: the second, and the shortcut's."""
        modules = (self.norm2, *self.shortcut.modules())
        return [norm for norm in modules if isinstance(norm, nn.BatchNorm2d)]

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of n_out channels, 1/stride the size."""
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return self.relu(y + self.shortcut(x))  # type: ignore[no-any-return]


def resnet10() -> Encoder:
    """Build an untrained ResNet10."""
    stem = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    )
    blocks = [BasicBlock(64, 64, 1), BasicBlock(64, 128, 2), BasicBlock(128, 256, 2)]
    encoder = Encoder([stem, *blocks, BasicBlock(256, 512, 2)], META)
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            # He initialisation on the fan-out, as the benchmark's code does.
            fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
            nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))
    return encoder


def our_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint of the field (`feature.trunk.*`) under our names."""
    return {_our_name(name): value for name, value in state.items() if not _LEFT_OUT.search(name)}


def _our_name(name: str) -> str:
    match = re.fullmatch(r"(?:feature\.)?trunk\.(\d+)\.(.+)", name)
    if match:
        index, rest = int(match[1]), match[2]
        if index in (0, 1):
            return f"stages.0.{index}.{rest}"
        layer, _, leaf = rest.partition(".")
        if 4 <= index <= 7 and layer in _BLOCK_NAMES and leaf:
            return f"stages.{index - 3}.{_BLOCK_NAMES[layer]}.{leaf}"
    raise WeightsError(f"{name!r} belongs to no ResNet10 that we know; not imported")


ENCODERS.register("resnet10")(EncoderEntry(META, resnet10, convert=our_names))
