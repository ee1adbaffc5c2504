"""The vectors that an answer is made from: features, texture, both over an image and its mirror."""

from collections.abc import Iterable

import torch
from torch import Tensor

from appl.encoders import CACHE_BATCH, Encoder


@torch.no_grad()
def describe(
    encoder: Encoder,
    images: Tensor,
    *,
    mirrored: bool,
    with_texture: bool,
    parts: int | list[int] = CACHE_BATCH,
) -> list[Tensor]:
    """Return the features of images and, if wanted, their texture, each (n, its width).

    Each is the mean over the image and its mirror image, where `mirrored`.
    """
    views = [images, images.flip(3)] if mirrored else [images]
    kinds = [_described(encoder, view.split(parts)) for view in views]
    means = [torch.stack(kind).mean(0) for kind in zip(*kinds, strict=True)]
    return means if with_texture else means[:1]


def _described(encoder: Encoder, parts: Iterable[Tensor]) -> list[Tensor]:
    described = zip(*map(encoder.describe, parts), strict=True)
    return [torch.cat(kind) for kind in described]
