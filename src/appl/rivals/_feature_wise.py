"""Feature-wise transformation (Tseng et al., 2020): noise inside the encoder, in training only.

y = γ ⊙ x + β with γ ~ N(1, 0.3²) and β ~ N(0, 0.5²) for every channel, after the batch norms in
which a block ends: in ResNet10 the second, and the shortcut's. One draw serves a whole episode, as
if it came from another domain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from appl.core.episode import Episode
from appl.encoders import Encoder
from appl.errors import SettingsError


class FeatureWise:
    """The noise as a task augmentation: images stay, the encoder sees them in another domain."""

    name = "feature-wise"

    @contextmanager
    def augmented(
        self,
        encoder: Encoder,
        head: nn.Module,  # noqa: ARG002
        loss: Callable[[Episode], Tensor],  # noqa: ARG002
        episode: Episode,
        generator: Generator,
    ) -> Iterator[Episode]:
        """Give the episode as it is, with noise in the encoder."""
        with feature_wise_transformation(encoder, generator):
            yield episode


@contextmanager
def feature_wise_transformation(
    encoder: Encoder,
    generator: Generator,
    *,
    gamma_deviation: float = 0.3,
    beta_deviation: float = 0.5,
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Transform an episode's features inside this context; gives (γ, β) of every site.

    While the encoder is in the mode of evaluation nothing is changed, in the context or not.
    """
    draws, handles = [], []
    for norm in noise_sites(encoder):
        # The published deviations pass through a softplus of sharpness 100: the same to 1e-14.
        gamma = 1 + gamma_deviation * torch.randn(norm.num_features, generator=generator)
        beta = beta_deviation * torch.randn(norm.num_features, generator=generator)
        draws.append((gamma, beta))
        handles.append(norm.register_forward_hook(partial(_transform, encoder, gamma, beta)))
    try:
        yield draws
    finally:
        for handle in handles:
            handle.remove()


def noise_sites(encoder: Encoder) -> list[nn.BatchNorm2d]:
    """List the batch norms in which the encoder's blocks end: seven in ResNet10.

    A block says so itself by `output_norms`; where none does, it is the last norm of each stage.
    """
    blocks: list[Any] = [m for m in encoder.modules() if hasattr(m, "output_norms")]
    told = [block.output_norms() for block in blocks]
    norms = [
        [m for m in stage.modules() if isinstance(m, nn.BatchNorm2d)] for stage in encoder.stages
    ]
    sites = [norm for block in told for norm in block] or [found[-1] for found in norms if found]
    if not sites:
        raise SettingsError(
            f"{encoder.meta.name} has no batch norms of maps, after which the feature-wise "
            "transformation stands; train an encoder that has"
        )
    return sites


def _transform(
    encoder: Encoder, gamma: Tensor, beta: Tensor, _norm: nn.Module, _inputs: object, maps: Tensor
) -> Tensor | None:
    if not encoder.training:
        return None  # leaves the output as it is
    shape = (1, -1, 1, 1)
    return gamma.to(maps).view(shape) * maps + beta.to(maps).view(shape)
