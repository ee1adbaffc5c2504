"""Small pictures of many images in one file, for pages that are made when the images are gone."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from appl.core.files import open_atomically, write_atomically
from appl.errors import DataError

SIDE_PX = 96
QUALITY = 75


@dataclass(frozen=True)
class Thumbnails:
    """JPEGs one behind the other in a file, in the order of the images they were made of."""

    path: Path
    offsets: tuple[int, ...]  # where each begins; the last is the end of the file

    @classmethod
    def open(cls, stem: Path) -> "Thumbnails":
        """Open the thumbnails of a stem; neither its pixels nor its images need to be there."""
        path, index = thumbnail_files(stem)
        try:
            offsets = tuple(json.loads(index.read_text(encoding="utf-8")))
            n_bytes = path.stat().st_size
        except FileNotFoundError as error:
            raise DataError(f"{stem}: no thumbnails were made here") from error
        except (ValueError, TypeError) as error:
            raise DataError(f"{index} is damaged: {error}; remove it") from error
        if offsets[-1:] != (n_bytes,):
            raise DataError(f"{path} does not fit {index.name} beside it; remove both")
        return cls(path, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def has(self, index: int) -> bool:
        """Tell whether an image has a thumbnail: one that could not be read has none."""
        return self.offsets[index + 1] > self.offsets[index]

    def thumbnail(self, index: int) -> bytes:
        """Return a JPEG; empty where the image could not be read."""
        start, end = self.offsets[index : index + 2]
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


def thumbnail_files(stem: Path) -> tuple[Path, Path]:
    """Name the file of the thumbnails and that of their offsets."""
    return stem.with_name(f"{stem.name}.thumbs"), stem.with_name(f"{stem.name}.thumbs.json")


def make_thumbnail(image: Image.Image) -> bytes:
    """Return an RGB image as a small JPEG of its proportions; one that is small is not enlarged."""
    small = image.copy()
    small.info = {}  # what a file tells of itself may be private, or longer than a JPEG can hold
    small.thumbnail((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()


@contextmanager
def write_thumbnails(stem: Path) -> Iterator[Callable[[bytes], None]]:
    """Give a function that adds a thumbnail; all are in place when the block ends well."""
    path, index = thumbnail_files(stem)
    offsets = [0]
    with open_atomically(path) as file:

        def add(thumbnail: bytes) -> None:
            file.write(thumbnail)
            offsets.append(offsets[-1] + len(thumbnail))

        yield add
    # The offsets are written last: where they exist, the thumbnails beside them are whole.
    write_atomically(index, json.dumps(offsets).encode())
