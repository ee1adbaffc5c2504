"""A pile in groups of images that look alike: where a person starts who has no examples.

More groups than there may be classes, so that one group is seldom two classes: to give two groups
one name is easy, to part one is not.
"""

import math

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.features import directions
from appl.core.kmeans import cluster
from appl.core.seeds import generator_for

LEAST_GROUPS, MOST_GROUPS = 8, 60
FITTED_ON = 5000  # images that the centres are found on; the others join them
KEPT_AXES = 64


def n_groups_for(n_images: int) -> int:
    """Return how many groups a pile is parted into: about the root of its size."""
    return min(max(LEAST_GROUPS, min(MOST_GROUPS, round(math.sqrt(n_images)))), n_images)


def group_pile(features: Tensor, n_groups: int, seed: int = 0) -> list[Tensor]:
    """Return the rows of each group (n, width) → indices, those nearest its centre first.

    Tight groups come first: they are the easiest to name.
    """
    generator = generator_for("groups", seed)
    points = directions(features.float())
    chosen = torch.randperm(len(points), generator=generator)[:FITTED_ON].sort().values
    centre = points[chosen].mean(0)
    centred = points[chosen] - centre
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors[:, -KEPT_AXES:]
    placed = (points - centre) @ axes
    groups = cluster(placed[chosen], n_groups, start="plus_plus", n_rounds=30, generator=generator)
    centres = torch.stack([placed[chosen][groups == g].mean(0) for g in range(n_groups)])
    distances = squared_distances(placed, centres)
    nearest, assignment = distances.min(1)
    found = []
    for group in range(n_groups):
        members = (assignment == group).nonzero().flatten()
        if len(members):
            found.append(members[nearest[members].argsort()])
    found.sort(key=lambda members: float(nearest[members].mean()))
    return found
