"""`appl presets`: every setting of the three presets, as a table or as TOML to start from."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def presets(
    name: Annotated[
        str, typer.Argument(help="A preset to print as TOML; without it, compare all.")
    ] = "",
    algorithm: Annotated[
        int, typer.Option(min=1, max=2, help="1: meta-training, 2: adaptation.")
    ] = 2,
) -> None:
    """Compare the presets of an algorithm, or print one as a settings file."""
    from appl.settings import AdaptSettings, MetaTrainSettings, to_toml
    from appl.settings.presets import PRESET_NAMES

    group: type[AdaptSettings] | type[MetaTrainSettings]
    group = AdaptSettings if algorithm == 2 else MetaTrainSettings
    if name:
        typer.echo(to_toml(group.preset(name)), nl=False)
        return
    rows = [_flat(asdict(group.preset(preset))) for preset in PRESET_NAMES]
    table = Table("setting", *PRESET_NAMES, title=f"Algorithm {algorithm}")
    for key in rows[0]:
        table.add_row(key, *(str(row[key]) for row in rows))
    Console().print(table)


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
