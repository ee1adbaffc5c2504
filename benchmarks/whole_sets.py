"""Whole data sets labelled as a user would: five examples a class, the rest as the pile.

    python benchmarks/whole_sets.py run TARGETS OUT.csv --sets cropdiseases eurosat cub isic
    python benchmarks/whole_sets.py run TARGETS OUT.csv --sets eurosat --encoder resnet10 --full
    python benchmarks/whole_sets.py table OUT.csv
    python benchmarks/whole_sets.py figure FIGURE.png OUT.csv

Each run is the command `appl label` itself, with and without adaptation; its folder stays in
--runs, with the report. OUT.csv gets one row per run; what is there already is not done again.
`--full` lets every iteration of the adaptation take the whole pile: what the budget of large piles
costs is the difference to the run without it.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from _measuring import Row, append_rows, command_line, key_of, keys_in, read_rows, serve
from sklearn.metrics import f1_score

from appl.benchmark.statistics import calibration_error
from appl.core.seeds import generator_for
from appl.labelling.rows import read_rows as read_labels

KEYS = ("set", "encoder", "image_px", "seed", "adaptation")
COLUMNS = (
    *KEYS, "n_classes", "n_pile", "largest_share", "accuracy", "macro_f1", "calibration_error",
    "accepted", "wrong_accepted", "none_of_these", "is_adapted", "fell_back", "threads",
    "reading_s", "adapting_s", "labelling_s",
)  # fmt: skip
ADAPTATIONS = {
    "none": ["--no-adapt"],
    "budget": [],
    "full batch": ["--pool-images", "1000000", "--batch-images", "1000000"],
}
N_EXAMPLES = 5


def split(folder: Path, seed: int, work: Path) -> dict[str, str]:
    """Write examples.csv and pile.txt; return the true class of every image of the pile."""
    generator = generator_for("whole set", seed)
    examples, truth = [], {}
    for class_folder in sorted(path for path in folder.iterdir() if path.is_dir()):
        images = sorted(class_folder.iterdir())
        order = torch.randperm(len(images), generator=generator).tolist()
        examples += [(str(images[i]), class_folder.name) for i in order[:N_EXAMPLES]]
        truth |= {str(images[i]): class_folder.name for i in order[N_EXAMPLES:]}
    with (work / "examples.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *examples])
    (work / "pile.txt").write_text("\n".join(sorted(truth)) + "\n")
    return truth


def measure(job: Row, folder: Path, out: Path) -> Row:
    """Label one data set by the command line and compare it with the truth."""
    with tempfile.TemporaryDirectory() as work:
        truth = split(folder, job["seed"], Path(work))
        size = ["--size-px", str(job["image_px"])] if job["image_px"] else []
        command = [
            sys.executable, "-m", "appl", "label", f"{work}/examples.csv", f"{work}/pile.txt",
            "--out", str(out), "--encoder", job["encoder"], *size,
            *ADAPTATIONS[job["adaptation"]], "--json",
        ]  # fmt: skip
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    summary = json.loads(done.stdout)
    rows = read_labels(out / "labels.csv")
    right = [truth[row.path] == row.label for row in rows]
    sure = [float(row.confidence or 0) for row in rows]
    accepted = [row.decision == "accept" for row in rows]
    strange = [row.decision == "none-of-these" for row in rows]
    wrong = sum(a and not r for a, r in zip(accepted, right, strict=True))
    counts = [list(truth.values()).count(name) for name in set(truth.values())]
    macro = f1_score(
        [truth[row.path] for row in rows], [row.label for row in rows], average="macro"
    )
    return job | {
        "image_px": json.loads((out / "run.json").read_text())["size_px"],
        "n_classes": len(counts),
        "n_pile": len(rows),
        "largest_share": f"{100 * max(counts) / len(rows):.1f}",
        "accuracy": f"{100 * sum(right) / len(rows):.2f}",
        "macro_f1": f"{100 * macro:.2f}",
        "calibration_error": f"{100 * calibration_error(sure, right):.2f}",
        "accepted": f"{100 * sum(accepted) / len(rows):.2f}",
        "wrong_accepted": f"{100 * wrong / len(rows):.2f}",
        "none_of_these": f"{100 * sum(strange) / len(rows):.2f}",
        "is_adapted": int(summary["is_adapted"]),
        "fell_back": "; ".join(summary["fell_back"]),
        "threads": torch.get_num_threads(),  # the command's own, by OMP_NUM_THREADS
        **{f"{stage}_s": seconds for stage, seconds in summary["seconds"].items()},
    }


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing, one run after the other: each uses all cores."""
    for name in arguments.sets:
        for adaptation in ["full batch"] if arguments.full else ["none", "budget"]:
            values = (name, arguments.encoder, arguments.px, arguments.seed, adaptation)
            job = dict(zip(KEYS, values, strict=True))
            known = ("set", "encoder", "seed", "adaptation")
            if key_of(job, known) in keys_in(arguments.out, known):
                continue
            place = "-".join((name, arguments.encoder, adaptation.replace(" ", "-")))
            print(f"{place} …", flush=True)
            row = measure(job, arguments.targets / name, arguments.runs / place)
            append_rows(arguments.out, COLUMNS, [row])


