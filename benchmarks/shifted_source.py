"""Shifted copies of the source's validation classes: domains to choose settings on, not to report.

    python benchmarks/shifted_source.py SOURCE OUT

SOURCE is miniImageNet in any layout that `appl` reads. OUT gets six class-folder trees of 60 images
a class: the images as they are, in false colours, blurred, with their parts shuffled (texture
without shape), as negatives, and at a low resolution.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

from appl.core.seeds import seed_of
from appl.datasets.readers.miniimagenet import read_miniimagenet

IMAGES_A_CLASS = 60
SIDE = 84


def false_colours(image: Image.Image, _: np.random.Generator) -> Image.Image:
    """Mix the channels by one fixed matrix, as another sensor would."""
    mix = np.array([[0.1, 0.8, 0.1], [0.7, -0.2, 0.5], [0.4, 0.4, 0.2]])
    pixels = np.asarray(image, dtype=np.float64) @ mix.T
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def shuffled_parts(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Cut the image into 4 × 4 parts and put them back in another order."""
    pixels = np.asarray(image.resize((SIDE, SIDE)))
    step = SIDE // 4
    parts: list[NDArray[np.uint8]] = [
        pixels[i * step : (i + 1) * step, j * step : (j + 1) * step]
        for i in range(4)
        for j in range(4)
    ]
    order = random.permutation(16)
    rows = [np.concatenate([parts[k] for k in order[4 * i : 4 * i + 4]], 1) for i in range(4)]
    return Image.fromarray(np.concatenate(rows, 0))


SHIFTS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "plain": lambda image, _: image,
    "colours": false_colours,
    "blurred": lambda image, _: image.filter(ImageFilter.GaussianBlur(2)),
    "shuffled": shuffled_parts,
    "negative": lambda image, _: ImageOps.invert(image),
    "coarse": lambda image, _: image.resize((21, 21), Image.Resampling.BOX),
}


def main() -> None:
    """Write all shifts of all validation classes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    listing = read_miniimagenet(arguments.source)
    for name in listing.splits["validation"]:
        for path in listing.files[name][:IMAGES_A_CLASS]:
            image = Image.open(path).convert("RGB")
            for shift, change in SHIFTS.items():
                random = np.random.default_rng(seed_of("shift", shift, path.name))
                folder = arguments.out / f"val_{shift}" / name
                folder.mkdir(parents=True, exist_ok=True)
                change(image, random).save(folder / f"{path.stem}.png")
        print(name, flush=True)


if __name__ == "__main__":
    main()
