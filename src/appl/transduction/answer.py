"""What all images of a task say together: pseudo-labels or answers beyond the distances (B12, B22).

An image is described by one or more vectors: its features, its texture, the same by another
encoder. Each kind is centred and scaled by itself, then they stand side by side, so that a squared
distance is the weighted mean over the kinds. A rule is found on a task and then scores any image,
one by one.
"""

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.features import Centring
from appl.core.information import information_scores, information_weights, marginal_weight_for
from appl.core.propagation import propagate
from appl.settings.solving import InformationSettings


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


@dataclass(frozen=True)
class InformationRule:
    """Class weights found by information maximisation, and how to place an image beside them."""

    placing: Placing
    class_weights: Tensor  # (n_way, total width)
    temperature: float

    @classmethod
    def fit(
        cls, kinds: list[Described], class_ids: Tensor, settings: InformationSettings
    ) -> "InformationRule":
        """Find the weights on the supports and queries of a task."""
        placing = Placing.of(kinds, class_ids)
        support, query = placing.task(kinds)
        values = asdict(settings)
        values["marginal_weight"] = marginal_weight_for(support, class_ids, query, **values)
        del values["least_marginal_weight"], values["uneven_at"]
        weights = information_weights(support, class_ids, query, **values)
        return cls(placing, weights, settings.temperature)

    def place(self, vectors: list[Tensor]) -> Tensor:
        """Bring images to where distances are taken (n, width)."""
        return self.placing(vectors)

    def distances(self, placed: Tensor) -> Tensor:
        """Return the squared distances of placed images to the class weights (n, n_way)."""
        return squared_distances(placed, self.class_weights)

    def scores(self, placed: Tensor) -> Tensor:
        """Return the scores of placed images (n, n_way), higher is better."""
        return information_scores(placed, self.class_weights, self.temperature)


def hold_class_prior(
    kinds: list[Described], class_ids: Tensor, settings: InformationSettings
) -> InformationSettings:
    """Return the settings with the one weight of the marginal entropy that fits this pile."""
    support, query = Placing.of(kinds, class_ids).task(kinds)
    weight = marginal_weight_for(support, class_ids, query, **asdict(settings))
    return replace(settings, marginal_weight=weight, least_marginal_weight=weight)


def weigh_together(
    rule: str, kinds: list[Described], class_ids: Tensor, settings: InformationSettings
) -> Tensor:
    """Return −log P of the queries (n_query, n_way), so that softmax(−h) gives P back."""
    if rule == "propagation":
        support, query = Placing.of(kinds, class_ids).task(kinds)
        probs = propagate(support, class_ids, query, int(class_ids.max()) + 1)
        return -probs.clamp(min=1e-6).log()
    found = InformationRule.fit(kinds, class_ids, settings)
    return -torch.log_softmax(found.scores(found.place([kind.query for kind in kinds])), 1)
