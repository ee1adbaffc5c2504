"""TIM (Boudiaf et al., 2020): transductive information maximisation on frozen features."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means
from appl.core.features import comparable
from appl.core.information import descend, information_scores, information_weights
from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting


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
        support, query = comparable(support, class_ids, query, self.features)
        solve = self._alternate if self.solver == "alternating" else self._descend
        return information_scores(query, solve(support, class_ids, query), self.temperature)

    def objective(
        self, weights: Tensor, support: Tensor, class_ids: Tensor, query: Tensor
    ) -> Tensor:
        """Return L for features that are scaled already."""
        support_loss = F.cross_entropy(
            information_scores(support, weights, self.temperature), class_ids
        )
        log_probs = torch.log_softmax(information_scores(query, weights, self.temperature), 1)
        conditional = -(log_probs.exp() * log_probs).sum(1).mean()
        marginal = log_probs.exp().mean(0)
        marginal_entropy = -(marginal * marginal.clamp(min=1e-12).log()).sum()
        return (
            self.support_weight * support_loss
            - self.marginal_weight * marginal_entropy
            + self.conditional_weight * conditional
        )

    def _descend(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        objective = partial(self.objective, support=support, class_ids=class_ids, query=query)
        means = class_means(support, class_ids, int(class_ids.max()) + 1)
        return descend(objective, means, self.n_iterations, self.rate)

    def _alternate(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        return information_weights(
            support,
            class_ids,
            query,
            n_iterations=self.n_iterations,
            temperature=self.temperature,
            support_weight=self.support_weight,
            marginal_weight=self.marginal_weight,
            conditional_weight=self.conditional_weight,
        )
