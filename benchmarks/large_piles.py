"""Seconds and memory of `appl label` on piles of 75 to 50,000 images.

    python benchmarks/large_piles.py run IMAGES OUT.csv --sizes 75 1000 10000 50000
    python benchmarks/large_piles.py table OUT.csv

IMAGES is a class-folder tree; five examples of each of its first five classes, and a pile of the
other images of these classes under as many names as it takes. Each run is the command itself in a
process of its own, whose peak memory the system tells. Beside it the encoder's own speed is
measured in the same minute: how fast it turns images that are in memory into features.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from _measuring import append_rows, command_line, read_rows, serve

from appl.core.compute import resolve_compute
from appl.encoders import CACHE_BATCH
from appl.weights import load_pretrained

COLUMNS = (
    "encoder", "image_px", "n_pile", "reading_s", "adapting_s", "labelling_s", "report_s",
    "total_s", "peak_mb", "report_mb", "views", "encoder_ms_an_image", "share_of_encoder",
)  # fmt: skip
N_CLASSES, N_EXAMPLES, N_TIMED = 5, 5, 512


def lay_out(source: Path, n_pile: int, folder: Path) -> None:
    """Make examples and a pile of links to real images."""
    names = itertools.count()
    kept = []
    for class_folder in sorted(path for path in source.iterdir() if path.is_dir())[:N_CLASSES]:
        images = sorted(class_folder.iterdir())
        place = folder / "examples" / class_folder.name
        place.mkdir(parents=True)
        for image in images[:N_EXAMPLES]:
            (place / image.name).symlink_to(image.resolve())
        kept += images[N_EXAMPLES:]
    (folder / "pile").mkdir()
    for image in itertools.islice(itertools.cycle(kept), n_pile):
        (folder / "pile" / f"{next(names):06d}{image.suffix}").symlink_to(image.resolve())


@torch.no_grad()
def encoder_seconds(encoder_name: str, px: int) -> float:
    """Return the encoder's own time for an image, in batches as labelling takes them."""
    encoder = load_pretrained(encoder_name).encoder.place(resolve_compute())
    images = torch.randint(0, 256, (N_TIMED, 3, px, px), dtype=torch.uint8)
    images = images.contiguous(memory_format=torch.channels_last)
    encoder.describe(encoder.normalise(images[:CACHE_BATCH]))
    began = time.perf_counter()
    for part in images.split(CACHE_BATCH):
        encoder.describe(encoder.normalise(part))
    return (time.perf_counter() - began) / N_TIMED


def measure(arguments: argparse.Namespace, n_pile: int) -> dict[str, object]:
    """Label one pile in a process of its own."""
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        folder = Path(work)
        lay_out(arguments.images, n_pile, folder)
        out = folder / "run"
        command = [
            sys.executable, "-m", "appl", "label", str(folder / "examples"), str(folder / "pile"),
            "--out", str(out), "--encoder", arguments.encoder, "--json",
        ]  # fmt: skip
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        total = time.perf_counter() - began
        if status:
            raise SystemExit(f"appl label failed on {n_pile} images")
        record = json.loads((out / "run.json").read_text())
        model = json.loads((out / "model" / "model.json").read_text())
        report_mb = (out / "report.html").stat().st_size / 1e6
        if arguments.reports is not None:
            arguments.reports.mkdir(parents=True, exist_ok=True)
            name = f"{arguments.encoder}-{n_pile}.html"
            shutil.copyfile(out / "report.html", arguments.reports / name)
    seconds = record["seconds"]
    views = 1 + model["preprocessing"]["mirrored"]
    own = encoder_seconds(arguments.encoder, record["size_px"])
    return {
        "encoder": arguments.encoder,
        "image_px": record["size_px"],
        "n_pile": n_pile,
        **{f"{stage}_s": value for stage, value in seconds.items()},
        "report_s": f"{total - sum(seconds.values()):.1f}",
        "total_s": f"{total:.1f}",
        "peak_mb": f"{usage.ru_maxrss / 1024:.0f}",
        "report_mb": f"{report_mb:.1f}",
        "views": views,
        "encoder_ms_an_image": f"{1000 * own:.2f}",
        "share_of_encoder": f"{own * views * n_pile / seconds['labelling']:.2f}",
    }


def run(arguments: argparse.Namespace) -> None:
    """Measure the sizes that are missing."""
    done = {(row["encoder"], int(row["n_pile"])) for row in read_rows(arguments.out)}
    for n_pile in arguments.sizes:
        if (arguments.encoder, n_pile) in done:
            continue
        print(f"{n_pile} images …", flush=True)
        row = measure(arguments, n_pile)
        append_rows(arguments.out, COLUMNS, [row])


def table(arguments: argparse.Namespace) -> None:
    """Print the runs as a Markdown table."""
    print("|", " | ".join(column.replace("_", " ") for column in COLUMNS), "|")
    print("|" + " --- |" * len(COLUMNS))
    for row in read_rows(arguments.out):
        print("|", " | ".join(row[column] for column in COLUMNS), "|")


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "images", run, table)
    command.add_argument("--sizes", type=int, nargs="+", default=[75, 1000, 10_000, 50_000])
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--work", type=Path, help="folder for the piles and the runs")
    command.add_argument("--reports", type=Path, help="keep the reports there")
    serve(command)


if __name__ == "__main__":
    main()
