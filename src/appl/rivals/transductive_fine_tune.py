"""Transductive fine-tuning (Guo et al., 2020): the queries' own statistics in the batch norms."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard, Solution
from appl.encoders import Encoder
from appl.rivals._fine_tuning import FineTuning, with_batch_statistics


@METHODS.register("transductive_fine_tune")
@dataclass(frozen=True)
class TransductiveFineTune(FineTuning):
    """Transductive fine-tuning of Guo et al., 2020, arXiv:1912.07200; not that of Dhillon et al.

    Fine-tuning on the supports, then all queries in one batch, whose statistics the batch norms
    use. The authors' code has no such script; when and over which images the statistics are taken
    is our reading.
    """

    card: ClassVar = MethodCard(
        title="Transductive fine-tune",
        paper="Guo et al., 2020",
        summary="fine-tuning, then batch statistics of the queries",
        takes="batchnorm",
        needs="weights",
    )

    def solve(self, encoder: Encoder, pcn: nn.Module, task: Task) -> Solution:  # noqa: ARG002
        """Return W f(q) + b of a fine-tuned copy, the queries in one batch."""
        fitted = self.fit(encoder, task)
        with torch.no_grad():
            pixels = fitted.encoder.normalise(task.query)
            scores = fitted.scores(with_batch_statistics(fitted.encoder, pixels))
        return Solution(scores, fitted.record())
