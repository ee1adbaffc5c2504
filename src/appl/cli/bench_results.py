"""`appl bench table`, `sensitivity`, `compare` and `report`: what the store says."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from appl.cli._bench import (
    Cache,
    Config,
    Configs,
    Ray,
    Store,
    WhichData,
    Workers,
    load_collections,
    open_results,
    run_with_bars,
)

FigureFile = typer.Option(help="Draw here: a file .svg, .png or .pdf.")


def table(
    configs: Configs,
    data: WhichData = None,
    results: Store = Path("results.sqlite"),
    reference: Annotated[str, typer.Option(help="Title of the row to compare with.")] = "",
    quote: Annotated[
        list[str] | None, typer.Option(help="A row of the paper to show beside ours.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="markdown, latex or csv; default: by --out's ending.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write it here, too.")] = None,
) -> None:
    """Print the stored results; benchmarks that differ in their shots only share one table."""
    from appl.benchmark.formats import format_of, write_table
    from appl.benchmark.tables import make_table
    from appl.core.files import write_atomically

    form = form or (format_of(out) if out else "markdown")
    store = open_results(results)
    text = write_table(
        make_table(load_collections(configs, store, data), reference, tuple(quote or ())), form
    )
    store.close()
    if out is not None:
        write_atomically(out, text.encode())
    typer.echo(text, nl=False)


def sensitivity(
    config: Config,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the targets: run what is missing first.")
    ] = None,
    results: Store = Path("results.sqlite"),
    cache: Cache = Path("appl-cache"),
    workers: Workers = 0,
    ray: Ray = "",
    out: Annotated[Path, FigureFile] = Path("sensitivity.svg"),
) -> None:
    """Change α0, ε, λ_coh and λ_dis one at a time, and draw what becomes of the accuracy."""
    from appl.benchmark.curves import sensitivity_curves
    from appl.benchmark.formats import to_markdown
    from appl.benchmark.tables import make_table
    from appl.errors import SettingsError
    from appl.report.benchmark_figures import curve_panels
    from appl.report.drawing import figure_format, save_figure
    from appl.settings.benchmark import BenchSettings
    from appl.settings.files import load_settings

    settings = load_settings(BenchSettings, config)
    if not settings.sensitivity.preset:
        raise SettingsError(f"{config} has no preset under [sensitivity]; name one")
    figure_format(out)  # a mistake should show before the hours that a run may take
    if data is not None:
        run_with_bars(settings, data, cache, results, workers, ray)
    store = open_results(results)
    collections = load_collections([config], store, data)
    store.close()
    typer.echo(to_markdown(make_table(collections)), nl=False)
    save_figure(curve_panels(sensitivity_curves(collections[0])), out)


def compare(
    a: Annotated[
        str,
        typer.Argument(
            help="Title of a row of --config; without one, its method or "
            "the key of one of its runs."
        ),
    ],
    b: Annotated[str, typer.Argument(help="The row to compare it with.")],
    config: Annotated[
        list[Path] | None, typer.Option(help="TOML file with BenchSettings that has both rows.")
    ] = None,
    data: WhichData = None,
    results: Store = Path("results.sqlite"),
    out: Annotated[Path | None, FigureFile] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Compare two rows on the same episodes: how often A wins, and by how much."""
    from appl.benchmark.compare import compare_rows, compare_stored

    store = open_results(results)
    if config:
        comparison = compare_rows(load_collections(config, store, data), a, b)
    else:
        comparison = compare_stored(store, a, b)
    store.close()
    if out is not None:
        from appl.report.benchmark_figures import scatter_panel
        from appl.report.drawing import save_figure

        save_figure([scatter_panel(comparison)], out, (7.4, 4.6))
    if as_json:
        typer.echo(json.dumps(comparison.as_values(), indent=1))
        return
    shown = Table("target", "episodes", "better", "alike", "worse", "win rate", "difference")
    for pairs in comparison.targets:
        n = len(pairs.episodes)
        counts = (n, pairs.wins, pairs.ties, n - pairs.wins - pairs.ties)
        words = (f"{pairs.win_share:.0%}", pairs.difference.signed)
        shown.add_row(escape(pairs.title), *map(str, counts), *words)
    words = (f"{comparison.win_share:.0%}", comparison.difference.signed)
    shown.add_row("mean of the targets", "", "", "", "", *words)
    console = Console()
    console.print(f"{comparison.a} against {comparison.b}, the same episodes:", markup=False)
    console.print(shown)


def report(
    configs: Configs,
    out: Annotated[Path, typer.Option(help="The page, one file.")],
    data: WhichData = None,
    results: Store = Path("results.sqlite"),
) -> None:
    """Write one page: tables, plots, episodes, time, and where every number comes from."""
    from appl.report.benchmark_page import write_benchmark_page

    store = open_results(results)
    write_benchmark_page(load_collections(configs, store, data), out)
    store.close()
    typer.echo(f"Report in {out}")
