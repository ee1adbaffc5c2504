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
from appl.encoders import Describer, layers_of, sizes_side_by_side
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

    Returns the file; rows of the same weights, and layers, share it.
    """
    pretrained = plan.pretrained(row)
    size = f"{plan.settings.image_px}px-{plan.settings.margin:g}"
    stem = f"{target.name}-{size}-{target.data.digest[:16]}-{row.weights_digest[:16]}"
    stem += f"-{'+'.join(row.layers)}" if row.layers else ""
    path = cache / "features" / f"{stem}.npy"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    n_images = len(target.data.class_ids)
    partial = path.with_name(f"{stem}.{os.getpid()}.part.npy")
    width = sum(layer_widths(plan, row))
    features = np.lib.format.open_memmap(partial, "w+", np.float32, (n_images, width))
    for part in torch.arange(n_images).split(BATCH):
        images = target.data.images(part)
        features[part.numpy()] = vectors_of(pretrained, images, row.layers).cpu().numpy()
        on_progress(int(part[-1]) + 1, n_images)
    features.flush()
    partial.replace(path)
    return path


def layer_widths(plan: Plan, row: Row) -> list[int]:
    """Return how wide the layers are that a row stands on; without any, the features."""
    pretrained = plan.pretrained(row)
    if not row.layers:
        return [sum(encoder.meta.width for encoder in pretrained.encoders)]
    blank = torch.zeros(1, 3, plan.settings.image_px, plan.settings.image_px)
    found = layers_of(pretrained.encoder, blank, row.layers, pretrained.class_head)
    return [layer.shape[1] for layer in found]


def vectors_of(pretrained: Pretrained, images: Tensor, layers: tuple[str, ...] = ()) -> Tensor:
    """Return what rows on frozen features get: of several encoders, their unit vectors in a row.

    With `layers`, these side by side.
    """
    if layers:
        return torch.cat(layers_of(pretrained.encoder, images, layers, pretrained.class_head), 1)
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
