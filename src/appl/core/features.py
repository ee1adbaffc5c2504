"""Making features comparable before a nearest-neighbour graph is built on them."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means


@dataclass(frozen=True)
class Centring:
    """Take square roots of non-negative features, centre them, and scale to unit length.

    The root tames the few large entries of pooled ReLU features; features with negative entries
    keep their values. The centre is half the mean of the class means and half that of the queries:
    the first knows every class alike, the second knows the pile, whatever its size.
    """

    takes_root: bool
    centre: Tensor  # (width,)

    @classmethod
    def of(cls, support: Tensor, class_ids: Tensor, query: Tensor) -> "Centring":
        """Find the centre of a task's features."""
        takes_root = bool(support.amin() >= 0 and query.amin() >= 0)
        if takes_root:
            support, query = support.sqrt(), query.sqrt()
        n_way = int(class_ids.max()) + 1
        return cls(takes_root, (class_means(support, class_ids, n_way).mean(0) + query.mean(0)) / 2)

    def __call__(self, features: Tensor) -> Tensor:
        """Return unit vectors (n, width)."""
        # An image that comes later may have an entry below zero where the task's had none.
        features = features.clamp(min=0).sqrt() if self.takes_root else features
        return F.normalize(features - self.centre, dim=1)


def directions(features: Tensor) -> Tensor:
    """Return features as unit vectors (n, width), roots taken as in `Centring`, not centred."""
    return F.normalize(features.sign() * features.abs().sqrt(), dim=1)


def centre_and_normalise(
    support: Tensor, class_ids: Tensor, query: Tensor
) -> tuple[Tensor, Tensor]:
    """Bring a task's features to unit length around their common centre; see `Centring`."""
    centring = Centring.of(support, class_ids, query)
    return centring(support), centring(query)


def comparable(
    support: Tensor, class_ids: Tensor, query: Tensor, features: Literal["centred", "unit"]
) -> tuple[Tensor, Tensor]:
    """Bring a task's features to unit length: centred as above, or as they are."""
    if features == "centred":
        return centre_and_normalise(support, class_ids, query)
    return F.normalize(support, dim=1), F.normalize(query, dim=1)


def pairwise_gap(distances: Tensor) -> Tensor:
    """Return the mean difference between the nearest and the second nearest prototype."""
    nearest = distances.topk(2, dim=1, largest=False).values
    return torch.mean(nearest[:, 1] - nearest[:, 0])


def likeliest_scale(distances: Tensor, class_ids: Tensor) -> float:
    """Return the factor s under which softmax(−s·distances) gives the classes the most credit.

    A search over three decades on either side of one over the mean distance: the loss is convex
    in s, and no finer answer is needed. Where classes cannot be told apart, s is small; where all
    of n are right, they stand for a right share of (n + 1) / (n + 2) only.
    """
    unit = distances.mean().clamp(min=1e-12)
    factors = torch.logspace(-3, 3, 121, dtype=torch.float64).to(distances.device) / unit.double()
    scores = -factors[:, None, None] * distances.double()
    log_probs = torch.log_softmax(scores, 2)
    doubt = 1 / (len(class_ids) + 2)
    own = log_probs[:, torch.arange(len(class_ids), device=class_ids.device), class_ids].mean(1)
    credit = (1 - doubt) * own + doubt * log_probs.mean((1, 2))
    return float(factors[credit.argmax()])
