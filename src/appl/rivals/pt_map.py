"""PT-MAP (Hu et al., 2021): Gaussian-like features, queries shared out by optimal transport."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means, squared_distances
from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting

TOLERANCE = 1e-6  # of the column sums, in queries


@METHODS.register("pt_map")
@dataclass(frozen=True)
class PTMAP:
    """Leveraging the Feature Distribution in Transfer-based Few-Shot Learning: Hu et al., 2021.

    arXiv:2006.03806. Features go through a power transform; then a transport plan P that gives
    every class |Q|/N queries, and class centres m_n = Σ P x / Σ P that move a step towards it, take
    turns. The plan holds that the pile is even: on an uneven one it must go wrong.
    """

    card: ClassVar = MethodCard(
        title="PT-MAP",
        paper="Hu et al., 2021",
        summary="optimal transport of queries to equally large classes",
        takes="transductive",
    )
    power: float = setting(0.5, "β of the transform (x + 1e-6)^β", 0, 1)
    n_iterations: int = setting(20, "of plan and centres", 0)
    strength: float = setting(10.0, "λ, of squared distances in the plan exp(−λd)", 0)
    step: float = setting(0.2, "share of the way that a centre goes", 0, 1)
    n_sweeps: int = setting(1000, "at most, for each plan", 1)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return log P."""
        n_way = int(class_ids.max()) + 1
        support, other = self._powers(support), self._powers(query)
        # Each set is centred by itself; the mean of class means tolerates unequal shots.
        support = F.normalize(support - class_means(support, class_ids, n_way).mean(0), dim=1)
        return self.assign(support, class_ids, F.normalize(other - other.mean(0), dim=1)).to(query)

    def assign(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return log P (n_query, n_way) for features that are transformed already."""
        centres = class_means(support, class_ids, int(class_ids.max()) + 1)
        labels = F.one_hot(class_ids, len(centres)).to(support)
        points = torch.cat([support, query])
        for _ in range(self.n_iterations):
            plan = self.log_plan(squared_distances(query, centres)).exp()
            shares = torch.cat([labels, plan])  # a support stays with its class
            means = (shares / shares.sum(0)).mT @ points
            centres = centres + self.step * (means - centres)
        return self.log_plan(squared_distances(query, centres))

    def log_plan(self, costs: Tensor) -> Tensor:
        """Return log P, P = exp(−λ·costs + offset of the row + offset of the column).

        Rows sum to 1, columns to |Q|/N. The offsets v of the columns maximise
        |Q|/N·Σ v_n − Σ_q log Σ_n exp(v_n − λ·cost_qn), which a sweep of Sinkhorn's raises, and a
        step of Newton's mostly far more: the better is taken, a few in place of hundreds of sweeps.
        """
        kernel = -self.strength * costs
        share = len(costs) / costs.shape[1]  # not always a whole number

        def gain(offsets: Tensor) -> float:
            return float(share * offsets.sum() - (kernel + offsets).logsumexp(1).sum())

        ridge = 1e-9 * torch.eye(costs.shape[1]).to(costs)  # adding a constant to v changes nothing
        offsets = costs.new_zeros(costs.shape[1])
        for _ in range(self.n_sweeps):
            log_plan = torch.log_softmax(kernel + offsets, 1)
            plan = log_plan.exp()
            missing = share - plan.sum(0)
            if missing.abs().max() < TOLERANCE:
                break
            sweep = offsets + math.log(share) - log_plan.logsumexp(0)
            curvature = torch.diag(plan.sum(0)) - plan.mT @ plan
            newton = offsets + torch.linalg.solve(curvature + ridge, missing)
            offsets = newton if gain(newton) > gain(sweep) else sweep
        return log_plan

    def _powers(self, features: Tensor) -> Tensor:
        # Features below zero have no root; after a last ReLU there are none. Double: the sweeps
        # sum up their rounding.
        return F.normalize((features.double().clamp(min=0) + 1e-6) ** self.power, dim=1)
