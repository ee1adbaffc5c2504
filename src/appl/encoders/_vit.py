"""A vision transformer as DINOv2 builds it: patches, class token, blocks with layer scale, a norm.

Images of any aspect ratio are taken whose sides are multiples of the patch. The grid of positions
that was learnt for one size is interpolated to the image's own (bicubic).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta

EPS = 1e-6  # of all layer norms


@dataclass(frozen=True)
class ViTShape:
    """The sizes of a transformer, and how its positions are interpolated.

    Models without registers were trained with an offset of 0.1 patches in the scale of the
    interpolation and no antialiasing, those with registers without offset and antialiased.
    """

    width: int
    depth: int
    n_heads: int
    patch_px: int = 14
    grid: int = 37  # positions that were learnt, each way
    n_registers: int = 0


class Patches(nn.Module):
    """Cut an image into patches: tokens (n, 1 + n_registers + n_patches, width), class first."""

    def __init__(self, shape: ViTShape) -> None:
        super().__init__()
        self.shape = shape
        self.cut = nn.Conv2d(3, shape.width, shape.patch_px, shape.patch_px)
        # With its own position added already: it never moves.
        self.class_token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.registers = nn.Parameter(torch.zeros(1, shape.n_registers, shape.width))
        self.positions = nn.Parameter(torch.zeros(1, shape.grid**2, shape.width))
        for token in (self.class_token, self.registers, self.positions):
            nn.init.trunc_normal_(token, std=0.02)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the tokens of normalised images."""
        maps = self.cut(pixels)
        patches = maps.flatten(2).mT + self.positions_at(maps.shape[2], maps.shape[3])
        before = torch.cat([self.class_token, self.registers], 1).expand(len(patches), -1, -1)
        return torch.cat([before.to(patches.dtype), patches], 1)

    def positions_at(self, n_rows: int, n_columns: int) -> Tensor:
        """Return the positions of a grid of patches (1, n_rows · n_columns, width)."""
        grid = self.shape.grid
        if (n_rows, n_columns) == (grid, grid):
            return self.positions
        learnt = self.positions.reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
        if self.shape.n_registers:
            size = [n_rows, n_columns]
            found = F.interpolate(learnt, size, mode="bicubic", antialias=True)
        else:
            scale = [(n_rows + 0.1) / grid, (n_columns + 0.1) / grid]
            found = F.interpolate(learnt, scale_factor=scale, mode="bicubic")
        return found.flatten(2).mT


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix tokens (n, n_tokens, width)."""
        n, n_tokens, width = tokens.shape
        parts = self.qkv(tokens).reshape(n, n_tokens, 3, self.n_heads, width // self.n_heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        found: Tensor = self.proj(mixed.transpose(1, 2).reshape(n, n_tokens, width))
        return found


class Block(nn.Module):
    """Attention, then two linear layers token by token, each scaled and added to what came in."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, EPS), nn.LayerNorm(width, EPS)
        self.attention = Attention(width, n_heads)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale1 = nn.Parameter(torch.ones(width))
        self.scale2 = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens of the same shape."""
        tokens = tokens + self.scale1 * self.attention(self.norm1(tokens))
        found: Tensor = tokens + self.scale2 * self.fc2(F.gelu(self.fc1(self.norm2(tokens))))
        return found


def stage_names(depth: int) -> tuple[str, ...]:
    """Name the stages of a transformer: patches, each block, the last norm."""
    return ("patches", *(f"block{i}" for i in range(1, depth + 1)), "norm")


def vision_transformer(shape: ViTShape, meta: EncoderMeta) -> Encoder:
    """Build the network without trained weights."""
    blocks = [Block(shape.width, shape.n_heads) for _ in range(shape.depth)]
    return Encoder([Patches(shape), *blocks, nn.LayerNorm(shape.width, EPS)], meta)
