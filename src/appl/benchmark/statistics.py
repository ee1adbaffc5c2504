"""Means over episodes with their intervals, as the field reports them, and paired differences.

Paired differences decide which row is better, often by few episodes, so their intervals are
Student's. And how far a confidence is from the share that is right: reliability, calibration error.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit


@dataclass(frozen=True)
class Estimate:
    """A mean over n episodes and the half-width of its 95 % interval; not a number: unknown."""

    mean: float
    interval: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return abs(self.mean) > self.interval

    @property
    def signed(self) -> str:
        """A difference in words."""
        known = not math.isnan(self.interval)
        return f"{self.mean:+.2f} ± {self.interval:.2f}" if known else f"{self.mean:+.2f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean with 1.96·σ/√n, σ with ddof = 0 (Guo et al., 2020)."""
    if not values:
        return Estimate(math.nan, math.nan, 0)
    spread = statistics.pstdev(values)
    return Estimate(statistics.fmean(values), 1.96 * spread / math.sqrt(len(values)), len(values))


def paired_difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate:
    """Return the mean of ours − theirs over the episodes that both have."""
    shared = sorted(set(ours) & set(theirs))
    return estimate_difference([ours[episode] - theirs[episode] for episode in shared])


def estimate_difference(differences: Sequence[float]) -> Estimate:
    """Return the mean with Student's t·s/√n, s with ddof = 1; one episode has no interval.

    With 600 episodes it is the field's interval; with 20 that is a tenth too narrow, with 5 over
    a third, and a table that calls differences certain must not be.
    """
    n = len(differences)
    if n < 2:
        return Estimate(differences[0] if n else math.nan, math.nan, n)
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(differences) / math.sqrt(n)
    return Estimate(statistics.fmean(differences), half, n)


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over targets, its interval from their independent ones."""
    n = len(estimates)
    interval = math.sqrt(sum(e.interval**2 for e in estimates)) / n
    return Estimate(
        statistics.fmean(e.mean for e in estimates), interval, min(e.n for e in estimates)
    )


@dataclass(frozen=True)
class Bin:
    """Labels of about the same confidence: a bar of a reliability diagram."""

    confidence: float  # their mean
    right_share: float
    n: int


def reliability_bins(confidence: ArrayLike, right: ArrayLike, n_bins: int = 15) -> list[Bin]:
    """Group labels by confidence into bins of equal width, the lowest first, empty ones left out.

    A bin holds its lower edge; the last one holds 1 too.
    """
    sure = np.asarray(confidence, dtype=np.float64)
    is_right = np.asarray(right, dtype=np.float64)
    # k / n rounds as a written number does: 0.3 is on the edge 3 / 10, but below linspace's.
    index = np.digitize(sure, np.arange(1, n_bins) / n_bins)
    groups = (index == k for k in np.unique(index))
    return [Bin(float(sure[g].mean()), float(is_right[g].mean()), int(g.sum())) for g in groups]


def calibration_error(confidence: ArrayLike, right: ArrayLike, n_bins: int = 15) -> float:
    """Return the expected calibration error over equal bins (Guo et al., 2017)."""
    bins = reliability_bins(confidence, right, n_bins)
    if not bins:
        return math.nan
    return sum(b.n * abs(b.confidence - b.right_share) for b in bins) / sum(b.n for b in bins)
