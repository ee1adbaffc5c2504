"""The measurements that the preset `robust` was chosen by: no target data set has a part in them.

    python benchmarks/choose_robust.py run DOMAINS OUT.csv --encoder resnet10 --px 84 --episodes 4
    python benchmarks/choose_robust.py table OUT.csv

DOMAINS is a folder of class-folder trees: the development domains, and the shifted copies of the
source's validation classes (`shifted_source.py`; names that start with `val_`). Each episode is
adapted once by every way in `ADAPTATIONS` and answered in every way in `ANSWERS`, on even piles and
on uneven ones (Dirichlet, concentration 2). What is in OUT.csv already is not done again.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from _measuring import Row, command_line, key_of, keys_in, measure_all, read_rows, serve

from appl.core.episode import Task
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack
from appl.encoders import CACHE_BATCH, Encoder
from appl.encoders.views import tolerated_augmentations
from appl.rivals.label_propagation import LabelPropagation
from appl.rivals.prototypical import Prototypical
from appl.rivals.tim import TIM
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.solver.rows import APPL
from appl.solver.solve import solve_task
from appl.transduction.answer import weigh_together
from appl.transduction.placing import Described
from appl.weights import load_pretrained, weights_digest

KEYS = ("encoder", "weights", "image_px", "domain", "pile", "episode")
COLUMNS = (*KEYS, "adaptation", "answer", "accuracy", "seconds")
PILES = {"even": 0.0, "uneven": 2.0}


# What is adapted, how far, and by which pseudo-labels; the rest as in `robust`.
def way(
    frozen_stages: int = 3,
    n_iterations: int = 30,
    learning_rate: float = 3e-3,
    move: str = "norms",
    teacher: str = "information",
) -> dict[str, Any]:
    """Return the changes of `robust` that one way of adapting stands for."""
    parameters = {"move": move, "frozen_stages": frozen_stages}
    adaptation = {"n_iterations": n_iterations, "learning_rate": learning_rate}
    return {
        "adaptation": adaptation | {"parameters": parameters},
        "answer": {"teacher": teacher, "rule": "prototypes"},
    }


ADAPTATIONS: dict[str, dict[str, dict[str, Any] | None]] = {
    "resnet10": {
        "frozen": None,
        "norms": way(teacher="prototypes"),
        "norms, information": way(),
        "norms, information, 20 iterations": way(n_iterations=20),
        "last stage's norms, information": way(frozen_stages=4),
        "last stage's norms 1e-2, information": way(frozen_stages=4, learning_rate=1e-2),
        "weights 3e-4, information": way(move="all", learning_rate=3e-4),
        "weights 1e-3, propagation": way(move="all", learning_rate=1e-3, teacher="propagation"),
    },
    "efficientnet_lite0": {
        "frozen": None,
        "norms from stage 6 on, 1e-3": way(6, learning_rate=1e-3),
        "norms from stage 6 on, 3e-3": way(6),
        "norms from stage 7 on, 1e-3": way(7, learning_rate=1e-3),
        "norms from stage 7 on, 3e-3": way(7),
        "the head's norm, 3e-3": way(8),
        "weights from stage 7 on, 1e-4": way(7, move="all", learning_rate=1e-4),
    },
}
# Stages whose texture was tried beside the features; the encoder's record names the chosen one.
TEXTURES = {"resnet10": ("stage3",), "efficientnet_lite0": ("stage3", "stage5", "stage7")}

Kinds = dict[str, list[Described]]


def fixed_information(kinds: list[Described], class_ids: torch.Tensor) -> torch.Tensor:
    """Answer with one weak pull to equal shares, whatever the pile."""
    settings = InformationSettings(marginal_weight=0.06, least_marginal_weight=0.06)
    return -weigh_together("information", kinds, class_ids, AnswerSettings(information=settings))


def information(kinds: list[Described], class_ids: torch.Tensor) -> torch.Tensor:
    """Answer as `robust` does."""
    return -weigh_together("information", kinds, class_ids, AnswerSettings())


def rival(method: Any) -> Callable[[list[Described], torch.Tensor], torch.Tensor]:
    """Answer by a rival's rule on the features alone."""
    return lambda kinds, ids: method.scores(kinds[0].support, ids, kinds[0].query)


Answer = Callable[[list[Described], torch.Tensor], torch.Tensor]
# name: (kind of description, rule); beside these, each texture of `TEXTURES` by name
FROZEN_ANSWERS: dict[str, tuple[str, Answer]] = {
    "ProtoNet": ("features", rival(Prototypical())),
    "label propagation": ("features", rival(LabelPropagation())),
    "TIM": ("features", rival(TIM())),
    "information, weak pull": ("features", fixed_information),
    "information": ("features", information),
    "information, texture": ("texture", information),
    "information, mirrored": ("mirrored features", information),
    "information, texture, mirrored": ("mirrored", information),
}
ADAPTED_ANSWERS: dict[str, tuple[str, Answer]] = {
    "prototypes": ("features", rival(Prototypical())),
    "information": ("features", information),
    "information, texture, mirrored": ("mirrored", information),
    "information, texture, mirrored, both encoders": ("both", information),
}


