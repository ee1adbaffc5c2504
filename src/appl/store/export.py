"""A result store as text: small, compared line by line, exact when it is read back.

An empty run, version or time in episodes.csv is that of the line above, since many episodes in a
row share them; one that is not known is a dash.
"""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.store.migrations import migrate_settings
from appl.store.results import EpisodeResult, ResultStore, RunKey

COLUMNS = ("run", "episode", "accuracy", "seconds", "version", "finished_at", "record")
SAME_AS_ABOVE = ("run", "version", "finished_at")
UNKNOWN = "-"


def write_export(store: ResultStore, folder: Path) -> None:
    """Write `runs.json`, `data.json` and `episodes.csv`: the whole store."""
    runs = sorted(store.runs(), key=lambda run: run.key)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    above: dict[str, str] = {}
    for run in runs:
        for result in store.results(run):
            line = _line(run, result)
            said = {name: line[name] for name in SAME_AS_ABOVE}
            shorter = {n: "" for n, value in said.items() if value == above.get(n)}
            writer.writerow(line | shorter)
            above = said
    described = {run.key[:16]: asdict(run) for run in runs}
    data = json.dumps(store.provenances(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "data.json", data.encode())
    write_atomically(folder / "episodes.csv", text.getvalue().encode())
    write_atomically(folder / "runs.json", (json.dumps(described, indent=1) + "\n").encode())


def read_export(store: ResultStore, folder: Path) -> None:
    """Add what `write_export` wrote, this version's or an earlier one's."""
    runs = {
        name: RunKey(**{**run, "settings": migrate_settings(run["method"], run["settings"])})
        for name, run in json.loads((folder / "runs.json").read_text(encoding="utf-8")).items()
    }
    by_run: dict[str, list[EpisodeResult]] = {name: [] for name in runs}
    for line in _full_lines(folder / "episodes.csv"):
        if line["run"] not in runs:
            raise DataError(
                f"{folder}: episodes.csv has a run {line['run']} that runs.json has not"
            )
        result = EpisodeResult(
            int(line["episode"]),
            _accuracy(line["accuracy"], runs[line["run"]]),
            float(line["seconds"]),
            json.loads(line["record"] or "{}"),
            line["version"],
            line["finished_at"],
        )
        by_run[line["run"]].append(result)
    for name, results in by_run.items():
        store.add(runs[name], results)
    data = folder / "data.json"  # exports of schema 1 have none
    if data.exists():
        for digest, provenance in json.loads(data.read_text(encoding="utf-8")).items():
            store.note_data(digest, provenance)


def _line(run: RunKey, result: EpisodeResult) -> dict[str, str]:
    short = f"{result.accuracy:.4f}"
    is_exact = _accuracy(short, run) == result.accuracy
    record = json.dumps(result.record, separators=(",", ":")) if result.record else ""
    return {
        "run": run.key[:16],
        "episode": str(result.episode),
        "accuracy": short if is_exact else repr(result.accuracy),
        "seconds": f"{result.seconds:.3f}",
        "version": result.version or UNKNOWN,
        "finished_at": result.finished_at or UNKNOWN,
        "record": record,
    }


def _accuracy(text: str, run: RunKey) -> float:
    """Return the share of right answers that four decimals stand for, or the number as it is."""
    value = float(text)
    n_query = int(run.protocol.get("n_way", 0) * run.protocol.get("n_query", 0))
    if not n_query:
        return value
    share = 100 * (round(value * n_query / 100) / n_query)
    return share if f"{share:.4f}" == text else value


def _full_lines(path: Path) -> Iterator[dict[str, str]]:
    above: dict[str, str] = {}
    with closing(path.open(newline="", encoding="utf-8")) as lines:
        for line in csv.DictReader(lines):
            said = {name: line[name] or above.get(name, "") for name in SAME_AS_ABOVE}
            yield line | {n: "" if value == UNKNOWN else value for n, value in said.items()}
            above = said
