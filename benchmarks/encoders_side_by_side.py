"""Encoders alone and side by side, frozen, on the same episodes: which to choose.

    python benchmarks/encoders_side_by_side.py run DOMAINS OUT.csv --episodes 30 --encoders \
        efficientnet_lite0 efficientnet_lite0+resnet10 efficientnet_lite0+dinov2_vits14@FILE
    python benchmarks/encoders_side_by_side.py table OUT.csv

DOMAINS is a folder of class-folder trees. Each image is described once by each encoder at its own
size (kept as fp16), with texture and mirror image; episodes (seed 33) are 5-way with 5 examples per
class, even and uneven (Dirichlet, concentration 2). Answers: the nearest class mean in the space
where kinds stand side by side, the fixed rule, the learnt one. What is in OUT.csv already is not
done again.
"""

import argparse
from pathlib import Path

import torch
from _measuring import Row, append_rows, command_line, keys_in, read_rows, serve
from learnt_against_fixed import PILES, describe

from appl.benchmark.formats import markdown_grid
from appl.benchmark.grids import NONE, Grid, Text
from appl.benchmark.statistics import estimate_difference
from appl.core.distances import class_means, squared_distances
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import pack_folder
from appl.training.transductive import fixed_scores
from appl.transduction.learnt import shipped_network
from appl.transduction.placing import Described, Placing
from appl.weights import load_pretrained

KEYS = ("encoder", "domain", "pile", "episode")
ANSWERS = ("class_means", "fixed", "learnt")
COLUMNS = (*KEYS, *ANSWERS)
SEED = 33
BASE = "efficientnet_lite0"


@torch.no_grad()
def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; a domain's rows are on disk as soon as they are there."""
    torch.set_num_threads(1)
    done = keys_in(arguments.out, KEYS)
    network = shipped_network("tpcn-1")
    for given in arguments.encoders:
        encoder = "+".join(part.split("@")[0] for part in given.split("+"))
        start = load_pretrained(given)
        for folder in sorted(p for p in arguments.source.iterdir() if p.is_dir()):
            # One encoder alone sees what is packed, so that it has its own size there.
            alone = start.encoder.meta.label_px or start.encoder.meta.input_px
            data = pack_folder(folder, arguments.cache, 160 if start.beside else alone)
            (_, vectors), weights = describe(start, data, arguments.cache)
            rows: list[Row] = []
            for pile, dirichlet in PILES.items():
                for index in range(arguments.episodes):
                    if (encoder, folder.name, pile, str(index)) in done:
                        continue
                    draw = draw_episode(
                        data, list(data.class_names), dirichlet=dirichlet, seed=SEED, index=index
                    )
                    kinds = [
                        Described(kind[draw.support], kind[draw.query], weight)
                        for kind, weight in zip(vectors, weights, strict=True)
                    ]
                    ids = draw.class_ids
                    support, query = Placing.of(kinds, ids).task(kinds)
                    means = class_means(support, ids, int(ids.max()) + 1)
                    scores = (
                        -squared_distances(query, means),
                        fixed_scores(support, ids, query),
                        network(support, ids, query).scores(query),
                    )
                    right = [
                        f"{100 * (s.argmax(1) == draw.query_class_ids).double().mean():.2f}"
                        for s in scores
                    ]
                    key = dict(zip(KEYS, (encoder, folder.name, pile, index), strict=True))
                    rows.append(key | dict(zip(ANSWERS, right, strict=True)))
            append_rows(arguments.out, COLUMNS, rows)
            print(f"{encoder}, {folder.name}: done", flush=True)


def encoder_grid(path: Path, answer: str = "fixed") -> Grid:
    """Return accuracies of an answer, and their mean minus that of EfficientNet-Lite0 alone."""
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for row in read_rows(path):
        here = found.setdefault((row["encoder"], row["pile"]), {})
        here[row["domain"], row["episode"]] = float(row[answer])
    domains = sorted({domain for values in found.values() for domain, _ in values})
    lines = []
    for (encoder, pile), values in found.items():
        base = found.get((BASE, pile), {})
        shared = [value - base[key] for key, value in values.items() if key in base]
        cells = []
        for domain in domains:
            of_domain = [value for (where, _), value in values.items() if where == domain]
            cells.append(f"{sum(of_domain) / len(of_domain):.1f}" if of_domain else NONE)
        mean = sum(values.values()) / len(values)
        difference = estimate_difference(shared).signed if encoder != BASE and shared else NONE
        lines.append(
            tuple(map(Text, (encoder, pile, *cells, f"{mean:.1f}", difference, str(len(values)))))
        )
    head = ("encoder", "pile", *domains, "mean", "minus Lite0 alone", "tasks")
    return Grid("", head, tuple(lines))


def table(arguments: argparse.Namespace) -> None:
    """Print a table for each answer."""
    for answer in ANSWERS:
        print(f"{answer}\n\n{markdown_grid(encoder_grid(arguments.out, answer))}")


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--encoders", nargs="+", default=[BASE])
    command.add_argument("--episodes", type=int, default=30)
    serve(command)


if __name__ == "__main__":
    main()
