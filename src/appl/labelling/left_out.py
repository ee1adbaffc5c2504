"""Examples judged by a rule that was found without them: what calibration and trust rest on.

In turn, one example of every class is put to the pile's images and judged like them, by the rule
that the remaining examples (K − 1 of a class) and the pile give. A class with one example has none
to spare.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.features import directions
from appl.solver.solve import Rule
from appl.transduction.placing import Described

MAX_TURNS = 10  # with more examples a class than this, several of a class are left out together

Refit = Callable[[list[Described], Tensor], Rule]


@dataclass(frozen=True)
class LeftOut:
    """How the examples fare that were left out; `rows` says which they are."""

    rows: Tensor  # (n,) index into the examples
    class_ids: Tensor  # (n,) their true classes
    scores: Tensor  # (n, n_way)
    # How far they are, beside how far the pile's images are from the same classes and examples:
    # another encoder, or fewer examples, may shrink all distances alike.
    to_class: Tensor  # (n,) squared distance to the nearest class ÷ the pile's median
    to_example: Tensor  # (n,) the same of directions and the nearest example that was kept

    @property
    def accuracy(self) -> float:
        """The share that was put into its class; 0 where there was none to leave out."""
        return (self.scores.argmax(1) == self.class_ids).float().mean().nan_to_num().item()

    def __len__(self) -> int:
        return len(self.rows)


def leave_out(
    kinds: list[Described], class_ids: Tensor, refit: Refit, only: Tensor | None = None
) -> LeftOut:
    """Judge every example of a class that has two or more, or those in `only`, by the others."""
    turns = turns_of(class_ids)
    if only is not None:
        turns = torch.where(only, turns, -1)
    parts = [
        judged_without(turns == turn, kinds, class_ids, refit)
        for turn in range(int(turns.max()) + 1)
        if bool((turns == turn).any())
    ]
    if parts:
        return joined(parts)
    empty = class_ids[:0]
    n_way = int(class_ids.max()) + 1
    return LeftOut(empty, empty, torch.zeros(0, n_way), torch.zeros(0), torch.zeros(0))


def judged_without(out: Tensor, kinds: list[Described], class_ids: Tensor, refit: Refit) -> LeftOut:
    """Judge the examples in `out` by the rule that the others and the pile give."""
    kept = ~out
    reduced = [
        Described(kind.support[kept], torch.cat([kind.query, kind.support[out]]), kind.weight)
        for kind in kinds
    ]
    rule = refit(reduced, class_ids[kept])
    placed = rule.place([kind.support[out] for kind in kinds])
    examples = directions(kinds[0].support)
    own = how_far(rule, placed, examples[out], examples[kept])
    pile = rule.place([kind.query for kind in kinds])
    others = how_far(rule, pile, directions(kinds[0].query), examples[kept])
    return LeftOut(
        out.nonzero().flatten(),
        class_ids[out],
        rule.scores(placed).float(),
        (own[0] / middle(others[0])).float(),
        (own[1] / middle(others[1])).float(),
    )


def how_far(rule: Rule, placed: Tensor, seen: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
    """Return squared distances (n,): to the nearest class, and of directions to an example."""
    return rule.distances(placed).amin(1), squared_distances(seen, examples).amin(1)


def middle(distances: Tensor) -> float:
    """Return the median; never 0, which the copies of one image would give."""
    return max(float(distances.median()), 1e-9)


def joined(parts: list[LeftOut]) -> LeftOut:
    """Put parts together in the order of the examples."""
    rows = torch.cat([part.rows for part in parts])
    order = rows.argsort()
    return LeftOut(
        rows[order].cpu(),
        torch.cat([part.class_ids for part in parts])[order].cpu(),
        torch.cat([part.scores for part in parts])[order].cpu(),
        torch.cat([part.to_class for part in parts])[order].cpu(),
        torch.cat([part.to_example for part in parts])[order].cpu(),
    )


def turns_of(class_ids: Tensor) -> Tensor:
    """Return the turn in which each example is left out; −1: never, the only one of its class."""
    turns = torch.full_like(class_ids, -1)
    for class_id in class_ids.unique().tolist():
        members = (class_ids == class_id).nonzero().flatten()
        if len(members) > 1:
            turns[members] = torch.arange(len(members), device=class_ids.device) % MAX_TURNS
    return turns
