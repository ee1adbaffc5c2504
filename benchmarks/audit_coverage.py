"""Does the interval of `appl audit` hold on real labels? Audits by the truth, many times over.

    python benchmarks/audit_coverage.py run DOMAINS OUT.csv
    python benchmarks/audit_coverage.py table OUT.csv

DOMAINS is a folder of class-folder trees. Of each the eight largest classes are labelled as a user
would (ResNet10 as it is, five examples of each, the rest of up to 100 images a class as the pile),
at a target error of 0.5: what is accepted shall hold errors, crowded as errors really are. Then 200
samples are drawn and judged by the truth.
"""

import argparse
import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from appl.core.compute import resolve_compute
from appl.labelling.audit import certify, draw_sample
from appl.labelling.inputs import find_inputs, images_below
from appl.labelling.session import Session
from appl.settings.labelling import LabelSettings
from appl.weights import load_pretrained

COLUMNS = (
    "domain", "n", "seed", "n_accepted", "n_all_wrong", "n_looked", "n_wrong", "low", "high",
    "at_most",
)  # fmt: skip
N_WAY, N_SHOT, MOST_OF_CLASS = 8, 5, 100
SIZES = (60, 150)
N_AUDITS = 200


def accepted_labels(domain: Path) -> tuple[list[str], list[float], list[bool]]:
    """Label a domain and return label, confidence and whether it is wrong, of what is accepted."""
    classes = {
        folder.name: sorted(images_below(folder)) for folder in sorted(domain.glob("[!.]*/"))
    }
    largest = sorted(classes, key=lambda name: -len(classes[name]))[:N_WAY]
    truth = {str(path): name for name in largest for path in classes[name][N_SHOT:MOST_OF_CLASS]}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with (work / "examples.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("path", "label"))
            for label in largest:
                writer.writerows((path.resolve(), label) for path in classes[label][:N_SHOT])
        (work / "pile.txt").write_text("\n".join(str(Path(path).resolve()) for path in truth))
        inputs = find_inputs(work / "examples.csv", str(work / "pile.txt"))
        settings = LabelSettings(encoder="resnet10", adapt=False, target_error=0.5)
        start = load_pretrained("resnet10")
        session = Session.open(inputs, settings, work / "run", start, resolve_compute())
        rows = [row for row in session.label() if row.decision == "accept"]
        session.close()
    right = {str(Path(path).resolve()): label for path, label in truth.items()}
    return (
        [row.label for row in rows],
        [row.confidence or 0.0 for row in rows],
        [right[row.path] != row.label for row in rows],
    )


def audits(domain: Path) -> Iterator[dict[str, object]]:
    """Audit the labels of a domain by the truth."""
    labels, confidences, wrong = accepted_labels(domain)
    for n in SIZES:
        for seed in range(N_AUDITS):
            sample = draw_sample(confidences, n, seed)
            verdicts = ["wrong" if wrong[i] else "right" for i in sample.chosen]
            found = certify(sample, verdicts, labels, confidences, wanted=0.05)
            values = {
                "domain": domain.name,
                "n": n,
                "seed": seed,
                "n_accepted": len(labels),
                "n_all_wrong": sum(wrong),
            }
            yield values | {name: getattr(found, name) for name in COLUMNS[5:]}


def run(arguments: argparse.Namespace) -> None:
    """Audit every domain."""
    torch.set_num_threads(1)
    with arguments.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for domain in sorted(arguments.domains.glob("[!.]*/")):
            for row in audits(domain):
                numbers = {name: f"{row[name]:.4f}" for name in ("low", "high", "at_most")}
                writer.writerow(row | numbers)


def table(arguments: argparse.Namespace) -> None:
    """Print how often the truth was inside."""
    with arguments.out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    print("| domain | accepted | wrong, % | looked at | inside the interval | below the bound |")
    print("|" + " --- |" * 6)
    for domain, n in dict.fromkeys((row["domain"], row["n"]) for row in rows):
        own = [row for row in rows if (row["domain"], row["n"]) == (domain, n)]
        n_accepted, n_wrong = int(own[0]["n_accepted"]), int(own[0]["n_all_wrong"])
        truth = n_wrong / n_accepted
        # The ends are stored with four decimals.
        inside = sum(float(r["low"]) - 1e-4 < truth < float(r["high"]) + 1e-4 for r in own)
        below = sum(truth < float(row["at_most"]) + 1e-4 for row in own)
        print(
            f"| {domain} | {n_accepted} | {100 * truth:.1f} | {own[0]['n_looked']} | "
            f"{inside} of {len(own)} | {below} of {len(own)} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("run")
    first.add_argument("domains", type=Path)
    first.add_argument("out", type=Path)
    first.set_defaults(act=run)
    second = commands.add_parser("table")
    second.add_argument("out", type=Path)
    second.set_defaults(act=table)
    arguments = parser.parse_args()
    arguments.act(arguments)
