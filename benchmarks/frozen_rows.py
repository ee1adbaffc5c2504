"""How fast 600 ProtoNet episodes on frozen features are, beside easyfsl's evaluation of as many.

    pip install easyfsl
    python benchmarks/frozen_rows.py --out results/frozen_rows.json

Both get the same features in memory and draw their own 5-way 5-shot episodes with 15 queries; both
are warm, single-threaded, and take turns. Ours is the benchmark's own path, job by job: draw, look
up, score, count.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import torch

from appl.benchmark.runner import EPISODES_TOGETHER
from appl.benchmark.solving import Job, solve
from appl.core.files import write_atomically
from appl.datasets.many_episodes import draw_episodes
from appl.datasets.packed import PackedImages
from appl.rivals.prototypical import Prototypical

N_CLASSES, N_IMAGES, WIDTH = 38, 80, 512  # as CropDiseases has them here
N_WAY, N_SHOT, N_QUERY, N_EPISODES = 5, 5, 15, 600
N_TURNS = 15


def make_data() -> tuple[np.ndarray, torch.Tensor]:
    """Return features (n, width) that are told apart about as well as real ones, and classes."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(N_CLASSES, WIDTH, generator=generator)
    class_ids = torch.arange(N_CLASSES).repeat_interleave(N_IMAGES)
    noise = torch.randn(len(class_ids), WIDTH, generator=generator)
    return (centres[class_ids] + 7 * noise).numpy(), class_ids


def ours(features: np.ndarray, class_ids: torch.Tensor) -> Callable[[], float]:
    """Make the benchmark's own loop ready."""
    names = tuple(f"class{i}" for i in range(N_CLASSES))
    data = PackedImages(None, class_ids, names, "features")
    target = SimpleNamespace(
        data=data,
        draw_many=lambda _plan, episodes: draw_episodes(
            data, names, episodes, n_way=N_WAY, n_shot=N_SHOT, n_query=N_QUERY, seed=0
        ),
    )
    row = SimpleNamespace(method=Prototypical())
    plan = SimpleNamespace(rows=[row], targets={"t": target}, pretrained=lambda _row: None)
    starts = range(0, N_EPISODES, EPISODES_TOGETHER)
    jobs = [Job((0,), "t", tuple(range(start, start + EPISODES_TOGETHER))) for start in starts]

    def run() -> float:
        done = [solve(plan, job, lambda _row, _target: features) for job in jobs]  # type: ignore
        return float(np.mean([result.accuracy for (results,) in done for result in results]))

    return run


def theirs(features: np.ndarray, class_ids: torch.Tensor) -> Callable[[], float]:
    """Make easyfsl's data loader and evaluation ready, as its README shows them."""
    try:
        from easyfsl.datasets import FeaturesDataset
        from easyfsl.methods import PrototypicalNetworks
        from easyfsl.samplers import TaskSampler
        from easyfsl.utils import evaluate
    except ImportError as error:
        raise SystemExit(f"easyfsl is not installed ({error}): pip install easyfsl") from error
    # Its sampler (1.5.0) hands torch an argument that is no longer taken.
    torch.utils.data.Sampler.__init__ = lambda _self, data_source=None: None  # noqa: ARG005
    names = [f"class{i}" for i in range(N_CLASSES)]
    dataset = FeaturesDataset(class_ids.tolist(), torch.from_numpy(features), names)
    sampler = TaskSampler(dataset, N_WAY, N_SHOT, N_QUERY, N_EPISODES)
    loader = torch.utils.data.DataLoader(
        dataset, batch_sampler=sampler, collate_fn=sampler.episodic_collate_fn
    )
    model = PrototypicalNetworks(torch.nn.Identity())
    return lambda: 100 * evaluate(model, loader, device="cpu", use_tqdm=False)


def main() -> None:
    """Measure in turns and write the ratio of the medians, and of the least."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    features, class_ids = make_data()
    runs = {"appl": ours(features, class_ids), "easyfsl": theirs(features, class_ids)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    accuracy = {name: run() for name, run in runs.items()}  # warms both up
    for _ in range(N_TURNS):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    found = {
        "n_episodes": N_EPISODES,
        "seconds": {name: round(median(values), 3) for name, values in seconds.items()},
        "ratio": round(median(seconds["easyfsl"]) / median(seconds["appl"]), 2),
        # What else a machine does only adds: of short runs the least says most.
        "least_seconds": {name: round(min(values), 3) for name, values in seconds.items()},
        "ratio_of_least": round(min(seconds["easyfsl"]) / min(seconds["appl"]), 2),
        "accuracy": {name: round(value, 2) for name, value in accuracy.items()},
    }
    write_atomically(arguments.out, (json.dumps(found, indent=1) + "\n").encode())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
