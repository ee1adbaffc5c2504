"""Low-rank updates (LoRA; Hu et al., 2021): W + B·A, with far fewer numbers that move than W has.

B starts at zero, so the encoder starts as it was. Linear layers have an update, and convolutions
that mix all channels, whose kernel is taken for a matrix. `merge_low_rank` makes plain weights of
the sums again.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from appl.core.seeds import generator_for

ATTENTION = ("attention", "attn")  # in the names of a transformer's attention layers


class LowRank(nn.Module):
    """W ↦ W + B·A for one weight."""

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        matrix = weight.detach().flatten(1)
        rank = min(rank, *matrix.shape)
        down = torch.randn(rank, matrix.shape[1], generator=generator) / matrix.shape[1] ** 0.5
        self.down = nn.Parameter(down.to(matrix))
        self.up = nn.Parameter(matrix.new_zeros(matrix.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the sum, in the weight's shape."""
        return weight + (self.up @ self.down).view_as(weight)


def add_low_rank(
    stages: list[nn.Module], rank: int, *, attention_only: bool, seed: int
) -> list[nn.Parameter]:
    """Put an update beside every weight of these stages that has one; return what moves."""
    moving: list[nn.Parameter] = []
    for number, stage in enumerate(stages):
        for name, module in list(stage.named_modules()):
            if not _has_matrix(module) or (attention_only and not _is_attention(name)):
                continue
            generator = generator_for("low rank", seed, number, name)
            update = LowRank(module.weight, rank, generator)
            parametrize.register_parametrization(module, "weight", update, unsafe=True)
            moving += [update.up, update.down]
    return moving


def merge_low_rank(encoder: nn.Module) -> None:
    """Make the sums the weights; without updates, nothing."""
    for module in list(encoder.modules()):
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)


def _has_matrix(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or (
        isinstance(module, nn.Conv2d) and module.groups == 1 and module.in_channels > 3
    )


def _is_attention(name: str) -> bool:
    return any(part in ATTENTION for part in name.split("."))
