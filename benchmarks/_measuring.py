"""What the measuring scripts share: jobs over processes, finished rows on disk, nothing twice."""

import csv
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, Any]


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
    out.parent.mkdir(parents=True, exist_ok=True)
    pool = ProcessPoolExecutor(n_workers, mp_context=multiprocessing.get_context("spawn"))
    with pool, out.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not out.stat().st_size:
            writer.writeheader()
        for n, future in enumerate(as_completed(pool.submit(measure, job) for job in jobs), 1):
            writer.writerows(future.result())
            file.flush()
            print(f"\r{n} of {len(jobs)}", end="", flush=True)
    print()
