"""From an image file to pixels: the one path for training and for use."""

import math
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from appl.errors import DataError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}


def decode_square(path: Path, size_px: int, margin: float = 1.0) -> NDArray[np.uint8]:
    """Read an image as (size_px, size_px, 3), upright, in sRGB order.

    Both sides are resized to size_px × margin and the centre is cut out, as the benchmark does
    with a margin of 1.15; bilinear with antialiasing.
    """
    return to_square(decode_for_square(path, size_px, margin), size_px, margin)


def decode_for_square(path: Path, size_px: int, margin: float = 1.0) -> Image.Image:
    """Read an image at the size from which `to_square` is to make it small.

    Stored results depend on it: of another size, the square's pixels would be others.
    """
    return decode(path, int(2 * size_px * margin))


def to_square(image: Image.Image, size_px: int, margin: float = 1.0) -> NDArray[np.uint8]:
    """Bring an image in memory to the same form."""
    whole_px = int(size_px * margin)
    upright = _as_rgb(ImageOps.exif_transpose(image))
    resized = upright.resize((whole_px, whole_px), Image.Resampling.BILINEAR)
    start = (whole_px - size_px) // 2
    return np.asarray(resized)[start : start + size_px, start : start + size_px]


def decode(path: Path, least_px: int) -> Image.Image:
    """Read the first page of an image, upright, as RGB; no side needs more than `least_px`.

    A JPEG that is much larger is decoded at a half, a quarter or an eighth of its size.
    """
    try:
        # Asked before it is opened: to open a named pipe is to wait for somebody who writes.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{path}: not a regular file")
        with Image.open(path) as image:
            # Pillow only warns at this size, and how a warning ends is for the caller to say.
            if image.width * image.height > (Image.MAX_IMAGE_PIXELS or math.inf):
                raise Image.DecompressionBombError(f"{image.width} × {image.height} pixels")
            image.draft("RGB", (least_px, least_px))
            return _as_rgb(ImageOps.exif_transpose(image))
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: too large an image ({error}); cut it into tiles") from error
    # Damaged files make the decoders raise nearly anything; each is one unreadable image.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason.replace(repr(str(path)), "it").replace(str(path), "it")
        raise DataError(f"{path}: not a readable image ({reason})") from error


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        # 16-bit grey: as viewers do, the whole range; Pillow's own conversion would clip at 255.
        values = np.asarray(image, dtype=np.float64)
        if values.size and values.max() > 255:
            values = values / 257
        image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        # What is transparent is seen as paper, not as the colour that happens to be stored there.
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    return image.convert("RGB")
