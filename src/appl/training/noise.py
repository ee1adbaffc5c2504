"""Noise and dropout on kept features, so that a head does not learn a source's images by heart."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from appl.core.episode import Episode, Task


@dataclass(frozen=True)
class FeatureNoise:
    """A task augmentation: channels drop out and every value gets noise, image by image."""

    deviation: float  # of the noise, in deviations of a channel over the task's images
    dropout: float  # the share of channels that an image loses
    name = "feature noise"

    @contextmanager
    def augmented(
        self,
        encoder: Any,  # noqa: ARG002
        head: nn.Module,  # noqa: ARG002
        loss: Callable[[Episode], Tensor],  # noqa: ARG002
        episode: Episode,
        generator: Generator,
    ) -> Iterator[Episode]:
        """Give the episode with noisy features; both off, it is the one that was drawn."""
        if self.deviation or self.dropout:
            task = episode.task
            features = self._noisy(torch.cat([task.support, task.query]), generator)
            support, query = features.split([task.n_support, task.n_query])
            episode = replace(episode, task=Task(support, task.class_ids, query))
        yield episode

    def _noisy(self, features: Tensor, generator: Generator) -> Tensor:
        noise = torch.randn(features.shape, generator=generator).to(features)
        features = features + self.deviation * features.std(0, keepdim=True) * noise
        # A channel of a map drops out at all its positions.
        channels = (*features.shape[:2], *[1] * (features.dim() - 2))
        keeps = torch.rand(channels, generator=generator) >= self.dropout
        return features * keeps.to(features) / (1 - self.dropout)
