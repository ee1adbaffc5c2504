"""Adversarial task augmentation (Wang and Deng, 2021): the worst task near the one that was drawn.

The host's own loss is raised by plain gradient steps on the normalised pixels of supports and
queries together, modules in the mode of evaluation; no sign, no projection, no clipping. Before
that, most often, one random convolution changes the colours and textures of the whole task.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from appl.core.episode import Episode, Task
from appl.encoders import Encoder

KERNELS = (1, 3, 5, 7, 11, 15)  # sides of the random filters


@dataclass(frozen=True)
class Adversarial:
    """The augmentation: ascents of a rate; the share of tasks that keep their own images."""

    n_ascents: int
    rate: float
    keep_share: float
    name = "adversarial"

    @contextmanager
    def augmented(
        self,
        encoder: Encoder,
        head: nn.Module,
        loss: Callable[[Episode], Tensor],
        episode: Episode,
        generator: Generator,
    ) -> Iterator[Episode]:
        """Give the task that the host finds harder; its labels are the old ones."""
        if torch.rand(1, generator=generator).item() >= self.keep_share:
            episode = with_images(episode, filtered(encoder, episode.task.images(), generator))
        with _evaluating(encoder, head):
            for _ in range(self.n_ascents):
                episode = self._raised(encoder, loss, episode)
        yield episode

    def _raised(
        self, encoder: Encoder, loss: Callable[[Episode], Tensor], episode: Episode
    ) -> Episode:
        pixels = episode.task.images().to(encoder.device).detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(with_images(episode, pixels)), pixels)
        # A step of η on (pixels − mean) / std is one of η·std² on the pixels.
        raised = pixels.detach() + self.rate * encoder.pixel_std.square() * gradient
        return with_images(episode, raised)


def filtered(encoder: Encoder, images: Tensor, generator: Generator) -> Tensor:
    """Return images (n, 3, h, w) after one random convolution of their normalised pixels."""
    side = KERNELS[int(torch.randint(len(KERNELS), (1,), generator=generator))]
    # Xavier's deviation: √(2 / (fan in + fan out)), both 3·side².
    weight = torch.randn(3, 3, side, side, generator=generator) / (3 * side**2) ** 0.5
    pixels = encoder.normalise(images)
    pixels = F.conv2d(pixels, weight.to(pixels), padding=side // 2)
    return pixels * encoder.pixel_std + encoder.pixel_mean


def with_images(episode: Episode, images: Tensor) -> Episode:
    """Return the episode with other images: supports, then queries."""
    task = episode.task
    support, query = images.split([task.n_support, task.n_query])
    return replace(episode, task=Task(support, task.class_ids, query))


@contextmanager
def _evaluating(*networks: nn.Module) -> Iterator[None]:
    """Put modules into the mode of evaluation and ask for no gradients of their weights."""
    modes = [(m, m.training) for network in networks for m in network.modules()]
    weights = [(p, p.requires_grad) for network in networks for p in network.parameters()]
    for network in networks:
        network.eval().requires_grad_(False)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for weight, requires in weights:
            weight.requires_grad_(requires)
