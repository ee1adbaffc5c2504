"""What an encoder's forward pass costs at several image sizes, as ratios within one run.

    python benchmarks/encoder_sizes.py --out benchmarks/results/encoder_sizes.json

One thread; sizes take turns, and the fastest of the turns counts, so that other work on the machine
disturbs all of them alike.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from appl.core.files import write_atomically
from appl.weights import load_pretrained

CASES = [("efficientnet_lite0", px) for px in (96, 128, 160, 224)] + [("resnet10", 84)]
N_IMAGES, N_TURNS = 32, 8


@torch.no_grad()
def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoders = {name: load_pretrained(name).encoder for name, _ in CASES}
    fastest = dict.fromkeys(CASES, float("inf"))
    for _ in range(N_TURNS):
        for name, px in CASES:
            images = torch.randint(0, 256, (N_IMAGES, 3, px, px), dtype=torch.uint8)
            images = images.contiguous(memory_format=torch.channels_last)
            began = time.perf_counter()
            encoders[name].describe(encoders[name].normalise(images))
            fastest[name, px] = min(fastest[name, px], time.perf_counter() - began)
    base = fastest["efficientnet_lite0", 160]
    found = [
        {
            "encoder": name,
            "image_px": px,
            "ms_an_image": round(1000 * seconds / N_IMAGES, 2),
            "beside_lite0_160": round(seconds / base, 2),
        }
        for (name, px), seconds in fastest.items()
    ]
    write_atomically(arguments.out, (json.dumps(found, indent=1) + "\n").encode())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
