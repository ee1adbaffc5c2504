"""Piles that provoke self-training, and what the safety net makes of them.

    python benchmarks/provoked_piles.py run DOMAINS OUT.csv --encoder efficientnet_lite0
    python benchmarks/provoked_piles.py table OUT.csv

DOMAINS is a folder of class-folder trees. Each task has 5 classes with 5 examples and 75 images of
the pile. OUT.csv gets one row per task: the share of right labels without adaptation, with it, and
as delivered. `reckless` adapts all weights of the late stages at ten times a sane rate: it stands
for a recipe that does collapse, so that the net has something to catch.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from _measuring import Row, command_line, key_of, keys_in, measure_all, read_rows, serve
from torch import Tensor

from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.datasets.listing import list_folder
from appl.datasets.packed import PackedImages, pack
from appl.labelling.fitting import Fitter
from appl.labelling.novelty import NOVEL_AT
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from appl.weights import load_pretrained

KEYS = ("encoder", "image_px", "domain", "recipe", "pile", "episode")
COLUMNS = (
    *KEYS, "frozen", "adapted", "delivered", "fell_back", "accepted", "wrong_accepted",
    "none_of_these", "n_wrong_examples", "n_named", "n_named_rightly", "seconds",
)  # fmt: skip
PILES = ("even", "one class", "95 : 5", "strangers", "noise", "wrong examples")
N_WAY, N_SHOT, N_PILE = 5, 5, 75
ROBUST = SolveSettings.preset("robust")
RECIPES = {
    "robust": ROBUST,
    "reckless": with_changes(
        ROBUST,
        adaptation={"learning_rate": 3e-2, "parameters": {"move": "all"}},
        answer={"teacher": "prototypes"},
    ),
}


def draw_task(data: PackedImages, pile: str, episode: int) -> tuple[Task, Tensor, Tensor]:
    """Return a task, the true classes of its pile (−1: none) and which examples are wrong."""
    generator = generator_for("provoked", pile, episode)
    names = data.class_names
    order = torch.randperm(len(names), generator=generator).tolist()
    # The class that a pile is made of comes first: it needs the most images.
    order.sort(key=lambda i: len(data.members(names[i])) < N_SHOT + N_PILE)
    members = {
        i: data.members(names[i])[torch.randperm(len(data.members(names[i])), generator=generator)]
        for i in order
    }
    chosen = order[:N_WAY]
    support = torch.cat([members[i][:N_SHOT] for i in chosen])
    class_ids = torch.arange(N_WAY).repeat_interleave(N_SHOT)
    rest = [members[i][N_SHOT:] for i in chosen]
    counts = {"one class": [75, 0, 0, 0, 0], "95 : 5": [71, 4, 0, 0, 0]}.get(pile, [15] * N_WAY)
    rows = torch.cat([part[:n] for part, n in zip(rest, counts, strict=True)])
    truth = torch.cat(
        [
            torch.full((len(part[:n]),), i)
            for i, (part, n) in enumerate(zip(rest, counts, strict=True))
        ]
    )
    images = data.images(rows)
    if pile == "strangers":
        others = torch.cat([members[i] for i in order[N_WAY:]])
        drawn = others[torch.randperm(len(others), generator=generator)[:N_PILE]]
        images, truth = data.images(drawn), torch.full((len(drawn),), -1)
    if pile == "noise":
        images = torch.randint(0, 256, (N_PILE, *images.shape[1:]), generator=generator)
        images, truth = images.to(torch.uint8), torch.full((N_PILE,), -1)
    wrong = torch.zeros(len(class_ids), dtype=torch.bool)
    if pile == "wrong examples":
        # The first example of every class carries the name of the next one.
        wrong[::N_SHOT] = True
        class_ids = torch.where(wrong, (class_ids + 1) % N_WAY, class_ids)
    return Task(data.images(support), class_ids, images), truth, wrong


def measure(job: Row) -> list[Row]:
    """Label one task as a user would."""
    torch.set_num_threads(1)
    start = load_pretrained(job["encoder"])
    folder = Path(job["path"])
    data = pack(list_folder(folder), folder.parent / ".packed", job["image_px"])
    task, truth, wrong = draw_task(data, job["pile"], job["episode"])
    recipe = RECIPES[job["recipe"]]
    known = truth >= 0

    def share_right(found: Tensor) -> str:
        if not bool(known.any()):
            return ""
        return f"{100 * (found[known] == truth[known]).float().mean():.2f}"

    began = time.perf_counter()
    fit = Fitter(
        start,
        task,
        torch.arange(task.n_query),
        LabelSettings(encoder=job["encoder"], solving=recipe),
        class_names=tuple(map(str, range(N_WAY))),
        example_names=tuple(map(str, range(task.n_support))),
    ).adapted()
    seconds = time.perf_counter() - began
    judged = fit.model.judge(task.query)
    confidence, found = judged.probs.max(1)
    novel = judged.novelty > NOVEL_AT
    accepted = fit.model.acceptance.accepts(confidence) & ~novel
    still = with_changes(recipe, adaptation={"n_iterations": 0})
    frozen = solve_task(start.encoder, start.pcn, task, still)
    adapted = solve_task(start.encoder, start.pcn, task, recipe)
    named = torch.zeros_like(wrong)
    named[[row for row, _, _ in fit.doubtful_examples]] = True
    return [
        {key: job[key] for key in KEYS}
        | {
            "frozen": share_right(frozen.scores.argmax(1)),
            "adapted": share_right(adapted.scores.argmax(1)),
            "delivered": share_right(found),
            "fell_back": "; ".join(fit.fell_back),
            "accepted": f"{100 * accepted.float().mean():.2f}",
            "wrong_accepted": f"{100 * (accepted & (found != truth)).float().mean():.2f}",
            "none_of_these": f"{100 * novel.float().mean():.2f}",
            "n_wrong_examples": int(wrong.sum()),
            "n_named": int(named.sum()),
            "n_named_rightly": int((named & wrong).sum()),
            "seconds": f"{seconds:.1f}",
        }
    ]


def jobs(arguments: argparse.Namespace) -> Iterator[Row]:
    """List the tasks that are not in the file yet."""
    done = keys_in(arguments.out, KEYS)
    meta = load_pretrained(arguments.encoder).encoder.meta
    px = arguments.px or meta.label_px or meta.input_px
    for episode in range(arguments.episodes):
        for domain in sorted(arguments.domains.glob("[!.]*/")):
            if arguments.only and domain.name not in arguments.only:
                continue
            pack(list_folder(domain), arguments.domains / ".packed", px)
            for recipe in arguments.recipes:
                for pile in PILES:
                    values = (arguments.encoder, px, domain.name, recipe, pile, episode)
                    job = dict(zip(KEYS, values, strict=True))
                    if key_of(job, KEYS) not in done:
                        yield job | {"path": str(domain)}


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing."""
    measure_all(jobs(arguments), measure, COLUMNS, arguments.out, arguments.workers)


