"""What busily waiting threads cost, alone and where other programs share the cores.

    python benchmarks/waiting.py --out benchmarks/results/waiting.json

EfficientNet-Lite0 encodes 96 images with all cores, its threads waiting passively (what `appl` asks
OpenMP for) and actively, alone and beside one single-threaded program per core. Both ways take
turns; ratios of medians within this run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from appl.core.files import write_atomically

N_TURNS = 5
ENCODE = """
import time, torch
from appl.weights import load_pretrained
encoder = load_pretrained("efficientnet_lite0").encoder
images = torch.randint(0, 256, (96, 3, 160, 160), dtype=torch.uint8)
encoder.encode(images[:32])
began = time.perf_counter()
encoder.encode(images)
print(time.perf_counter() - began)
"""
BUSY = "while True: pass"


def seconds(policy: str) -> float:
    """Encode in a process of its own and return its time."""
    environment = os.environ | {"OMP_WAIT_POLICY": policy}
    run = subprocess.run(
        [sys.executable, "-c", ENCODE], env=environment, capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    n_cores = os.cpu_count() or 1
    found: dict[str, object] = {"n_cores": n_cores, "n_turns": N_TURNS}
    for beside in (0, n_cores):
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(beside)]
        try:
            turns = [(seconds("PASSIVE"), seconds("ACTIVE")) for _ in range(N_TURNS)]
        finally:
            for other in others:
                other.kill()
                other.wait()
        passive, active = (statistics.median(times) for times in zip(*turns, strict=True))
        where = "alone" if beside == 0 else f"beside {beside} busy programs"
        found[where] = {
            "passive_s": round(passive, 3),
            "active_s": round(active, 3),
            "active_over_passive": round(active / passive, 3),
        }
        print(where, found[where], flush=True)
    write_atomically(arguments.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
