"""Left-out examples of an adapted encoder that has not seen their labels either.

An encoder adapts to its examples, so judging them by it flatters it, even where the rule leaves
them out. So it is adapted some times more, each time with a fifth of the examples among the pile's
images, and these are judged by what came of it. Two halves would be cheaper, but an encoder that
knew half of five examples is much worse than the one that is to be judged.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.episode import Task
from appl.labelling.left_out import (
    LeftOut,
    Refit,
    joined,
    judged_without,
    leave_out,
    turns_of,
)
from appl.solver.solve import Solved
from appl.transduction.placing import Described

N_FOLDS = 5


def folds_of(class_ids: Tensor) -> list[Tensor]:
    """Return which examples (n,) are left out in each fold; none where none can be spared."""
    turns = turns_of(class_ids)
    folds = [(turns >= 0) & (turns % N_FOLDS == fold) for fold in range(N_FOLDS)]
    return [out for out in folds if bool(out.any())]


@dataclass(frozen=True)
class CrossFit:
    """Examples judged by encoders that were adapted without their labels."""

    left_out: LeftOut  # by all other examples: what confidence rests on
    # By those labels alone that the encoder knew, and the same with the frozen encoder: both have
    # as many labels, so what is between them is the adaptation.
    adapted: LeftOut
    frozen: LeftOut


def cross_fitted(
    task: Task,
    n_pool: int,
    frozen_kinds: list[Described],
    adapt_task: Callable[[Task], Solved],
    describe_task: Callable[[Solved, Task], list[Described]],
    refit: Refit,
) -> CrossFit:
    """Judge every example that can be spared by an adaptation that took it for unlabelled.

    `n_pool` images of the pile are enough here: what is measured is how far examples can be told
    apart, not the pile.
    """
    rows = spread(task.n_query, n_pool)
    small = Task(task.support, task.class_ids, task.query[rows])
    frozen_small = [Described(k.support, k.query[rows], k.weight) for k in frozen_kinds]
    left_out, adapted, frozen = [], [], []
    for out in folds_of(task.class_ids):
        reduced = Task(
            small.support[~out],
            small.class_ids[~out],
            torch.cat([small.query, small.support[out]]),
        )
        kinds = describe_task(adapt_task(reduced), small)
        left_out.append(leave_out(kinds, task.class_ids, refit, only=out))
        adapted.append(judged_without(out, kinds, task.class_ids, refit))
        frozen.append(judged_without(out, frozen_small, task.class_ids, refit))
    if not left_out:
        none = leave_out([], task.class_ids, refit)
        return CrossFit(none, none, none)
    return CrossFit(joined(left_out), joined(adapted), joined(frozen))


def spread(n: int, n_kept: int) -> Tensor:
    """Return `n_kept` of n indices, evenly spread."""
    return torch.linspace(0, n - 1, min(n, n_kept)).round().long()
