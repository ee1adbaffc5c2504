"""What all images of a task say together: pseudo-labels or answers beyond the distances (B12, B22).

A rule is found on a task, by the vectors of its images side by side (`placing`), and then scores
any image, one by one.
"""

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.information import information_scores, information_weights, marginal_weight_for
from appl.core.propagation import propagate
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.transduction.learnt import LearntRule
from appl.transduction.placing import Described, Placing


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


def held_evenness(settings: InformationSettings) -> float | None:
    """Return how even the pile was found to be, 0 to 1, where `hold_class_prior` fixed it."""
    weight, usual = settings.marginal_weight, InformationSettings()
    if weight != settings.least_marginal_weight:
        return None
    least, most = usual.least_marginal_weight, usual.marginal_weight
    return min(max((weight - least) / (most - least), 0.0), 1.0)


def fit_rule(
    kinds: list[Described], class_ids: Tensor, rule: str, answer: AnswerSettings
) -> InformationRule | LearntRule:
    """Find the rule of that name, which scores any image by itself, on a task."""
    if rule == "learnt":
        return LearntRule.fit(kinds, class_ids, answer.network, held_evenness(answer.information))
    return InformationRule.fit(kinds, class_ids, answer.information)


def weigh_together(
    rule: str, kinds: list[Described], class_ids: Tensor, answer: AnswerSettings
) -> Tensor:
    """Return −log P of the queries (n_query, n_way), so that softmax(−h) gives P back."""
    if rule == "propagation":
        support, query = Placing.of(kinds, class_ids).task(kinds)
        probs = propagate(support, class_ids, query, int(class_ids.max()) + 1)
        return -probs.clamp(min=1e-6).log()
    found = fit_rule(kinds, class_ids, rule, answer)
    return -torch.log_softmax(found.scores(found.place([kind.query for kind in kinds])), 1)
