"""The pictures of a run, by number: small ones that the run kept, large ones from the files."""

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from appl.errors import DataError
from appl.images.decode import decode
from appl.images.thumbnails import Thumbnails, thumbnail_files
from appl.labelling.run_folder import pile_thumbnails, support_thumbnails

LARGE_PX = 1024
KEPT = 24  # large pictures in memory


class Pictures:
    """Gives JPEGs of the pile and of the examples; empty where there is none."""

    def __init__(self, folder: Path, pile: Sequence[Path], support: Sequence[Path]) -> None:
        self._paths = {"pile": pile, "example": support}
        self._stems = {"pile": pile_thumbnails(folder), "example": support_thumbnails(folder)}
        self._open: dict[str, tuple[int, Thumbnails]] = {}
        self._large: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def are_there(self) -> bool:
        """Whether the run has small pictures of its pile yet."""
        return all(path.exists() for path in thumbnail_files(self._stems["pile"]))

    def small(self, kind: str, number: int) -> bytes:
        """Return the thumbnail that the run kept."""
        thumbnails = self._thumbnails(kind)
        if thumbnails is None or not 0 <= number < len(thumbnails):
            return b""
        return thumbnails.thumbnail(number)

    def large(self, kind: str, number: int) -> bytes:
        """Return the image itself, no larger than a screen; the small one where it is gone."""
        if not 0 <= number < len(self._paths[kind]):
            return b""
        with self._lock:
            if (known := self._large.get((kind, number))) is not None:
                self._large.move_to_end((kind, number))
                return known
        try:
            image = decode(self._paths[kind][number], LARGE_PX)
        except DataError:
            return self.small(kind, number)
        image.info = {}
        image.thumbnail((LARGE_PX, LARGE_PX), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=88)
        with self._lock:
            self._large[kind, number] = buffer.getvalue()
            while len(self._large) > KEPT:
                self._large.popitem(last=False)
        return buffer.getvalue()

    def _thumbnails(self, kind: str) -> Thumbnails | None:
        """Open the thumbnails once, and again where they were made anew."""
        stem = self._stems[kind]
        try:
            made_at = thumbnail_files(stem)[1].stat().st_mtime_ns
            known = self._open.get(kind)
            if known is None or known[0] != made_at:
                known = self._open[kind] = made_at, Thumbnails.open(stem)
        except (OSError, DataError):
            return None
        return known[1]
