"""A small encoder of tokens: LayerNorm, a class token, negative features."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.encoders import ENCODERS, Encoder, EncoderEntry, EncoderMeta

META = EncoderMeta(
    name="test_tokens",
    width=8,
    input_px=12,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
    stages=("patches", "block1", "block2"),
    max_frozen_stages=2,
    advised_frozen_stages=1,
    non_negative=False,
    min_px=8,
    pooling="class_token",
    n_prefix_tokens=1,
    texture_stage="block1",
)


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, META.width, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, META.width))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.cut(x).flatten(2).mT
        return torch.cat([self.class_token.expand(x.shape[0], -1, -1), patches], 1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(META.width), nn.LayerNorm(META.width)
        self.mix = nn.Linear(META.width, 3 * META.width)
        self.last = nn.Linear(META.width, META.width)

    def forward(self, x: Tensor) -> Tensor:
        asked, known, value = self.mix(self.norm1(x)).unsqueeze(1).chunk(3, -1)  # one head
        x = x + F.scaled_dot_product_attention(asked, known, value).squeeze(1)
        return x + F.gelu(self.last(self.norm2(x)))


def build() -> Encoder:
    return Encoder([Patches(), Block(), Block()], META)


ENCODERS.register("test_tokens")(EncoderEntry(META, build))


def make_token_encoder(seed: int = 0) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ENCODERS.get("test_tokens")().eval()
