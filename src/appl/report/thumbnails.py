"""Small pictures of image files, as text that a page can hold."""

import base64
import io
import os
import re
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from appl.errors import DataError
from appl.images.decode import decode

SIDE_PX = 96
QUALITY = 75


def make_thumbnails(paths: Iterable[str]) -> dict[str, str]:
    """Return the thumbnail of every path; each file is opened once, on all cores."""
    distinct = list(dict.fromkeys(paths))
    # Threads are enough: the decoders work outside Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(zip(distinct, pool.map(thumbnail, distinct), strict=True))


def thumbnail(path: str) -> str:
    """Return a small JPEG as a data URI; empty where the file is gone or cannot be read."""
    image = _opened(path)
    if image is None:
        return ""
    image.thumbnail((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _opened(path: str) -> Image.Image | None:
    for candidate in dict.fromkeys((path, _foreign(path))):
        try:
            return decode(Path(candidate), 2 * SIDE_PX)
        except DataError:
            continue
    return None


def _foreign(path: str) -> str:
    r"""Undo what `shown` does to names that are no UTF-8: \xe9 was one byte."""
    raw = path.encode("utf-8", "backslashreplace")
    escaped = re.compile(rb"\\x([89a-f][0-9a-f])")
    return os.fsdecode(escaped.sub(lambda found: bytes.fromhex(found[1].decode()), raw))
