"""`appl bench`: methods × targets over the same episodes, and tables of what came out."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

bench = typer.Typer(help="Compare methods on target data sets.", no_args_is_help=True)

Config = Annotated[Path, typer.Argument(help="TOML file with BenchSettings.")]
Data = Annotated[
    Path, typer.Option(envvar="APPL_DATA", help="Data root: the folder with the targets.")
]
Store = Annotated[Path, typer.Option(help="SQLite file of results; a run there goes on.")]
Cache = Annotated[Path, typer.Option(help="Folder for decoded images and features.")]


@bench.command()
def run(
    config: Config,
    data: Data,
    results: Store = Path("results.sqlite"),
    cache: Cache = Path("appl-cache"),
    workers: Annotated[
        int, typer.Option(min=0, help="Processes, one thread each; 0: one a core.")
    ] = 0,
) -> None:
    """Solve every episode that is not stored yet; stop and go on at any time."""
    console = Console()
    with console.status("Loading PyTorch …"):
        from appl.benchmark.plan import Row, Target, make_plan
        from appl.benchmark.runner import run_plan
        from appl.benchmark.statistics import estimate
        from appl.settings.benchmark import BenchSettings
        from appl.settings.files import load_settings
        from appl.store import EpisodeResult, ResultStore

        settings = load_settings(BenchSettings, config)
    n_workers = workers or len(os.sched_getaffinity(0))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        preparing: dict[str, TaskID] = {}

        def on_prepare(kind: str, target: str, done: int, total: int) -> None:
            name = f"{kind} {target}"
            if name not in preparing:
                preparing[name] = progress.add_task(name, total=total)
            progress.update(preparing[name], completed=done)

        plan = make_plan(settings, data, cache, lambda t, d, n: on_prepare("Decoding", t, d, n))
        store = ResultStore(results)
        bars: dict[str, TaskID] = {}
        accuracies: dict[str, list[float]] = {}
        for row in plan.rows:
            stored = [
                result.accuracy
                for target in plan.targets.values()
                for result in store.results(plan.run(row, target))
                if result.episode < row.n_episodes
            ]
            accuracies[row.title] = stored
            total = row.n_episodes * len(plan.targets)
            bars[row.title] = progress.add_task(row.title, total=total, completed=len(stored))

        def on_result(row: Row, _: Target, new: list[EpisodeResult]) -> None:
            so_far = accuracies[row.title]
            so_far.extend(result.accuracy for result in new)
            mean = estimate(so_far)
            progress.update(
                bars[row.title],
                advance=len(new),
                description=f"{row.title} {mean.mean:.1f} ± {mean.interval:.1f}",
            )

        run_plan(
            plan,
            data,
            cache,
            store,
            n_workers=n_workers,
            on_result=on_result,
            on_embed=lambda t, d, n: on_prepare("Embedding", t, d, n),
        )
        store.close()
    console.print(f"Results in [bold]{results}[/]; `appl bench table` prints them.")


@bench.command()
def table(
    config: Config,
    data: Data,
    results: Store = Path("results.sqlite"),
    cache: Cache = Path("appl-cache"),
    reference: Annotated[str, typer.Option(help="Title of the row to compare with.")] = "ProtoNet",
    quote: Annotated[
        list[str] | None, typer.Option(help="A row of the paper to show beside ours.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write Markdown here, too.")] = None,
) -> None:
    """Print the stored results of a benchmark as Markdown."""
    from appl.benchmark.plan import make_plan
    from appl.benchmark.tables import make_table, to_markdown
    from appl.core.files import write_atomically
    from appl.settings.benchmark import BenchSettings
    from appl.settings.files import load_settings
    from appl.store import ResultStore

    plan = make_plan(load_settings(BenchSettings, config), data, cache)
    store = ResultStore(results)
    text = to_markdown(make_table(plan, store, reference), tuple(quote or ()))
    store.close()
    if out is not None:
        write_atomically(out, text.encode())
    typer.echo(text, nl=False)


@bench.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Gets runs.json and episodes.csv.")],
    results: Store = Path("results.sqlite"),
) -> None:
    """Write the whole store as text: small, and comparable line by line."""
    from appl.store import ResultStore

    store = ResultStore(results)
    store.export(folder)
    store.close()


@bench.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="With runs.json and episodes.csv.")],
    results: Store = Path("results.sqlite"),
) -> None:
    """Add an exported store to a result store: what is there already stays."""
    from appl.store import ResultStore

    store = ResultStore(results)
    store.load_export(folder)
    store.close()
