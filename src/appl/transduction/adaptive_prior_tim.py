"""Adaptive-prior TIM: our answer on frozen features, as a row of the benchmark."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from appl.core.methods import METHODS, MethodCard
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.transduction.answer import weigh_together
from appl.transduction.placing import Described


@METHODS.register("adaptive_prior_tim")
@dataclass(frozen=True)
class AdaptivePriorTIM:
    """Adaptive-prior TIM: ours, after Boudiaf et al., 2020, arXiv:2008.11297.

    TIM's objective in closed-form steps on centred features. The weight of the marginal entropy,
    which prefers classes of equal size, is found per task: a first answer with hardly any of it
    shows how uneven the pile looks. No encoder is adapted, no texture and no mirror image is used.
    """

    card: ClassVar = MethodCard(
        title="Adaptive-prior TIM",
        paper="ours, after Boudiaf et al., 2020",
        summary="TIM whose class prior is estimated from the pile",
        takes="transductive",
    )
    information: InformationSettings = field(default_factory=InformationSettings)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the log-probabilities of the queries."""
        kinds = [Described(support, query)]
        answer = AnswerSettings(information=self.information)
        return -weigh_together("information", kinds, class_ids, answer)
