"""Label propagation (Zhou et al. 2003): labels diffuse over a graph of near neighbours.

F = (I − αS)⁻¹ Y with S = D^-½ W D^-½, W the k-nearest-neighbour graph with Gaussian weights whose
width is the mean of its own squared distances. Solved in float64: I − αS is nearly singular.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import squared_distances


def propagate(
    support: Tensor,
    class_ids: Tensor,
    query: Tensor,
    n_way: int,
    *,
    alpha: float = 0.8,
    n_neighbours: int = 10,
) -> Tensor:
    """Return class probabilities (n_query, n_way) of query features (n_query, width).

    Classes weigh alike whatever their number of supports. A query that no label reaches gets
    equal probabilities. Cost: one dense solve of n_support + n_query unknowns.
    """
    points = torch.cat([support, query]).double()
    start = F.one_hot(class_ids, n_way).double()
    start = start / start.sum(0)
    start = torch.cat([start, start.new_zeros(len(query), n_way)])
    spread = diffuse(neighbour_graph(points, n_neighbours), start, alpha)
    spread = spread[len(support) :].clamp(min=0)
    total = spread.sum(1, keepdim=True)
    probs = torch.where(total > 1e-300, spread / total.clamp(min=1e-300), 1 / n_way)
    return probs.to(query)


def diffuse(weights: Tensor, start: Tensor, alpha: float) -> Tensor:
    """Return F = (I − αS)⁻¹ Y of a graph's weights W (n, n) and labels Y (n, n_way)."""
    degree = weights.sum(1).clamp(min=1e-12).rsqrt()
    similarity = degree[:, None] * weights * degree
    eye = torch.eye(len(weights), dtype=weights.dtype, device=weights.device)
    spread: Tensor = torch.linalg.solve(eye - alpha * similarity, start)
    return spread


def neighbour_graph(points: Tensor, n_neighbours: int) -> Tensor:
    """Return the symmetric k-nearest-neighbour weights (n, n) with an empty diagonal."""
    distances = squared_distances(points, points)
    distances.fill_diagonal_(torch.inf)
    nearest = distances.topk(min(n_neighbours, len(points) - 1), largest=False)
    width = nearest.values.mean().clamp(min=1e-12)
    weights = torch.zeros_like(distances)
    weights.scatter_(1, nearest.indices, torch.exp(-nearest.values / (2 * width)))
    return torch.maximum(weights, weights.mT)
