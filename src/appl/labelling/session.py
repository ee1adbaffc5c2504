"""One labelling session: examples and a pile in, labels out; saved at every step.

    session = Session.open(inputs, settings, folder, start, compute)
    session.read()            # decode and check all images
    session.answer()          # labels by the encoder as it is, at once
    session.adapt()           # adapt the encoder to the pile
    session.answer()          # labels by the adapted one
    session.correct({3: "rust"})
    session.answer()          # corrected images are examples now
    session.finish()

The command line, Python, the report and a page in the browser are skins over it. State is in memory
and written through: the same call in the same folder goes on after the last finished step, another
command there is refused. The pile is judged in blocks that could be judged anywhere.
"""

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from appl.core.compute import Compute
from appl.core.episode import Task
from appl.errors import DataError, SettingsError
from appl.images.store import ImageStore, read_images
from appl.labelling.checks import Finding, check_images
from appl.labelling.corrections import Correction, append_corrections, read_corrections
from appl.labelling.cross_fitting import folds_of
from appl.labelling.fitting import Fit, Fitter, draw_pool
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown
from appl.labelling.judging import JudgeBlocks, in_this_process, judge_store
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, write_rows
from appl.labelling.run_folder import (
    LABELS,
    RunFolder,
    open_for_writing,
    pile_thumbnails,
    support_thumbnails,
)
from appl.labelling.sorting import sort_files
from appl.settings.labelling import LabelSettings
from appl.weights import Pretrained

# stage, done, total
OnProgress = Callable[[str, int, int], None]
OnFindings = Callable[[list[Finding]], None]


