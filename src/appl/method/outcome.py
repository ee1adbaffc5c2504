"""What an adaptation leaves: the answer, the adapted encoder, and a record of each iteration."""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.encoders import Encoder
from appl.method.answer import Answer, Described
from appl.settings.adaptation import InformationSettings


@dataclass(frozen=True)
class IterationRecord:
    """What happened in one iteration; the losses are those before its step, unweighted."""

    iteration: int
    alpha: float
    loss: float
    support_loss: float
    query_loss: float
    separation_loss: float
    cohesion_loss: float
    selected_share: float  # of the queries, above ε
    n_label_changes: int  # pseudo-labels that differ from the iteration before
    class_balance: tuple[float, ...]  # share of each class among the pseudo-labels
    support_accuracy: float  # share of the supports nearest to their own prototype
    labels: Tensor  # (n_query,) pseudo-labels; −1: no iteration has taken this query yet


@dataclass(frozen=True)
class Adaptation:
    """The answer to a task, the adapted encoder, and how it came about."""

    scores: Tensor  # (n_query, n_way), higher is better
    prototypes: Tensor  # (n_way, width), of the adapted encoder
    encoder: Encoder
    answer: Answer  # the rule behind the scores, for images that come later
    described: tuple[Described, ...]  # what the rule was found on; empty where it takes features
    information: InformationSettings  # with the pull to equal shares that fitted the pile
    mirrored: bool  # whether it wants an image and its mirror image
    records: tuple[IterationRecord, ...]
    termination: str  # "finished", or why it stopped early
    changes: tuple[str, ...]  # kinds of augmentation that the task could bear
    notes: tuple[str, ...]

    @property
    def probs(self) -> Tensor:
        """Class probabilities of the queries (n_query, n_way)."""
        return torch.softmax(self.scores, 1)
