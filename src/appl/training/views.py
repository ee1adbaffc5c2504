"""The images of a source as tasks see them: augmented anew, or in views that are made once.

View number v of an image depends on the image and v alone, so all trainings share them. Where the
encoder stays as it is, their features are enough: `encode_views` makes them once, and tens of
thousands of tasks of a linear PCN then take minutes. Shifted copies (grey, coarse, inverted) are
views that no augmentation makes: domains beside the source's.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Generator, Tensor

from appl.core.draws import Draws
from appl.core.images import colour_jitter, random_resized_crop
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder, Kind, features_of

# A17: the benchmark's strength of colours. Its crops go down to 8 % of the area; pretraining's
# 20 % keep the object of a small image in view.
JITTER, CROP_SCALE = 0.4, (0.2, 1.0)
N_COLUMNS = 8  # of random numbers that `augment` takes
BATCH = 256
SHIFTS: dict[str, Callable[[Tensor], Tensor]] = {
    "grey": lambda images: images.mean(1, keepdim=True).expand_as(images),
    "coarse": lambda images: F.interpolate(F.avg_pool2d(images, 4), images.shape[2:]),
    "inverted": lambda images: 1 - images,
}


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


def shifted_views_of(source: PackedImages, index: Tensor, shift: str) -> Tensor:
    """Return shifted copies of the first view of images."""
    return SHIFTS[shift](views_of(source, index, torch.zeros_like(index)))


def _columns(rows: Tensor) -> Iterator[Tensor]:
    yield from rows.mT.contiguous()


@dataclass(frozen=True)
class ViewFeatures:
    """Features of every view of a source's training images."""

    place: Tensor  # (n_images,) of the data set: row among those encoded; −1: not encoded
    views: tuple[NDArray[np.floating], ...]  # one array (n_encoded, …) for each view
    shifted: tuple[NDArray[np.floating], ...] = ()  # the same for each shift
    shifted_share: float = 0.0  # of the tasks, whose images are all shifted alike

    def of_task(self, index: Tensor, n_views: int, generator: Generator) -> Tensor:
        """Return the features of images, in views that are drawn, or all in one shift."""
        if self.shifted and torch.rand(1, generator=generator).item() < self.shifted_share:
            shift = int(torch.randint(len(self.shifted), (1,), generator=generator))
            rows = self.place[index].numpy()
            return torch.from_numpy(self.shifted[shift][rows]).float()
        view = torch.zeros_like(index)
        if n_views:
            view = torch.randint(n_views, index.shape, generator=generator)
        return self.of(index, view)

    def of(self, index: Tensor, view: Tensor) -> Tensor:
        """Return the features (n, width) of views of images."""
        rows = self.place[index].tolist()
        found = [self.views[v][row] for v, row in zip(view.tolist(), rows, strict=True)]
        return torch.from_numpy(np.stack(found)).float()


def encode_views(
    encoder: Encoder,
    encoder_digest: str,
    source: PackedImages,
    class_names: list[str],
    n_views: int,
    folder: Path,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    kind: Kind = "vector",
    shifted_share: float = 0.0,
) -> ViewFeatures:
    """Encode each view of each image of the classes, or open what an earlier call left in `folder`.

    Without views (0) the unchanged image is the only one. One file for each view, so that a run
    that was killed loses one of them at most. Maps are kept as fp16. Shifted copies are made where
    a share of the tasks asks for them.
    """
    members = torch.cat([source.members(name) for name in class_names])
    place = torch.full((len(source.class_ids),), -1)
    place[members] = torch.arange(len(members))
    stem = f"{source.digest[:16]}-{source.size_px}px-{len(members)}-{encoder_digest[:16]}"
    stem += "" if kind == "vector" else f"-{kind}"
    names = [f"view{view}" for view in range(n_views)] or ["plain"]
    n_plain = len(names)
    names += list(SHIFTS) if shifted_share else []
    dtype = np.float16 if kind == "map" else np.float32
    arrays = []
    for number, name in enumerate(names):
        path = folder / f"{stem}-{name}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.stem}.{os.getpid()}.part.npy")
            features = None
            for rows in torch.arange(len(members)).split(BATCH):
                index = members[rows]
                if name in SHIFTS:
                    images = shifted_views_of(source, index, name)
                elif n_views:
                    images = views_of(source, index, torch.full_like(index, number))
                else:
                    images = source.images(index)
                found = features_of(encoder, images, kind).float().cpu().numpy()
                if features is None:
                    shape = (len(members), *found.shape[1:])
                    features = np.lib.format.open_memmap(partial, "w+", dtype, shape)
                features[rows.numpy()] = found
                on_progress(number * len(members) + int(rows[-1]) + 1, len(names) * len(members))
            assert features is not None  # a source has images
            features.flush()
            partial.replace(path)
        arrays.append(np.asarray(np.load(path, mmap_mode="r")))
    views, shifted = tuple(arrays[:n_plain]), tuple(arrays[n_plain:])
    return ViewFeatures(place, views, shifted, shifted_share)
