"""LaplacianShot (Ziko et al., 2020): the nearest prototype, but neighbours agree."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from appl.core.distances import class_means, squared_distances
from appl.core.features import comparable
from appl.core.methods import METHODS, MethodCard
from appl.core.rectification import rectified_means
from appl.settings.checks import check_ranges, setting


@METHODS.register("laplacian_shot")
@dataclass(frozen=True)
class LaplacianShot:
    """Laplacian Regularized Few-Shot Learning: Ziko et al., 2020, arXiv:2006.15486.

    Labels y_q (points of the simplex) pay the squared distance a_qn to the prototypes and are paid
    for agreeing with their neighbours W:  E(y) = Σ y·log y + a·y − λ/2·yᵀWy. Each sweep,
    y ← softmax(−a + λWy), minimises a bound of E, if W is symmetric and no eigenvalue of it is
    below −2/λ.
    """

    card: ClassVar = MethodCard(
        title="LaplacianShot",
        paper="Ziko et al., 2020",
        summary="nearest prototype with neighbouring queries made to agree",
        takes="transductive",
    )
    features: Literal["centred", "unit"] = setting(
        "centred", "root, centre and scale; or scale alone"
    )
    rectifies: bool = setting(True, "prototypes as in BD-CSPN; else class means, for uneven piles")
    strength: float = setting(0.7, "λ; published: 0.1 to 1.5, by validation on the source", 0)
    n_neighbours: int = setting(2, "of each query; published: 3 with itself", 0)
    graph: Literal["symmetric", "raw"] = setting(
        "symmetric", "(W + Wᵀ)/2, with which E falls; or W as found, as the authors' code has it"
    )
    n_sweeps: int = setting(20, "at most", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return log y."""
        support, query = comparable(support, class_ids, query, self.features)
        if self.rectifies:
            prototypes = rectified_means(support, class_ids, query)
        else:
            prototypes = class_means(support, class_ids, int(class_ids.max()) + 1)
        return self.relax(squared_distances(query, prototypes), self.neighbours(query))

    def neighbours(self, query: Tensor) -> Tensor:
        """Return W (n_query, n_query): 1 from a query to each of its nearest others."""
        distances = squared_distances(query, query).fill_diagonal_(torch.inf)
        # A pile may be smaller than the number of neighbours, down to a single query.
        n_neighbours = min(self.n_neighbours, len(query) - 1)
        nearest = distances.topk(n_neighbours, largest=False).indices
        weights = torch.zeros_like(distances).scatter_(1, nearest, 1.0)
        # The mean of W and Wᵀ has the same yᵀWy as W.
        return (weights + weights.mT) / 2 if self.graph == "symmetric" else weights

    def relax(self, costs: Tensor, weights: Tensor) -> Tensor:
        """Return log y for costs a (n_query, n_way), every sweep taking all y of the last one."""
        log_labels = torch.log_softmax(-costs, 1)
        before = math.inf
        for sweep in range(self.n_sweeps):
            log_labels = torch.log_softmax(-costs + self.strength * weights @ log_labels.exp(), 1)
            energy = float(self.energy(log_labels, costs, weights))
            if sweep > 1 and abs(energy - before) <= 1e-6 * abs(before):
                break
            before = energy
        return log_labels

    def energy(self, log_labels: Tensor, costs: Tensor, weights: Tensor) -> Tensor:
        """Return E(y)."""
        labels = log_labels.exp()
        agreement = weights @ labels
        return (labels * (log_labels + costs - self.strength / 2 * agreement)).sum()
