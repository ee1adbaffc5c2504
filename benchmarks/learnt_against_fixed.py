"""The transductive prototype network against the fixed rule, frozen encoders, paired.

    python benchmarks/learnt_against_fixed.py run DOMAINS OUT.csv --encoder resnet10 --px 84
    python benchmarks/learnt_against_fixed.py table OUT.csv

DOMAINS is a folder of class-folder trees (validation classes, development domains, or targets).
Each image is described once, kept as fp16; episodes (seed 32) are 5-way with 1, 5 and 20 examples
per class, even and uneven (Dirichlet, concentration 2), with features alone (`plain`) and with
texture and mirror images (`full`). --network is a file of `appl train meta --method
transductive_pcn`, or the one that ships. With --encoder A+B both describe the images, each at its
own size. What is in OUT.csv already is not done again.
"""

import argparse
from pathlib import Path

import torch
from _measuring import Row, append_rows, command_line, keys_in, read_rows, serve

from appl.benchmark.grids import Grid, Text
from appl.benchmark.statistics import Estimate, calibration_error, estimate_difference, mean_of
from appl.datasets._registry import DATASETS
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import PackedImages, pack_folder
from appl.encoders import sizes_side_by_side
from appl.errors import TaskError
from appl.training.task_pools import TEXTURE_WEIGHT, Domain, described_pool
from appl.training.transductive import fixed_scores
from appl.transduction.learnt import NETWORKS, read_network, shipped_network
from appl.transduction.network import TransductivePCN
from appl.transduction.placing import Described, Placing
from appl.weights import Pretrained, class_mean_pcn, load_pretrained, weights_digest

KEYS = ("network", "encoder", "image_px", "vectors", "domain", "n_shot", "pile")
COLUMNS = (
    *KEYS, "n_episodes", "fixed", "learnt", "difference", "interval", "calibration_fixed",
    "calibration_learnt",
)  # fmt: skip
SEED = 32
SHOTS = (1, 5, 20)
PILES = {"even": 0.0, "uneven": 2.0}


def describe(
    start: Pretrained, data: PackedImages, cache: Path
) -> tuple[list[list[torch.Tensor]], list[float]]:
    """Return plain and full vectors of all images by each encoder, and the weights of the full."""
    plain: list[torch.Tensor] = []
    full: list[torch.Tensor] = []
    weights: list[float] = []
    for encoder, own_px in zip(start.encoders, sizes_side_by_side(start.encoders), strict=True):
        digest = weights_digest(Pretrained(encoder, class_mean_pcn(encoder)))[:16]
        size_px = own_px or data.size_px
        file = cache / "pools" / f"{data.digest[:16]}-{digest}-{size_px}px.safetensors"
        domain = Domain("all", data.class_ids, data.images)
        pool = described_pool(domain, encoder, size_px, file, lambda _done, _n: None)
        plain.append(pool.kinds[0].float())
        full += [kind.float() for kind in pool.kinds[1:]]
        weights += [1.0, TEXTURE_WEIGHT][: len(pool.kinds) - 1]
    return [plain, full], weights


