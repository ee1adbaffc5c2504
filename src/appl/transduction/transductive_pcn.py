"""Transductive PCN: prototypes learnt over tasks, on frozen features, as a row of the benchmark."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from appl.core.methods import METHODS, MethodCard
from appl.transduction.learnt import LearntRule
from appl.transduction.placing import Described


@METHODS.register("transductive_pcn")
@dataclass(frozen=True)
class TransductivePrototypes:
    """Transductive PCN: ours.

    The rule of Adaptive-prior TIM, unrolled, its numbers learnt over tasks of classes that the
    encoder had not seen (`appl.transduction.network`). No encoder is adapted, no texture and no
    mirror image is used.
    """

    card: ClassVar = MethodCard(
        title="Transductive PCN",
        paper="ours",
        summary="prototypes of supports and pile, learnt over tasks, by inner products only",
        takes="transductive",
    )
    network: Literal["tpcn-1"] = "tpcn-1"

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the log-probabilities of the queries."""
        rule = LearntRule.fit([Described(support, query)], class_ids, self.network)
        return torch.log_softmax(rule.scores(rule.place([query])), 1)
