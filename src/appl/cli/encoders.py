"""`appl encoders`: what can be chosen, and where its weights come from."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def encoders(
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """List the encoders with their weights, licences and training data."""
    from appl.encoders import ENCODERS
    from appl.weights import class_mean_pcn, load_pretrained
    from appl.weights.loading import SHIPPED

    records = []
    for name in ENCODERS.names():
        meta, pcn = ENCODERS.get(name).meta, None
        if name in SHIPPED:
            shipped = load_pretrained(name)
            meta, pcn = shipped.encoder.meta, shipped.pcn
        elif meta.weights is not None:
            pcn = class_mean_pcn(ENCODERS.get(name).build())
        records.append(meta.to_dict() | {"prototypes": pcn.summary if pcn else None})
    if as_json:
        typer.echo(json.dumps(records, indent=2))
        return
    table = Table("encoder", "features", "size", "trained on", "prototype network", "licence")
    table.columns[0].no_wrap = True
    for record in records:
        weights = record["weights"]
        table.add_row(
            record["name"],
            str(record["width"]),
            f"{record['input_px']} px",
            weights["trained_on"] if weights else "untrained",
            record["prototypes"] or "–",
            weights["licence"] if weights else "–",
        )
    Console().print(table)
