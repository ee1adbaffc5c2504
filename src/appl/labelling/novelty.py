"""None of these: how far an image is from every class and every example, beside left-out examples.

Two distances, since each misses out-of-distribution images that the other finds. Where classes are
told apart, features are centred on the task, and that makes those look ordinary; so the second
distance is taken before it. Their mean found more of them than a hundred other scores did on
development domains (docs/trust.md).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.labelling.left_out import LeftOut, middle

REFERENCE_SHARE = 0.9  # of the left-out examples that are nearer than a novelty of 1
NOVEL_AT = 1.15  # so few known images are above it: docs/trust.md


@dataclass(frozen=True)
class Novelty:
    """Turns two squared distances into a score that does not depend on scale.

    1 is as far as one in ten examples is that the rule had not seen; above `NOVEL_AT` an image is
    taken for none of the classes. Without left-out examples there is no yardstick: all scores are
    0.
    """

    class_reference: float  # of the distance to the nearest class; infinite where nothing is known
    example_reference: float  # of the distance to the nearest example

    @classmethod
    def of(cls, left_out: LeftOut, to_class: Tensor, to_example: Tensor) -> "Novelty":
        """Take the measure of the left-out examples, beside the pile's own distances."""
        return cls(
            _reference(left_out.to_class, to_class), _reference(left_out.to_example, to_example)
        )

    def __call__(self, to_class: Tensor, to_example: Tensor) -> Tensor:
        """Return the novelty of images by both distances (n,)."""
        return (to_class / self.class_reference + to_example / self.example_reference) / 2


def _reference(left_out: Tensor, pile: Tensor) -> float:
    if not len(left_out):
        return float("inf")
    # Copies of one image are no distance apart; dividing by that would make all else novel.
    return max(float(torch.quantile(left_out.double(), REFERENCE_SHARE)), 1e-6) * middle(pile)
