"""Means over episodes with their intervals, as the field reports them, and paired differences."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean over n episodes and the half-width of its 95 % interval."""

    mean: float
    interval: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return abs(self.mean) > self.interval


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean with 1.96·σ/√n, σ with ddof = 0 (Guo et al., 2020)."""
    if not values:
        return Estimate(math.nan, math.nan, 0)
    spread = statistics.pstdev(values)
    return Estimate(statistics.fmean(values), 1.96 * spread / math.sqrt(len(values)), len(values))


def paired_difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate:
    """Return the mean of ours − theirs over the episodes that both have."""
    shared = sorted(set(ours) & set(theirs))
    return estimate([ours[episode] - theirs[episode] for episode in shared])


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over targets, its interval from their independent ones."""
    n = len(estimates)
    interval = math.sqrt(sum(e.interval**2 for e in estimates)) / n
    return Estimate(
        statistics.fmean(e.mean for e in estimates), interval, min(e.n for e in estimates)
    )
