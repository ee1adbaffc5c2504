"""Information maximisation on all weights, the first part of IM-DCL (Xu et al., 2024)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means
from appl.core.episode import Task
from appl.core.information import information_scores
from appl.core.methods import METHODS, MethodCard, Solution
from appl.encoders import Encoder
from appl.encoders.batch_statistics import with_batch_statistics
from appl.settings.checks import check_ranges, setting


@METHODS.register("information_fine_tune")
@dataclass(frozen=True)
class InformationFineTune:
    """Information maximisation of Xu et al., 2024, arXiv:2403.01966, without its contrastive part.

    Encoder and class weights step down CE(S) + λ·(mean H(p) − H(mean p)), p of the queries: each
    of them certain, their classes even. Scores are −τ/2·‖z − w_n‖² of unit features, w_n the class
    means at the start, as in `entropy_fine_tune`.
    """

    card: ClassVar = MethodCard(
        title="IM fine-tune",
        paper="Xu et al., 2024",
        summary="fine-tuning that makes queries certain and classes even",
        takes="transductive",
        needs="weights",
    )
    n_steps: int = setting(50, "of Adam, over all supports and all queries", 0)
    rate: float = setting(1e-4, "of Adam, on encoder and class weights", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    information_weight: float = setting(1.0, "λ", 0)
    batch_norm: Literal["follow", "keep"] = setting(
        "keep", "the source's statistics; or those of supports and of queries"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def solve(
        self,
        encoder: Encoder,
        pcn: nn.Module,  # noqa: ARG002
        task: Task,
        beside: Sequence[nn.Module] = (),  # noqa: ARG002
    ) -> Solution:
        """Return the scores of a copy that was fine-tuned on supports and queries."""
        encoder = deepcopy(encoder).eval().requires_grad_(True)
        support, query = encoder.normalise(task.support), encoder.normalise(task.query)
        class_ids = task.class_ids.to(support.device)
        with torch.no_grad():
            weights = class_means(self._encode(encoder, support), class_ids, task.n_way)
        adam = torch.optim.Adam([*encoder.parameters(), weights.requires_grad_()], lr=self.rate)
        found = []
        for _ in range(self.n_steps):
            of_support, of_query = (
                information_scores(self._encode(encoder, part), weights, self.temperature)
                for part in (support, query)
            )
            information = mutual_information(of_query)
            loss = F.cross_entropy(of_support, class_ids) - self.information_weight * information
            adam.zero_grad()
            loss.backward()
            adam.step()
            found.append(information.item())
        with torch.no_grad():
            scores = information_scores(self._encode(encoder, query), weights, self.temperature)
        found.append(mutual_information(scores).item())
        record = {"n_steps": self.n_steps, "information": [round(found[i], 4) for i in (0, -1)]}
        return Solution(scores, record)

    def _encode(self, encoder: Encoder, pixels: Tensor) -> Tensor:
        follows = self.batch_norm == "follow"
        features = with_batch_statistics(encoder, pixels) if follows else encoder(pixels)
        return F.normalize(features, dim=1)


def mutual_information(scores: Tensor) -> Tensor:
    """Return H(mean p) − mean H(p) of scores (n, n_way): at most the logarithm of n_way."""
    log_probs = torch.log_softmax(scores, 1)
    each = -(log_probs.exp() * log_probs).sum(1).mean()
    mean = log_probs.exp().mean(0)
    return -(mean * mean.clamp(min=1e-12).log()).sum() - each
