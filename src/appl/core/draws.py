"""Random numbers for batches of images, one column (n_images,) of values in 0–1 at a time.

Training draws from a generator. A task draws from the images themselves, so that an image gets
the same views wherever it stands among the files.
"""

import hashlib
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from appl.core.seeds import generator_for

Draws = Iterator[Tensor]


def generator_draws(n_images: int, generator: Generator) -> Draws:
    """Yield columns from a generator, without end."""
    while True:
        yield torch.rand(n_images, generator=generator)


def content_draws(images: Tensor, n_columns: int, seed: int) -> Draws:
    """Yield `n_columns` columns whose rows depend on the image's pixels and the seed alone."""
    pixels = images.detach().cpu().contiguous()
    if pixels.dtype != torch.uint8:
        pixels = (pixels * 255).round().clamp(0, 255).to(torch.uint8)
    rows = []
    for image in pixels:
        digest = hashlib.blake2b(image.numpy().tobytes(), digest_size=8).hexdigest()
        rows.append(torch.rand(n_columns, generator=generator_for(seed, digest)))
    yield from torch.stack(rows).mT.contiguous()