@dataclass
class Session:
    """A pile on its way to labels."""

    inputs: Inputs
    settings: LabelSettings
    run: RunFolder
    start: Pretrained
    compute: Compute
    on_progress: OnProgress = lambda _stage, _done, _total: None
    on_findings: OnFindings = lambda _findings: None
    judge_blocks: JudgeBlocks = in_this_process
    model: LabelModel | None = None
    rows: list[LabelRow] | None = None
    history: History | None = None
    corrections: tuple[Correction, ...] = ()
    _support: ImageStore | None = None
    _pile: ImageStore | None = None
    _findings: tuple[Finding, ...] = ()
    _fitter: Fitter | None = None

    @classmethod
    def open(
        cls,
        inputs: Inputs,
        settings: LabelSettings,
        folder: Path,
        start: Pretrained,
        compute: Compute,
        *,
        on_progress: OnProgress = lambda _stage, _done, _total: None,
        on_findings: OnFindings = lambda _findings: None,
    ) -> "Session":
        """Begin in an empty folder, or go on where the same call was stopped; locks the folder."""
        size_px = _size_px(start, settings)
        run = open_for_writing(inputs, settings, folder, size_px, start)
        session = cls(inputs, settings, run, start, compute, on_progress, on_findings)
        session.corrections = read_corrections(folder)
        if (folder / "history.json").exists() and "fitted" in run.record:
            session.model = LabelModel.load(folder, start.encoder).place(compute)
            session.history = run.history()
        if run.record["state"] in ("labelled", "finished"):
            session.rows = run.rows()
        return session

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.run.path

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to do."""
        return bool(self.run.record["state"] == "finished")

    def label(self) -> list[LabelRow]:
        """Do all that is left: read, answer, adapt if that is wanted, answer again."""
        if self.rows is not None and self.run.record["n_corrections"] == len(self.corrections):
            return self.rows
        self.read()
        if self.settings.adapt and self.run.record.get("fitted") != "adapted":
            self.adapt()
        return self.answer()

    def read(self) -> None:
        """Decode every image once, and say what is worth knowing about them."""
        if self._pile is not None:
            return
        work, size_px = self.folder / "work", self.run.record["size_px"]
        with self.run.timed("reading"):
            self._support = read_images(
                self.inputs.support,
                work / "support",
                size_px,
                lambda *n: self.on_progress("examples", *n),
                thumbnails=support_thumbnails(self.folder),
            )
            self._pile = read_images(
                self.inputs.pile,
                work / "pile",
                size_px,
                lambda *n: self.on_progress("decoding", *n),
                thumbnails=pile_thumbnails(self.folder),
            )
            self.run.record["input_digests"] = {
                "support": _content_digest(self._support),
                "pile": _content_digest(self._pile),
            }
            self._findings = tuple(check_images(self.inputs, self._support, self._pile))
        self.on_findings(list(self._findings))

    def answer(self) -> list[LabelRow]:
        """Label the whole pile by the model of now; without one, by the encoder as it is."""
        self.read()
        assert self._pile is not None
        if self.model is None:
            with self.run.timed("fitting"):
                self._take(self._fitted().frozen(), "frozen")
        elif self.run.record.get("n_corrections", 0) != len(self.corrections):
            with self.run.timed("fitting"):
                self._take(self._fitted(self.model.as_start()).frozen(), "corrected")
        assert self.model is not None
        with self.run.timed("labelling"):
            names = [shown(path) for path in self.inputs.pile]
            self.rows = judge_store(
                self.model,
                self._pile,
                names,
                lambda *n: self.on_progress("labelling", *n),
                self.judge_blocks,
            )
            if self.settings.sort != "no":
                sort_files(self.rows, self.inputs, self.folder / "sorted", self.settings.sort)
            write_rows(self.folder / LABELS, self.rows)
        self.run.record["state"] = "labelled"
        self.run.save()
        return self.rows

    def adapt(self) -> None:
        """Adapt the encoder to the pile; the labels follow with the next `answer`."""
        self.read()
        with self.run.timed("adapting"):
            fitter = self._fitted()
            # Once for the labels, then without some of the examples in turn, to know how far to
            # trust them.
            n_adaptations = 1 + len(folds_of(fitter.task.class_ids))
            n_iterations = n_adaptations * self.settings.solving.adaptation.n_iterations
            n_iterations *= len(self.start.encoders)
            steps = itertools.count(1)
            self.on_progress("adapting", 0, n_iterations)
            fit = fitter.adapted(
                lambda _record: self.on_progress("adapting", next(steps), n_iterations)
            )
            self._take(fit, "adapted")

    def correct(self, labels: Mapping[int, str]) -> None:
        """Say what images of the pile are, by their number; "" is none of the classes.

        Written at once; they are examples from the next `answer` or `adapt` on.
        """
        for image, name in labels.items():
            if not 0 <= image < len(self.inputs.pile):
                raise DataError(f"the pile has no image {image}; it has {len(self.inputs.pile)}")
            if name and name not in self.inputs.class_names:
                raise DataError(
                    f"no class is called {name!r}; there are {', '.join(self.inputs.class_names)}"
                )
        added = [Correction.now(image, name) for image, name in labels.items()]
        append_corrections(self.folder, added)
        self.corrections = (*self.corrections, *added)
        self._fitter = None

    def finish(self) -> None:
        """Mark the run as finished, drop its decoded images, let others have the folder."""
        if not self.is_finished:
            self.run.finish()
        self.close()

    def close(self) -> None:
        """Let others have the folder; the same call goes on."""
        self.run.release()

    def _fitted(self, start: Pretrained | None = None) -> Fitter:
        """Describe examples and pile by the frozen encoder, once."""
        if self._fitter is not None and start is None:
            return self._fitter
        start = start or self.start
        start = replace(
            start,
            encoder=start.encoder.place(self.compute),
            pcn=start.pcn.to(self.compute.device),
            beside=tuple(encoder.place(self.compute) for encoder in start.beside),
        )
        task, pool, names = self._task()
        fitter = Fitter(
            start,
            task,
            pool,
            self.settings,
            class_names=self.inputs.class_names,
            example_names=names,
        )
        self._fitter = fitter if start.encoder is self.start.encoder else None
        return fitter

    def _task(self) -> tuple[Task, Tensor, tuple[str, ...]]:
        """Return the task: examples, with corrected images among them, and the rest of the pile."""
        assert self._support is not None and self._pile is not None
        examples, readable = self._support.readable, self._pile.readable
        known = {c.image: c.class_name for c in self.corrections}
        is_readable = set(readable.tolist())
        taught = [i for i, name in known.items() if name and i in is_readable]
        left = torch.tensor([i for i in readable.tolist() if i not in known], dtype=torch.int64)
        left = left if len(left) else readable
        pool = left[draw_pool(len(left), self.settings)]
        class_ids = torch.tensor(self.inputs.class_ids)[examples]
        images = self._support.images(examples)
        names = [shown(self.inputs.support[i]) for i in examples.tolist()]
        if taught:
            more = [self.inputs.class_names.index(known[i]) for i in taught]
            class_ids = torch.cat([class_ids, torch.tensor(more)])
            images = torch.cat([images, self._pile.images(taught)])
            names += [shown(self.inputs.pile[i]) for i in taught]
        return Task(images, class_ids, self._pile.images(pool)), pool, tuple(names)

    def _take(self, fit: Fit, kind: str) -> None:
        """Make a fit the model of the session, and write it down."""
        record = self.run.record
        fit.model.provenance.update(
            {key: record[key] for key in ("version", "encoder", "settings", "input_digests")}
        )
        fit.model.save(self.folder / "model")
        self.history = History.of(fit, [asdict(finding) for finding in self._findings])
        self.history.save(self.folder)
        self.model = fit.model
        record["fitted"], record["n_corrections"] = kind, len(self.corrections)
        self.run.save()


def _size_px(start: Pretrained, settings: LabelSettings) -> int:
    """Return the size at which images are kept: the largest that an encoder sees."""
    advised = [e.meta.label_px or e.meta.input_px for e in start.encoders]
    if settings.size_px and len(advised) > 1:
        raise SettingsError(
            f"size_px = {settings.size_px}: encoders side by side see images at their own sizes "
            f"({', '.join(map(str, advised))} px); leave it out"
        )
    return settings.size_px or max(advised)


def _content_digest(store: ImageStore) -> str:
    digest = hashlib.sha256()
    for fact in store.facts:
        digest.update(f"{fact.content}\n".encode())
    return digest.hexdigest()
