"""`appl presets`: every setting of the presets, as a table or as TOML to start from."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def presets(
    name: Annotated[
        str, typer.Argument(help="A preset to print as TOML; without it, compare all.")
    ] = "",
    algorithm: Annotated[
        int, typer.Option(min=1, max=2, help="1: meta-training; 2: adaptation and answer.")
    ] = 2,
    protocols: Annotated[
        bool, typer.Option("--protocols", help="Those of the benchmark: guo, released, cpu.")
    ] = False,
) -> None:
    """Compare the presets of an algorithm or of the benchmark, or print one as a settings file."""
    if protocols:
        _protocols(name)
        return
    from appl.settings import MetaTrainSettings, to_toml
    from appl.settings.presets import PRESET_NAMES
    from appl.settings.solving import SolveSettings

    group: type[SolveSettings] | type[MetaTrainSettings]
    group = SolveSettings if algorithm == 2 else MetaTrainSettings
    if name:
        typer.echo(to_toml(group.preset(name)), nl=False)
        return
    _show(f"Algorithm {algorithm}", {name: asdict(group.preset(name)) for name in PRESET_NAMES})


def _protocols(name: str) -> None:
    import tomli_w

    from appl.settings.benchmark import PROTOCOL_PRESETS, BenchSettings

    if name:
        typer.echo(tomli_w.dumps(BenchSettings.preset(name)), nl=False)
    else:
        _show("Protocols", PROTOCOL_PRESETS)


def _show(title: str, presets: Mapping[str, dict[str, Any]]) -> None:
    """Print presets side by side."""
    rows = [_flat(values) for values in presets.values()]
    table = Table("setting", *presets, title=title)
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
