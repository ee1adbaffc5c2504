"""`appl data`: the data sets there are, what of them is found, and how it compares."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from appl.errors import ApplError, DataError

if TYPE_CHECKING:
    from appl.datasets.check import ClassCount
    from appl.datasets.listing import Listing

data = typer.Typer(help="Find, check, show and register data sets.", no_args_is_help=True)

Root = Annotated[
    Path | None, typer.Option("--data", envvar="APPL_DATA", help="Data root: the folder of sets.")
]
Name = Annotated[str, typer.Argument(help="Name of a data set; `appl data list` has them all.")]
Place = Annotated[Path | None, typer.Argument(help="Its folder; without it, from the data root.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]

MOST_MISSING = 10  # names of files on the screen


@dataclass(frozen=True)
class Found:
    """What is there of a data set, or why it cannot be read."""

    path: str
    layout: str = ""
    n_classes: int = 0
    n_images: int = 0
    provenance: str = ""
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return self.error
        return f"{self.provenance} (in {self.path}, {self.layout})"


@data.command("list")
def list_(root: Root = None, as_json: AsJson = False) -> None:
    """List the data sets: what each is, its terms, where to get it, what was found."""
    records = _records(root)
    if as_json:
        shown = [r | {"found": asdict(r["found"]) if r["found"] else None} for r in records]
        typer.echo(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    for record in records:
        typer.echo(f"{record['name']} ({record['role']}): {record['what']}")
        uses = f"{record['n_classes']} classes, {record['n_images']:,} images"
        found = record["found"] or "–"
        lines = {
            "uses": uses if record["n_classes"] else "",
            "terms": record["terms"],
            "get it": record["where"],
            "note": record["remark"],
        }
        for head, text in (lines | {"found": found}).items():
            if text:
                typer.echo(f"  {head:<7} {text}")
    if root is None:
        typer.echo("No data root: set APPL_DATA or give --data to see what is there.")


def _records(root: Path | None) -> list[dict[str, Any]]:
    """Return what is known of every data set, the user's own last."""
    from appl.datasets._registry import DATASETS
    from appl.datasets.locate import find_folder
    from appl.datasets.own import own_sets

    records = []
    for name in DATASETS.names():
        item = DATASETS.get(name)
        place = find_folder(item, root) if root is not None else None
        fields = {key: value for key, value in vars(item).items() if key != "read"}
        fields |= {"n_classes": len(item.counts), "n_images": sum(item.counts.values())}
        records.append(fields | {"found": _found(name, place, root)})
    if root is None:
        return records
    for name, own in own_sets(root).items():
        if name not in DATASETS.names():
            fields = {"title": name, "what": "your own", "terms": "yours to know", "where": ""}
            fields |= {"n_classes": 0, "n_images": 0, "remark": ""}
            found = _found(name, root / own.path, root)
            records.append({"name": name, **fields, **asdict(own), "found": found})
    return records


def _found(name: str, place: Path | None, root: Path | None) -> Found | None:
    from appl.datasets.locate import open_data

    if place is None or root is None:
        return None
    try:
        listing = open_data(name, root)
    except ApplError as error:
        return Found(str(place), error=str(error))
    counts = len(listing.files), listing.n_images
    return Found(str(place), listing.layout, *counts, str(listing.provenance))


