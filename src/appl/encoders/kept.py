"""Features that are made once and kept, and a stand-in for the encoder that made them.

A head that learns while its encoder stays as it is needs no images. It is handed tasks that hold
features in the place of images, and a `KeptFeatures` in the place of the encoder: what the encoder
would compute from an image, this finds in the features.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from appl.encoders._encoder import CACHE_BATCH, Encoder

# Pooled vectors (n, width); the map before pooling (n, width, h, w); the pooled outputs of the last
# stages side by side (n, sum of their widths).
Kind = Literal["vector", "map", "layers"]
N_LAYERS = 4  # the blocks of ResNet10


@torch.no_grad()
def features_of(encoder: Encoder, images: Tensor, kind: Kind) -> Tensor:
    """Return what is kept of images, in small parts as `Encoder.encode`."""
    if kind == "vector":
        return encoder.encode(images)
    if kind == "map":
        return encoder.encode(images, stop=encoder.n_stages)
    parts = [encoder.normalise(part) for part in images.split(CACHE_BATCH)]
    return torch.cat([torch.cat(encoder.layers(part, N_LAYERS), 1) for part in parts])


@torch.no_grad()
def layers_of(
    encoder: Encoder, images: Tensor, names: Sequence[str], class_head: nn.Module | None = None
) -> list[Tensor]:
    """Return layers of images, each (n, width), in the order of the names.

    `blocks` are the pooled outputs of the last stages, one layer each; `map` is the last stage's
    output, flat; `logits` are what the head says that classified the source.
    """
    parts = []
    for part in images.split(CACHE_BATCH):
        outputs = list(encoder.stage_outputs(encoder.normalise(part)).values())
        found: list[Tensor] = []
        for name in names:
            if name == "blocks":
                found += [encoder.pool(maps) for maps in outputs[-N_LAYERS:]]
            elif name == "map":
                found.append(outputs[-1].float().flatten(1))
            else:
                assert class_head is not None  # a row without is refused
                found.append(class_head(encoder.pool(outputs[-1])))
        parts.append(found)
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


class KeptFeatures(nn.Module):
    """An encoder whose images are features already; it has no weights and never changes."""

    def __init__(self, encoder: Encoder, kind: Kind) -> None:
        super().__init__()
        self.meta, self.kind = encoder.meta, kind
        self._of = (encoder,)  # in a tuple: not a part of this module, whose weights would be ours
        self._widths = encoder.layer_widths(N_LAYERS)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._of[0].device

    def normalise(self, features: Tensor) -> Tensor:
        """Bring features to the device; there is nothing to normalise."""
        return features.to(self.device)

    def run(self, features: Tensor) -> Tensor:
        """Return what the last stage gives."""
        return features

    def pool(self, features: Tensor) -> Tensor:
        """Pool as the encoder does."""
        return self._of[0].pool(features)

    def layers(self, features: Tensor, n_layers: int) -> list[Tensor]:
        """Return the pooled outputs of the last stages."""
        return list(features.split(self._widths, 1))[-n_layers:]

    def layer_widths(self, n_layers: int) -> list[int]:
        """Return the widths of these."""
        return self._widths[-n_layers:]

    def forward(self, features: Tensor) -> Tensor:
        """Return the pooled vectors."""
        return self.layers(features, 1)[0] if self.kind == "layers" else self.pool(features)
