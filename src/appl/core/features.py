"""Making features comparable before a nearest-neighbour graph is built on them."""

import torch
import torch.nn.functional as F
from torch import Tensor


def centre_and_normalise(support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Take square roots of non-negative features, centre each set, and scale to unit length.

    The root tames the few large entries of pooled ReLU features; features with negative entries
    keep their values. Supports and queries are centred apart: their classes occur at other rates.
    """
    if support.amin() >= 0 and query.amin() >= 0:
        support, query = support.sqrt(), query.sqrt()
    both = [F.normalize(part - part.mean(0), dim=1) for part in (support, query)]
    return both[0], both[1]


def pairwise_gap(distances: Tensor) -> Tensor:
    """Return the mean difference between the nearest and the second nearest prototype."""
    nearest = distances.topk(2, dim=1, largest=False).values
    return torch.mean(nearest[:, 1] - nearest[:, 0])
