"""For how many iterations `robust` adapts: what the choice was made by.

    python benchmarks/choose_iterations.py run DOMAINS OUT.csv --encoder efficientnet_lite0 --px 160
    python benchmarks/choose_iterations.py table OUT.csv

DOMAINS is a folder of class-folder trees that are no target (see choose_robust.py). Every task is
answered by `robust` without adaptation and with it, on three kinds of pile: even, uneven
(Dirichlet, concentration 2), and uneven with 15 images of other
classes more, whose answers do not count. What is
in OUT.csv already is not done again.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from _measuring import Row, command_line, key_of, keys_in, measure_all, read_rows, serve

from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from appl.weights import load_pretrained

KEYS = ("encoder", "image_px", "domain", "pile", "episode", "way")
COLUMNS = (*KEYS, "frozen", "adapted", "seconds")
PILES = {"even": (0.0, 0), "uneven": (2.0, 0), "strangers": (2.0, 15)}
# Older rows of OUT.csv have other ways: rules that the code no longer has (docs/robust.md).
WAYS = {"once, 30 iterations": 30, "once, 15 iterations": 15}


def measure(job: Row) -> list[Row]:
    """Answer one task in one way."""
    torch.set_num_threads(1)
    start = load_pretrained(job["encoder"])
    folder = Path(job["domain_path"])
    data = pack(list_folder(folder), folder.parent / ".packed", job["image_px"])
    dirichlet, n_ood = PILES[job["pile"]]
    draw = draw_episode(data, data.class_names, dirichlet=dirichlet, index=job["episode"])
    used = data.class_ids[draw.support].unique()
    others = (~torch.isin(data.class_ids, used)).nonzero().flatten()
    order = torch.randperm(len(others), generator=generator_for("strangers", job["episode"]))
    pile = torch.cat([draw.query, others[order[:n_ood]]])
    task = Task(data.images(draw.support), draw.class_ids, data.images(pile))
    robust = SolveSettings.preset("robust")
    row = {key: job[key] for key in KEYS}
    began = time.perf_counter()
    for name, n_iterations in (("frozen", 0), ("adapted", WAYS[job["way"]])):
        settings = with_changes(robust, adaptation={"n_iterations": n_iterations})
        answers = solve_task(start.encoder, start.pcn, task, settings).scores.argmax(1)
        right = answers[: len(draw.query)] == draw.query_class_ids
        row[name] = f"{100 * right.float().mean().item():.1f}"
    return [row | {"seconds": f"{time.perf_counter() - began:.0f}"}]


def jobs(arguments: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[Row]:
    """List the tasks and ways that are missing."""
    for episode in range(arguments.episodes):
        for pile in arguments.piles:
            for domain in sorted(arguments.domains.glob("[!.]*/")):
                for way in WAYS:
                    values = (arguments.encoder, arguments.px, domain.name, pile, episode, way)
                    job = dict(zip(KEYS, values, strict=True))
                    if key_of(job, KEYS) not in done:
                        yield job | {"domain_path": str(domain)}


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished task is on disk."""
    todo = jobs(arguments, keys_in(arguments.out, KEYS))
    measure_all(todo, measure, COLUMNS, arguments.out, arguments.workers)


def table(arguments: argparse.Namespace) -> None:
    """Print the means over the tasks that all ways have in common, frozen and adapted."""
    rows = read_rows(arguments.out)
    ways = list(dict.fromkeys(row["way"] for row in rows))
    print("| encoder | pile | tasks |", *(f"{way} |" for way in ways))
    print("|" + " --- |" * (3 + len(ways)))
    for encoder in dict.fromkeys(row["encoder"] for row in rows):
        for pile in PILES:
            found: dict[tuple[str, ...], dict[str, Row]] = {}
            for row in rows:
                if (row["encoder"], row["pile"]) == (encoder, pile):
                    found.setdefault((row["domain"], row["episode"]), {})[row["way"]] = row
            shared = [task for task in found.values() if len(task) == len(ways)]
            cells = []
            for way in ways:
                means = [
                    sum(float(task[way][name]) for task in shared) / max(len(shared), 1)
                    for name in ("frozen", "adapted")
                ]
                cells.append(" → ".join(f"{mean:.1f}" for mean in means))
            print("|", *(f"{cell} |" for cell in (encoder, pile, len(shared), *cells)))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "domains", run, table)
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=160)
    command.add_argument("--episodes", type=int, default=2)
    command.add_argument("--piles", nargs="*", choices=PILES, default=list(PILES))
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