def table(arguments: argparse.Namespace) -> None:
    """Print the runs as a Markdown table."""
    shown = (
        "set", "encoder", "image_px", "n_classes", "n_pile", "adaptation", "accuracy", "macro_f1",
        "calibration_error", "accepted", "wrong_accepted", "none_of_these", "threads",
        "adapting_s", "labelling_s",
    )  # fmt: skip
    print("|", " | ".join(column.replace("_", " ") for column in shown), "|")
    print("|" + " --- |" * len(shown))
    for row in read_rows(arguments.out):
        if row["fell_back"]:
            row["adaptation"] += " (not used)"
        print("|", " | ".join(row[column] for column in shown), "|")


def figure(arguments: argparse.Namespace) -> None:
    """Draw what becomes of each pile: accepted rightly and wrongly, for review, none of these."""
    import matplotlib.pyplot as plt

    rows = [row for path in arguments.files for row in read_rows(path)]
    shown = {("efficientnet_lite0", kind) for kind in ("none", "budget")}  # the command's own
    rows = [row for row in rows if (row["encoder"], row["adaptation"]) in shown][::-1]
    names = [
        f"{row['set']} ({row['n_classes']} classes), "
        + ("adapted" if row["adaptation"] == "budget" else "not adapted")
        for row in rows
    ]
    accepted, wrong, strange = (
        [float(row[column]) for row in rows]
        for column in ("accepted", "wrong_accepted", "none_of_these")
    )
    parts = {
        "accepted, right": ([a - w for a, w in zip(accepted, wrong, strict=True)], "#1d4ed8"),
        "accepted, wrong": (wrong, "#b91c1c"),
        "to review": ([100 - a - s for a, s in zip(accepted, strange, strict=True)], "#f0b45b"),
        "none of these": (strange, "#6b7280"),
    }
    plt.rcParams["font.size"] = 9
    canvas, axis = plt.subplots(figsize=(8, 0.6 + 0.36 * len(rows)))
    left = [0.0] * len(rows)
    for name, (widths, colour) in parts.items():
        axis.barh(names, widths, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for place, row in enumerate(rows):
        axis.text(101, place, f"{float(row['accuracy']):.1f} % right", va="center")
    axis.set(xlim=(0, 100), xlabel="% of the pile")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(ncol=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    canvas.savefig(arguments.out, dpi=150, bbox_inches="tight")


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "targets", run, table, figure=(figure, ("out", "files")))
    command.add_argument("--sets", nargs="+", default=["cropdiseases", "eurosat", "cub", "isic"])
    command.add_argument("--runs", type=Path, default=Path("runs"))
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=0)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--full", action="store_true", help="no budget: all images always")
    serve(command)


if __name__ == "__main__":
    main()