@torch.no_grad()
def compare(
    network: TransductivePCN, data: PackedImages, vectors: list[torch.Tensor],
    weights: list[float], n_shot: int, dirichlet: float, n_episodes: int,
) -> Row:  # fmt: skip
    """Return the measured columns of a row."""
    names, right, probs = list(data.class_names), ([], []), ([], [])
    accuracies: tuple[list[float], list[float]] = ([], [])
    for index in range(n_episodes):
        draw = draw_episode(data, names, n_shot=n_shot, dirichlet=dirichlet, seed=SEED, index=index)
        kinds = [
            Described(kind[draw.support], kind[draw.query], weight)
            for kind, weight in zip(vectors, weights, strict=True)
        ]
        support, query = Placing.of(kinds, draw.class_ids).task(kinds)
        both = (
            fixed_scores(support, draw.class_ids, query),
            network(support, draw.class_ids, query).scores(query),
        )
        for number, scores in enumerate(both):
            hit = scores.argmax(1) == draw.query_class_ids
            accuracies[number].append(100 * hit.double().mean().item())
            right[number].append(hit)
            probs[number].append(torch.softmax(scores, 1))
    difference = estimate_difference([b - a for a, b in zip(*accuracies, strict=True)])
    errors = [
        100 * calibration_error(torch.cat(p).amax(1).numpy(), torch.cat(r).numpy())
        for p, r in zip(probs, right, strict=True)
    ]
    return {
        "n_episodes": n_episodes,
        "fixed": f"{sum(accuracies[0]) / n_episodes:.2f}",
        "learnt": f"{sum(accuracies[1]) / n_episodes:.2f}",
        "difference": f"{difference.mean:.2f}",
        "interval": f"{difference.interval:.2f}",
        "calibration_fixed": f"{errors[0]:.1f}",
        "calibration_learnt": f"{errors[1]:.1f}",
    }


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; a row is on disk as soon as it is there."""
    torch.set_num_threads(1)
    done = keys_in(arguments.out, KEYS)
    if arguments.network in NETWORKS:
        name, network = arguments.network, shipped_network(arguments.network)
    else:
        path = Path(arguments.network)
        name, network = path.parent.name, read_network(path.read_bytes())
    start = load_pretrained(arguments.encoder)
    encoder = "+".join(part.split("@")[0] for part in arguments.encoder.split("+"))
    for folder in sorted(p for p in arguments.source.iterdir() if p.is_dir()):
        data = pack_folder(folder, arguments.cache, arguments.px)
        described = None
        for n_shot in SHOTS:
            for pile, dirichlet in PILES.items():
                for number, kind in enumerate(("plain", "full")):
                    key = (name, encoder, str(arguments.px), kind, folder.name, str(n_shot), pile)
                    if key in done:
                        continue
                    described = described or describe(start, data, arguments.cache)
                    weights = described[1] if number else [1.0] * len(described[0][0])
                    try:
                        found = compare(
                            network, data, described[0][number], weights, n_shot, dirichlet,
                            arguments.episodes,
                        )  # fmt: skip
                    except TaskError:  # too few images for 20 examples and 15 queries
                        continue
                    append_rows(arguments.out, COLUMNS, [dict(zip(KEYS, key, strict=True)) | found])
        print(f"{folder.name}: done", flush=True)


def table(arguments: argparse.Namespace) -> None:
    """Print learnt minus fixed rule, a row for each encoder and kind of task."""
    rows = read_rows(arguments.out)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    kinds = dict.fromkeys(tuple(row[k] for k in KEYS if k != "domain") for row in rows)
    print(f"| network | encoder | px | vectors | shots | pile | {' | '.join(domains)} | mean |")
    print("| --- " * (len(domains) + 7) + "|")
    for kind in kinds:
        here = {
            row["domain"]: row
            for row in rows
            if tuple(row[k] for k in KEYS if k != "domain") == kind
        }
        cells = [
            f"{float(here[d]['difference']):+.1f} ± {float(here[d]['interval']):.1f}"
            if d in here else "–"
            for d in domains
        ]  # fmt: skip
        mean = sum(float(row["difference"]) for row in here.values()) / len(here)
        print(f"| {' | '.join(kind)} | {' | '.join(cells)} | {mean:+.2f} |")


def learnt_grid(path: Path, where: str) -> Grid:
    """Return the means over the domains, with texture and mirror images: a line per encoder.

    `where` is `targets`, or `development`: development domains and the source's validation classes.
    """
    targets = {name for name in DATASETS.names() if DATASETS.get(name).role == "target"}
    rows = [
        row for row in read_rows(path)
        if row["vectors"] == "full" and (row["domain"] in targets) == (where == "targets")
    ]  # fmt: skip
    lines = []
    for encoder, n_shot in dict.fromkeys((row["encoder"], row["n_shot"]) for row in rows):
        here = [row for row in rows if (row["encoder"], row["n_shot"]) == (encoder, n_shot)]
        cells = []
        for pile in PILES:
            found = [row for row in here if row["pile"] == pile]
            value = mean_of([_difference(row) for row in found])
            least = min(found, key=lambda row: float(row["difference"]))
            cells += [
                Text(value.signed, "bold" if value.excludes_zero else ""),
                Text(f"{least['domain']} {_difference(least).signed}"),
            ]
        errors = [
            sum(float(row[f"calibration_{rule}"]) for row in here) / len(here)
            for rule in ("fixed", "learnt")
        ]
        lines.append(
            (Text(encoder), Text(n_shot), *cells, Text(f"{errors[0]:.1f} → {errors[1]:.1f}"))
        )
    head = (
        "encoder", "shots", "even piles", "lowest", "uneven piles", "lowest",
        "calibration error, %",
    )  # fmt: skip
    return Grid("", head, tuple(lines))


def _difference(row: dict[str, str]) -> Estimate:
    values = (float(row[name]) for name in ("difference", "interval"))
    return Estimate(*values, int(row["n_episodes"]))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--encoder", default="resnet10")
    command.add_argument("--px", type=int, default=84)
    command.add_argument("--network", default="tpcn-1")
    command.add_argument("--episodes", type=int, default=100)
    serve(command)


if __name__ == "__main__":
    main()
