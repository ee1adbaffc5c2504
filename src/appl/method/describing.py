"""The vectors that an answer is made from: features, texture, both over an image and its mirror."""

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
    return describe_views(encoder, views, with_texture=with_texture, parts=parts)


@torch.no_grad()
def describe_views(
    encoder: Encoder,
    views: list[Tensor],
    *,
    with_texture: bool,
    parts: int | list[int] = CACHE_BATCH,
    start: int = 0,
) -> list[Tensor]:
    """Return the means over some views of the same images, or over their maps of stage `start`."""
    kinds = []
    for view in views:
        described = [encoder.describe(part, start) for part in view.split(parts)]
        kinds.append([torch.cat(kind) for kind in zip(*described, strict=True)])
    means = [torch.stack(kind).mean(0) for kind in zip(*kinds, strict=True)]
    return means if with_texture else means[:1]
