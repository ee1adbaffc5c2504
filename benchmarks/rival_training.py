"""Write down how meta-trainings went: every epoch's loss and validation, from the weights' records.

    python benchmarks/rival_training.py RUN/weights.safetensors … --out FILE.csv

The files are those that `appl train meta --method NAME` leaves; each keeps its history.
"""

import argparse
import csv
import io
from pathlib import Path

from appl.core.files import write_atomically
from appl.weights import load_pretrained, weights_digest

COLUMNS = (
    "method", "weights_digest", "epoch", "loss", "training_accuracy", "validation_accuracy",
    "validation_interval", "kept",
)  # fmt: skip


def lines_of(path: Path) -> list[dict[str, object]]:
    """Return an epoch a line; the first is before the first task.

    Where the head learnt first, its epochs are called `heads 0`, `heads 1`, …; what follows goes on
    from the best of them.
    """
    pretrained = load_pretrained(str(path))
    if pretrained.head is None:
        raise SystemExit(f"{path}: no head; give weights of `appl train meta --method NAME`")
    history = pretrained.provenance["history"]
    kept = history[-1]
    if pretrained.provenance["checkpoint"] == "best.pt":  # of equals the last, as training has it
        kept = max(reversed(history), key=lambda epoch: epoch["validation_accuracy"])
    lines = []
    first = [
        e | {"epoch": f"heads {e['epoch']}"} for e in pretrained.provenance.get("head_history", [])
    ]
    for epoch in [*first, *history]:
        tasks = epoch["tasks"] or {}
        values = (
            tasks.get("loss"),
            100 * tasks["query_accuracy"] if tasks else None,
            epoch["validation_accuracy"],
            epoch["validation_interval"],
        )
        shown = ["" if value is None else f"{value:.4g}" for value in values]
        identity = (pretrained.head.name, weights_digest(pretrained)[:12], epoch["epoch"])
        lines.append(dict(zip(COLUMNS, (*identity, *shown, "yes" * (epoch is kept)), strict=True)))
    return lines


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for path in arguments.weights:
        writer.writerows(lines_of(path))
    write_atomically(arguments.out, text.getvalue().encode())


if __name__ == "__main__":
    main()
