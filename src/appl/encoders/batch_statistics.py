"""Whose statistics batch norms use: the source's, a task's, or the batch's own (B10, B11).

The one place that switches them, for Algorithm 1 and 2 and for every rival. Layers that do not
look across the batch (LayerNorm, GroupNorm) are left alone, and so is dropout: in train mode it
would draw from the global random state.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from appl.encoders._encoder import Encoder

# More images than this would not change a statistic that is taken once, only cost memory.
MAX_STATISTICS_IMAGES = 1000


def batch_norms(*networks: nn.Module) -> list[_BatchNorm]:
    """List the batch norms inside."""
    return [m for network in networks for m in network.modules() if isinstance(m, _BatchNorm)]


def use_batch_statistics(encoder: Encoder, from_stage: int, use: bool) -> None:
    """Let the stages from `from_stage` on normalise by each batch, or by what they remember."""
    encoder.eval()
    for norm in batch_norms(*encoder.stages[from_stage:]):
        norm.train(use)


@torch.no_grad()
def take_task_statistics(encoder: Encoder, images: Tensor) -> None:
    """Replace every batch norm's running statistics by those of `images`, in one joint batch."""
    norms = batch_norms(encoder)
    if not norms:
        return
    step = max(1, -(-len(images) // MAX_STATISTICS_IMAGES))
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    encoder.run(encoder.normalise(images[::step]))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def with_batch_statistics(encoder: Encoder, pixels: Tensor) -> Tensor:
    """Encode normalised images by their own statistics, which the batch norms remember.

    A single image whose last map has one position has no variance: it goes by what the norms
    remember. The encoder is in eval mode afterwards.
    """
    follows = len(pixels) > 1 or _has_positions(encoder, pixels)
    for norm in batch_norms(encoder):
        norm.train(follows)
    features: Tensor = encoder(pixels)
    encoder.eval()
    return features


@contextmanager
def own_statistics(*networks: nn.Module) -> Iterator[None]:
    """Let every batch norm use the batch at hand, and remember nothing of it."""
    norms = batch_norms(*networks)
    before = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, False
    try:
        yield
    finally:
        for norm, (training, tracks) in zip(norms, before, strict=True):
            norm.training, norm.track_running_stats = training, tracks


@torch.no_grad()
def _has_positions(encoder: Encoder, pixels: Tensor) -> bool:
    maps = encoder.eval().run(pixels)
    return maps.dim() == 4 and maps.shape[2:].numel() > 1
