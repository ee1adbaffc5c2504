"""`appl export` and `appl correct`: labels out to other programs, and labels of others in."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from appl.cli._labelling import say_json
from appl.cli.ask import AsJson, RunFolder
from appl.errors import SettingsError


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="Format of the labels; `--to list` names them.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="New file or folder, as the format has it.")
    ] = None,
    which: Annotated[
        str | None,
        typer.Option(help="accepted, labelled (also to review) or all; by default what suits."),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Links to the images instead of copies.")
    ] = False,
    onnx: Annotated[
        Path | None, typer.Option(help="Write the model as ONNX: pixels in, probabilities out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hand on the labels of a run in the format of another program, or its model as ONNX."""
    console = Console(stderr=as_json)
    if to == "list":
        _say_formats(console, as_json)
        return
    if (onnx is None) == (not to) or bool(to) != (out is not None):
        raise SettingsError(
            "export what? Say --to FORMAT --out PLACE (`--to list` names the formats), or "
            "--onnx FILE"
        )
    if onnx is not None:
        with console.status("Exporting …"):
            from appl.labelling.export import export_onnx
            from appl.labelling.model import LabelModel

            export_onnx(LabelModel.load(run), onnx)
        written, note, values = onnx, "", {"path": str(onnx), "format": "onnx"}
    else:
        assert out is not None
        with console.status("Exporting …"):
            from appl.exchange.exporting import export_run

            exported = export_run(run, to, out, which=which, link=link)
        written, note = exported.path, exported.note
        values = asdict(exported) | {"path": str(exported.path)}
        if not as_json:
            console.print(f"{exported.n_images:,} images ({exported.which})", highlight=False)
    if as_json:
        say_json(values)
        return
    console.print(f"Written: [bold]{escape(str(written))}[/]", highlight=False, soft_wrap=True)
    if note:
        console.print(escape(f"{note[0].upper()}{note[1:]}."), highlight=False, soft_wrap=True)


def correct(
    run: RunFolder,
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A table, folders, or an export of others.")
    ],
    from_: Annotated[
        str | None, typer.Option("--from", help="Format; by default by what is there.")
    ] = None,
    with_agreeing: Annotated[
        bool,
        typer.Option("--with-agreeing", help="Take labels that agree with the run's, too."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Correct labels of a run by a file that says better; they are examples of its next answer.

    Reads CSV, class folders, Parquet, COCO and Label Studio. Taken are the words of a person, and
    labels that differ from the run's.
    """
    console = Console(stderr=as_json)
    with console.status("Reading …"):
        from appl.exchange.importing import find_lessons, read_statements
        from appl.labelling.audit_files import unsaid
        from appl.labelling.corrections import (
            append_corrections,
            known_classes,
            read_corrections,
            said_at_once,
        )
        from appl.labelling.run_folder import adding_to

        with adding_to(run) as opened:
            found = find_lessons(
                opened, read_statements(labels, from_), with_agreeing=with_agreeing
            )
            new = unsaid(found.by_image, known_classes(read_corrections(run)))
            if new:
                append_corrections(run, said_at_once(new))
    if as_json:
        say_json(
            {
                "n_new": len(new),
                "n_taken": len(found.by_image),
                "n_agreeing": found.n_agreeing,
                "n_not_in_pile": len(found.not_in_pile),
            }
        )
        return
    console.print(
        f"New corrections: {len(new):,}, of {len(found.by_image):,} labels taken", highlight=False
    )
    if found.n_agreeing:
        console.print(
            f"{found.n_agreeing:,} agree with the run and may be its own words: left out "
            "(--with-agreeing takes them)",
            highlight=False,
        )
    if found.not_in_pile:
        first = escape(str(found.not_in_pile[0]))
        console.print(
            f"[yellow]•[/] {len(found.not_in_pile):,} are not in the pile, first {first}",
            highlight=False,
            soft_wrap=True,
        )
    if new:
        console.print("They are examples when the run's `appl label` command is given again.")


def _say_formats(console: Console, as_json: bool) -> None:
    from appl.exchange.format import FORMATS

    formats = {name: FORMATS.get(name) for name in FORMATS.names()}
    if as_json:
        say_json(
            {
                name: {
                    "summary": entry.summary,
                    "place": entry.place,
                    "which": entry.which,
                    "is_read": entry.read is not None,
                }
                for name, entry in formats.items()
            }
        )
        return
    table = Table("format", "what", "a", "images", "can be read")
    for name, entry in formats.items():
        table.add_row(name, entry.summary, entry.place, entry.which, "yes" if entry.read else "")
    console.print(table)
