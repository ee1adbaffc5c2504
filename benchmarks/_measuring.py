"""What the measuring scripts share: command line, jobs over processes, rows on disk, none twice."""

import argparse
import csv
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Act = Callable[[argparse.Namespace], None]


def command_line(
    doc: str, source: str, run: Act, table: Act, **more: tuple[Act, tuple[str, ...]]
) -> argparse.ArgumentParser:
    """Return the parser of `run SOURCE OUT`, to which a script adds its options.

    Beside it there are `table OUT` and further commands by name: what to do, and which files.
    Call `serve` once the options are there.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("run")
    measuring.add_argument(source, type=Path)
    measuring.add_argument("out", type=Path)
    measuring.set_defaults(act=run, whole=parser)
    printing = commands.add_parser("table")
    printing.add_argument("out", type=Path)
    printing.set_defaults(act=table)
    for name, (act, places) in more.items():
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path, nargs="+" if place.endswith("s") else None)
        command.set_defaults(act=act)
    return measuring


def serve(measuring: argparse.ArgumentParser) -> None:
    """Read the command line and do what it asks for."""
    arguments = measuring.get_default("whole").parse_args()
    arguments.act(arguments)


def merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return nested changes together; where both speak, `b` has the last word."""
    groups = {k: merged(a[k], b[k]) for k in a.keys() & b.keys() if isinstance(b[k], dict)}
    return a | b | groups


def weights_name(file: str) -> str:
    """Name weights by their file, or by the folder of the training that wrote them."""
    path = Path(file)
    return path.parent.name if path.stem in ("weights", "best", "last") else path.stem


def append_rows(out: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Add rows to a CSV file, which gets its head first."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not out.stat().st_size:
            writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none where it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def keys_in(path: Path, columns: Sequence[str]) -> set[tuple[str, ...]]:
    """Return what is in a file already, by the columns that name a measurement."""
    return {tuple(row[column] for column in columns) for row in read_rows(path)}


def key_of(job: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """Return a job's key as `keys_in` would read it."""
    return tuple(str(job[column]) for column in columns)


def measure_all(
    todo: Iterable[Row],
    measure: Callable[[Row], list[Row]],
    columns: Sequence[str],
    out: Path,
    n_workers: int,
) -> None:
    """Measure every job in a process of its own; its rows are on disk as soon as it is done."""
    jobs = list(todo)
    with ProcessPoolExecutor(n_workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for n, future in enumerate(as_completed(pool.submit(measure, job) for job in jobs), 1):
            append_rows(out, columns, future.result())
            print(f"\r{n} of {len(jobs)}", end="", flush=True)
    print()
