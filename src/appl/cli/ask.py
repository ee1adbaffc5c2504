"""Commands that ask a finished run or look at the input; none of them learns anything."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from appl.cli._labelling import say_findings, say_json, stage_bars
from appl.cli.label import Pile, Support

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run (--out of `appl label`).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def predict(
    run: RunFolder,
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGES", help="Images, folders, lists or globs.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write a CSV like labels.csv.")] = None,
    as_json: AsJson = False,
) -> None:
    """Label new images by the model of a run, which stays as it is."""
    console = Console(stderr=as_json)
    with console.status("Loading the model …"):
        from appl.core.compute import resolve_compute
        from appl.labelling.inputs import find_pile
        from appl.labelling.judging import judge_files
        from appl.labelling.model import LabelModel
        from appl.labelling.rows import write_rows

        paths = [path for place in images for path in find_pile(place)]
        model = LabelModel.load(run).place(resolve_compute())
    with stage_bars(console) as on_progress:
        rows = judge_files(model, paths, lambda *n: on_progress("labelling", *n))
    if out is not None:
        write_rows(out, rows)
    if as_json:
        say_json([asdict(row) for row in rows])
        return
    table = Table("image", "label", "confidence", "decision")
    for row in rows:
        sure = "" if row.confidence is None else f"{row.confidence:.0%}"
        table.add_row(escape(row.path), escape(row.label or row.problem), sure, row.decision)
    console.print(table)


def explain(
    run: RunFolder,
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="An image of the pile, or a new one.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say why an image gets its label."""
    console = Console(stderr=as_json)
    with console.status("Loading the model …"):
        from appl.labelling.explain import explain as explain_image

        found = explain_image(run, image)
    if as_json:
        say_json(asdict(found))
        return
    row = found.row
    console.print(
        f"[bold]{escape(row.label)}[/], {row.confidence:.0%} sure; decision: {row.decision}; "
        f"novelty {row.novelty} (1 is as far as the farther examples are)",
        highlight=False,
    )
    table = Table("class", "confidence", "distance")
    for name, sure, distance in found.classes[:5]:
        table.add_row(escape(name), f"{sure:.1%}", f"{distance:.3f}")
    console.print(table)
    table = Table("nearest examples", "class", "distance")
    for name, class_name, distance in found.nearest:
        table.add_row(escape(name), escape(class_name), f"{distance:.3f}")
    console.print(table)
    if found.history:
        steps = ", ".join(f"{name} from iteration {n}" for n, name in found.history)
        console.print(f"While adapting it was taken for: {escape(steps)}.", highlight=False)
    else:
        console.print("The adaptation did not see this image.")


def suggest(
    run: RunFolder,
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Name the images whose labels would help most: unsure ones, no two of them alike."""
    console = Console(stderr=as_json)
    with console.status("Looking at the least sure images …"):
        from appl.labelling.suggest import suggest as suggest_images

        rows = suggest_images(run, n)
    if as_json:
        say_json([asdict(row) for row in rows])
        return
    table = Table("image", "now", "confidence", "or")
    for row in rows:
        table.add_row(
            escape(row.path), escape(row.label), f"{row.confidence:.0%}", escape(row.runner_up)
        )
    console.print(table)
    console.print(
        f"Put them into the folders of their classes and run `appl label … --from {run}`.",
        highlight=False,
    )


def doctor(support: Support, pile: Pile, as_json: AsJson = False) -> None:
    """Check examples and pile, and say what this machine can do; nothing is learnt."""
    console = Console(stderr=as_json)
    with console.status("Loading …"):
        from appl.core.compute import resolve_compute
        from appl.exchange.importing import find_inputs
        from appl.labelling.checks import examine

        inputs = find_inputs(support, pile)
        compute = resolve_compute()
    with stage_bars(console) as on_progress:
        findings = examine(inputs, on_progress)
    if as_json:
        say_json(
            {
                "classes": {c: inputs.class_ids.count(i) for i, c in enumerate(inputs.class_names)},
                "n_pile": len(inputs.pile),
                "findings": [asdict(finding) for finding in findings],
                "device": str(compute.device),
                "precision": compute.precision,
            }
        )
        return
    console.print(
        f"{inputs.n_way} classes, {len(inputs.support)} examples, {len(inputs.pile)} images; "
        f"computing on {compute.device} in {compute.precision}",
        highlight=False,
    )
    say_findings(console, findings)
    if not findings:
        console.print("Nothing to complain of.")
