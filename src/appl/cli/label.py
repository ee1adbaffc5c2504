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
    from appl.labelling.session import Session
    from appl.settings.labelling import LabelSettings
    from appl.weights import Pretrained

Support = Annotated[
    Path,
    typer.Argument(
        metavar="EXAMPLES",
        help="A folder with a sub-folder for each class, a CSV path,label, Parquet or JSON (docs).",
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
        Path | None,
        typer.Option(
            "--settings",
            help="TOML with all settings of a preset, for experts; see `appl presets`.",
        ),
    ] = None,
    encoder: Annotated[
        str,
        typer.Option(help="See `appl encoders`: a name, NAME@FILE, timm:MODEL, a file; A+B: both."),
    ] = "efficientnet_lite0",
    size_px: Annotated[
        int,
        typer.Option(
            min=0, help="Side length that images are resized to; 0: as advised for the encoder."
        ),
    ] = 0,
    adapt: Annotated[
        bool, typer.Option(help="Adapt the encoder to these images, or use it as it is (faster).")
    ] = True,
    target_error: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="At most this share of all images may be accepted with a wrong label.",
        ),
    ] = 0.05,
    pool_images: Annotated[
        int, typer.Option(min=1, help="How many images of a large pile the adaptation uses.")
    ] = 1000,
    batch_images: Annotated[
        int, typer.Option(min=1, help="How many images of the pile one iteration uses.")
    ] = 300,
    sort: Annotated[
        str, typer.Option(help="no, copy or link: also put the images into one folder per class.")
    ] = "no",
    previous: Annotated[
        Path | None, typer.Option("--from", help="Start from the model of an earlier run.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides which images of a large pile the adaptation uses.")
    ] = 0,
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
        from appl.exchange.importing import find_inputs
        from appl.settings import ComputeSettings, load_settings
        from appl.settings.files import structure_settings
        from appl.settings.labelling import LabelSettings
        from appl.settings.solving import SolveSettings
        from appl.weights import load_pretrained

        solving = (
            load_settings(SolveSettings, settings_file)
            if settings_file
            else SolveSettings.preset(preset)
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
        settings = LabelSettings(**{**settings.__dict__, "solving": solving})
        inputs = find_inputs(support, pile)
        compute = resolve_compute(ComputeSettings(device=device))
        start = load_pretrained(previous or encoder)
    session = labelled(console, inputs, settings, out, start, compute)
    if as_json:
        say_json(summary(session))
    else:
        say_summary(console, session)


def labelled(
    console: Console,
    inputs: "Inputs",
    settings: "LabelSettings",
    out: Path,
    start: "Pretrained",
    compute: "Compute",
) -> "Session":
    """Label a pile and write its report, telling a person how it goes."""
    from appl.labelling.session import Session
    from appl.report.page import write_report

    console.print(
        f"{inputs.n_way} classes, {len(inputs.support)} examples, {len(inputs.pile)} images to "
        f"label; encoder {start.name} ({start.source})",
        highlight=False,
    )
    for note in inputs.notes:
        console.print(f"[yellow]•[/] {escape(note)}", highlight=False)
    session = Session.open(
        inputs,
        settings,
        out,
        start,
        compute,
        on_findings=lambda findings: say_findings(console, findings),
    )
    try:
        with stage_bars(console) as session.on_progress:
            session.label()
        if not session.is_finished:
            with console.status("Writing the report …"):
                write_report(session.folder)
        session.finish()
    except KeyboardInterrupt:
        console.print(f"Stopped. What is finished is kept in {out}; the same command goes on.")
        raise
    finally:
        session.close()
    return session


def summary(session: "Session") -> dict[str, object]:
    """Return what a run found, in a few values."""
    from appl.labelling.rows import label_counts

    assert session.rows is not None and session.model is not None and session.history is not None
    model = session.model
    by_class = dict.fromkeys(model.class_names, 0)
    for row in session.rows:
        if row.decision in ("accept", "review"):
            by_class[row.label] += 1
    return {
        "folder": str(session.folder),
        "n_images": len(session.rows),
        "decisions": label_counts(session.rows),
        "classes": by_class,
        "is_adapted": model.is_adapted,
        "fell_back": session.history.facts["fell_back"],
        "promised_error": model.acceptance.promised,
        "wanted_error": model.acceptance.wanted,
        "seconds": session.run.record["seconds"],
    }


def say_summary(console: Console, session: "Session") -> None:
    """Print what a run found and where to look at it."""
    assert session.model is not None and session.history is not None
    found, acceptance = summary(session), session.model.acceptance
    table = Table("decision", "images", "what it means")
    meanings = {
        "accept": f"sure enough: at most {acceptance.promised:.1%} of images like your "
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
    if not acceptance.is_kept:
        console.print(
            f"[yellow]•[/] {acceptance.wanted:.1%} cannot be promised with "
            f"{acceptance.n_examples} examples to check on: the least is "
            f"1/({acceptance.n_examples} + 1) = {acceptance.promised:.1%}, and that is what "
            "'accept' stands for. More examples allow less.",
            highlight=False,
        )
    for reason in session.history.facts["fell_back"]:
        console.print(
            f"[yellow]•[/] The adaptation was not used, since {escape(reason)}.", highlight=False
        )
    console.print(f"Labels: [bold]{session.folder / 'labels.csv'}[/]", highlight=False)
    console.print(f"Look at: [bold]{session.folder / 'report.html'}[/]", highlight=False)
    console.print(f"Correct: [bold]appl studio {escape(str(session.folder))}[/]", highlight=False)
    if advice := better_encoder(session.start.name):
        console.print(escape(advice), highlight=False)


def better_encoder(name: str) -> str | None:
    """Name what is worth having beside an encoder and how to get it, where there is something."""
    from appl.encoders import BESIDE
    from appl.weights.hub import cached_weights

    if name not in BESIDE:
        return None
    other, gain = BESIDE[name]
    get = f"pip install 'appl[hub]', `appl encoders get {other}`, then "
    return (
        f"A second encoder beside this one brought {gain} on other images: "
        f"{'' if cached_weights(other) else get}--encoder {name}+{other}"
    )
