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

    What is trained on episodes needs weights of its own: `appl train meta --method NAME`.
    """
    from dataclasses import asdict

    from appl.core.methods import METHODS

    cards = {name: METHODS.get(name).card for name in METHODS.names()}
    if as_json:
        typer.echo(json.dumps({name: asdict(card) for name, card in cards.items()}, indent=1))
        return
    table = Table("name", "title", "takes from the queries", "trained", "paper", "in a line")
    for name, card in cards.items():
        trained = "on episodes" if card.is_meta_trained else ""
        table.add_row(name, card.title, card.takes, trained, card.paper, card.summary)
    Console().print(table)