@data.command()
def check(
    name: Name,
    path: Place = None,
    root: Root = None,
    strict: Annotated[bool, typer.Option(help="Exit with 1 unless the copy is complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare a copy with the published counts, class by class; a part is named as such."""
    from appl.datasets.check import compare_counts

    listing = _open(name, path, root)
    rows = compare_counts(name, listing)
    if as_json:
        report = {
            "name": name,
            "path": str(listing.root),
            "layout": listing.layout,
            "provenance": asdict(listing.provenance),
            "splits": {split: list(names) for split, names in listing.splits.items()},
            "n_groups": len(set(listing.groups.values())),
            "missing": list(listing.missing),
            "classes": [asdict(row) | {"verdict": row.verdict} for row in rows],
        }
        typer.echo(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        _print_check(listing, rows)
    if strict and listing.provenance.kind != "complete":
        raise typer.Exit(1)


@data.command()
def show(
    name: Name,
    path: Place = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option(help="PNG to write; default: NAME.png.")] = None,
    images: Annotated[int, typer.Option(min=1, max=50, help="Images of each class.")] = 8,
    classes: Annotated[int, typer.Option(min=1, max=400, help="At most so many classes.")] = 24,
    size_px: Annotated[int, typer.Option(min=16, max=512, help="Side of an image.")] = 84,
) -> None:
    """Draw a contact sheet: a few images of each class beside its name."""
    from appl.core.files import write_atomically
    from appl.datasets.contact_sheet import contact_sheet

    listing = _open(name, path, root)
    sheet = contact_sheet(listing, n_images=images, n_classes=classes, size_px=size_px)
    target = out or Path(f"{name}.png")
    write_atomically(target, sheet)
    shown = min(classes, len(listing.files))
    typer.echo(f"{shown} of {len(listing.files)} classes in {target} ({listing.provenance})")


@data.command()
def add(
    name: Annotated[str, typer.Argument(help="Name to give it, or the name of a known data set.")],
    path: Annotated[Path, typer.Argument(help="Its folder: a sub-folder for each class.")],
    root: Root = None,
    role: Annotated[str | None, typer.Option(help="target (default) or source.")] = None,
    split: Annotated[
        Path | None, typer.Option(help="JSON: train, validation, test with their classes.")
    ] = None,
) -> None:
    """Register a class-folder tree of your own, or say where a known data set is."""
    from appl.datasets._registry import DATASETS
    from appl.datasets.own import OwnSet, Role, read_own, register

    if root is None:
        raise DataError("no data root to register it in; set APPL_DATA or give --data")
    own = OwnSet(str(path.resolve()))
    if name in DATASETS.names():
        if role is not None or split is not None:
            raise DataError(f"{name} has a role and a split of its own; leave out --role, --split")
        listing = DATASETS.get(name).read(path)
    else:
        chosen = cast(Role, role or "target")  # checked by the record
        own = OwnSet(own.path, chosen, str(split.resolve()) if split else "")
        listing = read_own(name, own, root)
    register(name, own, root)
    parts = ", ".join(f"{len(names)} {part}" for part, names in listing.splits.items())
    typer.echo(f"{name}: {listing.n_images:,} images in {len(listing.files)} classes ({parts})")


def _open(name: str, path: Path | None, root: Path | None) -> "Listing":
    from appl.datasets._registry import DATASETS
    from appl.datasets.locate import open_data
    from appl.datasets.own import own_sets

    if path is not None:
        return DATASETS.get(name).read(path)
    if root is None or name not in own_sets(root):
        DATASETS.get(name)  # a name that is not there is answered with those that are near
    if root is None:
        raise DataError(f"where is {name}? Give its folder, or set APPL_DATA to the data root")
    return open_data(name, root)


def _print_check(listing: "Listing", rows: list["ClassCount"]) -> None:
    console = Console()
    split_of = {name: split for split, names in listing.splits.items() for name in names}
    table = Table("class", "split", "found", "published", "")
    for row in rows:
        published = "–" if row.published is None else f"{row.published:,}"
        cells = (row.name, split_of.get(row.name, "–"), f"{row.found:,}", published, row.verdict)
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
    parts = ", ".join(f"{len(names)} {split}" for split, names in listing.splits.items())
    console.print(f"Read from {listing.root}: {listing.layout}; classes: {parts}.", markup=False)
    if listing.groups:
        n_groups = len(set(listing.groups.values()))
        console.print(f"{n_groups:,} groups (patients, lesions) are known.")
    for name in listing.missing[:MOST_MISSING]:
        console.print(f"Not there: {name}", markup=False)
    if len(listing.missing) > MOST_MISSING:
        console.print(f"… and {len(listing.missing) - MOST_MISSING:,} more; --json has them all.")
    console.print(str(listing.provenance), markup=False)
