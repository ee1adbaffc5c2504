"""MetaOptNet (Lee et al., 2019): a convex classifier on the supports, solved to its optimum."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard
from appl.encoders import Encoder
from appl.rivals._episodic import task_vectors
from appl.rivals._simplex_qp import svm_dual
from appl.settings.checks import check_ranges, setting


@METHODS.register("meta_opt")
@dataclass(frozen=True)
class MetaOpt:
    """Meta-Learning with Differentiable Convex Optimization: Lee et al., 2019, arXiv:1904.03758.

    A multi-class support vector machine is fitted to the supports, scores are γ·Σ_i α_i ⟨z_i, q⟩,
    and gradients pass through its optimum: features learn to be told apart linearly. Or ridge
    regression, α = (ZZᵀ + λI)⁻¹ Y, in closed form.
    """

    card: ClassVar = MethodCard(
        title="MetaOptNet",
        paper="Lee et al., 2019",
        summary="a support vector machine on features learnt for it",
        takes="none",
        is_meta_trained=True,
    )
    head: Literal["svm", "ridge"] = setting("svm", "the classifier")
    features: Literal["unit", "raw"] = setting(
        "unit", "brought to `length`, so that C means the same in every domain; or as they are"
    )
    length: float = setting(10.0, "of unit features; 10 is about what ResNet10 gives them", 0)
    bound: float = setting(0.1, "C, the most that a support weighs for its class", 0)
    smoothing: float = setting(1.0, "added to the diagonal of ZZᵀ in the SVM", 1e-3)
    penalty: float = setting(50.0, "λ of the ridge regression", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def build_head(self, encoder: Encoder, n_way: int) -> "Scale":  # noqa: ARG002
        """Return γ; any number of classes."""
        return Scale()

    def answer(self, encoder: Encoder, head: nn.Module, task: Task) -> Tensor:
        """Return γ·Σ_i α_i ⟨z_i, q⟩."""
        support, query = task_vectors(encoder, task)
        if self.features == "unit":
            support, query = (self.length * F.normalize(z, dim=1) for z in (support, query))
        z = support.double()
        class_ids = task.class_ids.to(z.device)
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        if self.head == "svm":
            kernel = z @ z.mT + self.smoothing * eye
            alpha = svm_dual(kernel, class_ids, task.n_way, self.bound)
        else:
            # Paper: the right side is 2Y; the factor is γ's.
            labels = F.one_hot(class_ids, task.n_way).to(z)
            alpha = torch.linalg.solve(z @ z.mT + self.penalty * eye, labels)
        scores: Tensor = head((query.double() @ z.mT @ alpha).to(query))
        return scores


class Scale(nn.Module):
    """γ, the temperature of the scores: learnt, at first 1."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, scores: Tensor) -> Tensor:
        """Return the scores times γ."""
        return self.gamma * scores
