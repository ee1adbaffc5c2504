"""`appl label`: from a few examples and a pile to labels, confidence and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from appl.cli._labelling import say_findings, say_json, stage_bars

if TYPE_CHECKING:
    from appl.core.compute import Compute
    from appl.labelling.inputs import Inputs
    from appl.labelling.run_folder import Run
    from appl.settings.labelling import LabelSettings
    from appl.training.weights import Pretrained

Support = Annotated[
    Path,
    typer.Argument(
        metavar="EXAMPLES", help="A folder with a sub-folder for each class, or a CSV path,label."
    ),
]
Pile = Annotated[
    str,
    typer.Argument(
        metavar="PILE", help="What to label: a folder, a text file of paths, or a quoted glob."
    ),
]


def label(
    support: Support,
    pile: Pile,
    out: Annotated[Path, typer.Option(help="New folder for the results; a run there goes on.")],
    preset: Annotated[str, typer.Option(help="paper, released or robust.")] = "robust",
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="TOML with AdaptSettings, for experts.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="See `appl encoders`, or a .safetensors file.")
    ] = "efficientnet_lite0",
    size_px: Annotated[
        int, typer.Option(min=0, help="Side that images are brought to; 0: as advised.")
    ] = 0,
    adapt: Annotated[
        bool, typer.Option(help="Adapt the encoder to these images, or judge by it as it is.")
    ] = True,
    target_error: Annotated[
        float,
        typer.Option(min=0, max=1, help="Accept so few wrong labels, as a share of all images."),
    ] = 0.05,
    pool_images: Annotated[
        int, typer.Option(min=1, help="Images of a large pile that the adaptation knows.")
    ] = 1000,
    batch_images: Annotated[
        int, typer.Option(min=1, help="Images of the pile that one iteration takes.")
    ] = 300,
    sort: Annotated[
        str, typer.Option(help="no, copy or link: also a folder a class in the results.")
    ] = "no",
    previous: Annotated[
        Path | None, typer.Option("--from", help="Start from the model of an earlier run.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws from a large pile.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Label a pile of images from a few examples of each class.

    Writes labels.csv, report.html, model/ and run.json into the folder of --out.
    Stopped at any moment, the same command goes on where it was.
    """
    console = Console(stderr=as_json)
    with console.status("Loading PyTorch and the encoder …"):
        from appl.core.compute import resolve_compute
        from appl.labelling.inputs import find_inputs
        from appl.labelling.start import load_label_start
        from appl.settings import AdaptSettings, ComputeSettings, load_settings
        from appl.settings.files import structure_settings
        from appl.settings.labelling import LabelSettings

        adaptation = (
            load_settings(AdaptSettings, settings_file)
            if settings_file
            else AdaptSettings.preset(preset)
        )
        values = {
            "encoder": encoder,
            "size_px": size_px,
            "adapt": adapt,
            "target_error": target_error,
            "pool_images": pool_images,
            "batch_images": batch_images,
            "sort": sort,
            "seed": seed,
        }
        settings = structure_settings(LabelSettings, values, "appl label")
        settings = LabelSettings(**{**settings.__dict__, "adaptation": adaptation})
        inputs = find_inputs(support, pile)
        compute = resolve_compute(ComputeSettings(device=device))
        start = load_label_start(encoder, previous)
    run = labelled(console, inputs, settings, out, start, compute)
    if as_json:
        say_json(summary(run))
    else:
        say_summary(console, run)


def labelled(
    console: Console,
    inputs: "Inputs",
    settings: "LabelSettings",
    out: Path,
    start: "Pretrained",
    compute: "Compute",
) -> "Run":
    """Label a pile and write its report, telling a person how it goes."""
    from appl.labelling.run import label_pile
    from appl.labelling.run_folder import finish
    from appl.report.page import write_report

    console.print(
        f"{inputs.n_way} classes, {len(inputs.support)} examples, {len(inputs.pile)} images to "
        f"label; encoder {start.encoder.meta.name} ({start.encoder.meta.source})",
        highlight=False,
    )
    for note in inputs.notes:
        console.print(f"[yellow]•[/] {escape(note)}", highlight=False)
    try:
        with stage_bars(console) as on_progress:
            run = label_pile(
                inputs,
                settings,
                out,
                start,
                compute,
                on_progress=on_progress,
                on_findings=lambda findings: say_findings(console, findings),
            )
    except KeyboardInterrupt:
        console.print(f"Stopped. What is finished is kept in {out}; the same command goes on.")
        raise
    if run.record["state"] != "finished":
        with console.status("Writing the report …"):
            write_report(run.folder)
            finish(run)
    return run


def summary(run: "Run") -> dict[str, object]:
    """Return what a run found, in a few values."""
    from appl.labelling.rows import label_counts

    rows, model = run.rows, run.model
    by_class = dict.fromkeys(model.class_names, 0)
    for row in rows:
        if row.decision in ("accept", "review"):
            by_class[row.label] += 1
    return {
        "folder": str(run.folder),
        "n_images": len(rows),
        "decisions": label_counts(rows),
        "classes": by_class,
        "is_adapted": model.is_adapted,
        "fell_back": run.history.facts["fell_back"],
        "promised_error": model.acceptance.promised,
        "wanted_error": model.acceptance.wanted,
        "seconds": run.record["seconds"],
    }


def say_summary(console: Console, run: "Run") -> None:
    """Print what a run found and where to look at it."""
    found = summary(run)
    table = Table("decision", "images", "what it means")
    meanings = {
        "accept": f"sure enough: at most {run.model.acceptance.promised:.1%} of images like your "
        "examples end here wrongly",
        "review": "look at these yourself",
        "none-of-these": "unlike every class you gave",
        "unreadable": "could not be opened; labels.csv says why",
    }
    decisions = found["decisions"]
    assert isinstance(decisions, dict)
    for name, meaning in meanings.items():
        if name in decisions:
            table.add_row(name, str(decisions[name]), meaning)
    console.print(table)
    acceptance = run.model.acceptance
    if not acceptance.is_kept:
        console.print(
            f"[yellow]•[/] {acceptance.wanted:.1%} cannot be promised with "
            f"{acceptance.n_examples} examples to check on: the least is "
            f"1/({acceptance.n_examples} + 1) = {acceptance.promised:.1%}, and that is what "
            "'accept' stands for. More examples allow less.",
            highlight=False,
        )
    for reason in run.history.facts["fell_back"]:
        console.print(
            f"[yellow]•[/] The adaptation was not used, since {escape(reason)}.", highlight=False
        )
    console.print(f"Labels: [bold]{run.folder / 'labels.csv'}[/]", highlight=False)
    console.print(f"Look at: [bold]{run.folder / 'report.html'}[/]", highlight=False)
