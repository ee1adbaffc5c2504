"""Images decoded once into one memory-mapped uint8 array, so that no epoch reads a JPEG again."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from appl.core.files import write_atomically
from appl.datasets.groups import group_ids, grouped_digest
from appl.datasets.listing import Listing, list_folder
from appl.images.decode import decode_square


@dataclass(frozen=True)
class PackedImages:
    """All images of a data set at one size, with their classes."""

    pixels: NDArray[np.uint8]  # (n, px, px, 3), memory-mapped
    class_ids: Tensor  # (n,) int64, index into class_names
    class_names: tuple[str, ...]
    digest: str  # of the files, not of the size: an episode is the same at every size
    group_ids: Tensor | None = None  # (n,) patient or lesion, −1: none; all None: none is known

    def images(self, index: Tensor) -> Tensor:
        """Return the images (n, 3, px, px) as uint8; their memory is channels_last already."""
        return torch.from_numpy(self.pixels[index.numpy()]).permute(0, 3, 1, 2)

    def members(self, class_name: str) -> Tensor:
        """Return the indices of one class, in file order."""
        return (self.class_ids == self.class_names.index(class_name)).nonzero().flatten()

    def identity(self, *, with_groups: bool) -> str:
        """Identify what episodes depend on: the files, and groups where they are kept apart."""
        return grouped_digest(self.digest, self.group_ids) if with_groups else self.digest


def pack_folder(root: Path, cache: Path, size_px: int) -> PackedImages:
    """Pack a class-folder tree, every class of it."""
    return pack(list_folder(root), cache, size_px)


def pack(
    listing: Listing,
    cache: Path,
    size_px: int,
    *,
    margin: float = 1.0,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> PackedImages:
    """Decode the files of a listing into `cache`, or open what an earlier call left there."""
    paths = [path for members in listing.files.values() for path in members]
    bare = without_pixels(listing)
    digest = bare.digest
    size = f"{size_px}px" if margin == 1 else f"{size_px}px-margin-{margin:g}"
    stem = cache / f"{listing.name}-{size}-{digest[:16]}"
    data, index = stem.with_name(f"{stem.name}.npy"), stem.with_name(f"{stem.name}.json")
    if not index.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # A name of its own: two processes that pack the same files must not share a mapping.
        partial = stem.with_name(f"{stem.name}.{os.getpid()}.part.npy")
        pixels = np.lib.format.open_memmap(
            partial, mode="w+", dtype=np.uint8, shape=(len(paths), size_px, size_px, 3)
        )
        for i, path in enumerate(paths):
            pixels[i] = decode_square(path, size_px, margin)
            on_progress(i + 1, len(paths))
        pixels.flush()
        partial.replace(data)
        # The index is written last: where it exists, the data beside it is whole.
        write_atomically(index, json.dumps({"digest": digest, "counts": listing.counts}).encode())
    return replace(bare, pixels=np.load(data, mmap_mode="r"))


def without_pixels(listing: Listing) -> PackedImages:
    """Describe the images of a listing and decode none: enough to draw episodes from."""
    class_ids = torch.repeat_interleave(torch.tensor(list(listing.counts.values())))
    pixels = np.empty((0, 0, 0, 3), np.uint8)
    digest = listing_digest(listing)
    return PackedImages(pixels, class_ids, tuple(listing.files), digest, group_ids(listing))


def listing_digest(listing: Listing) -> str:
    """Identify the files by name and size: reading 60,000 of them to hash would take minutes.

    A class counts where the file's folder does not tell it: a table may give it another one.
    """
    digest = hashlib.sha256()
    for name, members in listing.files.items():
        for path in members:
            told = "" if path.parent.name == name else f"\0{name}"
            digest.update(f"{listing.file_name(path)}\0{path.stat().st_size}{told}\n".encode())
    return digest.hexdigest()
