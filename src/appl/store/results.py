"""Results of the benchmark: one row per episode, durable as soon as it is written.

SQLite in WAL mode; a killed run loses at most the episodes in flight.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from appl.errors import DataError
from appl.store.migrations import migrate_settings

SCHEMA_VERSION = 4
# Since 2. What is called `standing` here is the provenance of a copy of a data set.
DATA = "CREATE TABLE data (digest TEXT PRIMARY KEY, standing TEXT NOT NULL);"


@dataclass(frozen=True)
class RunKey:
    """Everything that decides the result of an episode, beside its number."""

    method: str
    settings: dict[str, Any]
    target: str
    data_digest: str
    protocol: dict[str, Any]
    weights: str
    weights_digest: str
    encoder: str
    image_px: int

    @cached_property
    def key(self) -> str:
        """Identify the run by its content; the names of files do not count."""
        # Not `asdict`, which copies the settings' tree: a table asks for thousands of keys.
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        del parts["weights"], parts["target"]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class EpisodeResult:
    """One solved episode; the accuracy is in percent."""

    episode: int
    accuracy: float
    seconds: float
    record: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    finished_at: str = ""


class ResultStore:
    """A SQLite file of results. Safe to open from several processes, written by one."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        try:
            # Every statement is its own transaction: durable at once.
            self._database = sqlite3.connect(path, isolation_level=None, timeout=60)
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise DataError(f"{path} is not a result store: {error}") from error
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{path} was written by a newer appl (schema {version}, this one reads "
                f"{SCHEMA_VERSION}); update appl"
            )
        self._database.execute("PRAGMA journal_mode = WAL")
        if version == SCHEMA_VERSION:
            return
        if version < 2:
            schema = resources.files("appl.store").joinpath("schema.sql").read_text()
            steps = DATA if version == 1 else schema + DATA
            self._database.executescript(f"BEGIN; {steps} PRAGMA user_version = 2; COMMIT;")
        self._migrate_settings()

    def _migrate_settings(self) -> None:
        """Bring the settings of all runs, and so their keys, to the form of today."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for run in self.runs():
                settings = migrate_settings(run.method, run.settings)
                migrated = replace(run, settings=settings)
                self._database.execute(
                    "UPDATE runs SET settings = ?, key = ? WHERE key = ?",
                    [json.dumps(settings, sort_keys=True), migrated.key, run.key],
                )
            self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def done(self, run: RunKey) -> set[int]:
        """Return the numbers of the episodes that are stored for a run."""
        rows = self._database.execute(
            "SELECT episode FROM episodes JOIN runs USING (run_id) WHERE key = ?", [run.key]
        )
        return {episode for (episode,) in rows}

    def add(self, run: RunKey, results: Iterable[EpisodeResult]) -> None:
        """Store results; an episode that is there already stays as it is."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            run_id = self._run_id(run)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._database.executemany(
                "INSERT OR IGNORE INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        run_id,
                        result.episode,
                        result.accuracy,
                        result.seconds,
                        json.dumps(result.record),
                        result.version,
                        result.finished_at or now,
                    )
                    for result in results
                ),
            )
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def note_data(self, digest: str, provenance: str) -> None:
        """Remember what the files of a digest are: complete, partial, a stand-in."""
        self._database.execute("INSERT OR REPLACE INTO data VALUES (?, ?)", [digest, provenance])

    def provenances(self) -> dict[str, str]:
        """Return what is known of the data by digest."""
        return dict(self._database.execute("SELECT digest, standing FROM data ORDER BY digest"))

    def runs(self) -> list[RunKey]:
        """List all runs, oldest first."""
        columns = (
            "method, settings, target, data_digest, protocol, weights, weights_digest, encoder, "
            "image_px"
        )
        rows = self._database.execute(f"SELECT {columns} FROM runs ORDER BY run_id")
        return [
            RunKey(row[0], json.loads(row[1]), row[2], row[3], json.loads(row[4]), *row[5:])
            for row in rows
        ]

    def results(self, run: RunKey) -> list[EpisodeResult]:
        """Return the stored episodes of a run, by number."""
        rows = self._database.execute(
            "SELECT episode, accuracy, seconds, record, version, finished_at "
            "FROM episodes JOIN runs USING (run_id) WHERE key = ? ORDER BY episode",
            [run.key],
        )
        return [
            EpisodeResult(number, accuracy, seconds, json.loads(record), version, at)
            for number, accuracy, seconds, record, version, at in rows
        ]

    def _run_id(self, run: RunKey) -> int:
        values = asdict(run) | {
            "settings": json.dumps(run.settings, sort_keys=True),
            "protocol": json.dumps(run.protocol, sort_keys=True),
            "key": run.key,
        }
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        self._database.execute(
            f"INSERT OR IGNORE INTO runs ({names}) VALUES ({marks})", list(values.values())
        )
        found = self._database.execute("SELECT run_id FROM runs WHERE key = ?", [run.key])
        return int(found.fetchone()[0])
