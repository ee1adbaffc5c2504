"""What encoders say of all images of a run, kept on disk: later answers take no encoder.

One file of numbers per kind of vector, read by position: a pile of 100,000 images does not fill the
memory. They belong to one state of the encoders; of another state there are others.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from appl.core.files import open_atomically, write_atomically
from appl.encoders import Describer
from appl.images.store import ImageStore

IMAGES_PER_BLOCK = 256
INDEX = "index.json"

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Vectors:
    """Vectors of many images, one kind after the other; zeros where an image is unreadable."""

    folder: Path
    widths: tuple[int, ...]
    n_images: int
    problems: dict[int, str]  # of the images that could not be read

    @property
    def readable(self) -> Tensor:
        """The indices of the images that could be read."""
        return torch.tensor([i for i in range(self.n_images) if i not in self.problems]).long()

    def of(self, index: Sequence[int] | Tensor) -> list[Tensor]:
        """Return the vectors of some images, a tensor (n, width) per kind."""
        rows = torch.as_tensor(index, dtype=torch.int64).numpy()
        return [torch.from_numpy(kind[rows]) for kind in self._mapped()]

    def between(self, start: int, end: int) -> list[Tensor]:
        """Return the vectors of images that stand side by side."""
        return [torch.from_numpy(np.array(kind[start:end])) for kind in self._mapped()]

    def __len__(self) -> int:
        return self.n_images

    def _mapped(self) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
        if not self.n_images:
            return [np.zeros((0, width), np.float32) for width in self.widths]
        return [
            np.memmap(_kind_file(self.folder, i), np.float32, "r", shape=(self.n_images, width))
            for i, width in enumerate(self.widths)
        ]


def describer_digest(describer: Describer) -> str:
    """Tell one state of the encoders, and what is taken from them, from another."""
    facts = [describer.sizes_px, describer.mirrored, describer.texture_weight]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for encoder in describer.encoders:
        for name, value in sorted(encoder.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def open_vectors(folder: Path) -> Vectors | None:
    """Open what `describe_store` left in a folder, if it is whole."""
    try:
        values = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        problems = {int(i): text for i, text in values["problems"].items()}
        found = Vectors(folder, tuple(values["widths"]), values["n_images"], problems)
        sizes = [_kind_file(folder, i).stat().st_size for i in range(len(found.widths))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if sizes == [4 * w * found.n_images for w in found.widths] else None


def describe_store(
    describer: Describer,
    store: ImageStore,
    folder: Path,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Vectors:
    """Describe every image of a store once, into a folder."""
    known = open_vectors(folder)
    if known is not None and len(known) == len(store):
        return known
    shutil.rmtree(folder, ignore_errors=True)
    problems = {i: fact.problem for i, fact in enumerate(store.facts) if fact.problem}
    # One image tells how many kinds there are, and how wide: also where a store is empty.
    blank = torch.zeros(1, 3, store.size_px, store.size_px, dtype=torch.uint8)
    widths = [kind.shape[1] for kind in describer.in_parts(blank)]
    with ExitStack() as stack:
        files = [
            stack.enter_context(open_atomically(_kind_file(folder, i))) for i in range(len(widths))
        ]
        for start in range(0, len(store), IMAGES_PER_BLOCK):
            rows = range(start, min(start + IMAGES_PER_BLOCK, len(store)))
            good = [i for i in rows if i not in problems]
            places = torch.tensor([i - start for i in good], dtype=torch.int64)
            described = describer.in_parts(store.images(good)) if good else []
            for number, (file, width) in enumerate(zip(files, widths, strict=True)):
                block = torch.zeros(len(rows), width)
                if good:
                    block[places] = described[number].float().cpu()
                file.write(block.numpy().tobytes())
            on_progress(rows.stop, len(store))
    values = {"n_images": len(store), "widths": widths, "problems": problems}
    # Written last: where it exists, the numbers beside it are whole.
    write_atomically(folder / INDEX, json.dumps(values).encode())
    found = open_vectors(folder)
    assert found is not None
    return found


@dataclass(frozen=True)
class PileVectors:
    """What one state of the encoders says of a run's examples and of its pile."""

    digest: str
    support: Vectors
    pile: Vectors


def open_pile_vectors(folder: Path, digest: str) -> PileVectors | None:
    """Open the vectors of a run by one state of the encoders, if they are there."""
    support = open_vectors(folder / digest / "support")
    pile = open_vectors(folder / digest / "pile")
    return PileVectors(digest, support, pile) if support is not None and pile is not None else None


def describe_pile(
    describer: Describer,
    digest: str,
    support: ImageStore,
    pile: ImageStore,
    folder: Path,
    on_progress: OnProgress,
) -> PileVectors:
    """Describe a run's examples and its pile; vectors by other states of the encoders go."""
    for other in folder.glob("*"):
        if other.name != digest:
            shutil.rmtree(other, ignore_errors=True)
    place = folder / digest
    return PileVectors(
        digest,
        describe_store(describer, support, place / "support"),
        describe_store(describer, pile, place / "pile", on_progress),
    )


def _kind_file(folder: Path, number: int) -> Path:
    return folder / f"kind-{number}.f32"
