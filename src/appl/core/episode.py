"""A few-shot task: labelled supports, unlabelled queries, and the number of classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.errors import TaskError

OUT_OF_DISTRIBUTION = -1  # the class id of a query whose class is not in the episode


@dataclass(frozen=True)
class Task:
    """An N-way task. Classes may have different numbers of supports.

    `support` (n_support, 3, h, w) and `query` (n_query, 3, h, w) are uint8, or float in 0–1;
    `class_ids` (n_support,) counts the classes from 0 without a gap.
    """

    support: Tensor
    class_ids: Tensor
    query: Tensor

    def __post_init__(self) -> None:
        if len(self.support) != len(self.class_ids):
            raise TaskError(f"{len(self.support)} support images have {len(self.class_ids)} labels")
        if len(self.support) == 0:
            raise TaskError("the task has no support image; every class needs at least one")
        counts = torch.bincount(self.class_ids)
        if len(counts) < 2:
            raise TaskError("the task has one class; a choice needs at least two")
        if (counts == 0).any():
            missing = (counts == 0).nonzero().flatten().tolist()
            raise TaskError(f"class {missing[0]} of the task has no support image")
        if len(self.query) == 0:
            raise TaskError("the task has no query image; there is nothing to classify")

    @property
    def n_way(self) -> int:
        """The number of classes N."""
        return int(self.class_ids.max()) + 1

    @property
    def n_support(self) -> int:
        """The number of support images."""
        return len(self.support)

    @property
    def n_query(self) -> int:
        """The number of query images."""
        return len(self.query)

    def images(self) -> Tensor:
        """Return supports, then queries, in one batch; uint8 becomes float in 0–1."""
        images = torch.cat([self.support, self.query])
        return images.float() / 255 if images.dtype == torch.uint8 else images


@dataclass(frozen=True)
class Episode:
    """A task whose answers are known: for training on the source, and for measuring.

    A query whose class is not in the task has the answer −1: no method can know that, and the
    accuracy does not count it. In training, `source_ids` (n_way,) says which of the source's
    training classes the classes of the task are.
    """

    task: Task
    query_class_ids: Tensor
    source_ids: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.query_class_ids) != self.task.n_query:
            raise TaskError(
                f"{self.task.n_query} query images have {len(self.query_class_ids)} answers"
            )

    def accuracy(self, scores: Tensor) -> float:
        """Return the share of the known queries whose highest score is the right class."""
        return right_answers(scores, self.query_class_ids).float().mean().item()


def right_answers(scores: Tensor, query_class_ids: Tensor) -> Tensor:
    """Say of each query of the task's classes whether its highest score is right."""
    known = query_class_ids != OUT_OF_DISTRIBUTION
    return scores.argmax(1).cpu()[known] == query_class_ids[known]
