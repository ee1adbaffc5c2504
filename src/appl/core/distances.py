"""Distances and the class probabilities that follow from them (eq. 1)."""

import torch
from torch import Tensor


def squared_distances(points: Tensor, prototypes: Tensor) -> Tensor:
    """Return d(x, p), the squared Euclidean distances (n_points, n_prototypes).

    By ‖x‖² − 2x·p + ‖p‖², in one matrix product; clamped at zero, where rounding can fall below.
    """
    cross = points @ prototypes.mT
    squares = points.square().sum(-1, keepdim=True) + prototypes.square().sum(-1).unsqueeze(-2)
    return (squares - 2 * cross).clamp(min=0)


def class_probs(distances: Tensor) -> Tensor:
    """Return P(y = j | x), the softmax over negative distances (eq. 1)."""
    return torch.softmax(-distances, dim=-1)


def class_means(features: Tensor, class_ids: Tensor, n_way: int) -> Tensor:
    """Return the mean feature of each class (n_way, width): ProtoNet's prototypes.

    Features (…, n, width) and class ids (…, n) of several tasks give (…, n_way, width).
    """
    weights = torch.nn.functional.one_hot(class_ids, n_way).to(features).mT
    return (weights / weights.sum(-1, keepdim=True)) @ features


def left_out_means(features: Tensor, class_ids: Tensor) -> Tensor:
    """Return, for each feature, the mean of the others of its class (n, width); alone, itself."""
    same = (class_ids[:, None] == class_ids).to(features)
    rest = same - torch.eye(len(class_ids), device=features.device, dtype=features.dtype)
    rest = torch.where(rest.sum(1, keepdim=True) > 0, rest, same)
    return (rest / rest.sum(1, keepdim=True)) @ features


def with_own_distance(distances: Tensor, points: Tensor, own: Tensor, class_ids: Tensor) -> Tensor:
    """Replace the distance of each point to its class by that to its row of `own` (n, width)."""
    own_distances = (points - own).square().sum(1, keepdim=True)
    return distances.scatter(1, class_ids[:, None], own_distances)
