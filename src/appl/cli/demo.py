"""`appl demo`: the main job on data that is installed with the package."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from appl.cli.label import labelled, say_summary

N_SUPPORT, N_PILE = 5, 40  # images per class


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the images and the results.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Which scans are examples, which the pile.")] = 0,
    preset: Annotated[str, typer.Option(help="paper, released or robust.")] = "robust",
    encoder: Annotated[str, typer.Option(help="See `appl encoders`.")] = "efficientnet_lite0",
    size_px: Annotated[int, typer.Option(min=32, help="Side of the images.")] = 96,
) -> None:
    """Label 400 handwritten digits from five examples of each, and count the right ones.

    Writes the scans as image files, runs `appl label` on them with and without
    adaptation, and compares the labels with the truth, which neither of them saw.
    """
    console = Console()
    with console.status("Loading PyTorch and the encoder …"):
        from appl.core.compute import resolve_compute
        from appl.datasets.digits import write_digits
        from appl.labelling.inputs import find_inputs
        from appl.settings.labelling import LabelSettings
        from appl.settings.solving import SolveSettings
        from appl.weights import load_pretrained

        settings = LabelSettings(
            encoder=encoder, size_px=size_px, solving=SolveSettings.preset(preset)
        )
        frozen = LabelSettings(
            encoder=encoder, size_px=size_px, adapt=False, solving=settings.solving
        )
        start = load_pretrained(encoder)
        compute = resolve_compute()
        # A folder for each draw: two draws in one folder would mix examples and pile.
        given = out / f"digits-{seed}"
        support, pile, truth = write_digits(given, N_SUPPORT, N_PILE, seed)
        inputs = find_inputs(support, str(pile))
    console.print(f"appl label {support} {pile} --out {out / f'run-{seed}'} --size-px {size_px}")
    run = labelled(console, inputs, settings, out / f"run-{seed}", start, compute)
    say_summary(console, run)
    console.print("The same without adaptation, to compare:")
    plain = labelled(console, inputs, frozen, out / f"run-{seed}-frozen", start, compute)
    table = Table("", "right labels", "of the accepted", "seconds")
    for title, result in (("without adaptation", plain), ("adapted to the pile", run)):
        rows = result.rows or []
        right = [row.label == truth[Path(row.path).name] for row in rows]
        accepted = [r for r, row in zip(right, rows, strict=True) if row.decision == "accept"]
        table.add_row(
            title,
            f"{sum(right) / len(right):.1%}",
            f"{sum(accepted) / len(accepted):.1%} of {len(accepted)}" if accepted else "none",
            f"{sum(result.run.record['seconds'].values()):.0f}",
        )
    console.print(table)
