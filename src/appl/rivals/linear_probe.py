"""Linear probe: a linear softmax classifier on frozen features, the floor for all adaptation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting


@METHODS.register("linear_probe")
@dataclass(frozen=True)
class LinearProbe:
    """Logistic regression on unit vectors, solved by L-BFGS to convergence.

    The benchmark's own recipe is 700 small SGD steps from a random start (Guo et al., 2020); this
    is its deterministic form, with a penalty in place of stopping early.
    """

    card: ClassVar = MethodCard(
        title="Linear probe",
        paper="Guo et al., 2020",
        summary="logistic regression on frozen features",
        takes="none",
    )
    strength: float = setting(1.0, "C, the inverse of the penalty's weight on the summed loss", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the linear scores W z + b."""
        # Here: scikit-learn takes as long to load as torch, and every row's worker loads this file.
        from sklearn.linear_model import LogisticRegression

        # Classes weigh alike whatever their number of supports; with equal shots, no change.
        model = LogisticRegression(
            C=self.strength, max_iter=1000, tol=1e-6, class_weight="balanced"
        )
        model.fit(F.normalize(support.double(), dim=1).numpy(), class_ids.numpy())
        decisions = model.decision_function(F.normalize(query.double(), dim=1).numpy())
        scores = torch.from_numpy(decisions).to(query)
        # Two classes share one score in scikit-learn.
        return scores if scores.dim() == 2 else torch.stack([-scores, scores], 1)
