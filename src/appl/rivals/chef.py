"""CHEF (Adler et al., 2020): linear learners on several frozen layers, their logits added up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting

LENGTH = 10.0  # about the length of ResNet10's features on the source


@METHODS.register("chef")
@dataclass(frozen=True)
class CHEF:
    """Cross-Domain Few-Shot Learning by Representation Fusion: Adler et al., 2020.

    On each of several layers a linear softmax classifier starts at zero and takes plain gradient
    steps down the mean cross-entropy of the supports, W ← W − ηVᵀZ with V = ∂L/∂logits; scores are
    the sum of all learners' logits. Where a domain is far the lower layers still tell its classes
    apart.
    """

    card: ClassVar = MethodCard(
        title="CHEF",
        paper="Adler et al., 2020",
        summary="linear learners on several layers, added up",
        takes="none",
        needs="layers",
    )
    fused: Literal["blocks", "blocks+map", "blocks+map+logits"] = setting(
        "blocks+map", "pooled outputs of the blocks; the last map, flat; the source's logits"
    )
    scale: Literal["raw", "equal"] = setting(
        "raw", "of a layer: as it is, as published; or so that the supports' mean length is 10"
    )
    rate: float = setting(0.01, "η", 0)
    n_steps: int = setting(400, "of each learner, over all supports", 0)
    doubles: bool = setting(True, "the gradient of W counts twice, as in the published code")

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that learners stand on."""
        return tuple(self.fused.split("+"))

    def layer_scores(
        self, support: Sequence[Tensor], class_ids: Tensor, query: Sequence[Tensor]
    ) -> Tensor:
        """Return Σ_l W_l z_l + b_l."""
        pairs = zip(support, query, strict=True)
        scores = torch.stack([self._learner(s, class_ids, q) for s, q in pairs])
        return scores.sum(0).to(query[0])

    def _learner(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the logits of one layer's learner.

        W is a sum of supports, W = AᵀZ, so that steps on A need inner products only, however wide
        the layer is; the values are those of steps on W.
        """
        z, q = support.double(), query.double()
        if self.scale == "equal":
            factor = LENGTH / torch.linalg.vector_norm(z, dim=1).mean().clamp(min=1e-12)
            z, q = factor * z, factor * q
        targets = F.one_hot(class_ids).double()
        # Classes weigh alike whatever their number of supports; with equal shots, no change.
        shares = 1 / (targets.shape[1] * targets.sum(0)[class_ids, None])
        kernel, bias = z @ z.mT, z.new_zeros(targets.shape[1])
        weights = torch.zeros_like(targets)  # A (n_support, n_way)
        for _ in range(self.n_steps):
            slopes = shares * (torch.softmax(kernel @ weights + bias, 1) - targets)  # V
            weights = weights - self.rate * (1 + self.doubles) * slopes
            bias = bias - self.rate * slopes.sum(0)
        return q @ z.mT @ weights + bias
