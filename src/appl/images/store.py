"""Images decoded once, on all cores, into one file of pixels: no stage opens a JPEG again.

The pixels are read back by position, not mapped into memory: a pile of 50,000 images must not
count as memory that is in use.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import imagehash
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from appl.core.files import open_atomically, write_atomically
from appl.errors import DataError
from appl.images.decode import decode_for_square, to_square
from appl.images.thumbnails import Thumbnails, make_thumbnail, write_thumbnails

OnProgress = Callable[[int, int], None]
DECODED_AT_ONCE = 256

T = TypeVar("T")


class Images(Protocol):
    """Many images at one size, wherever their pixels are."""

    @property
    def size_px(self) -> int:
        """The side of every image."""

    def __len__(self) -> int: ...

    def images(self, index: Sequence[int] | Tensor) -> Tensor:
        """Return images (n, 3, px, px) as uint8, channels_last."""


@dataclass(frozen=True)
class ImageArray:
    """Images whose pixels are in memory."""

    pixels: NDArray[np.uint8]  # (n, px, px, 3)

    @property
    def size_px(self) -> int:
        """The side of every image."""
        return int(self.pixels.shape[1])

    def __len__(self) -> int:
        return len(self.pixels)

    def images(self, index: Sequence[int] | Tensor) -> Tensor:
        """Return images (n, 3, px, px) as uint8, channels_last."""
        return torch.from_numpy(self.pixels[np.asarray(index, dtype=np.int64)]).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class ImageFact:
    """What is known of one image file; `problem` is empty where it could be read."""

    problem: str
    content: str = ""  # digest of the pixels: equal for equal images
    look: str = ""  # perceptual hash: nearly equal for near-duplicates
    spread: float = 0.0  # deviation of the pixels, 0–127: 0 for an image of one colour


@dataclass(frozen=True)
class ImageStore:
    """Images whose pixels are on disk, and the facts of each."""

    path: Path
    size_px: int
    facts: tuple[ImageFact, ...]
    thumbnails: Thumbnails | None = None

    @classmethod
    def open(cls, stem: Path, thumbnails: Path | None = None) -> "ImageStore":
        """Open what `read_images` left under these stems; it must be whole."""
        path, index = _pixel_files(stem)
        try:
            values = json.loads(index.read_text(encoding="utf-8"))
            n_images, size_px, noted = values["n_images"], values["size_px"], values["facts"]
            n_bytes = path.stat().st_size
        except FileNotFoundError as error:
            raise DataError(f"{stem}: no images were decoded here") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{index} is damaged: {error}; remove it") from error
        if n_bytes != n_images * size_px**2 * 3:
            raise DataError(f"{path} does not fit {index.name} beside it; remove both")
        facts = [ImageFact("")] * n_images
        for i, fact in noted.items():
            facts[int(i)] = ImageFact(**fact)
        small = None if thumbnails is None else Thumbnails.open(thumbnails)
        return cls(path, size_px, tuple(facts), small)

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def readable(self) -> Tensor:
        """The indices of the images that could be read."""
        good = [i for i, fact in enumerate(self.facts) if not fact.problem]
        return torch.tensor(good, dtype=torch.int64)

    def images(self, index: Sequence[int] | Tensor) -> Tensor:
        """Return images (n, 3, px, px) as uint8, channels_last; threads may ask at once."""
        pixels = np.empty((len(index), self.size_px, self.size_px, 3), dtype=np.uint8)
        # Opened anew, so that no thread moves the position of another.
        with self.path.open("rb", buffering=0) as file:
            for row, place in zip(pixels, torch.as_tensor(index).tolist(), strict=True):
                file.seek(place * row.nbytes)
                if file.readinto(row.data) != row.nbytes:
                    raise DataError(f"{self.path} ends before image {place}; remove it")
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def mapped(self) -> NDArray[np.uint8]:
        """Map all pixels (n, px, px, 3) into memory, to hand them on as one array."""
        shape = (len(self), self.size_px, self.size_px, 3)
        return np.memmap(self.path, np.uint8, "r", shape=shape)

    def thumbnail(self, index: int) -> bytes:
        """Return a small JPEG; empty where the image has none."""
        return b"" if self.thumbnails is None else self.thumbnails.thumbnail(index)


def read_images(
    paths: Sequence[Path],
    stem: Path,
    size_px: int,
    on_progress: OnProgress = lambda _done, _total: None,
    *,
    margin: float = 1.0,
    strict: bool = False,
    with_facts: bool = True,
    thumbnails: Path | None = None,
) -> ImageStore:
    """Decode `paths` into `stem`.pixels, or open what an earlier call left there.

    A file that cannot be read gets black pixels and its reason, and the rest goes on; with
    `strict` it is an error. Without `with_facts` no more than that reason is noted. `thumbnails`
    is a stem, too: small pictures come from the same decoding into files of their own. The pixels
    do not depend on them.
    """
    with suppress(DataError):
        return ImageStore.open(stem, thumbnails)
    data, index = _pixel_files(stem)
    read = partial(
        _read,
        size_px=size_px,
        margin=margin,
        with_fact=with_facts,
        with_thumbnail=thumbnails is not None,
    )
    facts: dict[int, dict[str, object]] = {}
    with ExitStack() as files, warnings.catch_warnings():
        # Whatever decoders remark on damaged files, the facts hold it.
        warnings.simplefilter("ignore")
        file = files.enter_context(open_atomically(data))
        add_thumbnail = files.enter_context(write_thumbnails(thumbnails)) if thumbnails else None
        for i, (pixels, fact, thumbnail) in enumerate(_on_all_cores(read, paths)):
            if strict and fact.problem:
                raise DataError(f"{paths[i]}: {fact.problem}")
            file.write(pixels.tobytes())
            if add_thumbnail:
                add_thumbnail(thumbnail)
            if fact != ImageFact(""):
                facts[i] = asdict(fact)
            on_progress(i + 1, len(paths))
    # The index is written last: where it exists, the pixels beside it are whole.
    values = {"n_images": len(paths), "size_px": size_px, "facts": facts}
    write_atomically(index, json.dumps(values).encode())
    return ImageStore.open(stem, thumbnails)


def read_one(path: Path, size_px: int) -> tuple[NDArray[np.uint8], ImageFact]:
    """Decode one file and look at it; it is black where it cannot be read."""
    pixels, fact, _ = _read(path, size_px)
    return pixels, fact


def _read(
    path: Path,
    size_px: int,
    margin: float = 1.0,
    with_fact: bool = True,
    with_thumbnail: bool = False,
) -> tuple[NDArray[np.uint8], ImageFact, bytes]:
    try:
        image = decode_for_square(path, size_px, margin)
    except DataError as error:
        problem = str(error).removeprefix(f"{path}: ").encode("utf-8", "backslashreplace").decode()
        return np.zeros((size_px, size_px, 3), dtype=np.uint8), ImageFact(problem), b""
    pixels = to_square(image, size_px, margin)
    thumbnail = make_thumbnail(image) if with_thumbnail else b""
    if not with_fact:
        return pixels, ImageFact(""), thumbnail
    content = hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
    look = str(imagehash.phash(Image.fromarray(pixels)))
    return pixels, ImageFact("", content, look, round(float(pixels.std()), 2)), thumbnail


def _on_all_cores(read: Callable[[Path], T], paths: Sequence[Path]) -> Iterator[T]:
    # Threads are enough: the decoders work outside Python's lock. In parts, so that a fast decoder
    # does not fill the memory while a slow disk writes.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), DECODED_AT_ONCE):
            yield from pool.map(read, paths[start : start + DECODED_AT_ONCE])


def _pixel_files(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(f"{stem.name}.pixels"), stem.with_name(f"{stem.name}.pixels.json")
