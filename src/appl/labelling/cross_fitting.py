"""Left-out examples of an adapted encoder that has not seen their labels either.

An encoder adapts to its examples, so judging them by it flatters it, even where the rule leaves
them out. So it is adapted twice more, each time with half of the examples among the pile's images,
and these are judged by what came of it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from appl.core.episode import Task
from appl.labelling.left_out import LeftOut, Refit, joined, leave_out, turns_of
from appl.method.adaptation import Adaptation
from appl.method.answer import Described

N_FOLDS = 2


def cross_fitted(
    task: Task,
    n_pool: int,
    adapt_task: Callable[[Task], Adaptation],
    describe_task: Callable[[Adaptation, Task], list[Described]],
    refit: Refit,
) -> LeftOut:
    """Judge every example that can be spared by an adaptation that took it for unlabelled.

    `n_pool` images of the pile are enough here: what is measured is how far examples can be told
    apart, not the pile.
    """
    small = Task(task.support, task.class_ids, task.query[_spread(task.n_query, n_pool)])
    turns = turns_of(task.class_ids)
    folds = torch.where(turns >= 0, turns % N_FOLDS, -1)
    parts = []
    for fold in range(N_FOLDS):
        out = folds == fold
        if not bool(out.any()):
            continue
        reduced = Task(
            small.support[~out],
            small.class_ids[~out],
            torch.cat([small.query, small.support[out]]),
        )
        kinds = describe_task(adapt_task(reduced), small)
        parts.append(leave_out(kinds, task.class_ids, refit, only=out))
    return joined(parts) if parts else leave_out([], task.class_ids, refit, only=turns < -1)


def _spread(n: int, n_kept: int) -> Tensor:
    """Return `n_kept` of n indices, evenly spread."""
    return torch.linspace(0, n - 1, min(n, n_kept)).round().long()
