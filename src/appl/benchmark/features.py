"""Features of whole data sets: an image is embedded once, not once an episode."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from appl.benchmark.plan import Plan, Target
from appl.benchmark.rows import Row
from appl.encoders import Describer, sizes_side_by_side
from appl.weights import Pretrained

BATCH = 256


def embed(
    plan: Plan,
    row: Row,
    target: Target,
    cache: Path,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Path:
    """Embed every image of a target as a row sees it, or find what an earlier call left.

    Returns the file; rows of the same weights share it.
    """
    pretrained = plan.pretrained(row)
    size = f"{plan.settings.image_px}px-{plan.settings.margin:g}"
    stem = f"{target.name}-{size}-{target.data.digest[:16]}-{row.weights_digest[:16]}"
    path = cache / "features" / f"{stem}.npy"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    n_images = len(target.data.class_ids)
    partial = path.with_name(f"{stem}.{os.getpid()}.part.npy")
    width = sum(encoder.meta.width for encoder in pretrained.encoders)
    features = np.lib.format.open_memmap(partial, "w+", np.float32, (n_images, width))
    for part in torch.arange(n_images).split(BATCH):
        images = target.data.images(part)
        features[part.numpy()] = vectors_of(pretrained, images).cpu().numpy()
        on_progress(int(part[-1]) + 1, n_images)
    features.flush()
    partial.replace(path)
    return path


def vectors_of(pretrained: Pretrained, images: Tensor) -> Tensor:
    """Return what rows on frozen features get: of several encoders, their unit vectors in a row."""
    if not pretrained.beside:
        return pretrained.encoder.encode(images)
    describer = Describer(pretrained.encoders, sizes_side_by_side(pretrained.encoders))
    kinds = describer.in_parts(images)
    vectors: Tensor = torch.cat([F.normalize(kind) for kind in kinds], 1) / len(kinds) ** 0.5
    return vectors


def open_features(path: Path) -> NDArray[np.float32]:
    """Read the features of a data set (n_images, width), memory-mapped."""
    features: NDArray[np.float32] = np.load(path, mmap_mode="r")
    return features
