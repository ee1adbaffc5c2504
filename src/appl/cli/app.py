"""The command `appl` and its exit codes: 0 done, 2 a mistake in the input, 130 interrupted."""

import errno
import sys
from typing import Annotated

import typer

from appl._version import __version__
from appl.cli import (
    ask,
    audit,
    bench,
    data,
    demo,
    encoders,
    episodes,
    exchange,
    label,
    methods,
    presets,
    studio,
    train,
)
from appl.errors import ApplError

app = typer.Typer(
    name="appl",
    help="Label images from a few examples: Adaptive Parametric Prototype Learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("label")(label.label)
for command in (ask.predict, ask.explain, ask.suggest, ask.doctor):
    app.command(command.__name__)(command)
app.command("audit")(audit.audit)
app.command("correct")(exchange.correct)
app.command("export")(exchange.export)
app.command("studio")(studio.studio)
app.command("demo")(demo.demo)
app.command("episodes")(episodes.episodes)
app.command("methods")(methods.methods)
app.command("presets")(presets.presets)
app.add_typer(bench.bench, name="bench")
app.add_typer(data.data, name="data")
app.add_typer(encoders.encoders, name="encoders")
app.add_typer(train.train, name="train")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"appl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Label images from a few examples: Adaptive Parametric Prototype Learning."""


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        app()
    except ApplError as error:
        print(f"appl: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            place = f" for {error.filename}" if error.filename else ""
            print(
                f"appl: no space is left{place}; make room and give the same command again",
                file=sys.stderr,
            )
            sys.exit(2)
        if error.filename is None:
            raise  # not about a file that the user named
        print(f"appl: {error.filename}: {error.strerror}; choose another place", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("appl: interrupted", file=sys.stderr)
        sys.exit(130)
