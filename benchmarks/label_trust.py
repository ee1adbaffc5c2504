"""How far the labels of `appl label` can be trusted: calibration, acceptance, strangers.

    python benchmarks/label_trust.py run DOMAINS OUT.csv --encoder efficientnet_lite0 --episodes 6
    python benchmarks/label_trust.py table OUT.csv

DOMAINS is a folder of class-folder trees. Each task has 5 classes with 5 examples and a pile of 75
images in uneven shares, and beside them 15 images of classes that have no example, where the data
set has any left. OUT.csv gets a row an image; what is there already is not done again. The prior
temperature and the novelty threshold were chosen on the development domains with it; on the
targets it shows what they are worth.
"""

import argparse
import csv
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from appl.benchmark.statistics import calibration_error
from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack
from appl.labelling.confidence import fit_temperature
from appl.labelling.fitting import fit_model
from appl.labelling.left_out import LeftOut
from appl.labelling.novelty import NOVEL_AT
from appl.settings.labelling import LabelSettings
from appl.training.shipped import load_pretrained

COLUMNS = (
    "encoder", "image_px", "domain", "episode", "stranger", "right", "raw", "confidence",
    "accepted", "novelty", "frozen_right", "temperature", "best_temperature", "n_left_out",
    "promised", "is_adapted",
)  # fmt: skip
N_STRANGERS = 15


