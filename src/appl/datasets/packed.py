"""All images of a data set, decoded once into a store, with their classes."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from appl.datasets.groups import group_ids, grouped_digest
from appl.datasets.listing import Listing, list_folder
from appl.images.store import Images, read_images


@dataclass(frozen=True)
class PackedImages:
    """All images of a data set at one size, with their classes."""

    store: Images | None  # None: none was decoded
    class_ids: Tensor  # (n,) int64, index into class_names
    class_names: tuple[str, ...]
    digest: str  # of the files, not of the size: an episode is the same at every size
    group_ids: Tensor | None = None  # (n,) patient or lesion, −1: none; all None: none is known

    @property
    def size_px(self) -> int:
        """The side of every image."""
        return self._pixels.size_px

    def images(self, index: Tensor) -> Tensor:
        """Return the images (n, 3, px, px) as uint8; their memory is channels_last already."""
        return self._pixels.images(index)

    def members(self, class_name: str) -> Tensor:
        """Return the indices of one class, in file order."""
        return self._members[self.class_names.index(class_name)]

    @cached_property
    def _members(self) -> list[Tensor]:
        # Once: training draws tens of thousands of episodes.
        return [(self.class_ids == i).nonzero().flatten() for i in range(len(self.class_names))]

    def identity(self, *, with_groups: bool) -> str:
        """Identify what episodes depend on: the files, and groups where they are kept apart."""
        return grouped_digest(self.digest, self.group_ids) if with_groups else self.digest

    @property
    def _pixels(self) -> Images:
        assert self.store is not None  # who asks for pixels packs first
        return self.store


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
    size = f"{size_px}px" if margin == 1 else f"{size_px}px-margin-{margin:g}"
    stem = cache / f"{listing.name}-{size}-{bare.digest[:16]}"
    # No facts: hashes of 60,000 images take time, and nobody asks for them.
    store = read_images(
        paths, stem, size_px, on_progress, margin=margin, strict=True, with_facts=False
    )
    return replace(bare, store=store)


def without_pixels(listing: Listing) -> PackedImages:
    """Describe the images of a listing and decode none: enough to draw episodes from."""
    class_ids = torch.repeat_interleave(torch.tensor(list(listing.counts.values())))
    digest = listing_digest(listing)
    return PackedImages(None, class_ids, tuple(listing.files), digest, group_ids(listing))


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
