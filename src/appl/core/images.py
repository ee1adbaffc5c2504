"""Random changes to batches of images, on tensors: crops, mirrors, turns, colour.

All functions take float images (n, 3, h, w) in 0–1 and a generator, and draw anew for each image.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def random_resized_crop(
    images: Tensor,
    size_px: int,
    generator: Generator,
    *,
    scale: tuple[float, float] = (0.2, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    mirror: bool = True,
) -> Tensor:
    """Cut a random part of each image, mirror half of them, and resize: one bilinear sampling."""
    n = len(images)
    area = _uniform(n, *scale, generator)
    aspect = torch.exp(_uniform(n, math.log(ratio[0]), math.log(ratio[1]), generator))
    # Shares of the image's own sides, cut off at the whole side.
    width = torch.sqrt(area * aspect).clamp(max=1)
    height = torch.sqrt(area / aspect).clamp(max=1)
    centre_x = _uniform(n, -1, 1, generator) * (1 - width)
    centre_y = _uniform(n, -1, 1, generator) * (1 - height)
    if mirror:
        width = width * torch.where(_uniform(n, 0, 1, generator) < 0.5, -1.0, 1.0)
    zero = torch.zeros(n)
    transform = torch.stack(
        [torch.stack([width, zero, centre_x], 1), torch.stack([zero, height, centre_y], 1)], 1
    ).to(images)
    grid = F.affine_grid(transform, [n, 3, size_px, size_px], align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def central_crop(images: Tensor, area: float) -> Tensor:
    """Cut out the centre that holds a share of the area, and enlarge it to the old size."""
    side = math.sqrt(area)
    transform = images.new_tensor([[side, 0, 0], [0, side, 0]]).expand(len(images), 2, 3)
    grid = F.affine_grid(transform, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def colour_jitter(images: Tensor, strength: float, generator: Generator) -> Tensor:
    """Change brightness, then contrast, then colour, each by a factor 1 ± strength·u."""
    n = len(images)
    factors = 1 + strength * _uniform(3 * n, -1, 1, generator).view(3, n, 1, 1, 1).to(images)
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


def _uniform(n: int, low: float, high: float, generator: Generator) -> Tensor:
    return low + (high - low) * torch.rand(n, generator=generator)
