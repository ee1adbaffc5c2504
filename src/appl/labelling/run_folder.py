"""The folder of a run: what it holds, whose it is, how far it came.

RUN/
  labels.csv           a row an image of the pile
  model/               the adapted model
  history.*            how it came about
  run.json             everything needed to repeat it
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

from appl._version import __version__
from appl.core.files import write_atomically
from appl.errors import DataError
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown
from appl.labelling.model import LabelModel
from appl.labelling.rows import LABELS_VERSION, LabelRow, read_rows
from appl.settings.labelling import LabelSettings
from appl.training.shipped import weights_digest
from appl.training.weights import Pretrained

FORMAT = "appl-run-2"


@dataclass
class Run:
    """A run's folder and what is known of it."""

    folder: Path
    inputs: Inputs
    settings: LabelSettings
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> LabelModel:
        """The adapted model."""
        return LabelModel.load(self.folder)

    @property
    def history(self) -> History:
        """How the model came about."""
        return History.load(self.folder)

    @property
    def rows(self) -> list[LabelRow]:
        """The labels."""
        return read_rows(self.folder / "labels.csv")

    def save(self) -> None:
        """Write the record, whole."""
        write_atomically(self.folder / "run.json", json.dumps(self.record, indent=1).encode())

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage took."""
        began = time.perf_counter()
        yield
        self.record["seconds"][stage] = round(time.perf_counter() - began, 2)
        self.save()


def open_run(
    inputs: Inputs, settings: LabelSettings, folder: Path, size_px: int, start: Pretrained
) -> Run:
    """Start a run in an empty folder, or go on with the one that the same command started."""
    identity = _identity(inputs, settings, size_px, weights_digest(start))
    run = Run(folder, inputs, settings)
    path = folder / "run.json"
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; choose another --out")
    if path.exists():
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
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty and holds no run; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    meta = start.encoder.meta
    run.record = {
        "format": FORMAT,
        "labels_version": LABELS_VERSION,
        "state": "started",
        "identity": identity,
        "version": __version__,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "encoder": {"name": meta.name, "source": meta.source},
        "size_px": size_px,
        "settings": asdict(settings),
        "classes": {name: inputs.class_ids.count(i) for i, name in enumerate(inputs.class_names)},
        "support": [shown(path.resolve()) for path in inputs.support],
        "support_class_ids": list(inputs.class_ids),
        "n_pile": len(inputs.pile),
        "notes": list(inputs.notes),
        "seconds": {},
    }
    run.save()
    return run


def pile_thumbnails(folder: Path) -> Path:
    """Name the stem of the pile's small pictures, in the order of the rows."""
    return folder / "images" / "pile"


def support_thumbnails(folder: Path) -> Path:
    """Name the stem of the examples' small pictures, in the order of the record's `support`."""
    return folder / "images" / "support"


def finish(run: Run) -> None:
    """Mark a run as finished and drop its decoded images."""
    shutil.rmtree(run.folder / "work", ignore_errors=True)
    run.record["state"] = "finished"
    run.save()


def open_finished(folder: Path) -> dict[str, Any]:
    """Return the record of a run that has labels."""
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
    if record["state"] not in ("labelled", "finished"):
        raise DataError(f"{folder} is not finished; give its `appl label` command again")
    return record


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
