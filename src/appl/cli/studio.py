"""`appl studio`: look, correct and teach in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from appl.errors import ApplError, DataError

if TYPE_CHECKING:
    from appl.labelling.session import Session


def studio(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | EXAMPLES PILE | PILE",
            help="A run; examples and a pile; or a pile alone, with --out, to begin from nothing.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="New folder for the results; a run there goes on.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="See `appl encoders`; for a new run.")
    ] = "efficientnet_lite0",
    size_px: Annotated[
        int, typer.Option(min=0, help="Side length of images; 0: as advised; for a new run.")
    ] = 0,
    target_error: Annotated[
        float,
        typer.Option(min=0, max=1, help="As in `appl label`; for a new run."),
    ] = 0.05,
    who: Annotated[str, typer.Option(help="Your name in the log of corrections.")] = "",
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Also take in what somebody said in another copy of the run."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Be reached over a network, too: the address then holds a secret key."),
    ] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    opens_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or print the address only.")
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Work on labels in the browser: look, correct many at once, teach, label anew.

    Opens a finished run, starts one from examples and a pile, or from a pile alone.
    """
    console = Console()
    try:
        with console.status("Loading PyTorch and the encoder …"):
            from appl.studio.desk import Desk
            from appl.studio.serving import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ApplError(
            f"appl studio needs {error.name}; install it with pip install 'appl[studio]'"
        ) from error
    folder = _folder(places, out)
    settings = {"encoder": encoder, "size_px": size_px, "target_error": target_error}
    session = _opened(console, folder, places, settings, device)
    if session is None and merge:
        raise DataError(f"{folder} is being written by another `appl` command; merge later")
    for other in merge or ():
        assert session is not None
        n_conflicts = session.merge(other)
        console.print(f"{escape(str(other))}: taken in; {n_conflicts} images in conflict.")
    if session is None:
        console.print("[yellow]•[/] Another `appl` command works on this run: look only.")
    desk = Desk(folder, session, who or _user())
    serve(
        desk,
        host=host,
        port=port,
        opens_browser=opens_browser,
        on_address=lambda address: _say_address(console, address),
    )
    console.print(f"What you said is kept in {escape(str(folder))}.", highlight=False)


def _folder(places: list[str], out: Path | None) -> Path:
    if len(places) > 2:
        raise DataError("give a run, examples and a pile, or a pile alone")
    is_run = len(places) == 1 and Path(places[0], "run.json").exists()
    if is_run and out is None:
        return Path(places[0])
    if out is None:
        raise DataError(
            f"{places[0]} is no run of `appl label`; to begin a run with it, name a new folder "
            "with --out"
        )
    return out


def _opened(
    console: Console, folder: Path, places: list[str], values: dict[str, object], device: str
) -> "Session | None":
    """Open the run of a folder, or begin it there; None where somebody else works on it."""
    with console.status("Loading the encoder …"):
        from appl.core.compute import resolve_compute
        from appl.labelling.inputs import Inputs, find_inputs, find_pile
        from appl.labelling.reopening import reopen
        from appl.labelling.run_folder import RunInUseError
        from appl.labelling.session import Session
        from appl.settings import ComputeSettings
        from appl.settings.files import structure_settings
        from appl.settings.labelling import LabelSettings
        from appl.weights import load_pretrained

        compute = resolve_compute(ComputeSettings(device=device))
        try:
            if (folder / "run.json").exists():
                return reopen(folder, compute)
            if len(places) == 2:
                inputs = find_inputs(Path(places[0]), places[1])
            else:
                inputs = Inputs((), (), (), find_pile(places[0]))
            settings = structure_settings(LabelSettings, values, "appl studio")
            start = load_pretrained(settings.encoder)
            return Session.open(inputs, settings, folder, start, compute)
        except RunInUseError:
            return None


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _say_address(console: Console, address: str) -> None:
    console.print(f"Open [bold]{address}[/] in a browser; Ctrl-C ends it.", highlight=False)
    console.file.flush()
