"""The folder of a run: what it holds, whose it is, how far it came.

RUN/
  labels.csv           one row per image of the pile
  model/               the model
  history.*            how it came about
  corrections.csv      what a person said of single images, newest last
  audit/               a sample of the accepted labels to look at, and what was said of it
  certificate.json     what that says of all accepted labels
  answers/             what the model said each time, in a few columns
  vectors/             what the encoders say of every image; may be removed
  inputs.json          the files of examples and pile
  run.json             everything needed to repeat it, and the digests of the files above
  images/              small pictures of the pile and of the examples, for the report
  work/                decoded images; gone when the run is finished
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from appl._version import __version__
from appl.core.files import write_atomically
from appl.errors import DataError
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown, write_inputs
from appl.labelling.model import read_model_record
from appl.labelling.rows import LABELS_VERSION, LabelRow, read_rows
from appl.settings.labelling import LabelSettings
from appl.weights import Pretrained, weights_digest

FORMAT = "appl-run-3"
LABELS = "labels.csv"
SAMPLE = "audit/sample.json"
CERTIFICATE = "certificate.json"
ANSWERS = "answers"
VECTORS = "vectors"
INPUTS = "inputs.json"
# Files whose digests the record carries.
SEALED = (LABELS, "model/model.json", "history.json", "history.safetensors", SAMPLE, CERTIFICATE)


class RunInUseError(DataError):
    """Another process writes to the folder of the run."""


@dataclass
class RunFolder:
    """A run's folder and its record; `lock` is held while this process writes there."""

    path: Path
    record: dict[str, Any] = field(default_factory=dict)
    lock: FileLock | None = None

    def save(self) -> None:
        """Write the record, whole, with the digests of what is there."""
        self.record["sha256"] = {
            name: _sha256(self.path / name) for name in SEALED if (self.path / name).exists()
        }
        write_atomically(self.path / "run.json", json.dumps(self.record, indent=1).encode())

    def unseal(self, *names: str) -> None:
        """Forget the digests of files that are about to be written: a kill shall not damage them.

        `save` seals them again.
        """
        known = self.record["sha256"]
        self.record["sha256"] = {name: known[name] for name in known if name not in names}
        write_atomically(self.path / "run.json", json.dumps(self.record, indent=1).encode())

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage took."""
        began = time.perf_counter()
        yield
        self.record["seconds"][stage] = round(time.perf_counter() - began, 2)
        self.save()

    def checked(self, name: str) -> Path:
        """Return a file of the run that is as the run wrote it."""
        path = self.path / name
        known = self.record["sha256"].get(name)
        if known is not None and path.exists() and _sha256(path) != known:
            raise DataError(
                f"{path} is not what the run wrote (SHA-256 differs); restore it, or give the "
                "`appl label` command again with another --out"
            )
        return path

    def rows(self) -> list[LabelRow]:
        """Read the labels."""
        return read_rows(self.checked(LABELS))

    def history(self) -> History:
        """Read how the model came about."""
        for name in ("history.json", "history.safetensors"):
            self.checked(name)
        return History.load(self.path)

    def model_record(self) -> dict[str, Any]:
        """Read what the model is, without its weights."""
        return read_model_record(self.checked("model/model.json").parent)

    def finish(self) -> None:
        """Mark the run as finished and drop its decoded images."""
        shutil.rmtree(self.path / "work", ignore_errors=True)
        self.record["state"] = "finished"
        self.save()

    def release(self) -> None:
        """Let other processes write to the folder."""
        if self.lock is not None:
            self.lock.release()
            # Nobody else has it: who waits for it holds its place open, and looks again.
            (self.path / ".lock").unlink(missing_ok=True)
            self.lock = None


def open_for_writing(
    inputs: Inputs, settings: LabelSettings, folder: Path, size_px: int, start: Pretrained
) -> RunFolder:
    """Start a run in an empty folder, or go on with the one that the same command started.

    The folder is locked until `release` or the end of the process, however that comes about.
    """
    identity = _identity(inputs, settings, size_px, weights_digest(start))
    path = folder / "run.json"
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; choose another --out")
    is_new = not path.exists()
    if is_new and folder.exists() and any(f.name != ".lock" for f in folder.iterdir()):
        raise DataError(f"{folder} is not empty and holds no run; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder, lock=_locked(folder))
    if not is_new:
        try:
            run.record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}; choose another --out") from error
        if run.record.get("identity") != identity or run.record.get("format") != FORMAT:
            raise DataError(
                f"{folder} holds another run (other images, settings or version); choose another "
                "--out, or remove it"
            )
        return run
    run.record = {
        "format": FORMAT,
        "labels_version": LABELS_VERSION,
        "state": "started",
        "identity": identity,
        "version": __version__,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "encoder": {
            "name": start.name,
            "source": start.source,
            "prototypes": start.pcn.summary,
        },
        "size_px": size_px,
        "settings": asdict(settings),
        "classes": {name: inputs.class_ids.count(i) for i, name in enumerate(inputs.class_names)},
        "support": [shown(path.resolve()) for path in inputs.support],
        "support_class_ids": list(inputs.class_ids),
        "n_pile": len(inputs.pile),
        "notes": list(inputs.notes),
        "seconds": {},
        "weights": weights_digest(start),
    }
    write_inputs(inputs, folder / INPUTS)
    run.save()
    return run


def open_again(folder: Path) -> RunFolder:
    """Open a run that was started, to go on with it; locks the folder."""
    run = read_run(folder)
    run.lock = _locked(folder)
    # Read once more: another process may have written between.
    run.record = read_run(folder).record
    return run


def open_finished(folder: Path) -> RunFolder:
    """Open a run that has labels, to read it."""
    run = read_run(folder)
    if run.record["state"] not in ("labelled", "finished"):
        raise DataError(f"{folder} is not finished; give its `appl label` command again")
    return run


def read_run(folder: Path) -> RunFolder:
    """Read the record of a run, whatever its state, without a claim on it."""
    try:
        record: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{folder} is no run of `appl label` (it has no run.json)") from error
    except ValueError as error:
        raise DataError(f"{folder / 'run.json'} is damaged: {error}") from error
    if record.get("format") != FORMAT:
        raise DataError(
            f"{folder} has format {record.get('format')!r}, this version reads {FORMAT!r}"
        )
    return RunFolder(folder, record)


def open_to_add(folder: Path) -> RunFolder:
    """Open a run that has labels, to put something beside them; locks the folder."""
    run = open_finished(folder)
    for name in SEALED:
        run.checked(name)  # the record is written anew, with the digests of what is there
    run.lock = _locked(folder)
    return run


@contextmanager
def adding_to(folder: Path) -> Iterator[RunFolder]:
    """Hold a run that has labels open, to put something beside them."""
    run = open_to_add(folder)
    try:
        yield run
    finally:
        run.release()


def pile_thumbnails(folder: Path) -> Path:
    """Name the stem of the pile's small pictures, in the order of the rows."""
    return folder / "images" / "pile"


def support_thumbnails(folder: Path) -> Path:
    """Name the stem of the examples' small pictures, in the order of the record's `support`."""
    return folder / "images" / "support"


def _locked(folder: Path) -> FileLock:
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunInUseError(
            f"{folder} is being written by another `appl` command; wait until it is done, or "
            "choose another --out"
        ) from error
    return lock


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _identity(inputs: Inputs, settings: LabelSettings, size_px: int, weights: str) -> str:
    """Tell one command from another before any image is read: names, sizes, times, settings."""
    values = [asdict(settings), size_px, weights, __version__]
    digest = hashlib.sha256(json.dumps(values).encode())
    digest.update(json.dumps([inputs.class_names, inputs.class_ids]).encode())
    for path in (*inputs.support, *inputs.pile):
        digest.update(os.fsencode(path.resolve()))
        if path.exists():
            status = path.stat()
            digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()
