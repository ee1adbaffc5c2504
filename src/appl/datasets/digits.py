"""scikit-learn's handwritten digits as image files: the data that the demonstration runs on.

1,797 real scans of 8 × 8 pixels (UCI, Kaynak 1995), installed with scikit-learn: no download.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

FILE_PX = 64  # enlarged smoothly, as a scanner's viewer would show them


def write_digits(root: Path, n_support: int, n_pile: int, seed: int) -> tuple[Path, Path]:
    """Write `support/<digit>/*.png` and `pile/<digit>/*.png` below root; return both folders.

    The pile keeps its true classes as folder names only so that a score can be printed.
    """
    data = load_digits()
    draw = np.random.default_rng(seed)
    for digit in range(10):
        members = draw.permutation(np.flatnonzero(data.target == digit))[: n_support + n_pile]
        for rank, member in enumerate(members):
            part = "support" if rank < n_support else "pile"
            folder = root / part / str(digit)
            folder.mkdir(parents=True, exist_ok=True)
            ink = Image.fromarray((data.images[member] * 255 / 16).astype(np.uint8))
            ink = ink.resize((FILE_PX, FILE_PX), Image.Resampling.BICUBIC)
            ink.convert("RGB").save(folder / f"scan-{member:04d}.png")
    return root / "support", root / "pile"
