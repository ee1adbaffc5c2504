"""How `robust` adapts: recipes tried on episodes of no target, paired with the frozen encoder.

    python benchmarks/choose_recipe.py run DOMAINS OUT.csv --encoder resnet10 --episodes 6 \
        --recipes frozen "norms it15" "all lr5e-4 it45 qb39 views8 cosine ema0.1 both"
    python benchmarks/choose_recipe.py table OUT.csv

DOMAINS is a folder of class-folder trees: the source's validation classes and development domains.
A recipe is named by words (see `WORDS`), each a change of the preset `robust`, so that a new one
needs no code. All answer the same tasks (seed 40), on three kinds of pile: even, uneven (Dirichlet,
concentration 2), and uneven with 15 images of other classes more, whose answers do not count. What
is in OUT.csv already is not done again, and the first episodes of all recipes come before later
ones. With --encoder A+B both are adapted.
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
)

from appl.benchmark.formats import markdown_grid
from appl.benchmark.grids import NONE, Grid, Text
from appl.benchmark.statistics import estimate_difference
from appl.core.compute import resolve_compute
from appl.core.episode import Task
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack
from appl.settings.compute import ComputeSettings
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from appl.weights import load_pretrained

KEYS = ("recipe", "encoder", "image_px", "precision", "n_shot", "pile", "domain", "episode")
COLUMNS = (*KEYS, "accuracy", "seconds", "termination", "changes")
SEED = 40
PILES = {"even": (0.0, 0), "uneven": (2.0, 0), "strange": (2.0, 15)}
BASE = "frozen"


def _adaptation(**changes: Any) -> dict[str, Any]:
    return {"adaptation": changes}


WORDS: dict[str, dict[str, Any]] = {
    # The answer, and what teaches.
    "frozen": _adaptation(n_iterations=0),
    "fixed": {"answer": {"rule": "information", "teacher": "information"}},
    "learnt": {"answer": {"rule": "learnt", "teacher": "learnt"}},
    "both": {"answer": {"encoders": "both"}},
    # What moves.
    "norms": _adaptation(parameters={"move": "norms"}),
    "all": _adaptation(parameters={"move": "all", "frozen_stages": 0}),
    "lowrank": _adaptation(parameters={"move": "low_rank", "frozen_stages": 0}),
    "attention": _adaptation(parameters={"move": "low_rank_attention", "frozen_stages": 0}),
    # Whose batch statistics.
    "joint": _adaptation(parameters={"batch_norm": "joint"}),
    "task": _adaptation(parameters={"batch_norm": "task"}),
    # The course.
    "cosine": _adaptation(rate_decay="cosine"),
    # Parts left out.
    "noquery": _adaptation(objective={"use_query_loss": False}),
    "nowma": _adaptation(pseudo_labels={"wma": {"use": False}}),
    "clean": _adaptation(pseudo_labels={"views": "clean"}),
}
NUMBERS = {
    "it": ("n_iterations", int),
    "lr": ("learning_rate", float),
    "qb": ("query_batch", int),
    "ema": ("weight_average", float),
}


def changes_of(recipe: str) -> dict[str, Any]:
    """Return what a recipe changes in `robust`."""
    found: dict[str, Any] = {}
    for word in recipe.split():
        number = re.fullmatch(r"([a-z]+?)([\d.]+(?:e-?\d+)?)", word)
        if word in WORDS:
            change = WORDS[word]
        elif number and number[1] in NUMBERS:
            name, kind = NUMBERS[number[1]]
            change = _adaptation(**{name: kind(number[2])})
        elif number and number[1] == "from":  # the first stage that moves
            change = _adaptation(parameters={"frozen_stages": int(number[2])})
        elif number and number[1] == "rank":
            change = _adaptation(parameters={"rank": int(number[2])})
        elif number and number[1] == "views":
            change = _adaptation(views={"n_views": int(number[2])})
        elif number and number[1] == "gap":
            change = _adaptation(objective={"distance_scale": "task", "gap": float(number[2])})
        elif number and number[1] == "eps":
            change = _adaptation(pseudo_labels={"threshold": float(number[2])})
        else:
            raise SystemExit(f"no word {word!r}; there are {', '.join(WORDS)}")
        found = merged(found, change)
    return found


def measure(job: Row) -> list[Row]:
    """Answer one task by one recipe."""
    torch.set_num_threads(1)
    folder = Path(job["domains"]) / job["domain"]
    data = pack(list_folder(folder), Path(job["cache"]), job["image_px"])
    start = load_pretrained(job["encoder"])
    for encoder in start.encoders:
        encoder.place(resolve_compute(ComputeSettings(precision=job["precision"])))
    dirichlet, n_ood = PILES[job["pile"]]
    draw = draw_episode(
        data,
        list(data.class_names),
        n_shot=job["n_shot"],
        dirichlet=dirichlet,
        n_ood=n_ood,
        seed=SEED,
        index=job["episode"],
    )
    task = Task(data.images(draw.support), draw.class_ids, data.images(draw.query))
    changes = changes_of(job["recipe"])
    settings = with_changes(SolveSettings.preset("robust"), **changes)
    began = time.process_time()
    solved = solve_task(start.encoder, start.pcn, task, settings, beside=start.beside)
    seconds = time.process_time() - began
    known = draw.query_class_ids >= 0
    right = (solved.scores.argmax(1).cpu() == draw.query_class_ids)[known]
    return [
        {key: job[key] for key in KEYS}
        | {
            "accuracy": f"{100 * right.double().mean():.2f}",
            "seconds": f"{seconds:.1f}",
            "termination": solved.termination,
            "changes": json.dumps(changes),
        }
    ]


def jobs(arguments: argparse.Namespace) -> Iterator[Row]:
    """List what is missing, the first episodes of all recipes first."""
    done = keys_in(arguments.out, KEYS)
    domains = arguments.only or sorted(p.name for p in arguments.source.iterdir() if p.is_dir())
    for episode in range(arguments.first, arguments.episodes):
        for domain in domains:
            for pile in arguments.piles:
                for recipe in arguments.recipes:
                    job = {
                        "recipe": recipe, "encoder": arguments.encoder,
                        "image_px": arguments.px, "precision": arguments.precision,
                        "n_shot": arguments.shots, "pile": pile, "domain": domain,
                        "episode": episode,
                    }  # fmt: skip
                    if key_of(job, KEYS) not in done:
                        where = {"domains": str(arguments.source), "cache": str(arguments.cache)}
                        yield job | where


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished task is on disk."""
    for folder in sorted(p for p in arguments.source.iterdir() if p.is_dir()):
        pack(list_folder(folder), arguments.cache, arguments.px)  # once, before processes share it
    measure_all(jobs(arguments), measure, COLUMNS, arguments.out, arguments.workers)


