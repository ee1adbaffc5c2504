"""How often a freely drawn episode has a query's patient or lesion among its examples.

    python benchmarks/shared_groups.py TARGETS --out benchmarks/results/shared_groups.json

TARGETS is the folder of the benchmark's targets. Only the drawing is repeated, no image is decoded:
the episodes are those of docs/results/configs at seed 0.
"""

import argparse
import json
from pathlib import Path

import torch

from appl.core.files import write_atomically
from appl.datasets.episodes import EpisodeDraw, draw_episode
from appl.datasets.locate import open_target
from appl.datasets.packed import PackedImages, without_pixels

SHOTS = {"isic": (5, 20, 50), "chestx": (5, 20, 44)}  # those of Tables 1 and 2
N_EPISODES = 600


def shared_shares(data: PackedImages, draw: EpisodeDraw) -> tuple[float, float]:
    """Return the shares of queries whose group is in their class's supports, or in others only."""
    assert data.group_ids is not None
    support, query = data.group_ids[draw.support], data.group_ids[draw.query]
    same_group = (query[:, None] == support) & (query[:, None] >= 0)
    same_class = draw.query_class_ids[:, None] == draw.class_ids
    own = (same_group & same_class).any(1)
    others = same_group.any(1) & ~own
    return float(own.float().mean()), float(others.float().mean())


def main() -> None:
    """Measure every target and number of shots; print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = []
    for target, shots in SHOTS.items():
        data = without_pixels(open_target(target, arguments.targets))
        for n_shot in shots:
            shares = [
                shared_shares(data, draw_episode(data, data.class_names, n_shot=n_shot, index=i))
                for i in range(N_EPISODES)
            ]
            own, others = (round(100 * s, 1) for s in torch.tensor(shares).mean(0).tolist())
            print(
                f"{target}, {n_shot} shots: {own} % in its own class, {others} % in another only",
                flush=True,
            )
            found.append({"target": target, "n_shot": n_shot, "own_class": own, "others": others})
    report = {"n_episodes": N_EPISODES, "percent_of_queries": found}
    write_atomically(arguments.out, (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
