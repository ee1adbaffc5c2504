"""How good an encoder is while it is trained: 5-way 5-shot episodes on the validation classes."""

from collections.abc import Callable

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.errors import DataError

N_WAY, N_SHOT, N_QUERY = 5, 5, 15

# From supports (n_support, width) and their class ids to prototypes (n_way, width).
Prototypes = Callable[[Tensor, Tensor], Tensor]


def check_validation_classes(source: PackedImages, class_names: list[str]) -> None:
    """Refuse validation classes that episodes cannot be drawn from, before any training."""
    if len(class_names) < N_WAY:
        raise DataError(
            f"{len(class_names)} validation classes are too few for {N_WAY}-way episodes; "
            f"name at least {N_WAY}"
        )
    for name in class_names:
        if len(source.members(name)) < N_SHOT + N_QUERY:
            raise DataError(
                f"validation class {name!r} has {len(source.members(name))} images; "
                f"episodes need {N_SHOT + N_QUERY}"
            )


@torch.no_grad()
def validate(
    encoder: Encoder,
    source: PackedImages,
    class_names: list[str],
    prototypes: Prototypes,
    *,
    n_episodes: int,
    n_images: int,
) -> tuple[float, float]:
    """Return mean and 95 % half-width of the accuracy in %, by the nearest prototype.

    The encoder is left in eval mode: batch norms use what they remember. Episodes are the same in
    every call.
    """
    encoder.eval()
    features = [
        torch.cat(
            [
                encoder(encoder.normalise(source.images(part))).cpu()
                for part in source.members(name)[:n_images].split(100)
            ]
        )
        for name in class_names
    ]  # a class: (image, width)
    support_ids = torch.arange(N_WAY).repeat_interleave(N_SHOT)
    query_ids = torch.arange(N_WAY).repeat_interleave(N_QUERY)
    accuracies = []
    for episode in range(n_episodes):
        generator = generator_for("validation", episode)
        chosen = torch.randperm(len(features), generator=generator)[:N_WAY].tolist()
        picked = torch.stack([_some(features[c], generator) for c in chosen])
        found = prototypes(picked[:, :N_SHOT].flatten(0, 1), support_ids)
        answers = squared_distances(picked[:, N_SHOT:].flatten(0, 1), found).argmin(1)
        accuracies.append((answers == query_ids).float().mean() * 100)
    values = torch.stack(accuracies)
    return values.mean().item(), (1.96 * values.std(correction=0) / len(values) ** 0.5).item()


def _some(features: Tensor, generator: torch.Generator) -> Tensor:
    return features[torch.randperm(len(features), generator=generator)[: N_SHOT + N_QUERY]]
