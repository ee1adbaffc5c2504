"""Readings of Algorithm 2 on episodes of the source's validation classes: the choice of `paper`.

    python benchmarks/choose_reading.py run MINIIMAGENET OUT.csv --episodes 6
    python benchmarks/choose_reading.py table OUT.csv

What the paper's text leaves open is varied, reading by reading; "frozen" rows do not adapt. Each
reading answers the same episodes (seed 30) from the shipped weights, with a PCN from a weights file
(`--pcn`) or the class mean. What is in OUT.csv already is not done again, and the first episodes of
all readings come before later ones, so that the worst can be thrown out early (`--readings`).
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from _measuring import Row, command_line, key_of, keys_in, measure_all, read_rows, serve

from appl.benchmark.statistics import estimate_difference
from appl.cli._training import list_source
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import pack
from appl.method.algorithm2 import adapt
from appl.settings.adaptation import AdaptSettings
from appl.settings.files import with_changes
from appl.weights import load_pretrained

KEYS = ("reading", "pcn", "episode")
COLUMNS = (
    *KEYS, "accuracy", "seconds", "termination", "loss", "support_accuracy", "selected", "changes",
)  # fmt: skip
SEED = 30
BASE = "frozen running"

MEAN = {
    "support_reduction": "mean",
    "query_reduction": "mean_all",
    "cohesion_reduction": "mean",
}


def reading(
    optimiser: str = "gradient",
    batch_norm: str = "joint",
    objective: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return what a reading changes in the literal text."""
    parts = {"parameters": {"batch_norm": batch_norm}, "objective": objective or {}}
    return {"optimiser": optimiser} | parts | changes


def readings() -> dict[str, dict[str, Any]]:
    """Name every reading."""
    found = {
        BASE: reading(batch_norm="running", n_iterations=0),
        "frozen joint": reading(n_iterations=0),
    }
    for optimiser in ("gradient", "adam"):
        for name, reductions in {"sum": {}, "mean": MEAN}.items():
            for norm in ("joint", "running", "task", "separate"):
                for scale in ("raw", "width"):
                    objective = reductions | {"distance_scale": scale}
                    title = f"{optimiser} {name} {norm}" + (" width" if scale == "width" else "")
                    found[title] = reading(optimiser, norm, objective)
    for norm in ("joint", "running"):
        found |= {
            f"momentum mean {norm}": reading("momentum", norm, MEAN),
            f"gradient meansel {norm}": reading(
                "gradient", norm, MEAN | {"query_reduction": "mean_selected"}
            ),
            f"gradient mean {norm} loo": reading(
                "gradient", norm, MEAN | {"support_loss": "leave_one_out"}
            ),
            f"gradient mean {norm} first": reading(
                "gradient", norm, MEAN, pseudo_labels={"wma": {"start": "first"}}
            ),
            f"gradient mean {norm} hard": reading(
                "gradient", norm, MEAN, pseudo_labels={"kind": "hard"}
            ),
            f"gradient mean {norm} average": reading("gradient", norm, MEAN, answer="average"),
            f"gradient mean {norm} attached": reading(
                "gradient", norm, MEAN, pseudo_labels={"detach": False}
            ),
        }
    return found


def measure(job: Row) -> list[Row]:
    """Adapt to one episode under one reading."""
    torch.set_num_threads(1)
    listing = list_source(Path(job["source"]), None)
    data = pack(listing, Path(job["cache"]), 84)
    start = load_pretrained("resnet10")
    pcn = start.pcn if job["pcn"] == "mean" else load_pretrained(job["pcn"]).pcn
    names = list(listing.splits["validation"])
    episode = draw_episode(data, names, seed=SEED, index=job["episode"]).load(data)
    changes = readings()[job["reading"]]
    settings = with_changes(AdaptSettings.preset("paper"), **changes)
    began = time.process_time()
    result = adapt(start.encoder, pcn, episode.task, settings)
    row = {key: job[key] for key in KEYS} | {
        "accuracy": f"{100 * episode.accuracy(result.scores):.2f}",
        "seconds": f"{time.process_time() - began:.1f}",
        "termination": result.termination,
        "changes": json.dumps(changes),
    }
    if result.records:
        last = result.records[-1]
        row |= {
            "loss": f"{last.loss:.4g}",
            "support_accuracy": f"{last.support_accuracy:.3f}",
            "selected": f"{last.selected_share:.3f}",
        }
    return [row]


def jobs(arguments: argparse.Namespace) -> Iterator[Row]:
    """List what is missing, the first episodes of all readings first."""
    done = keys_in(arguments.out, KEYS)
    for episode in range(arguments.episodes):
        for name in arguments.readings or readings():
            job = {"reading": name, "pcn": arguments.pcn, "episode": episode}
            if key_of(job, KEYS) not in done:
                where = {"source": str(arguments.source), "cache": str(arguments.cache)}
                yield job | where


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished episode is on disk."""
    listing = list_source(arguments.source, None)
    pack(listing, arguments.cache, 84)  # here, once, before processes share the files
    measure_all(jobs(arguments), measure, COLUMNS, arguments.out, arguments.workers)


def table(arguments: argparse.Namespace) -> None:
    """Print means and paired differences to the frozen encoder, best first."""
    accuracy: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_rows(arguments.out):
        key = (row["reading"], row["pcn"])
        accuracy.setdefault(key, {})[row["episode"]] = float(row["accuracy"])
    base = accuracy[BASE, "mean"]
    lines = []
    for (name, pcn), found in accuracy.items():
        shared = [found[e] - base[e] for e in found if e in base]
        difference = estimate_difference(shared)
        mean = sum(found.values()) / len(found)
        words = f"| {name} | {pcn} | {mean:.1f} | {difference.signed} | {len(found)} |"
        lines.append((difference.mean, words))
    print("| reading | PCN | accuracy | to the frozen encoder | episodes |")
    print("| --- | --- | --- | --- | --- |")
    for _, line in sorted(lines, reverse=True):
        print(line)


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--pcn", default="mean")
    command.add_argument("--episodes", type=int, default=2)
    command.add_argument("--readings", nargs="*")
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
