"""What the labelling commands share: findings in words, bars for each stage, rows as JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from appl.cli._progress import Bars

if TYPE_CHECKING:
    from appl.labelling.checks import Finding
    from appl.labelling.session import OnProgress

STAGES = {
    "examples": "Reading the examples",
    "decoding": "Reading the pile",
    "adapting": "Adapting to your images",
    "describing": "Describing every image once",
    "labelling": "Labelling every image",
}


@contextmanager
def stage_bars(console: Console) -> Iterator["OnProgress"]:
    """Show one bar per stage, with the time left; they leave nothing behind."""
    with Bars(console, transient=True) as progress:
        bars: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(STAGES[stage], total=total)
            progress.update(bars[stage], completed=done, total=total)

        yield show


def say_findings(console: Console, findings: "list[Finding]") -> None:
    """Print what the checks found, a few file names each."""
    from appl.labelling.checks import N_NAMED

    for finding in findings:
        console.print(f"[yellow]•[/] {escape(finding.text)}", highlight=False)
        for name in finding.files[:N_NAMED]:
            console.print(f"    {escape(name)}", highlight=False, soft_wrap=True)
        if len(finding.files) > N_NAMED:
            console.print(f"    … and {len(finding.files) - N_NAMED} more")


def say_json(value: Any) -> None:
    """Print a value as JSON, and nothing else."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))
