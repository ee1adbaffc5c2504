"""Transductive fine-tuning (Dhillon et al., 2020): supports right, queries certain."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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


@METHODS.register("entropy_fine_tune")
@dataclass(frozen=True)
class EntropyFineTune:
    """A Baseline for Few-Shot Image Classification: Dhillon et al., 2020, arXiv:1909.02729.

    All weights step down CE(S) + mean H(p) of the queries, from class means as class weights. The
    paper works on the source classifier's logits, which an encoder does not have: as Veilleux et
    al., 2021, we take unit features z and scores −τ/2·‖z − w_n‖², and step once on the sum where
    the paper steps on either term. Nothing keeps all queries from ending in one class: the record
    has the shares of the classes.
    """

    card: ClassVar = MethodCard(
        title="Entropy fine-tune",
        paper="Dhillon et al., 2020",
        summary="fine-tuning that makes the queries certain",
        takes="transductive",
        needs="weights",
    )
    n_steps: int = setting(25, "of Adam, over all supports and all queries", 0)
    rate: float = setting(5e-5, "of Adam, on encoder and class weights", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    entropy_weight: float = setting(1.0, "of the queries' entropy beside CE(S)", 0)
    batch_norm: Literal["follow", "keep"] = setting(
        "follow", "supports and queries by statistics of their own, to the last; or the source's"
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
        """Return the scores of a copy that has been fine-tuned on supports and queries."""
        encoder = deepcopy(encoder).eval().requires_grad_(True)
        support, query = encoder.normalise(task.support), encoder.normalise(task.query)
        class_ids = task.class_ids.to(support.device)
        with torch.no_grad():
            weights = class_means(self._encode(encoder, support), class_ids, task.n_way)
        adam = torch.optim.Adam([*encoder.parameters(), weights.requires_grad_()], lr=self.rate)
        entropies = []
        for _ in range(self.n_steps):
            support_scores = self._scores(encoder, support, weights)
            entropy = _mean_entropy(self._scores(encoder, query, weights))
            loss = F.cross_entropy(support_scores, class_ids) + self.entropy_weight * entropy
            adam.zero_grad()
            loss.backward()
            adam.step()
            entropies.append(float(entropy.detach()))
        with torch.no_grad():
            scores = self._scores(encoder, query, weights)
        entropies.append(float(_mean_entropy(scores)))
        return Solution(scores, _record(scores, entropies))

    def _scores(self, encoder: Encoder, pixels: Tensor, weights: Tensor) -> Tensor:
        return information_scores(self._encode(encoder, pixels), weights, self.temperature)

    def _encode(self, encoder: Encoder, pixels: Tensor) -> Tensor:
        follows = self.batch_norm == "follow"
        features = with_batch_statistics(encoder, pixels) if follows else encoder(pixels)
        return F.normalize(features, dim=1)


def _mean_entropy(scores: Tensor) -> Tensor:
    log_probs = torch.log_softmax(scores, 1)
    return -(log_probs.exp() * log_probs).sum(1).mean()


def _record(scores: Tensor, entropies: list[float]) -> dict[str, Any]:
    counts = torch.bincount(scores.argmax(1), minlength=scores.shape[1])
    return {
        "n_steps": len(entropies) - 1,
        "query_entropy": [round(entropies[0], 4), round(entropies[-1], 4)],
        "balance": [round(share, 3) for share in (counts / counts.sum()).tolist()],
    }
