"""Transductive fine-tuning (Guo et al., 2020): the queries' own statistics in the batch norms."""

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard, Solution
from appl.encoders.batch_statistics import with_batch_statistics
from appl.rivals._fine_tuning import FineTuning, Fitted


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

    def answer_by(self, fitted: Fitted, task: Task) -> Solution:
        """Return W f(q) + b, the queries in one batch."""
        encoder = deepcopy(fitted.encoder)  # its norms will remember the queries
        with torch.no_grad():
            features = with_batch_statistics(encoder, encoder.normalise(task.query))
        scores = fitted.scores(features)
        return Solution(scores, fitted.record())
