"""α-TIM (Veilleux et al., 2021): TIM with entropies that tolerate an uneven pile of queries."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means
from appl.core.features import comparable
from appl.core.information import descend, information_scores
from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting


@METHODS.register("alpha_tim")
@dataclass(frozen=True)
class AlphaTIM:
    """Realistic Evaluation of Transductive Few-Shot Learning: Veilleux et al., 2021.

    arXiv:2204.11181. TIM's loss with Tsallis entropies H_α on the queries, whose slope punishes an
    uneven use of the classes less:  L = λ·CE(S) − a·H_α(mean p) + c·mean H_α(p); α → 1 is TIM.
    """

    card: ClassVar = MethodCard(
        title="α-TIM",
        paper="Veilleux et al., 2021",
        summary="TIM with a softer preference for classes of equal size",
        takes="transductive",
    )
    alpha: float = setting(
        7.0, "of the entropies; published: 2 for one shot, 7 for five or more", 1
    )
    features: Literal["centred", "unit"] = setting(
        "centred", "root, centre and scale; or scale alone, as published"
    )
    n_iterations: int = setting(1000, "of Adam on the class weights", 0)
    rate: float = setting(1e-4, "of Adam", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    support_weight: float = setting(1.0, "λ", 0)
    marginal_weight: float = setting(1.0, "a", 0)
    conditional_weight: float = setting(1.0, "c", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the scores −τ/2·‖z − w_n‖² of the queries."""
        support, query = comparable(support, class_ids, query, self.features)
        objective = partial(self.objective, support=support, class_ids=class_ids, query=query)
        means = class_means(support, class_ids, int(class_ids.max()) + 1)
        weights = descend(objective, means, self.n_iterations, self.rate)
        return information_scores(query, weights, self.temperature)

    def objective(
        self, weights: Tensor, support: Tensor, class_ids: Tensor, query: Tensor
    ) -> Tensor:
        """Return L for features that are scaled already."""
        support_loss = F.cross_entropy(
            information_scores(support, weights, self.temperature), class_ids
        )
        probs = torch.softmax(information_scores(query, weights, self.temperature), 1)
        return (
            self.support_weight * support_loss
            - self.marginal_weight * alpha_entropy(probs.mean(0), self.alpha)
            + self.conditional_weight * alpha_entropy(probs, self.alpha).mean()
        )


def alpha_entropy(probs: Tensor, alpha: float) -> Tensor:
    """Return H_α(p) = (1 − Σ p^α) / (α − 1) over the last dimension; Shannon's at α = 1."""
    if alpha == 1:
        return -(probs * probs.clamp(min=1e-12).log()).sum(-1)
    return (1 - (probs**alpha).sum(-1)) / (alpha - 1)