def measure(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Label one task as a user would."""
    torch.set_num_threads(1)
    start = load_pretrained(job["encoder"])
    folder = Path(job["path"])
    data = pack(list_folder(folder), folder.parent / ".packed", job["image_px"])
    draw = draw_episode(data, data.class_names, dirichlet=2.0, index=job["episode"])
    used = data.class_ids[draw.support].unique()
    others = (~torch.isin(data.class_ids, used)).nonzero().flatten()
    order = torch.randperm(len(others), generator=generator_for("strangers", job["episode"]))
    strangers = others[order[:N_STRANGERS]]
    pile = torch.cat([draw.query, strangers])
    truth = torch.cat([draw.query_class_ids, torch.full((len(strangers),), -1)])
    task = Task(data.images(draw.support), draw.class_ids, data.images(pile))
    settings = LabelSettings(encoder=job["encoder"])
    fit = fit_model(
        start.encoder,
        start.pcn,
        task,
        torch.arange(len(pile)),
        settings,
        class_names=tuple(map(str, range(task.n_way))),
        example_names=tuple(map(str, range(task.n_support))),
        prior_temperature=start.encoder.meta.temperature,
    )
    judged = fit.model.judge(task.query)
    raw = torch.softmax(judged.scores, 1).amax(1)
    confidence, found = judged.probs.max(1)
    known = truth >= 0
    best = fit_temperature(
        LeftOut(known.nonzero().flatten(), truth[known], judged.scores[known], raw[known]), 1.0
    )
    frozen = LabelSettings(encoder=job["encoder"], adapt=False)
    plain = fit_model(
        start.encoder, start.pcn, task, torch.arange(len(pile)), frozen,
        class_names=fit.model.class_names, example_names=fit.model.example_names,
        prior_temperature=start.encoder.meta.temperature,
    )  # fmt: skip
    plain_right = plain.model.judge(task.query).probs.argmax(1) == truth
    accepted = fit.model.acceptance.accepts(confidence)
    return [
        {key: job[key] for key in COLUMNS[:4]}
        | {
            "stranger": int(truth[i] < 0),
            "right": int(found[i] == truth[i]),
            "raw": f"{raw[i]:.4f}",
            "confidence": f"{confidence[i]:.4f}",
            "accepted": int(accepted[i]),
            "novelty": f"{judged.novelty[i]:.3f}",
            "frozen_right": int(plain_right[i]),
            "temperature": f"{fit.model.temperature:.3f}",
            "best_temperature": f"{best:.3f}",
            "n_left_out": len(fit.left_out),
            "promised": f"{fit.model.acceptance.promised:.4f}",
            "is_adapted": int(fit.model.is_adapted),
        }
        for i in range(len(pile))
    ]


def jobs(arguments: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """List the tasks that are not in the file yet."""
    meta = load_pretrained(arguments.encoder).encoder.meta
    px = arguments.px or meta.label_px or meta.input_px
    for episode in range(arguments.episodes):
        for domain in sorted(arguments.domains.glob("[!.]*/")):
            pack(list_folder(domain), arguments.domains / ".packed", px)
            job = {
                "encoder": Path(arguments.encoder).stem,
                "image_px": px,
                "domain": domain.name,
                "episode": episode,
            }
            if tuple(str(value) for value in job.values()) not in done:
                yield job | {"path": str(domain)}


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished task is on disk."""
    out: Path = arguments.out
    done: set[tuple[str, ...]] = set()
    if out.exists():
        with out.open() as file:
            done = {tuple(row[column] for column in COLUMNS[:4]) for row in csv.DictReader(file)}
    todo = list(jobs(arguments, done))
    pool = ProcessPoolExecutor(arguments.workers, mp_context=multiprocessing.get_context("spawn"))
    with pool, out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not out.stat().st_size:
            writer.writeheader()
        for n, future in enumerate(as_completed(pool.submit(measure, job) for job in todo), 1):
            writer.writerows(future.result())
            file.flush()
            print(f"\r{n} of {len(todo)} tasks", end="", flush=True)
    print()


def table(arguments: argparse.Namespace) -> None:
    """Print what follows from the rows, a line a domain."""
    with arguments.out.open() as file:
        rows = list(csv.DictReader(file))
    print(
        "| domain | tasks | right, frozen | right, adapted | ECE raw | ECE ours | accepted | "
        "wrong and accepted, of all | wrong among accepted | AUROC of novelty | known taken for "
        "strangers | strangers found |"
    )
    print("|" + " --- |" * 12)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    for domain in [*domains, "all"]:
        chosen = [row for row in rows if domain in ("all", row["domain"])]
        value = {key: np.array([float(row[key]) for row in chosen]) for key in COLUMNS[4:]}
        known = value["stranger"] == 0
        right, sure = value["right"][known], value["confidence"][known]
        accepted = value["accepted"][known] == 1
        novel = value["novelty"] > NOVEL_AT
        auroc = "–"
        if (~known).any():
            auroc = f"{roc_auc_score(~known, value['novelty']):.3f}"
        cells = [
            domain,
            str(len({(row["domain"], row["episode"]) for row in chosen})),
            f"{100 * value['frozen_right'][known].mean():.1f}",
            f"{100 * right.mean():.1f}",
            f"{100 * calibration_error(value['raw'][known], right):.1f}",
            f"{100 * calibration_error(sure, right):.1f}",
            f"{100 * accepted.mean():.1f}",
            f"{100 * (accepted & (right == 0)).mean():.1f}",
            f"{100 * (right[accepted] == 0).mean():.1f}" if accepted.any() else "–",
            auroc,
            f"{100 * novel[known].mean():.1f}",
            f"{100 * novel[~known].mean():.1f}" if (~known).any() else "–",
        ]
        print("|", *(f"{cell} |" for cell in cells))
    best = np.array([float(row["best_temperature"]) for row in rows])
    print(f"\nbest temperature: geometric mean {np.exp(np.log(best).mean()):.2f}, "
          f"deviation of its log {np.log(best).std():.2f}")  # fmt: skip
    novelty = np.array([float(r["novelty"]) for r in rows if r["stranger"] == "0"])
    print("novelty of known images, 90, 95, 98 %:", np.quantile(novelty, [0.9, 0.95, 0.98]))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.add_argument("domains", type=Path)
    command.add_argument("out", type=Path)
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=0)
    command.add_argument("--episodes", type=int, default=6)
    command.add_argument("--workers", type=int, default=2)
    command.set_defaults(act=run)
    command = commands.add_parser("table")
    command.add_argument("out", type=Path)
    command.set_defaults(act=table)
    arguments = parser.parse_args()
    arguments.act(arguments)


if __name__ == "__main__":
    main()
