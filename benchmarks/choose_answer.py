"""How queries are best answered on frozen features: many tasks, since each takes milliseconds.

    python benchmarks/choose_answer.py run DOMAINS OUT.csv --encoder efficientnet_lite0 --px 128
    python benchmarks/choose_answer.py table OUT.csv

DOMAINS is a folder of class-folder trees that are no target (see choose_robust.py). Every image is
described once, up to 40 of a class; then the same tasks, even and uneven, are answered in every way
of `WAYS`. OUT.csv gets one row per domain, pile and way: the mean over the tasks.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from _measuring import append_rows, command_line, read_rows, serve
from torch import Tensor

from appl.core.compute import resolve_compute
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import PackedImages, pack
from appl.encoders import CACHE_BATCH, Encoder
from appl.images.store import ImageArray
from appl.rivals.label_propagation import LabelPropagation
from appl.rivals.prototypical import Prototypical
from appl.rivals.tim import TIM
from appl.settings.compute import ComputeSettings
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.transduction.answer import weigh_together
from appl.transduction.placing import Described
from appl.weights import load_pretrained

COLUMNS = ("encoder", "image_px", "domain", "pile", "way", "accuracy", "n_tasks", "ms_an_image")
PILES = {"even": 0.0, "uneven": 2.0}
IMAGES_A_CLASS = 40
TEXTURES = {"resnet10": ("stage3",), "efficientnet_lite0": ("stage3", "stage5", "stage7")}
RIVALS = {"ProtoNet": Prototypical(), "label propagation": LabelPropagation(), "TIM": TIM()}


def ways(textures: tuple[str, ...]) -> dict[str, tuple[dict[str, Any], str | None, float]]:
    """Name every answer: changes of the settings, texture stage, its weight."""
    found: dict[str, tuple[dict[str, Any], str | None, float]] = {"robust": ({}, None, 0.0)}
    for at in (0.005, 0.01, 0.04):
        found[f"uneven_at {at}"] = ({"uneven_at": at}, None, 0.0)
    for least in (0.06, 0.1):
        found[f"least_marginal_weight {least}"] = ({"least_marginal_weight": least}, None, 0.0)
    for marginal_weight in (0.06, 0.2, 0.5):
        found[f"marginal_weight {marginal_weight}"] = (
            {"marginal_weight": marginal_weight},
            None,
            0.0,
        )
    for temperature in (8.0, 25.0):
        found[f"temperature {temperature:g}"] = ({"temperature": temperature}, None, 0.0)
    for weight in (1.0, 6.0):
        found[f"support_weight {weight:g}"] = ({"support_weight": weight}, None, 0.0)
    for stage in textures:
        for share in (0.25, 0.5):
            found[f"texture of {stage} × {share}"] = ({}, stage, share)
    return found


@torch.no_grad()
def describe(encoder: Encoder, data: PackedImages, textures: tuple[str, ...]) -> list[Tensor]:
    """Return the features of all images, then their textures."""
    parts = []
    for part in torch.arange(len(data.class_ids)).split(CACHE_BATCH):
        maps = encoder.stage_outputs(encoder.normalise(data.images(part)))
        spread = [maps[stage].float().flatten(2).std(2, correction=0) for stage in textures]
        parts.append([encoder.pool(maps[encoder.meta.stages[-1]]), *spread])
    return [torch.cat(kind) for kind in zip(*parts, strict=True)]


def few_of(data: PackedImages) -> PackedImages:
    """Keep the first images of every class."""
    kept = torch.cat([data.members(name)[:IMAGES_A_CLASS] for name in data.class_names])
    images = ImageArray(data.images(kept).permute(0, 2, 3, 1).numpy())
    return PackedImages(images, data.class_ids[kept], data.class_names, "few")


def run(arguments: argparse.Namespace) -> None:
    """Measure all ways on all domains at one size."""
    resolve_compute(ComputeSettings(n_threads=arguments.threads))
    start = load_pretrained(arguments.encoder)
    textures = TEXTURES[start.encoder.meta.name]
    rows = []
    for domain in sorted(arguments.domains.glob("[!.]*/")):
        if arguments.development and domain.name.startswith("val_"):
            continue
        data = few_of(pack(list_folder(domain), arguments.domains / ".packed", arguments.px))
        began = time.perf_counter()
        kinds = describe(start.encoder, data, textures)
        milliseconds = 1000 * (time.perf_counter() - began) / len(data.class_ids)
        for pile, dirichlet in PILES.items():
            hits: dict[str, float] = {}
            for index in range(arguments.tasks):
                draw = draw_episode(data, data.class_names, dirichlet=dirichlet, index=index)
                pairs = [(kind[draw.support], kind[draw.query]) for kind in kinds]
                scores = {
                    name: rival.scores(pairs[0][0], draw.class_ids, pairs[0][1])
                    for name, rival in RIVALS.items()
                }
                for name, (changes, stage, weight) in ways(textures).items():
                    if arguments.ways and name not in arguments.ways:
                        continue
                    described = [Described(*pairs[0])]
                    if stage is not None:
                        described.append(Described(*pairs[1 + textures.index(stage)], weight))
                    settings = AnswerSettings(information=InformationSettings(**changes))
                    scores[name] = -weigh_together(
                        "information", described, draw.class_ids, settings
                    )
                for name, value in scores.items():
                    right = (value.argmax(1) == draw.query_class_ids).float().mean().item()
                    hits[name] = hits.get(name, 0.0) + 100 * right / arguments.tasks
            for name, accuracy in hits.items():
                rows.append(
                    dict(
                        zip(
                            COLUMNS,
                            (
                                Path(arguments.encoder).stem, arguments.px, domain.name, pile,
                                name, f"{accuracy:.2f}", arguments.tasks, f"{milliseconds:.1f}",
                            ),
                            strict=True,
                        )
                    )
                )  # fmt: skip
        print(domain.name, flush=True)
    append_rows(arguments.out, COLUMNS, rows)


def table(arguments: argparse.Namespace) -> None:
    """Print the means over the domains as a Markdown table."""
    rows = read_rows(arguments.out)
    print(
        "| encoder | px | way | development even | uneven | shifted even | uneven | ms an image |"
    )
    print("|" + " --- |" * 8)
    way_of = ("encoder", "image_px", "way")
    for way in dict.fromkeys(tuple(row[key] for key in way_of) for row in rows):
        chosen = [row for row in rows if tuple(row[key] for key in way_of) == way]
        cells = []
        for shifted in (False, True):
            for pile in PILES:
                values = [
                    float(row["accuracy"])
                    for row in chosen
                    if row["domain"].startswith("val_") == shifted and row["pile"] == pile
                ]
                cells.append(f"{sum(values) / len(values):.2f}" if values else "–")
        cost = sum(float(row["ms_an_image"]) for row in chosen) / len(chosen)
        print("|", *(f"{cell} |" for cell in (*way, *cells, f"{cost:.1f}")))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "domains", run, table)
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=128)
    command.add_argument("--tasks", type=int, default=60)
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--ways", nargs="*", help="Only these, beside the rivals.")
    command.add_argument("--development", action="store_true", help="Leave the shifted ones out.")
    serve(command)


if __name__ == "__main__":
    main()
