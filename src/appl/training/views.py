"""The images of a source as tasks see them: augmented anew, or in views that are made once.

View number v of an image depends on the image and v alone, so all trainings share them. Where the
encoder stays as it is, their features are enough: `encode_views` makes them once, and tens of
thousands of tasks of a linear PCN then take minutes.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from appl.core.draws import Draws
from appl.core.images import colour_jitter, random_resized_crop
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder

# A17: the benchmark's strength of colours. Its crops go down to 8 % of the area; pretraining's
# 20 % keep the object of a small image in view.
JITTER, CROP_SCALE = 0.4, (0.2, 1.0)
N_COLUMNS = 8  # of random numbers that `augment` takes
BATCH = 256


def augment(images: Tensor, draws: Draws) -> Tensor:
    """Crop, mirror and colour float images (n, 3, px, px) at random (A17)."""
    return colour_jitter(
        random_resized_crop(images, images.shape[-1], draws, scale=CROP_SCALE), JITTER, draws
    )


def views_of(source: PackedImages, index: Tensor, view: Tensor) -> Tensor:
    """Return a view of each image: numbers `view` (n,) of the images `index` (n,)."""
    places = zip(index.tolist(), view.tolist(), strict=True)
    rows = torch.stack(
        [torch.rand(N_COLUMNS, generator=generator_for("view", *place)) for place in places]
    )
    return augment(source.images(index).float() / 255, _columns(rows))


def _columns(rows: Tensor) -> Iterator[Tensor]:
    yield from rows.mT.contiguous()


@dataclass(frozen=True)
class ViewFeatures:
    """Features of every view of a source's training images."""

    place: Tensor  # (n_images,) of the data set: row among those encoded; −1: not encoded
    views: tuple[NDArray[np.float32], ...]  # one array (n_encoded, width) for each view

    def of(self, index: Tensor, view: Tensor) -> Tensor:
        """Return the features (n, width) of views of images."""
        rows = self.place[index].tolist()
        found = [self.views[v][row] for v, row in zip(view.tolist(), rows, strict=True)]
        return torch.from_numpy(np.stack(found))


def encode_views(
    encoder: Encoder,
    encoder_digest: str,
    source: PackedImages,
    class_names: list[str],
    n_views: int,
    folder: Path,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ViewFeatures:
    """Encode each view of each image of the classes, or open what an earlier call left in `folder`.

    Without views (0) the unchanged image is the only one. One file for each view, so that a run
    that was killed loses one of them at most.
    """
    members = torch.cat([source.members(name) for name in class_names])
    place = torch.full((len(source.class_ids),), -1)
    place[members] = torch.arange(len(members))
    n_files = max(n_views, 1)
    stem = f"{source.digest[:16]}-{source.size_px}px-{len(members)}-{encoder_digest[:16]}"
    arrays = []
    for view in range(n_files):
        path = folder / f"{stem}-{f'view{view}' if n_views else 'plain'}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.stem}.{os.getpid()}.part.npy")
            shape = (len(members), encoder.meta.width)
            features = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
            for rows in torch.arange(len(members)).split(BATCH):
                index = members[rows]
                numbers = torch.full_like(index, view)
                images = views_of(source, index, numbers) if n_views else source.images(index)
                features[rows.numpy()] = encoder.encode(images).cpu().numpy()
                on_progress(view * len(members) + int(rows[-1]) + 1, n_files * len(members))
            features.flush()
            partial.replace(path)
        arrays.append(np.asarray(np.load(path, mmap_mode="r")))
    return ViewFeatures(place, tuple(arrays))
