"""Small trees for the readers: files that are images by their bytes, named as each layout wants."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

from PIL import Image

_BUFFER = BytesIO()
Image.new("RGB", (4, 4), (90, 120, 40)).save(_BUFFER, "PNG")
PIXELS = _BUFFER.getvalue()


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PIXELS)
    return path


def fill(tree: Path, counts: Mapping[str, int], suffix: str = ".jpg") -> Path:
    """Write class folders; files are made last first, so that no order of writing helps."""
    for name, n in reversed(counts.items()):
        for number in reversed(range(n)):
            touch(tree / name / f"{number:04d}{suffix}")
    return tree


def some(names: Iterable[str], n: int = 2) -> dict[str, int]:
    return dict.fromkeys(names, n)


def names_in(files: Iterable[Path]) -> list[str]:
    return [path.name for path in files]
