"""`appl bench table`: what the store says."""

from pathlib import Path
from typing import Annotated

import typer

from appl.cli._bench import Configs, Store, WhichData, load_collections, open_results


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
