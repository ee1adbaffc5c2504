"""Honest confidence: a temperature, and a threshold with a promise.

The temperature is the likeliest one for the examples that were left out, pulled towards the one
that was learnt on other tasks as long as there are few of them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.labelling.left_out import LeftOut

PRIOR_DEVIATION = 0.3  # of log T between tasks of the development domains (docs/trust.md)


def fit_temperature(left_out: LeftOut, prior: float) -> float:
    """Return the T under which softmax(scores / T) gives the left-out examples the most credit.

    The posterior's mode: log T is normal around log(prior). With no example it is the prior.
    """
    log_t = torch.linspace(math.log(prior) - 3, math.log(prior) + 3, 601, dtype=torch.float64)
    penalty = (log_t - math.log(prior)).square() / (2 * PRIOR_DEVIATION**2)
    if len(left_out):
        scores = left_out.scores.double() / log_t.exp()[:, None, None]
        own = torch.log_softmax(scores, 2)[:, torch.arange(len(left_out)), left_out.class_ids]
        penalty = penalty - own.sum(1)
    return float(log_t[penalty.argmin()].exp())


@dataclass(frozen=True)
class Acceptance:
    """A label is accepted where its confidence is above `threshold`.

    The promise (conformal risk control, Angelopoulos et al., 2022): for an image that is like the
    examples, being accepted with a wrong label has a chance of at most `promised`. It is `wanted`,
    or the least that n examples allow, 1 / (n + 1).
    """

    wanted: float
    promised: float
    threshold: float
    n_examples: int

    @property
    def is_kept(self) -> bool:
        """Whether what was wanted can be promised."""
        return self.promised <= self.wanted

    def accepts(self, confidence: Tensor) -> Tensor:
        """Tell which labels are accepted."""
        return confidence > self.threshold


def fit_acceptance(confidence: Tensor, right: Tensor, wanted: float) -> Acceptance:
    """Find the lowest threshold under which (wrong and accepted + 1) / (n + 1) is small enough."""
    n = len(confidence)
    least = 1 / (n + 1)
    promised = max(wanted, least)
    # A rounding error must not forbid the very level that was named as possible.
    n_wrong_allowed = math.floor(promised * (n + 1) + 1e-9) - 1
    wrong = confidence[~right].sort(descending=True).values
    threshold = 0.0
    if n == 0 or promised >= 1:
        # Nothing is known, and a promise of 1 is none: leave every label to a person.
        threshold = 1.0
    elif len(wrong) > n_wrong_allowed:
        threshold = float(wrong[n_wrong_allowed])
    return Acceptance(wanted, promised, threshold, n)