@torch.no_grad()
def described(encoder: Encoder, task: Task, mirrors: bool) -> Kinds:
    """Describe a task's images in every way that an answer may want."""
    sizes = [task.n_support, task.n_query]
    textures = TEXTURES[encoder.meta.name]

    def kinds(images: torch.Tensor) -> list[torch.Tensor]:
        parts = []
        for part in images.split(CACHE_BATCH):
            maps = encoder.stage_outputs(encoder.normalise(part))
            spread = [maps[stage].float().flatten(2).std(2, correction=0) for stage in textures]
            parts.append([encoder.pool(maps[encoder.meta.stages[-1]]), *spread])
        return [torch.cat(kind) for kind in zip(*parts, strict=True)]

    def beside(values: list[torch.Tensor], stage: str | None) -> list[Described]:
        chosen = [Described(*values[0].split(sizes))]  # type: ignore[call-arg]
        if stage is not None:
            texture = values[1 + textures.index(stage)]
            chosen.append(Described(*texture.split(sizes), 0.5))  # type: ignore[call-arg]
        return chosen

    clean = kinds(task.images())
    mean = clean
    if mirrors:
        mean = [(a + b) / 2 for a, b in zip(clean, kinds(task.images().flip(3)), strict=True)]
    stage = encoder.meta.texture_stage
    return {
        "features": beside(clean, None),
        "texture": beside(clean, stage),
        "mirrored features": beside(mean, None),
        "mirrored": beside(mean, stage),
    } | {f"texture of {name}": beside(clean, name) for name in textures}


def measure(job: Row) -> list[Row]:
    """Adapt and answer one episode in every way that is missing."""
    torch.set_num_threads(1)
    start = load_pretrained(job["start"])
    folder = Path(job["domain_path"])
    data = pack(list_folder(folder), folder.parent / ".packed", job["image_px"])
    draw = draw_episode(data, data.class_names, dirichlet=PILES[job["pile"]], index=job["episode"])
    task = draw.load(data).task
    support = task.images()[: task.n_support]
    mirrors = "mirror" in tolerated_augmentations(start.encoder, support, task.class_ids)
    began = time.perf_counter()
    frozen = described(start.encoder, task, mirrors)
    encoding_s = time.perf_counter() - began
    rows = []
    encoder_name = start.encoder.meta.name
    tried: dict[str, tuple[str, Answer]] = {
        f"information, texture of {stage}": (f"texture of {stage}", information)
        for stage in TEXTURES[encoder_name]
    }
    for name in job["adaptations"]:
        changes, seconds = ADAPTATIONS[encoder_name][name], encoding_s
        kinds, answers = frozen, FROZEN_ANSWERS | tried
        if changes is not None:
            settings = APPL(changes=changes).settings()
            began = time.perf_counter()
            result = solve_task(start.encoder, start.pcn, task, settings)
            seconds = time.perf_counter() - began
            kinds, answers = described(result.encoder, task, mirrors), ADAPTED_ANSWERS
            kinds["both"] = frozen["mirrored"] + kinds["mirrored"]
        for answer, (kind, rule) in answers.items():
            scores = rule(kinds[kind], task.class_ids)
            right = (scores.argmax(1) == draw.query_class_ids).float().mean().item()
            rows.append(
                {key: job[key] for key in KEYS}
                | {"adaptation": name, "answer": answer}
                | {"accuracy": f"{100 * right:.2f}", "seconds": f"{seconds:.2f}"}
            )
    return rows


def jobs(arguments: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[Row]:
    """List the episodes that miss some way of adapting."""
    start = load_pretrained(arguments.encoder)
    digest = weights_digest(start)[:12]
    domains = sorted(arguments.domains.glob("[!.]*/"))
    for domain in domains:  # decoded here, once, before processes share the files
        pack(list_folder(domain), arguments.domains / ".packed", arguments.px)
    for episode in range(arguments.episodes):
        for domain in domains:
            for pile in PILES:
                job = {
                    "encoder": Path(arguments.encoder).stem,
                    "weights": digest,
                    "image_px": arguments.px,
                    "domain": domain.name,
                    "pile": pile,
                    "episode": episode,
                }
                key = key_of(job, KEYS)
                missing = [
                    name
                    for name in arguments.adaptations or ADAPTATIONS[start.encoder.meta.name]
                    if (*key, name) not in done
                ]
                if missing:
                    yield job | {
                        "start": arguments.encoder,
                        "domain_path": str(domain),
                        "adaptations": missing,
                    }


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished episode is on disk."""
    done = keys_in(arguments.out, (*KEYS, "adaptation"))
    measure_all(jobs(arguments, done), measure, COLUMNS, arguments.out, arguments.workers)


def table(arguments: argparse.Namespace) -> None:
    """Print the means as a Markdown table."""
    rows = read_rows(arguments.out)
    print("| px | adaptation | answer | development | | shifted source | | episodes | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("| | | | even | uneven | even | uneven | | |")
    way_of = ("image_px", "adaptation", "answer")
    for way in dict.fromkeys(tuple(row[key] for key in way_of) for row in rows):
        chosen = [row for row in rows if tuple(row[key] for key in way_of) == way]
        cells = []
        for shifted in (False, True):
            for pile in PILES:
                means: dict[str, list[float]] = {}
                for row in chosen:
                    if row["domain"].startswith("val_") == shifted and row["pile"] == pile:
                        means.setdefault(row["domain"], []).append(float(row["accuracy"]))
                by_domain = [sum(values) / len(values) for values in means.values()]
                mean = f"{sum(by_domain) / len(by_domain):.2f}" if by_domain else "–"
                cells.append(mean)
        seconds = sum(float(row["seconds"]) for row in chosen) / len(chosen)
        print("|", *(f"{word} |" for word in (*way, *cells)), end=" ")
        print(f"{len(chosen)} | {seconds:.1f} |")


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "domains", run, table)
    command.add_argument("--encoder", default="resnet10")
    command.add_argument("--px", type=int, default=84)
    command.add_argument("--episodes", type=int, default=4)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--adaptations", nargs="*")
    serve(command)


if __name__ == "__main__":
    main()
