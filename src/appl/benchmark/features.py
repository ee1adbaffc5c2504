"""Features of whole data sets: an image is embedded once, not once an episode."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from appl.benchmark.plan import Plan, Target
from appl.benchmark.rows import Row

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
    encoder = plan.pretrained(row).encoder
    size = f"{plan.settings.image_px}px-{plan.settings.margin:g}"
    stem = f"{target.name}-{size}-{target.data.digest[:16]}-{row.weights_digest[:16]}"
    path = cache / "features" / f"{stem}.npy"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    n_images = len(target.data.class_ids)
    partial = path.with_name(f"{stem}.{os.getpid()}.part.npy")
    features = np.lib.format.open_memmap(partial, "w+", np.float32, (n_images, encoder.meta.width))
    for part in torch.arange(n_images).split(BATCH):
        images = target.data.images(part)
        features[part.numpy()] = encoder.encode(images).cpu().numpy()
        on_progress(int(part[-1]) + 1, n_images)
    features.flush()
    partial.replace(path)
    return path


def open_features(path: Path) -> NDArray[np.float32]:
    """Read the features of a data set (n_images, width), memory-mapped."""
    features: NDArray[np.float32] = np.load(path, mmap_mode="r")
    return features
