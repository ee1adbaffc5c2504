"""Photographs in disguise: the same classes as another sensor or another hand would show them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

COARSE_PX = 21


def _grey(images: Tensor) -> Tensor:
    return images.float().mean(1, keepdim=True)


def _bytes(values: Tensor) -> Tensor:
    return values.clamp(0, 255).round().to(torch.uint8)


def _three(grey: Tensor) -> Tensor:
    return _bytes(grey).expand(-1, 3, -1, -1)


def inverted_grey(images: Tensor) -> Tensor:
    """Return negatives without colour, as an X-ray shows things."""
    return _three(255 - _grey(images))


def coarse(images: Tensor) -> Tensor:
    """Return images of 21 px, enlarged."""
    small = F.interpolate(images.float(), [COARSE_PX, COARSE_PX], mode="area")
    return _bytes(F.interpolate(small, list(images.shape[-2:]), mode="bilinear"))


def edges(images: Tensor) -> Tensor:
    """Return edges, bright on dark."""
    grey = F.pad(_grey(images), (1, 1, 1, 1), mode="replicate")
    across = grey[..., 1:-1, 2:] - grey[..., 1:-1, :-2]
    down = grey[..., 2:, 1:-1] - grey[..., :-2, 1:-1]
    return _three((across.square() + down.square()).sqrt())


def other_colours(images: Tensor) -> Tensor:
    """Return images with their channels exchanged, and darker."""
    return _bytes(255 * (images[:, [2, 0, 1]].float() / 255) ** 1.5)


def black_and_white(images: Tensor) -> Tensor:
    """Return what is brighter than the image's median as white, all else as black."""
    grey = _grey(images)
    middle = grey.flatten(1).median(1).values[:, None, None, None]
    return _three(255.0 * (grey > middle))


DISGUISES: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda images: images,
    "inverted_grey": inverted_grey,
    "coarse": coarse,
    "edges": edges,
    "other_colours": other_colours,
    "black_and_white": black_and_white,
}
