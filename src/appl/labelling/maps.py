"""A map of the images in two dimensions, before and after the adaptation."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_DIMENSIONS = 30  # kept by PCA; t-SNE gains nothing from more and takes longer
FEW_POINTS = 12  # fewer than this have no neighbourhoods worth a t-SNE


def two_maps(before: Tensor, after: Tensor) -> Tensor:
    """Place the same images twice (2, n, 2); the second map starts from the first.

    So what moves between them has moved in the features, not by the method's whim.
    """
    first = _placed(before, None)
    second = first if torch.equal(before, after) else _placed(after, first)
    return torch.from_numpy(np.stack([first, second])).float()


def _placed(features: Tensor, start: NDArray[np.float32] | None) -> NDArray[np.float32]:
    # Here: they take seconds to load, and commands that draw no map need not wait for them.
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    vectors = torch.nn.functional.normalize(features.double() - features.double().mean(0), dim=1)
    n_kept = min(MAX_DIMENSIONS, len(vectors) - 1, vectors.shape[1])
    reduced = PCA(n_kept, random_state=0).fit_transform(vectors.numpy())
    if len(reduced) < FEW_POINTS:
        flat = np.zeros((len(reduced), 2), dtype=np.float32)
        flat[:, : min(2, n_kept)] = reduced[:, :2]
        return flat
    if start is None:
        start = reduced[:, :2]
    # t-SNE expects a small start; only its shape matters.
    start = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
    perplexity = min(30.0, (len(reduced) - 1) / 3)
    return TSNE(  # type: ignore[no-any-return]
        perplexity=perplexity, init=start, learning_rate="auto", random_state=0, max_iter=500
    ).fit_transform(reduced.astype(np.float32))
