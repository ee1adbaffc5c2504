"""A run: from SUPPORT and PILE to a folder with labels and model, in stages that can be resumed.

RUN/
  labels.csv           a row an image of the pile
  model/               the adapted model
  history.*            how it came about
  run.json             everything needed to repeat it
  work/                decoded images; gone when the run is finished

Each stage leaves its result on disk, whole, before the next one starts. The same command goes on
after the last finished stage; another command in the same folder is refused.
"""

import hashlib
import itertools
import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from appl._version import __version__
from appl.core.compute import Compute
from appl.core.episode import Task
from appl.core.files import write_atomically
from appl.errors import DataError
from appl.labelling.checks import Finding, check_images
from appl.labelling.cross_fitting import folds_of
from appl.labelling.fitting import draw_pool, fit_model
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown
from appl.labelling.model import LabelModel
from appl.labelling.reading import ImageStore, read_images
from appl.labelling.rows import (
    LABELS_VERSION,
    LabelRow,
    judge_names,
    read_rows,
    unreadable_row,
    write_rows,
)
from appl.settings.labelling import LabelSettings
from appl.training.shipped import weights_digest
from appl.training.weights import Pretrained

FORMAT = "appl-run-2"
JUDGED_AT_ONCE = 256

# stage, done, total
OnProgress = Callable[[str, int, int], None]


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


def label_pile(
    inputs: Inputs,
    settings: LabelSettings,
    folder: Path,
    start: Pretrained,
    compute: Compute,
    *,
    on_progress: OnProgress = lambda _stage, _done, _total: None,
    on_findings: Callable[[list[Finding]], None] = lambda _findings: None,
) -> Run:
    """Label a pile, or go on where an earlier call in the same folder was stopped."""
    meta = start.encoder.meta
    size_px = settings.size_px or meta.label_px or meta.input_px
    run = _open_run(inputs, settings, folder, size_px, start)
    work = folder / "work"
    if run.record["state"] == "finished":
        return run
    with _timed(run, "reading"):
        support = read_images(
            inputs.support, work / "support", size_px, lambda *n: on_progress("examples", *n)
        )
        pile = read_images(
            inputs.pile, work / "pile", size_px, lambda *n: on_progress("decoding", *n)
        )
        run.record["input_digests"] = {
            "support": _content_digest(support),
            "pile": _content_digest(pile),
        }
        findings = check_images(inputs, support, pile)
    on_findings(findings)
    if not (folder / "history.json").exists():
        with _timed(run, "adapting"):
            _fit(run, start, compute, support, pile, findings, on_progress)
    if not (folder / "labels.csv").exists():
        with _timed(run, "labelling"):
            rows = _judge_pile(run, compute, pile, on_progress)
            if settings.sort != "no":
                sort_files(rows, inputs, folder / "sorted", settings.sort)
            write_rows(folder / "labels.csv", rows)
    run.record["state"] = "labelled"
    _save(run)
    return run


def finish(run: Run) -> None:
    """Mark a run as finished and drop its decoded images."""
    shutil.rmtree(run.folder / "work", ignore_errors=True)
    run.record["state"] = "finished"
    _save(run)


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


def sort_files(rows: list[LabelRow], inputs: Inputs, folder: Path, how: str) -> None:
    """Put every image of the pile into a folder of its label, or of its decision if not accepted.

    Images that nobody should take for sorted ones go to folders whose names start with `_`.
    """
    taken: set[Path] = set()
    for row, path in zip(rows, inputs.pile, strict=True):
        name = _folder_name(row.label) if row.decision == "accept" else f"_{row.decision}"
        place = folder / name / path.name
        for number in range(2, len(rows) + 2):
            if place not in taken:
                break
            place = folder / name / f"{path.stem}-{number}{path.suffix}"
        taken.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or place.exists():
            continue
        if how == "link":
            place.symlink_to(path.resolve())
        elif path.exists():
            shutil.copyfile(path, place)


def _fit(
    run: Run,
    start: Pretrained,
    compute: Compute,
    support: ImageStore,
    pile: ImageStore,
    findings: list[Finding],
    on_progress: OnProgress,
) -> None:
    settings, inputs = run.settings, run.inputs
    examples = support.readable
    readable = pile.readable
    pool = readable[draw_pool(len(readable), settings)]
    task = Task(
        support.images(examples),
        torch.tensor(inputs.class_ids)[examples],
        pile.images(pool),
    )
    # Once for the labels, then without some of the examples in turn, to know how far to trust them.
    n_adaptations = 1 + len(folds_of(task.class_ids)) if settings.adapt else 0
    n_iterations = n_adaptations * settings.adaptation.n_iterations
    steps = itertools.count(1)
    on_progress("adapting", 0, n_iterations)
    fit = fit_model(
        start.encoder.place(compute),
        start.pcn.to(compute.device),
        task,
        pool,
        settings,
        class_names=inputs.class_names,
        example_names=tuple(shown(inputs.support[i]) for i in examples.tolist()),
        prior_temperature=start.encoder.meta.temperature,
        on_iteration=lambda _record: on_progress("adapting", next(steps), n_iterations),
    )
    fit.model.provenance.update(
        {key: run.record[key] for key in ("version", "encoder", "settings", "input_digests")}
    )
    fit.model.save(run.folder / "model")
    History.of(fit, findings).save(run.folder)


def _judge_pile(
    run: Run, compute: Compute, pile: ImageStore, on_progress: OnProgress
) -> list[LabelRow]:
    model = run.model.place(compute)
    rows: dict[int, LabelRow] = {}
    for i, fact in enumerate(pile.facts):
        if fact.problem:
            rows[i] = unreadable_row(shown(run.inputs.pile[i]), fact.problem)
    on_progress("labelling", len(rows), len(pile.facts))
    for part in pile.readable.split(JUDGED_AT_ONCE):
        index = part.tolist()
        names = [shown(run.inputs.pile[i]) for i in index]
        rows |= dict(zip(index, judge_names(model, names, pile.images(part)), strict=True))
        on_progress("labelling", len(rows), len(pile.facts))
    return [rows[i] for i in range(len(pile.facts))]


def _open_run(
    inputs: Inputs, settings: LabelSettings, folder: Path, size_px: int, start: Pretrained
) -> Run:
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
    _save(run)
    return run


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


def _content_digest(store: ImageStore) -> str:
    digest = hashlib.sha256()
    for fact in store.facts:
        digest.update(f"{fact.content}\n".encode())
    return digest.hexdigest()


@contextmanager
def _timed(run: Run, stage: str) -> Any:
    began = time.perf_counter()
    yield
    run.record["seconds"][stage] = round(time.perf_counter() - began, 2)
    _save(run)


def _save(run: Run) -> None:
    write_atomically(run.folder / "run.json", json.dumps(run.record, indent=1).encode())


def _folder_name(class_name: str) -> str:
    """Return a class name that is one folder on every system, never a way out of it."""
    kept = "".join("_" if c in '/\\:*?"<>|' or ord(c) < 32 else c for c in class_name)
    kept = kept.strip(" .")[:150] or "_"
    return f"class {kept}" if kept.startswith("_") else kept
