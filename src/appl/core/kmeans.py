"""k-means for the few supports of a class: tiny, seeded, and never with an empty cluster.

Returns assignments only. Centroids are the means of their members, taken by the caller on the
features that carry gradients. scikit-learn's is the oracle of the tests.
"""

from typing import Literal

import torch
from torch import Generator, Tensor

from appl.core.distances import squared_distances


def cluster(
    points: Tensor,
    n_clusters: int,
    *,
    start: Literal["first", "plus_plus"],
    n_rounds: int,
    generator: Generator,
) -> Tensor:
    """Return the cluster of each point (n,), each of the n_clusters ≤ n having a member.

    Ties go to the lowest index. Cost: n_rounds products of (n, width) by (width, n_clusters).
    """
    if len(points) < n_clusters:
        raise ValueError(f"{len(points)} points cannot fill {n_clusters} clusters")
    points = points.detach()
    if start == "first":
        centres = points[:n_clusters]
    else:
        centres = points[_plus_plus(points, n_clusters, generator)]
    assignment = _assign(points, centres)
    for _ in range(n_rounds):
        centres = torch.stack([points[assignment == c].mean(0) for c in range(n_clusters)])
        moved = _assign(points, centres)
        if torch.equal(moved, assignment):
            break
        assignment = moved
    return assignment


def _assign(points: Tensor, centres: Tensor) -> Tensor:
    distances = squared_distances(points, centres)
    assignment = distances.argmin(1)
    counts = torch.bincount(assignment, minlength=len(centres))
    for empty in (counts == 0).nonzero().flatten():
        # An empty cluster takes the point farthest from its own centre, never a cluster's last.
        own = distances.gather(1, assignment[:, None]).squeeze(1)
        farthest = own.masked_fill(counts[assignment] < 2, -1).argmax()
        counts[assignment[farthest]] -= 1
        counts[empty] += 1
        assignment[farthest] = empty
    return assignment


def _plus_plus(points: Tensor, n_clusters: int, generator: Generator) -> Tensor:
    """Draw starts with probability proportional to the squared distance to those drawn so far."""
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    nearest = squared_distances(points, points[chosen]).squeeze(1)
    for _ in range(n_clusters - 1):
        weight = nearest.double().cpu()
        weight[chosen] = 0
        if weight.sum() == 0:  # only copies of the chosen points are left
            weight = torch.ones_like(weight)
            weight[chosen] = 0
        chosen.append(int(torch.multinomial(weight, 1, generator=generator)))
        latest = squared_distances(points, points[chosen[-1:]]).squeeze(1)
        nearest = torch.minimum(nearest, latest)
    return torch.tensor(chosen, device=points.device)
