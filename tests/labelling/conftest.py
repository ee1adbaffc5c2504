"""Small trees of pictures: a class is a colour and a direction of stripes, easy to tell apart."""

import numpy as np
import pytest
from PIL import Image

CLASSES = ("blue, upright", "red level", "green")


def stripes(class_id: int, seed: int, px: int = 48) -> Image.Image:
    draw = np.random.default_rng(1000 * class_id + seed)
    ramp = (np.arange(px) // (3 + class_id) % 2 * 120).astype(float)
    grey = np.broadcast_to(ramp[:, None] if class_id == 1 else ramp, (px, px))
    pixels = np.repeat(grey[..., None], 3, 2)
    pixels[..., (2, 0, 1)[class_id]] += 90
    return Image.fromarray(np.clip(pixels + draw.normal(0, 12, pixels.shape), 0, 255).astype("u1"))


def write_tree(root, n_support=4, n_pile=8, classes=CLASSES):
    """Write support folders and a pile; a pile file is named after its class."""
    for class_id, name in enumerate(classes):
        folder = root / "support" / name
        folder.mkdir(parents=True)
        for i in range(n_support):
            stripes(class_id, i).save(folder / f"{i}.png")
        (root / "pile").mkdir(exist_ok=True)
        for i in range(n_pile):
            stripes(class_id, 100 + i).save(root / "pile" / f"{class_id}-{i}.png")
    return root


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "given")
