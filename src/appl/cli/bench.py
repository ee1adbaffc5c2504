"""`appl bench`: methods × targets over the same episodes, and what came out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from appl.cli._bench import Cache, Config, Data, Episodes, Ray, Store, Workers, run_with_bars
from appl.cli.bench_results import compare, report, sensitivity, table

bench = typer.Typer(help="Compare methods on target data sets.", no_args_is_help=True)


@bench.command()
def run(
    config: Config,
    data: Data,
    results: Store = Path("results.sqlite"),
    cache: Cache = Path("appl-cache"),
    workers: Workers = 0,
    ray: Ray = "",
    episodes: Episodes = None,
) -> None:
    """Solve every episode that is not stored yet; stop and go on at any time."""
    console = Console()
    with console.status("Loading PyTorch …"):
        from appl.settings.benchmark import BenchSettings
        from appl.settings.files import load_settings

        settings = load_settings(BenchSettings, config)
    run_with_bars(settings, data, cache, results, workers, ray, episodes)
    console.print(f"Results in [bold]{results}[/]; `appl bench table` prints them.")


for command in (table, sensitivity, compare, report):
    bench.command()(command)


@bench.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Gets runs.json and episodes.csv.")],
    results: Store = Path("results.sqlite"),
) -> None:
    """Write the whole store as text: small, and comparable line by line."""
    from appl.store import ResultStore, write_export

    store = ResultStore(results)
    write_export(store, folder)
    store.close()


@bench.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="With runs.json and episodes.csv.")],
    results: Store = Path("results.sqlite"),
) -> None:
    """Add an exported store to a result store: what is there already stays."""
    from appl.store import ResultStore, read_export

    store = ResultStore(results)
    read_export(store, folder)
    store.close()
