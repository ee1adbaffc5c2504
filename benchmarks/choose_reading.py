"""Readings of Algorithm 2: what the paper's text leaves open, tried on episodes of no target.

    python benchmarks/choose_reading.py run DOMAINS OUT.csv --weights paper.safetensors \
        --episodes 6 --readings "mean running k10" "sum joint"
    python benchmarks/choose_reading.py table OUT.csv

DOMAINS is a folder of class-folder trees: the source's validation classes as `validation`, and the
development domains. A reading is named by words (see `WORDS`), each a choice that departs from the
preset `literal`, so that a new one needs no code. All answer the same episodes (seed 30):
`resnet10` has our encoder and the class mean, other weights are files of `appl train meta`. What is
in OUT.csv already is not done again, and the first episodes of all readings come before later ones.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from _measuring import (
    Row,
    command_line,
    key_of,
    keys_in,
    measure_all,
    merged,
    read_rows,
    serve,
    weights_name,
)

from appl.benchmark.formats import markdown_grid
from appl.benchmark.grids import NONE, Grid, Text
from appl.benchmark.statistics import estimate_difference
from appl.core.compute import resolve_compute
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import pack_folder
from appl.method.algorithm2 import adapt
from appl.settings.adaptation import AdaptSettings
from appl.settings.compute import ComputeSettings
from appl.settings.files import with_changes
from appl.weights import load_pretrained

KEYS = ("reading", "weights", "precision", "domain", "episode")
COLUMNS = (
    *KEYS, "accuracy", "seconds", "termination", "loss", "support_accuracy", "selected",
    "label_changes", "changes",
)  # fmt: skip
SEED = 30
BASE = ("frozen running", "resnet10")  # in the same precision

WORDS: dict[str, dict[str, Any]] = {
    # Reductions of the losses (B6, B7); `literal` sums.
    "sum": {},
    "mean": {
        "objective": {
            "support_reduction": "mean",
            "query_reduction": "mean_all",
            "cohesion_reduction": "mean",
        }
    },
    "meansel": {"objective": {"query_reduction": "mean_selected"}},
    # Whose batch statistics (B10, B11).
    "joint": {"parameters": {"batch_norm": "joint"}},
    "running": {"parameters": {"batch_norm": "running"}},
    "task": {"parameters": {"batch_norm": "task"}},
    "separate": {"parameters": {"batch_norm": "separate"}},
    "predrunning": {"parameters": {"predict_batch_norm": "running"}},
    # The optimiser (B8).
    "momentum": {"optimiser": "momentum"},
    "adam": {"optimiser": "adam"},
    # Pseudo-labels (B1–B4) and the answer (B12).
    "hard": {"pseudo_labels": {"kind": "hard"}},
    "attached": {"pseudo_labels": {"detach": False}},
    "first": {"pseudo_labels": {"wma": {"start": "first"}}},
    "debiased": {"pseudo_labels": {"wma": {"start": "debiased"}}},
    "average": {"answer": "average"},
    # The supports' own loss (A14), the order of slots (B18).
    "loo": {"objective": {"support_loss": "leave_one_out"}},
    "symmetric": {"prototypes": {"order": "symmetric"}},
    # Parts left out, to see what does what.
    "frozen": {"n_iterations": 0},
    "noquery": {"objective": {"use_query_loss": False}},
    "nowma": {"pseudo_labels": {"wma": {"use": False}}},
    "classmean": {"prototypes": {"kind": "mean"}},
}


def changes_of(reading: str) -> dict[str, Any]:
    """Return what a reading changes in the literal text."""
    found: dict[str, Any] = {}
    for word in reading.split():
        if number := re.fullmatch(r"k(\d+)", word):  # distances are divided by this (A19)
            change: dict[str, Any] = {"feature_scale": int(number[1]) ** -0.5}
        elif number := re.fullmatch(r"lr(.+)", word):
            change = {"learning_rate": float(number[1])}
        elif number := re.fullmatch(r"coh(.+)", word):
            change = {"objective": {"lambda_coh": float(number[1])}}
        elif number := re.fullmatch(r"dis(.+)", word):
            change = {"objective": {"lambda_dis": float(number[1])}}
        elif number := re.fullmatch(r"eps(.+)", word):
            change = {"pseudo_labels": {"threshold": float(number[1])}}
        elif number := re.fullmatch(r"it(\d+)", word):
            change = {"n_iterations": int(number[1])}
        else:
            change = WORDS[word]
        found = merged(found, change)
    return found


def measure(job: Row) -> list[Row]:
    """Adapt to one episode under one reading."""
    torch.set_num_threads(1)
    data = pack_folder(Path(job["domains"]) / job["domain"], Path(job["cache"]), 84)
    start = load_pretrained(job["file"])
    start.encoder.place(resolve_compute(ComputeSettings(precision=job["precision"])))
    names = list(data.class_names)
    episode = draw_episode(data, names, seed=SEED, index=job["episode"]).load(data)
    changes = changes_of(job["reading"])
    settings = with_changes(AdaptSettings(), **changes)
    began = time.process_time()
    result = adapt(start.encoder, start.pcn, episode.task, settings)
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
            "label_changes": sum(record.n_label_changes for record in result.records),
        }
    return [row]


def jobs(arguments: argparse.Namespace) -> Iterator[Row]:
    """List what is missing, the first episodes of all readings first."""
    done = keys_in(arguments.out, KEYS)
    domains = arguments.only or sorted(p.name for p in arguments.source.iterdir() if p.is_dir())
    for episode in range(arguments.first, arguments.episodes):
        for domain in domains:
            for name in arguments.readings:
                for file in arguments.weights:
                    job = {
                        "reading": name, "weights": weights_name(file),
                        "precision": arguments.precision, "domain": domain, "episode": episode,
                    }  # fmt: skip
                    if key_of(job, KEYS) not in done:
                        where = {"domains": str(arguments.source), "cache": str(arguments.cache)}
                        yield job | where | {"file": file}


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished episode is on disk."""
    for folder in sorted(p for p in arguments.source.iterdir() if p.is_dir()):
        pack_folder(folder, arguments.cache, 84)  # here, once, before processes share the files
    measure_all(jobs(arguments), measure, COLUMNS, arguments.out, arguments.workers)


