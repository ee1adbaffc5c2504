"""Feature-wise transformation (Tseng et al., 2020): noise inside the encoder, in training only.

y = γ ⊙ x + β with γ ~ N(1, 0.3²) and β ~ N(0, 0.5²) for every channel, after the second batch norm
of each residual block and after that of its shortcut. One draw serves a whole episode, as if it
came from another domain.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Generator, Tensor, nn

from appl.encoders import Encoder
from appl.encoders.resnet10 import BasicBlock
from appl.errors import SettingsError


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
    """List each residual block's second batch norm and its shortcut's: seven in ResNet10."""
    blocks = [module for module in encoder.modules() if isinstance(module, BasicBlock)]
    if not blocks:
        raise SettingsError(
            f"{encoder.meta.name} has no residual blocks as ResNet10 has, "
            "after whose batch norms the feature-wise transformation stands; train resnet10"
        )
    return [
        norm
        for block in blocks
        for norm in (block.norm2, *block.shortcut.modules())
        if isinstance(norm, nn.BatchNorm2d)
    ]


def _transform(
    encoder: Encoder, gamma: Tensor, beta: Tensor, _norm: nn.Module, _inputs: object, maps: Tensor
) -> Tensor | None:
    if not encoder.training:
        return None  # leaves the output as it is
    shape = (1, -1, 1, 1)
    return gamma.to(maps).view(shape) * maps + beta.to(maps).view(shape)
