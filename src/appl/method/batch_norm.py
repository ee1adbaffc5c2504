"""Whose statistics the batch norms use while a task is solved (B10, B11)."""

import torch
from torch import Tensor, nn

from appl.encoders import Encoder

# More images than this would not change a statistic that is taken once, only cost memory.
MAX_STATISTICS_IMAGES = 1000


def norms_of(modules: nn.Module) -> list[nn.BatchNorm2d]:
    """List the batch norms inside."""
    return [m for m in modules.modules() if isinstance(m, nn.BatchNorm2d)]


@torch.no_grad()
def take_task_statistics(encoder: Encoder, images: Tensor) -> None:
    """Replace every batch norm's running statistics by those of `images`, in one joint batch."""
    step = max(1, -(-len(images) // MAX_STATISTICS_IMAGES))
    norms = norms_of(encoder)
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    encoder.run(encoder.normalise(images[::step]))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def use_batch_statistics(encoder: Encoder, from_stage: int, use: bool) -> None:
    """Let the stages from `from_stage` on normalise by each batch, or by what they remember."""
    encoder.eval()
    for stage in encoder.stages[from_stage:]:
        for norm in norms_of(stage):
            norm.train(use)
