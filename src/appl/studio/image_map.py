"""All images of a pile in two dimensions, by what the encoders say of them: to draw a lasso on.

Some of them are placed by t-SNE, the others among those that they resemble. It is the same map as
long as the encoders are the same, so that an image is found again after the next answer.
"""

import numpy as np
import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.features import directions
from appl.core.files import write_atomically
from appl.core.seeds import generator_for
from appl.labelling.history import reduced
from appl.labelling.vectors import Vectors
from appl.report.maps import one_map

PLACED_FIRST = 1500
NEIGHBOURS = 3
FILE = "map.f32"


def place_images(vectors: Vectors) -> Tensor:
    """Return a place (n, 2) in 0–1 for every image; −1 where it could not be read."""
    path = vectors.folder / FILE
    if path.exists() and path.stat().st_size == 8 * len(vectors):
        known = np.fromfile(path, np.float32).reshape(-1, 2)
        return torch.from_numpy(known)
    readable = vectors.readable
    drawn = torch.randperm(len(readable), generator=generator_for("map"))[:PLACED_FIRST]
    first = readable[drawn.sort().values]
    points = directions(vectors.of(first)[0])
    placed = one_map(reduced(points)) if len(first) > 2 else torch.rand(len(first), 2)
    lowest, highest = placed.amin(0), placed.amax(0)
    placed = (placed - lowest) / (highest - lowest).clamp(min=1e-9)
    found = torch.full((len(vectors), 2), -1.0)
    for rows in readable.split(4096):
        others = directions(vectors.of(rows)[0])
        near = squared_distances(others, points).topk(min(NEIGHBOURS, len(first)), largest=False)
        weights = 1 / near.values.clamp(min=1e-6)
        weights = weights / weights.sum(1, keepdim=True)
        found[rows] = (placed[near.indices] * weights[..., None]).sum(1)
    found[first] = placed
    write_atomically(path, found.numpy().astype(np.float32).tobytes())
    return found
