"""From an image file to pixels: the one path for training and for use."""

import warnings
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
    whole_px = int(size_px * margin)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                upright = ImageOps.exif_transpose(image).convert("RGB")
        resized = upright.resize((whole_px, whole_px), Image.Resampling.BILINEAR)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path}: not a readable image ({error})") from error
    start = (whole_px - size_px) // 2
    return np.asarray(resized)[start : start + size_px, start : start + size_px]
