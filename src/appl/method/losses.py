"""The paper's losses, on squared distances (n, n_way) and prototypes (n_way, width)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import squared_distances

Reduction = Literal["sum", "mean"]


def cross_entropy_loss(distances: Tensor, class_ids: Tensor, reduction: Reduction) -> Tensor:
    """L_CE (eqs. 1–2): cross-entropy of the softmax over negative distances."""
    return F.cross_entropy(-distances, class_ids, reduction=reduction)


def separation_loss(prototypes: Tensor, pairs: Literal["unordered", "ordered"]) -> Tensor:
    """L_dis (eq. dis): one over the sum of the distances between prototypes.

    The sum is clamped from below, since all prototypes can be equal (all zero after the ReLU).
    """
    distances = squared_distances(prototypes, prototypes)
    n_way = len(prototypes)
    upper = torch.ones(n_way, n_way, dtype=torch.bool, device=distances.device).triu(1)
    total = distances[upper].sum()
    if pairs == "ordered":
        total = 2 * total
    return 1 / total.clamp(min=1e-6)


def cohesion_loss(distances: Tensor, class_ids: Tensor, reduction: Reduction) -> Tensor:
    """L_coh (eq. coh) on queries, L_coh^ft on supports: distances to the own prototype."""
    own = distances.gather(1, class_ids[:, None])
    return own.sum() if reduction == "sum" else own.mean()


def select_confident(pseudo_probs: Tensor, threshold: float) -> Tensor:
    """Tell which queries have a largest pseudo-probability strictly above ε (n_query,)."""
    return pseudo_probs.amax(1) > threshold


def self_training_loss(
    distances: Tensor,
    pseudo_probs: Tensor,
    threshold: float,
    *,
    pseudo_labels: Literal["soft", "hard"],
    reduction: Literal["sum", "mean_selected", "mean_all"],
) -> Tensor:
    """L_CE^tr (eq. ce-psudo): cross-entropy to the pseudo-labels of the confident queries.

    Zero, with a gradient of zero, when no query is selected.
    """
    selected = select_confident(pseudo_probs, threshold)
    target = pseudo_probs
    if pseudo_labels == "hard":
        target = F.one_hot(pseudo_probs.argmax(1), pseudo_probs.shape[1]).to(pseudo_probs)
    each = -(target * F.log_softmax(-distances, dim=1)).sum(1)
    total = (each * selected).sum()
    if reduction == "sum":
        return total
    count = selected.sum() if reduction == "mean_selected" else torch.tensor(len(distances))
    return total / count.clamp(min=1)
