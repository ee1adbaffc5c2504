"""A map of the images in two dimensions, before and after the adaptation."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FEW_POINTS = 12  # fewer than this have no neighbourhoods worth a t-SNE


def two_maps(vectors: Tensor) -> Tensor:
    """Place the same images twice (2, n, 2) by their vectors (2, n, width), before and after.

    The second map starts from the first, so what moves between them has moved in the features, not
    by the method's whim.
    """
    before, after = vectors
    first = _placed(before, None)
    second = first if torch.equal(before, after) else _placed(after, first)
    return torch.from_numpy(np.stack([first, second])).float()


def one_map(vectors: Tensor) -> Tensor:
    """Place images (n, 2) by their vectors (n, width), principal components first."""
    return torch.from_numpy(np.ascontiguousarray(_placed(vectors, None))).float()


def _placed(vectors: Tensor, start: NDArray[np.float32] | None) -> NDArray[np.float32]:
    points: NDArray[np.float32] = vectors.numpy()
    plain = np.pad(points[:, :2], ((0, 0), (0, max(0, 2 - points.shape[1]))))
    if len(points) < FEW_POINTS or points.shape[1] <= 2:  # nothing to bring down to two dimensions
        return plain
    start = plain if start is None else start
    # Here: it takes seconds to load, and commands that draw no map need not wait for it.
    from sklearn.manifold import TSNE

    # t-SNE expects a small start; only its shape matters.
    start = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
    perplexity = min(30.0, (len(points) - 1) / 3)
    return TSNE(  # type: ignore[no-any-return]
        perplexity=perplexity, init=start, learning_rate="auto", random_state=0, max_iter=500
    ).fit_transform(points)
