"""How many words reach how many right labels: what the studio asks for, against random order.

    python benchmarks/studio_reviewer.py run DOMAINS OUT.csv --names plankton textures hand_digits
    python benchmarks/studio_reviewer.py table OUT.csv

DOMAINS holds class-folder trees. One example of each class is given, the others are the pile; a
simulated person answers from the truth, 25 images at a time, either what `appl studio` asks for
("Ask me") or a random choice, and teaches after each. What was said counts as right.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import torch
from _measuring import append_rows, command_line, read_rows, serve

from appl.core.compute import resolve_compute
from appl.core.seeds import generator_for
from appl.labelling.asking import teach_next
from appl.labelling.inputs import Inputs
from appl.labelling.reopening import reopen
from appl.labelling.session import Session
from appl.settings.labelling import LabelSettings
from appl.weights import load_pretrained

COLUMNS = ("domain", "order", "n_said", "n_images", "right")
AT_ONCE, MOST_SAID = 25, 300


def first_answer(source: Path, folder: Path) -> list[str]:
    """Label a pile from one example of each class; return the truth."""
    classes = sorted(path for path in source.iterdir() if path.is_dir())
    members = [sorted(path.iterdir()) for path in classes]
    pile = sorted(path for part in members for path in part[1:])
    inputs = Inputs(
        tuple(path.name for path in classes),
        tuple(part[0] for part in members),
        tuple(range(len(classes))),
        tuple(pile),
    )
    settings = LabelSettings(adapt=False)
    start = load_pretrained(settings.encoder)
    session = Session.open(inputs, settings, folder, start, resolve_compute())
    session.keeps_vectors = True
    session.answer()
    session.finish()
    return [path.parent.name for path in pile]


def review(folder: Path, truth: list[str], order: str) -> list[tuple[int, float]]:
    """Answer what is asked from the truth; return how many were said, and the right share."""
    session = reopen(folder, resolve_compute())
    drawn = torch.randperm(len(truth), generator=generator_for("reviewer")).tolist()
    found = []
    while True:
        right = [row.label == name for row, name in zip(session.rows or [], truth, strict=True)]
        found.append((len(session.known), sum(right) / len(right)))
        if len(session.known) >= min(MOST_SAID, len(truth) - AT_ONCE):
            break
        asked = drawn[len(session.known) :][:AT_ONCE]
        if order == "asked":
            asked = teach_next(session, AT_ONCE)
        session.correct({image: truth[image] for image in asked}, who="simulated")
        session.answer()
    session.close()
    return found


def run(given: argparse.Namespace) -> None:
    """Review every domain in both orders."""
    for name in given.names:
        with tempfile.TemporaryDirectory(prefix="appl-reviewer-") as place:
            truth = first_answer(given.domains / name, Path(place, "first"))
            for order in ("asked", "random"):
                folder = Path(shutil.copytree(Path(place, "first"), Path(place, order)))
                rows = [
                    {
                        "domain": name,
                        "order": order,
                        "n_said": n_said,
                        "n_images": len(truth),
                        "right": f"{right:.4f}",
                    }
                    for n_said, right in review(folder, truth, order)
                ]
                append_rows(given.out, COLUMNS, rows)
                print(
                    name, order, " ".join(f"{r['n_said']}:{r['right']}" for r in rows), flush=True
                )


def table(given: argparse.Namespace) -> None:
    """Print right labels by words, as in docs/studio.md."""
    rows = read_rows(given.out)
    steps = (0, 50, 100, 200, 300)
    print(f"| domain | order | {' | '.join(f'{n} said' for n in steps)} | 90 % at |")
    print(f"| --- | --- | {' | '.join('---:' for _ in steps)} | ---: |")
    for domain, order in dict.fromkeys((row["domain"], row["order"]) for row in rows):
        mine = {
            int(row["n_said"]): float(row["right"])
            for row in rows
            if (row["domain"], row["order"]) == (domain, order)
        }
        reached = next((str(n) for n, right in sorted(mine.items()) if right >= 0.9), "not yet")
        cells = [f"{mine[n]:.1%}" if n in mine else "–" for n in steps]
        print(f"| {domain} | {order} | {' | '.join(cells)} | {reached} |")


if __name__ == "__main__":
    measuring = command_line(__doc__, "domains", run, table)
    measuring.add_argument("--names", nargs="+", default=["plankton", "textures", "hand_digits"])
    serve(measuring)
