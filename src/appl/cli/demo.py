"""`appl demo`: the main job on data that is installed with the package."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the images and the picture.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Which scans are examples, which the pile.")] = 0,
    preset: Annotated[str, typer.Option(help="paper, released or robust.")] = "robust",
    encoder: Annotated[str, typer.Option(help="See `appl encoders`.")] = "efficientnet_lite0",
    size_px: Annotated[int, typer.Option(min=32, help="Side of the images.")] = 96,
) -> None:
    """Tell ten handwritten digits apart from five examples of each and 400 unlabelled scans."""
    console = Console()
    with console.status("Loading PyTorch and the encoder …"):
        from appl.core.compute import resolve_compute
        from appl.encoders import ENCODERS
        from appl.labelling.demo import load_demo_episode, run_demo
        from appl.report.figures import draw_adaptation
        from appl.settings.adaptation import AdaptSettings

        settings = AdaptSettings.preset(preset)
        network = ENCODERS.get(encoder)()
        episode = load_demo_episode(out, size_px, seed)
    task = episode.task
    console.print(
        f"{task.n_way} classes, {task.n_support} examples, {task.n_query} unlabelled images "
        f"in [bold]{out}[/]; encoder {encoder} ({network.meta.source}), {size_px} px"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("Adapting the encoder to the pile", total=settings.n_iterations)
        result = run_demo(
            network, episode, settings, resolve_compute(), lambda _: progress.advance(bar)
        )
    picture = out / "adaptation.png"
    draw_adaptation(
        picture,
        result.adaptation.records,
        result.label_accuracies,
        result.protonet_accuracy,
        result.appl_accuracy,
    )
    table = Table("method", "right labels", "seconds")
    table.add_row(
        "ProtoNet (no adaptation)",
        f"{result.protonet_accuracy:.1%}",
        f"{result.protonet_s:.1f}",
    )
    table.add_row(f"APPL ({preset})", f"{result.appl_accuracy:.1%}", f"{result.appl_s:.1f}")
    console.print(table)
    if result.adaptation.termination != "finished":
        console.print(f"[yellow]The adaptation stopped early: {result.adaptation.termination}.[/]")
    for note in result.adaptation.notes:
        console.print(f"[yellow]{note}[/]")
    changes = ", ".join(result.adaptation.changes).replace("_", " ") or "none"
    console.print(f"Changes that these images bear (the task was asked): {changes}")
    console.print(f"How the labels improved, iteration by iteration: [bold]{picture}[/]")
