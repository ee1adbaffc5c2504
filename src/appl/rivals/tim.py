"""TIM (Boudiaf et al., 2020): transductive information maximisation on frozen features."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means, squared_distances
from appl.core.features import centre_and_normalise
from appl.core.methods import METHODS, MethodCard
from appl.settings._checks import check_ranges, setting


@METHODS.register("tim")
@dataclass(frozen=True)
class TIM:
    """Transductive Information Maximization: Boudiaf et al., 2020, arXiv:2008.11297.

    Class weights start at the class means and move so that queries are told apart with confidence
    (small conditional entropy) and classes are used evenly (large marginal entropy), while
    supports stay right:  L = λ·CE(S) − a·H(mean p) + c·mean H(p).
    """

    card: ClassVar = MethodCard(
        title="TIM",
        paper="Boudiaf et al., 2020",
        summary="class weights that make queries certain and classes even",
        takes="transductive",
    )
    solver: Literal["alternating", "gradient"] = setting(
        "alternating", "ADM, which needs no rate; or Adam on the weights"
    )
    features: Literal["centred", "unit"] = setting(
        "centred", "root, centre and scale; or scale alone, as published"
    )
    n_iterations: int = setting(150, "published: 150 alternating, 1000 gradient steps", 0)
    rate: float = setting(1e-4, "of Adam", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    support_weight: float = setting(0.1, "λ", 0)
    marginal_weight: float = setting(1.0, "a", 0)
    conditional_weight: float = setting(0.1, "c", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the scores −τ/2·‖z − w_n‖² of the queries."""
        if self.features == "centred":
            support, query = centre_and_normalise(support, query)
        else:
            support, query = F.normalize(support, dim=1), F.normalize(query, dim=1)
        weights = class_means(support, class_ids, int(class_ids.max()) + 1)
        solve = self._alternate if self.solver == "alternating" else self._descend
        return self._scores(query, solve(weights, support, class_ids, query))

    def objective(
        self, weights: Tensor, support: Tensor, class_ids: Tensor, query: Tensor
    ) -> Tensor:
        """Return L for features that are scaled already."""
        support_loss = F.cross_entropy(self._scores(support, weights), class_ids)
        log_probs = torch.log_softmax(self._scores(query, weights), 1)
        conditional = -(log_probs.exp() * log_probs).sum(1).mean()
        marginal = log_probs.exp().mean(0)
        marginal_entropy = -(marginal * marginal.clamp(min=1e-12).log()).sum()
        return (
            self.support_weight * support_loss
            - self.marginal_weight * marginal_entropy
            + self.conditional_weight * conditional
        )

    def _scores(self, features: Tensor, weights: Tensor) -> Tensor:
        return -self.temperature / 2 * squared_distances(features, weights)

    def _descend(
        self, weights: Tensor, support: Tensor, class_ids: Tensor, query: Tensor
    ) -> Tensor:
        weights = weights.clone().requires_grad_()
        adam = torch.optim.Adam([weights], lr=self.rate)
        for _ in range(self.n_iterations):
            adam.zero_grad()
            self.objective(weights, support, class_ids, query).backward()
            adam.step()
        return weights.detach()

    def _alternate(
        self, weights: Tensor, support: Tensor, class_ids: Tensor, query: Tensor
    ) -> Tensor:
        """Alternate between the queries' labels q and the weights, each in closed form."""
        labels = F.one_hot(class_ids, len(weights)).to(support)
        share = self.marginal_weight / (1 + self.marginal_weight)
        support_share = self.support_weight / (1 + self.conditional_weight)
        query_share = len(support) / len(query)
        for _ in range(self.n_iterations):
            support_probs = torch.softmax(self._scores(support, weights), 1)
            query_probs = torch.softmax(self._scores(query, weights), 1)
            sharpened = query_probs ** (1 + self.conditional_weight)
            q = sharpened / sharpened.sum(0).clamp(min=1e-12) ** share
            q = q / q.sum(1, keepdim=True).clamp(min=1e-12)
            moved = support_share * _pull(labels, support_probs, support, weights)
            moved = moved + query_share * _pull(q, query_probs, query, weights)
            mass = support_share * labels.sum(0) + query_share * q.sum(0)
            weights = moved / mass.clamp(min=1e-12)[:, None]
        return weights


def _pull(targets: Tensor, probs: Tensor, features: Tensor, weights: Tensor) -> Tensor:
    """Return Σ_i t_in z_i + p_in (w_n − z_i) for every class n (n_way, width)."""
    return targets.mT @ features + probs.sum(0)[:, None] * weights - probs.mT @ features