def table(arguments: argparse.Namespace) -> None:
    """Print the means, a line a recipe and pile."""
    rows = read_rows(arguments.out)
    print("| recipe | pile | tasks | right, frozen | right, adapted | right, as delivered | "
          "fell back | accepted | wrong and accepted | none of these | wrong examples named | "
          "right ones named |")  # fmt: skip
    print("|" + " --- |" * 12)
    for recipe in dict.fromkeys(row["recipe"] for row in rows):
        for pile in PILES:
            chosen = [row for row in rows if row["recipe"] == recipe and row["pile"] == pile]
            if not chosen:
                continue

            def mean(column: str) -> str:
                values = [float(row[column]) for row in chosen if row[column]]  # noqa: B023
                return f"{sum(values) / len(values):.1f}" if values else "–"

            n_wrong = sum(int(row["n_wrong_examples"]) for row in chosen)
            n_named = sum(int(row["n_named"]) for row in chosen)
            n_rightly = sum(int(row["n_named_rightly"]) for row in chosen)
            cells = [
                recipe, pile, str(len(chosen)), mean("frozen"), mean("adapted"), mean("delivered"),
                str(sum(bool(row["fell_back"]) for row in chosen)), mean("accepted"),
                mean("wrong_accepted"), mean("none_of_these"),
                f"{n_rightly} of {n_wrong}" if n_wrong else "–",
                f"{n_named - n_rightly} of {len(chosen) * N_WAY * N_SHOT - n_wrong}",
            ]  # fmt: skip
            print("|", *(f"{cell} |" for cell in cells))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "domains", run, table)
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=0)
    command.add_argument("--episodes", type=int, default=2)
    command.add_argument("--recipes", nargs="*", default=list(RECIPES))
    command.add_argument("--only", nargs="*", help="names of domains")
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
