"""A trained PCN against the class mean: the nearest prototype on frozen features, paired.

    python benchmarks/pcn_against_mean.py run DOMAINS OUT.csv --weights a.safetensors b/best.pt
    python benchmarks/pcn_against_mean.py table OUT.csv

DOMAINS is a folder of class-folder trees (`validation`, development domains, targets). Each image
is encoded once by the encoder of the weights; episodes (seed 31) are 5-way with 1, 5 and 20
examples per class and 15 queries. Slots are made as in training; missing ones are filled with the
class mean. What is in OUT.csv already is not done again.
"""

import argparse
from pathlib import Path

import torch
from _measuring import Row, append_rows, command_line, keys_in, read_rows, serve, weights_name

from appl.benchmark.formats import markdown_grid
from appl.benchmark.grids import NONE, Grid, Text
from appl.benchmark.statistics import estimate_difference
from appl.core.distances import class_means, squared_distances
from appl.core.episode import right_answers
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import PackedImages, pack_folder
from appl.errors import TaskError
from appl.method.classifier import PrototypeClassifier
from appl.settings.files import structure_settings, with_changes
from appl.settings.meta_training import MetaTrainSettings
from appl.weights import Pretrained, load_pretrained, weights_digest

KEYS = ("weights", "domain", "n_shot")
COLUMNS = (
    *KEYS, "n_episodes", "class_mean", "pcn", "difference", "interval", "moved", "weights_digest",
)  # fmt: skip
SEED = 31
SHOTS = (1, 5, 20)


def settings_of(pretrained: Pretrained) -> MetaTrainSettings:
    """Return the settings that a PCN was trained with; one that was not has the defaults."""
    values = pretrained.provenance.get("settings") if pretrained.holds_pcn else None
    if not values or "prototypes" not in values:
        values = {}
    return structure_settings(MetaTrainSettings, values, "weights")


@torch.no_grad()
def distance_moved(pretrained: Pretrained) -> float:
    """Return how far φ is from the class mean, as a share of the class mean's length."""
    weight = pretrained.pcn.linear.weight
    blocks = torch.eye(weight.shape[0]).repeat(1, pretrained.pcn.n_slots) / pretrained.pcn.n_slots
    return float((weight - blocks).norm() / blocks.norm())


@torch.no_grad()
def compare(
    pretrained: Pretrained, settings: MetaTrainSettings, data: PackedImages,
    features: torch.Tensor, n_shot: int, n_episodes: int,
) -> tuple[list[float], list[float]]:  # fmt: skip
    """Return accuracies in % of class means and of the PCN, episode by episode."""
    prototypes = with_changes(settings.prototypes, few_shots="class_mean")
    names, means, pcns = list(data.class_names), [], []
    for index in range(n_episodes):
        draw = draw_episode(data, names, n_shot=n_shot, seed=SEED, index=index)
        support, query = features[draw.support], features[draw.query]
        classifier = PrototypeClassifier(pretrained.pcn, draw.class_ids, prototypes)
        scaled = settings.feature_scale * support
        classifier.group(scaled)
        found = classifier.prototypes(scaled) / settings.feature_scale
        for kind, into in ((class_means(support, draw.class_ids, 5), means), (found, pcns)):
            right = right_answers(-squared_distances(query, kind), draw.query_class_ids)
            into.append(100 * right.double().mean().item())
    return means, pcns


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; a row is on disk as soon as it is there."""
    done = keys_in(arguments.out, KEYS)
    encoded: dict[tuple[str, str], torch.Tensor] = {}
    for file in arguments.weights:
        pretrained = load_pretrained(file)
        name = weights_name(file)
        settings = settings_of(pretrained)
        state = pretrained.encoder.state_dict().values()
        encoder = str(sum(float(v.double().abs().sum()) for v in state if v.is_floating_point()))
        for folder in sorted(p for p in arguments.source.iterdir() if p.is_dir()):
            data = pack_folder(folder, arguments.cache, 84)
            for n_shot in SHOTS:
                if (name, folder.name, str(n_shot)) in done:
                    continue
                if (encoder, folder.name) not in encoded:
                    rows = torch.arange(len(data.class_ids)).split(256)
                    parts = [pretrained.encoder.encode(data.images(part)) for part in rows]
                    encoded[encoder, folder.name] = torch.cat(parts)
                features = encoded[encoder, folder.name]
                try:
                    means, pcns = compare(
                        pretrained, settings, data, features, n_shot, arguments.episodes
                    )
                except TaskError:  # some classes have too few images for 20 examples and 15 queries
                    continue
                difference = estimate_difference([b - a for a, b in zip(means, pcns, strict=True)])
                row: Row = {
                    "weights": name,
                    "domain": folder.name,
                    "n_shot": n_shot,
                    "n_episodes": len(means),
                    "class_mean": f"{sum(means) / len(means):.2f}",
                    "pcn": f"{sum(pcns) / len(pcns):.2f}",
                    "difference": f"{difference.mean:.2f}",
                    "interval": f"{difference.interval:.2f}",
                    "moved": f"{distance_moved(pretrained):.4f}",
                    "weights_digest": weights_digest(pretrained)[:16],
                }
                append_rows(arguments.out, COLUMNS, [row])
        print(f"{name}: done", flush=True)


def pcn_grid(path: Path) -> Grid:
    """Return trained minus class mean, a line for each weights and number of shots."""
    rows = read_rows(path)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    lines = []
    for weights, n_shot in dict.fromkeys((row["weights"], row["n_shot"]) for row in rows):
        here = {
            row["domain"]: row
            for row in rows
            if (row["weights"], row["n_shot"]) == (weights, n_shot)
        }
        cells = [
            f"{float(here[d]['difference']):+.1f} ± {float(here[d]['interval']):.1f}"
            if d in here
            else NONE
            for d in domains
        ]
        moved = next(iter(here.values()))["moved"]
        lines.append(tuple(map(Text, (weights, n_shot, moved, *cells))))
    return Grid("", ("weights", "shots", "φ moved", *domains), tuple(lines))


def table(arguments: argparse.Namespace) -> None:
    """Print the differences."""
    print(markdown_grid(pcn_grid(arguments.out)))


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "source", run, table)
    command.add_argument("--cache", type=Path, default=Path("packed"))
    command.add_argument("--weights", nargs="+", required=True)
    command.add_argument("--episodes", type=int, default=300)
    serve(command)


if __name__ == "__main__":
    main()
