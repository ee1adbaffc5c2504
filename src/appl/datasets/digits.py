"""scikit-learn's handwritten digits as image files: the data that the demonstration runs on.

1,797 real scans of 8 × 8 pixels (UCI, Kaynak 1995), installed with scikit-learn: no download.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

FILE_PX = 64  # enlarged smoothly, as a scanner's viewer would show them


def write_digits(
    root: Path, n_support: int, n_pile: int, seed: int
) -> tuple[Path, Path, dict[str, str]]:
    """Write `support/<digit>/*.png` and `pile/*.png` below root.

    Returns both folders and the true digit of each file of the pile, by its name.
    """
    data = load_digits()
    draw = np.random.default_rng(seed)
    truth = {}
    for digit in range(10):
        members = draw.permutation(np.flatnonzero(data.target == digit))[: n_support + n_pile]
        for rank, member in enumerate(members):
            folder = root / "support" / str(digit) if rank < n_support else root / "pile"
            folder.mkdir(parents=True, exist_ok=True)
            ink = Image.fromarray((data.images[member] * 255 / 16).astype(np.uint8))
            ink = ink.resize((FILE_PX, FILE_PX), Image.Resampling.BICUBIC)
            path = folder / f"scan-{member:04d}.png"
            # Written once: a later run must find the very files that the first one saw.
            if not path.exists():
                ink.convert("RGB").save(path)
            if rank >= n_support:
                truth[path.name] = str(digit)
    return root / "support", root / "pile", truth
