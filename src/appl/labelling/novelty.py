"""None of these: how far an image is from every class, beside how far left-out examples are."""

from dataclasses import dataclass

import torch
from torch import Tensor

REFERENCE_SHARE = 0.9  # of the left-out examples that are nearer than a novelty of 1
NOVEL_AT = 1.1  # so few known images are above it: docs/trust.md


@dataclass(frozen=True)
class Novelty:
    """Turns the squared distance to the nearest class into a score that does not depend on scale.

    1 is as far as one in ten examples is that the rule had not seen; above `NOVEL_AT` an image is
    taken for none of the classes. Without left-out examples there is no yardstick: all scores are
    0.
    """

    reference: float  # a squared distance; infinite where nothing is known

    @classmethod
    def of(cls, distances: Tensor) -> "Novelty":
        """Take the measure of the left-out examples' distances to their nearest class."""
        if not len(distances):
            return cls(float("inf"))
        return cls(float(torch.quantile(distances.double(), REFERENCE_SHARE)))

    def __call__(self, nearest: Tensor) -> Tensor:
        """Return the novelty of images by their distance to the nearest class (n,)."""
        return nearest / self.reference
