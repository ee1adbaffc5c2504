"""Decoding every image once, on all cores, into one file of pixels: no stage opens a JPEG again.

The pixels are read back by position, not mapped into memory: a pile of 50,000 images must not
count as memory that is in use.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import imagehash
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.images.decode import decode_square

OnProgress = Callable[[int, int], None]
DECODED_AT_ONCE = 256


@dataclass(frozen=True)
class ImageFact:
    """What is known of one image file; `problem` is empty where it could be read."""

    problem: str
    content: str = ""  # digest of the pixels: equal for equal images
    look: str = ""  # perceptual hash: nearly equal for near-duplicates
    spread: float = 0.0  # deviation of the pixels, 0–127: 0 for an image of one colour


@dataclass(frozen=True)
class ImageStore:
    """The pixels of many images at one size, on disk, and the facts of each."""

    path: Path
    size_px: int
    facts: tuple[ImageFact, ...]

    @property
    def readable(self) -> Tensor:
        """The indices of the images that could be read."""
        return torch.tensor([i for i, fact in enumerate(self.facts) if not fact.problem])

    def images(self, index: Sequence[int] | Tensor) -> Tensor:
        """Return images (n, 3, px, px) as uint8, channels_last."""
        shape = (self.size_px, self.size_px, 3)
        n_bytes = int(np.prod(shape))
        pixels = np.empty((len(index), *shape), dtype=np.uint8)
        with self.path.open("rb") as file:
            for row, place in enumerate(torch.as_tensor(index).tolist()):
                file.seek(place * n_bytes)
                file.readinto(pixels[row].data)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def read_images(
    paths: Sequence[Path],
    stem: Path,
    size_px: int,
    on_progress: OnProgress = lambda _done, _total: None,
) -> ImageStore:
    """Decode `paths` into `stem`.pixels, or open what an earlier call left there.

    A file that cannot be read gets black pixels and its reason; the rest goes on.
    """
    data, index = stem.with_suffix(".pixels"), stem.with_suffix(".json")
    if not index.exists():
        stem.parent.mkdir(parents=True, exist_ok=True)
        facts = []
        with data.open("wb") as file, warnings.catch_warnings():
            # Whatever decoders remark on damaged files, the facts hold it.
            warnings.simplefilter("ignore")
            for pixels, fact in _decoded(paths, size_px):
                file.write(pixels.tobytes())
                facts.append(asdict(fact))
                on_progress(len(facts), len(paths))
        # The index is written last: where it exists, the pixels beside it are whole.
        write_atomically(index, json.dumps(facts).encode())
    facts = json.loads(index.read_text(encoding="utf-8"))
    return ImageStore(data, size_px, tuple(ImageFact(**fact) for fact in facts))


def read_one(path: Path, size_px: int) -> tuple[NDArray[np.uint8], ImageFact]:
    """Decode one file and look at it."""
    try:
        pixels = decode_square(path, size_px)
    except DataError as error:
        problem = str(error).removeprefix(f"{path}: ").encode("utf-8", "backslashreplace").decode()
        return np.zeros((size_px, size_px, 3), dtype=np.uint8), ImageFact(problem)
    content = hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
    look = str(imagehash.phash(Image.fromarray(pixels)))
    return pixels, ImageFact("", content, look, round(float(pixels.std()), 2))


def _decoded(paths: Sequence[Path], size_px: int) -> Iterator[tuple[NDArray[np.uint8], ImageFact]]:
    # Threads are enough: the decoders work outside Python's lock. In parts, so that a fast decoder
    # does not fill the memory while a slow disk writes.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), DECODED_AT_ONCE):
            part = paths[start : start + DECODED_AT_ONCE]
            yield from pool.map(lambda path: read_one(path, size_px), part)
