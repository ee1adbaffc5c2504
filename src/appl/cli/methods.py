"""`appl methods`: every row that the benchmark can run."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the methods: what each takes from the queries, its paper, one line.

    What is meta-trained needs weights of its own: `appl train meta --method NAME` makes them.
    """
    from dataclasses import asdict

    from appl.core.methods import METHODS

    cards = {name: METHODS.get(name).card for name in METHODS.names()}
    if as_json:
        typer.echo(json.dumps({name: asdict(card) for name, card in cards.items()}, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("tag", no_wrap=True)
    table.add_column("what it is")
    for name, card in cards.items():
        own = f"; its weights: appl train meta --method {name}"
        trained = own if card.is_meta_trained else ""
        table.add_row(name, card.takes, f"{card.title} ({card.paper}): {card.summary}{trained}")
    console = Console()
    console.print(table)
    console.print(
        "\nThe tag says what enters a query's answer beside the query: nothing, the others "
        "through batch statistics, or all of them."
    )
