"""What a fine-tuning step of ResNet10 costs with wide convolutions as products, beside torch's own.

    python benchmarks/wide_conv.py --out benchmarks/results/wide_conv.json

One thread, fp32, all weights learn. Both networks take turns on the same images, and medians over
the turns are compared, so that other work on the machine disturbs both alike.
"""

import argparse
import json
import statistics
import time
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from appl.core.compute import keep_freed_memory
from appl.core.files import write_atomically
from appl.encoders import Encoder
from appl.encoders._conv import WideConv2d
from appl.weights import load_pretrained

CASES = {4: 80, 25: 20, 75: 10}  # images per step, and turns
IMAGE_PX = 84


def with_torchs_own(encoder: Encoder) -> Encoder:
    """Return a copy whose convolutions are all torch's."""
    encoder = deepcopy(encoder)
    for module in encoder.modules():
        if isinstance(module, WideConv2d):
            module.__class__ = nn.Conv2d
    return encoder


def step_seconds(encoder: Encoder, sgd: torch.optim.SGD, pixels: torch.Tensor) -> float:
    """Take one step and return its time."""
    began = time.perf_counter()
    sgd.zero_grad()
    encoder(pixels).square().mean().backward()
    sgd.step()
    return time.perf_counter() - began


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    ours = load_pretrained("resnet10").encoder.train().requires_grad_(True)
    networks = {"products": ours, "torch": with_torchs_own(ours)}
    # Steps too small to lead anywhere: the images stay of one kind throughout.
    sgds = {name: torch.optim.SGD(net.parameters(), lr=1e-9) for name, net in networks.items()}
    found = []
    for n_images, n_turns in CASES.items():
        images = torch.randint(0, 256, (n_images, 3, IMAGE_PX, IMAGE_PX), dtype=torch.uint8)
        pixels = ours.normalise(images)
        seconds: dict[str, list[float]] = {name: [] for name in networks}
        for turn in range(n_turns + 2):
            for name, net in networks.items():
                taken = step_seconds(net, sgds[name], pixels)
                if turn >= 2:  # the first ones set up
                    seconds[name].append(taken)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        found.append(
            {
                "n_images": n_images,
                "ms": {name: round(1000 * value, 1) for name, value in medians.items()},
                "time_beside_torch": round(medians["products"] / medians["torch"], 3),
            }
        )
        print(found[-1], flush=True)
    write_atomically(arguments.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