def recipe_grid(path: Path) -> Grid:
    """Return mean paired differences to the frozen encoder, a line per recipe and kind of task."""
    found: dict[tuple[str, ...], dict[tuple[str, str], float]] = {}
    seconds: dict[tuple[str, ...], list[float]] = {}
    for row in read_rows(path):
        key = (*(row[k] for k in KEYS[1:6]), row["recipe"])
        found.setdefault(key, {})[row["domain"], row["episode"]] = float(row["accuracy"])
        seconds.setdefault(key, []).append(float(row["seconds"]))
    domains = sorted({domain for of in found.values() for domain, _ in of})
    lines = []
    for key in sorted(found):
        base = found.get((*key[:-1], BASE), {})
        pairs = {k: v - base[k] for k, v in found[key].items() if k in base}
        if not pairs or key[-1] == BASE:
            continue
        cells = []
        for domain in domains:
            values = [value for (where, _), value in pairs.items() if where == domain]
            cells.append(estimate_difference(values).signed if values else NONE)
        mean = estimate_difference(list(pairs.values()))
        encoder, px, precision, n_shot, pile, recipe = key
        cost = f"{sum(seconds[key]) / len(seconds[key]):.1f}"
        head = (f"{encoder}, {px} px, {precision}", n_shot, pile, recipe)
        style: Literal["", "bold"] = "bold" if mean.excludes_zero else ""
        lines.append(
            (
                *map(Text, head),
                Text(mean.signed, style),
                *map(Text, (*cells, cost, str(len(pairs)))),
            )
        )
    titles = ("encoder", "shots", "pile", "recipe", "mean", *domains, "seconds", "tasks")
    return Grid("", titles, tuple(lines))


def table(arguments: argparse.Namespace) -> None:
    """Print the differences."""
    print(markdown_grid(recipe_grid(arguments.out)))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--encoder", default="resnet10")
    command.add_argument("--px", type=int, default=84)
    command.add_argument("--shots", type=int, default=5)
    command.add_argument("--piles", nargs="+", choices=list(PILES), default=["even", "uneven"])
    command.add_argument("--first", type=int, default=0)
    command.add_argument("--episodes", type=int, default=1)
    command.add_argument("--recipes", nargs="+", default=[BASE])
    command.add_argument("--only", nargs="*", help="domains")
    command.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
