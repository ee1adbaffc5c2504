"""Random changes to batches of images, on tensors: crops, mirrors, turns, colour.

All functions take float images (n, 3, h, w) in 0–1; random ones also take draws (`core.draws`),
of which they use a fixed number of columns.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.draws import Draws


def random_resized_crop(
    images: Tensor,
    size_px: int,
    draws: Draws,
    *,
    scale: tuple[float, float] = (0.2, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    mirror: bool = True,
) -> Tensor:
    """Cut a random part of each image, mirror half of them, and resize: one bilinear sampling.

    Uses five draws.
    """
    area = _between(*scale, next(draws))
    aspect = torch.exp(_between(math.log(ratio[0]), math.log(ratio[1]), next(draws)))
    # Shares of the image's own sides, cut off at the whole side.
    width = torch.sqrt(area * aspect).clamp(max=1)
    height = torch.sqrt(area / aspect).clamp(max=1)
    centre_x = _between(-1, 1, next(draws)) * (1 - width)
    centre_y = _between(-1, 1, next(draws)) * (1 - height)
    is_mirrored = next(draws) < 0.5
    if mirror:
        width = torch.where(is_mirrored, -width, width)
    zero = torch.zeros_like(width)
    transform = torch.stack(
        [torch.stack([width, zero, centre_x], 1), torch.stack([zero, height, centre_y], 1)], 1
    ).to(images)
    grid = F.affine_grid(transform, [len(images), 3, size_px, size_px], align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def central_crop(images: Tensor, area: float) -> Tensor:
    """Cut out the centre that holds a share of the area, and enlarge it to the old size."""
    side = math.sqrt(area)
    transform = images.new_tensor([[side, 0, 0], [0, side, 0]]).expand(len(images), 2, 3)
    grid = F.affine_grid(transform, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def colour_jitter(images: Tensor, strength: float, draws: Draws) -> Tensor:
    """Change brightness, then contrast, then colour, each by 1 ± strength·u: three draws."""
    factors = [
        1 + strength * _between(-1, 1, next(draws)).view(-1, 1, 1, 1).to(images) for _ in range(3)
    ]
    images = (images * factors[0]).clamp(0, 1)
    images = _blend(images, luma(images).mean((1, 2, 3), keepdim=True), factors[1])
    return _blend(images, luma(images), factors[2])


def luma(images: Tensor) -> Tensor:
    """Return the grey image (n, 1, h, w) by the usual weights of red, green and blue."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device, dtype=images.dtype)
    return (images * weights.view(1, 3, 1, 1)).sum(1, keepdim=True)


def turn(images: Tensor, quarters: Tensor) -> Tensor:
    """Turn each square image by its own number of quarter turns."""
    result = images.clone()
    for k in (1, 2, 3):
        chosen = quarters == k
        result[chosen] = torch.rot90(images[chosen], k, (2, 3))
    return result


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (other + factor * (images - other)).clamp(0, 1)


def _between(low: float, high: float, draw: Tensor) -> Tensor:
    return low + (high - low) * draw
