"""The weighted moving average of each query's distance vector (eqs. tildehx, pseudo, alpha).

h̃ᶦ = αᵢ hᶦ + (1 − αᵢ) h̃ᶦ⁻¹ with αᵢ = γ αᵢ₋₁. Every query counts its own updates, so that a large
pile can be visited in parts.
"""

import torch
from torch import Tensor

from appl.settings.adaptation import WMASettings


class MovingAverage:
    """The average h̃ of n_query distance vectors (n_query, n_way)."""

    def __init__(self, n_query: int, n_way: int, settings: WMASettings) -> None:
        self.settings = settings
        self.sums = torch.zeros(n_query, n_way)
        self.mass = torch.zeros(n_query, 1)  # total weight of all h inside each h̃
        self.n_updates = torch.zeros(n_query, 1, dtype=torch.int64)

    def alpha(self, update: int | Tensor) -> Tensor:
        """Return α at the given update, counted from 1 (eq. alpha)."""
        settings = self.settings
        decays = torch.as_tensor(update) - (1 if settings.first_alpha == "initial" else 0)
        return (settings.alpha * settings.gamma ** decays.double()).clamp(min=settings.alpha_floor)

    def update(self, distances: Tensor, rows: Tensor | None = None) -> Tensor:
        """Take in the distances of all queries, or of those in `rows`; return their h̃.

        Where the caller does not detach `distances`, h̃ carries the gradient of its newest part.
        """
        if not self.settings.use:
            alpha = torch.ones(len(distances), 1)
        else:
            alpha = self.alpha(self.n_updates[_index(rows)] + 1).float()
            if self.settings.start == "first":
                alpha = torch.where(self.n_updates[_index(rows)] == 0, 1.0, alpha)
        alpha = alpha.to(distances)
        sums = alpha * distances + (1 - alpha) * self.sums[_index(rows)].to(distances)
        mass = alpha + (1 - alpha) * self.mass[_index(rows)].to(distances)
        self.sums[_index(rows)] = sums.detach().cpu()
        self.mass[_index(rows)] = mass.detach().cpu()
        self.n_updates[_index(rows)] += 1
        return sums / mass if self.settings.start == "debiased" else sums

    def average(self) -> Tensor:
        """Return h̃ of every query as it stands."""
        return self.sums / self.mass if self.settings.start == "debiased" else self.sums


def _index(rows: Tensor | None) -> Tensor | slice:
    return slice(None) if rows is None else rows
