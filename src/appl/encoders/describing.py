"""How an image becomes the vectors that an answer is made from: the one path for all of them.

Adaptation, labelling, benchmark and ONNX export describe images here. An image is described by one
or more encoders side by side, each at its own size: by its features and, if it counts, its texture,
both as means over the image and its mirror image where the task tolerates mirroring.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.compute import Compute
from appl.encoders._encoder import CACHE_BATCH, Encoder


def sizes_side_by_side(encoders: Sequence[Encoder]) -> tuple[int, ...]:
    """Return the size that each encoder sees: its own where there are several, else 0 (any)."""
    if len(encoders) == 1:
        return (0,)
    return tuple(encoder.meta.label_px or encoder.meta.input_px for encoder in encoders)


@dataclass(frozen=True)
class Describer:
    """Encoders side by side, what each sees (0: images as they come) and what is taken from it."""

    encoders: tuple[Encoder, ...]
    sizes_px: tuple[int, ...]
    mirrored: bool = False
    texture_weight: float = 0.0

    @property
    def image_px(self) -> int:
        """The size at which images are kept: the largest that an encoder wants."""
        return max(self.sizes_px)

    @property
    def weights(self) -> tuple[float, ...]:
        """What each kind of vector counts beside the others, in the order of `__call__`."""
        kinds = [(1.0, *self._texture_weights(encoder)) for encoder in self.encoders]
        return tuple(weight for part in kinds for weight in part)

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Return the vectors of images (n, 3, px, px), one tensor (n, its width) per kind."""
        kinds = []
        for encoder, size_px in zip(self.encoders, self.sizes_px, strict=True):
            seen = resized(images, size_px)
            views = [seen, seen.flip(3)] if self.mirrored else [seen]
            with_texture = bool(self._texture_weights(encoder))
            kinds += mean_over_views(
                [encoder.describe(encoder.normalise(view)) for view in views], with_texture
            )
        return kinds

    @torch.no_grad()
    def in_parts(self, images: Tensor, parts: int | list[int] = CACHE_BATCH) -> list[Tensor]:
        """Return the same in parts that stay in the processor's cache, without gradients."""
        described = [self(part) for part in images.split(parts)]
        return [torch.cat(kind) for kind in zip(*described, strict=True)]

    def place(self, compute: Compute) -> "Describer":
        """Move all encoders to a device and precision; return self."""
        for encoder in self.encoders:
            encoder.place(compute)
        return self

    def _texture_weights(self, encoder: Encoder) -> tuple[float, ...]:
        has_texture = self.texture_weight > 0 and encoder.meta.texture_stage is not None
        return (self.texture_weight,) if has_texture else ()


def mean_over_views(described: Sequence[list[Tensor]], with_texture: bool) -> list[Tensor]:
    """Return the means over some views of the same images, kind by kind, or of features alone."""
    means = [torch.stack(kind).mean(0) for kind in zip(*described, strict=True)]
    return means if with_texture else means[:1]


@torch.no_grad()
def describe_maps(
    encoder: Encoder, views: Sequence[Tensor], start: int, *, with_texture: bool
) -> list[Tensor]:
    """Describe images by cached outputs of the stages before `start`, one tensor per view."""
    kinds = []
    for view in views:
        described = [encoder.describe(part, start) for part in view.split(CACHE_BATCH)]
        kinds.append([torch.cat(kind) for kind in zip(*described, strict=True)])
    return mean_over_views(kinds, with_texture)


def resized(images: Tensor, size_px: int) -> Tensor:
    """Bring images to an encoder's size: bilinear with antialiasing; 0: as they are."""
    if size_px == 0 or tuple(images.shape[-2:]) == (size_px, size_px):
        return images
    pixels = images.float() / 255 if images.dtype == torch.uint8 else images
    size = [size_px, size_px]
    return F.interpolate(pixels, size, mode="bilinear", antialias=True).clamp(0, 1)
