"""A contact sheet: a few images of each class beside its name, to see what a data set is."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from PIL import Image, ImageDraw, ImageFont

from appl.datasets.listing import Listing
from appl.images.decode import decode

T = TypeVar("T")
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

GAP_PX = 4
NAME_PX = 240
FONT_PX = 14


def contact_sheet(listing: Listing, *, n_images: int, n_classes: int, size_px: int) -> bytes:
    """Draw classes as rows, spread evenly over the listing as their images are, and give a PNG.

    An image keeps its proportions inside a square of `size_px`.
    """
    names = spread(list(listing.files), n_classes)
    step = size_px + GAP_PX
    size = (NAME_PX + n_images * step, GAP_PX + len(names) * step)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(FONT_PX)
    for row, name in enumerate(names):
        top = GAP_PX + row * step
        members = listing.files[name]
        caption = f"{_fitting(name, draw, font)}\n{len(members):,} images"
        draw.text((GAP_PX, top + GAP_PX), caption, fill="black", font=font)
        for column, path in enumerate(spread(members, n_images)):
            sheet.paste(_thumbnail(path, size_px), (NAME_PX + column * step, top))
    buffer = BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def spread(items: Sequence[T], n: int) -> list[T]:
    """Return up to n items, evenly spaced from the first to the last."""
    if len(items) <= n:
        return list(items)
    if n == 1:
        return [items[0]]
    return [items[round(k * (len(items) - 1) / (n - 1))] for k in range(n)]


def _thumbnail(path: Path, size_px: int) -> Image.Image:
    image = decode(path, size_px)
    image.thumbnail((size_px, size_px), Image.Resampling.BILINEAR)
    return image


def _fitting(name: str, draw: ImageDraw.ImageDraw, font: Font) -> str:
    """Cut a name at its end until it fits the column."""
    shown = name
    while draw.textlength(shown, font=font) > NAME_PX - 2 * GAP_PX:
        shown = f"{shown.rstrip('…')[:-1]}…"
    return shown
