"""Prototype rectification (Liu et al., 2020): class means that queries of their kind move along."""

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means


def rectified_means(
    support: Tensor, class_ids: Tensor, query: Tensor, *, temperature: float = 10.0
) -> Tensor:
    """Return P'_n = Σ ω x' / Σ ω over the supports and the pseudo-labelled queries of n.

    Queries are shifted so that both sets share their mean: q' = q + ξ. A query's pseudo-label is
    the class mean P_n of largest cosine, a support keeps its own; ω = softmax(τ·cos(x', P)) of that
    class. A class that no query takes keeps its mean. Unequal shots do not move the common mean.
    """
    means = class_means(support, class_ids, int(class_ids.max()) + 1)
    shift = means.mean(0) - query.mean(0)  # ξ
    points = torch.cat([support, query + shift])
    cosines = F.normalize(points, dim=1) @ F.normalize(means, dim=1).mT
    query_labels = cosines[len(support) :].argmax(1)
    labels = torch.cat([class_ids, query_labels])
    certainty = torch.softmax(temperature * cosines, 1)  # ω, of every class
    # Weights that sum to one in each class: divided by the count instead, as published, a
    # prototype shrinks where its queries are uncertain.
    weights = F.one_hot(labels, len(means)).to(points) * certainty
    rectified = (weights / weights.sum(0)).mT @ points
    is_taken = torch.bincount(query_labels, minlength=len(means)) > 0
    return torch.where(is_taken[:, None], rectified, means)