def reading_grid(path: Path) -> Grid:
    """Return mean paired differences to the frozen encoder's class means, best first."""
    accuracy: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for row in read_rows(path):
        found = accuracy.setdefault((row["reading"], row["weights"], row["precision"]), {})
        found[row["domain"], row["episode"]] = float(row["accuracy"])
    domains = sorted({domain for found in accuracy.values() for domain, _ in found})
    lines = []
    for (name, weights, precision), found in accuracy.items():
        base = accuracy.get((*BASE, precision), {})
        pairs = {key: found[key] - base[key] for key in found if key in base}
        if not pairs or (name, weights) == BASE:
            continue
        cells = []
        for domain in domains:
            values = [value for (where, _), value in pairs.items() if where == domain]
            cells.append(estimate_difference(values).signed if values else NONE)
        mean = estimate_difference(list(pairs.values()))
        style: Literal["", "bold"] = "bold" if mean.excludes_zero else ""
        head = (Text(name), Text(weights), Text(precision), Text(mean.signed, style))
        lines.append((mean.mean, (*head, *map(Text, cells), Text(str(len(pairs))))))
    head_words = ("reading", "prototypes", "precision", "mean", *domains, "episodes")
    best_first = sorted(lines, key=lambda line: -line[0])
    return Grid("", head_words, tuple(line for _, line in best_first))


def table(arguments: argparse.Namespace) -> None:
    """Print the differences."""
    print(markdown_grid(reading_grid(arguments.out)))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--weights", nargs="+", default=["resnet10"])
    command.add_argument("--first", type=int, default=0)
    command.add_argument("--episodes", type=int, default=1)
    command.add_argument("--readings", nargs="+", default=[BASE[0]])
    command.add_argument("--only", nargs="*", help="domains")
    command.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
