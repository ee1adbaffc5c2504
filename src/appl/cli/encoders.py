"""`appl encoders`: what can be chosen, and where its weights come from."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def encoders(
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """List the encoders with their weights, licences and training data."""
    from appl.encoders import ENCODERS

    metas = [ENCODERS.get(name)().meta for name in ENCODERS.names()]
    if as_json:
        typer.echo(json.dumps([asdict(meta) for meta in metas], indent=2))
        return
    table = Table("encoder", "features", "size", "trained on", "weights", "licence")
    for meta in metas:
        weights = meta.weights
        table.add_row(
            meta.name,
            str(meta.width),
            f"{meta.input_px} px",
            meta.source,
            f"{weights.name} {weights.version}" if weights else "–",
            weights.licence if weights else "–",
        )
    Console().print(table)
