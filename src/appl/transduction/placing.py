"""How the images of a task are brought side by side: one or more kinds of vectors of each.

An image is described by its features, its texture, the same by another encoder. Each kind is
centred and scaled by itself, then they stand side by side, so that a squared distance is the
weighted mean over the kinds.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.features import Centring


@dataclass(frozen=True)
class Described:
    """One kind of vector of a task's images, and what it counts beside other kinds."""

    support: Tensor  # (n_support, width)
    query: Tensor  # (n_query, width)
    weight: float = 1.0


def described(kinds: list[Tensor], weights: tuple[float, ...], n_support: int) -> list[Described]:
    """Part the vectors of supports and queries, which stand one after the other in each kind."""
    return [
        Described(kind[:n_support], kind[n_support:], weight)
        for kind, weight in zip(kinds, weights, strict=True)
    ]


@dataclass(frozen=True)
class Placing:
    """How images of one task are brought side by side: a centring and a share for each kind."""

    centrings: tuple[Centring, ...]
    shares: tuple[float, ...]  # of the squared distance, one per kind

    @classmethod
    def of(cls, kinds: list[Described], class_ids: Tensor) -> "Placing":
        """Find the centre of each kind."""
        total = sum(kind.weight for kind in kinds)
        centrings = tuple(Centring.of(kind.support, class_ids, kind.query) for kind in kinds)
        return cls(centrings, tuple(kind.weight / total for kind in kinds))

    def __call__(self, vectors: list[Tensor]) -> Tensor:
        """Return unit vectors (n, total width) for the same kinds of vectors of any images."""
        parts = zip(self.centrings, self.shares, vectors, strict=True)
        return torch.cat([share**0.5 * centring(kind) for centring, share, kind in parts], 1)

    def task(self, kinds: list[Described]) -> tuple[Tensor, Tensor]:
        """Return the unit vectors of a task's supports and of its queries."""
        return self([kind.support for kind in kinds]), self([kind.query for kind in kinds])
