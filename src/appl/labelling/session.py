"""One labelling session: examples and a pile in, labels out; saved at every step.

    session = Session.open(inputs, settings, folder, start, compute)
    session.read()            # decode and check all images
    session.answer()          # labels by the encoder as it is, at once
    session.adapt()           # adapt the encoder to the pile
    session.answer()          # labels by the adapted one
    session.correct({3: "rust"})
    session.undo()            # and again, back to the first
    session.answer()          # corrected images are examples now
    session.finish()

The command line, Python, the report and a page in the browser are skins over it. State is in memory
and written through: the same call in the same folder goes on after the last finished step, another
command there is refused. The pile is judged in blocks that could be judged anywhere.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from appl.core.compute import Compute
from appl.core.episode import Task
from appl.encoders import Describer, sizes_side_by_side
from appl.errors import DataError, SettingsError
from appl.images.store import ImageStore, read_images
from appl.labelling.answers import KEPT, Answer, read_answers
from appl.labelling.checks import Finding, check_images
from appl.labelling.corrections import (
    Correction,
    Kind,
    append_corrections,
    check_class_name,
    known_classes,
    merge_corrections,
    read_corrections,
    redo_last,
    said_at_once,
    undo_last,
    with_corrections,
)
from appl.labelling.cross_fitting import folds_of
from appl.labelling.fitting import Fit, Fitter, fit_on_vectors
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown
from appl.labelling.judging import JudgeBlocks, in_this_process, judge_store, judge_vectors
from appl.labelling.known import Known
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, write_rows
from appl.labelling.run_folder import (
    ANSWERS,
    LABELS,
    VECTORS,
    RunFolder,
    open_for_writing,
    pile_thumbnails,
    support_thumbnails,
)
from appl.labelling.sorting import sort_files
from appl.labelling.vectors import (
    PileVectors,
    describe_pile,
    describer_digest,
    open_pile_vectors,
)
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
    is_reopened: bool = False  # by its folder: the images may have gone since
    keeps_vectors: bool = False  # so that the answers after the next one take no encoder
    model: LabelModel | None = None
    rows: list[LabelRow] | None = None
    history: History | None = None
    corrections: tuple[Correction, ...] = ()
    answers: list[Answer] = field(default_factory=list)  # oldest first
    _support: ImageStore | None = None
    _pile: ImageStore | None = None
    _findings: tuple[Finding, ...] = ()
    _kept_fitter: Fitter | None = None
    _vectors: PileVectors | None = None
    _kept_describer: tuple[Describer, str] | None = None

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
        return cls.of(inputs, settings, run, start, compute, on_progress, on_findings)

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        settings: LabelSettings,
        run: RunFolder,
        start: Pretrained,
        compute: Compute,
        on_progress: OnProgress = lambda _stage, _done, _total: None,
        on_findings: OnFindings = lambda _findings: None,
    ) -> "Session":
        """Go on with a run whose folder is ours, from what is in it."""
        session = cls(inputs, settings, run, start, compute, on_progress, on_findings)
        folder = run.path
        session.corrections = read_corrections(folder)
        if (folder / "history.json").exists() and "fitted" in run.record:
            session.model = LabelModel.load(folder, start.encoder).place(compute)
            session.history = run.history()
        if run.record["state"] in ("labelled", "finished"):
            session.rows = run.rows()
        session.answers = read_answers(folder / ANSWERS)
        if session.rows is not None and not session.answers and session.model is not None:
            # A run that was labelled before answers were kept.
            session._note(session.rows, run.record.get("fitted", "frozen"))
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
        if self.is_reopened:
            self._check_files()
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
        """Label the whole pile by the model of now; without one, by the encoder as it is.

        Images that a person spoke of keep that label; they are examples for all others. Once every
        image is described (`describe`), this takes no encoder.
        """
        corrections = self.corrections
        if self.model is None:
            self.read()
            with self.run.timed("fitting"):
                self._take(self._fitter().frozen(), "frozen", corrections)
        elif self.run.record.get("n_corrections", 0) != len(corrections):
            self.describe()
            with self.run.timed("fitting"):
                self._take(self._refitted(), "corrected", corrections)
        assert self.model is not None
        if self.keeps_vectors:
            self.describe()
        with self.run.timed("labelling"):
            judged = self._judged()
            self.rows = with_corrections(judged, known_classes(corrections))
            if self.settings.sort != "no":
                sort_files(self.rows, self.inputs, self.folder / "sorted", self.settings.sort)
            write_rows(self.folder / LABELS, self.rows)
        self._note(judged, self.run.record["fitted"])
        self.run.record["state"] = "labelled"
        self.run.save()
        return self.rows

    def adapt(self, *, only_if_better: bool = False) -> bool:
        """Adapt the encoder to the pile; the labels follow with the next `answer`.

        With `only_if_better`, the model of now stays where the new one puts fewer of the left-out
        examples into their class. Return whether the new one was taken.
        """
        self.read()
        corrections = self.corrections
        with self.run.timed("adapting"):
            fitter = self._fitter()
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
            if only_if_better and not self._is_better(fit):
                return False
            self._take(fit, "adapted", corrections)
        return True

    def describe(self) -> PileVectors:
        """Describe all images by the encoders of the model, or those of the start: once.

        Kept beside the run, and read from there afterwards.
        """
        if (known := self.described()) is not None:
            return known
        self.read()
        assert self._support is not None and self._pile is not None
        describer, digest = self._describer()
        with self.run.timed("describing"):
            self._vectors = describe_pile(
                describer,
                digest,
                self._support,
                self._pile,
                self.folder / VECTORS,
                lambda *n: self.on_progress("describing", *n),
            )
        return self._vectors

    def described(self) -> PileVectors | None:
        """Return the vectors of all images where they are there already."""
        _, digest = self._describer()
        if self._vectors is None or self._vectors.digest != digest:
            self._vectors = open_pile_vectors(self.folder / VECTORS, digest)
        return self._vectors

    def correct(
        self,
        labels: Mapping[int, str],
        *,
        who: str = "",
        new_classes: bool = False,
    ) -> None:
        """Say what images of the pile are, by their number; "" is none of the classes.

        Written at once; they are examples from the next `answer` or `adapt` on. With `new_classes`
        a name that is not known yet is a class from here on.
        """
        names = self.class_names
        if not new_classes:
            for name in labels.values():
                if name and name not in names:
                    raise DataError(f"no class is called {name!r}; there are {', '.join(names)}")
        wanted = {i: name and check_class_name(name, names) for i, name in labels.items()}
        self._say(wanted, "label", who)

    def skip(self, images: Iterable[int], *, who: str = "") -> None:
        """Say that a person has looked at images and does not know; they are asked no more."""
        self._say(dict.fromkeys(images, ""), "skip", who)

    def undo(self, *, who: str = "") -> list[Correction]:
        """Take back what was said last, all of it that was said at once; return its lines."""
        return self._take_back(undo_last(self.corrections, who))

    def redo(self, *, who: str = "") -> list[Correction]:
        """Take back the last undo; return the lines that count again."""
        taken_back = self._take_back(redo_last(self.corrections, who))
        acts = {line.undoes for line in taken_back}
        return [line for line in self.corrections if line.act in acts]

    def merge(self, log: Path) -> int:
        """Add what somebody else said of the same pile; return how many images are in conflict."""
        n_conflicts = merge_corrections(self.folder, log)
        self.corrections = read_corrections(self.folder)
        return n_conflicts

    @property
    def known(self) -> dict[int, str]:
        """The class names of the images that a person spoke of; "": none of the classes."""
        return known_classes(self.corrections)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that were given, and those that corrections brought."""
        added = dict.fromkeys(name for name in self.known.values() if name)
        return tuple(dict.fromkeys((*self.inputs.class_names, *added)))

    @property
    def can_answer(self) -> bool:
        """Whether there are examples of at least two classes."""
        return len(self.class_names) > 1

    @property
    def has_news(self) -> bool:
        """Whether something was said that the last answer does not know."""
        return bool(self.run.record.get("n_corrections", 0) != len(self.corrections))

    def finish(self) -> None:
        """Mark the run as finished, drop its decoded images, let others have the folder."""
        if not self.is_finished:
            self.run.finish()
        self.close()

    def close(self) -> None:
        """Let others have the folder; the same call goes on."""
        self.run.release()

    def _say(self, labels: dict[int, str], kind: Kind, who: str) -> None:
        for image in labels:
            if not 0 <= image < len(self.inputs.pile):
                raise DataError(f"the pile has no image {image}; it has {len(self.inputs.pile)}")
        last = self.answers[-1] if self.answers else None
        was = {image: last.name(image) for image in labels} if last else {}
        number = last.number if last else 0
        self._add(said_at_once(labels, kind=kind, who=who, answer=number, was=was))

    def _add(self, lines: list[Correction]) -> None:
        if lines:
            append_corrections(self.folder, lines)
            self.corrections = (*self.corrections, *lines)
            self._kept_fitter = None

    def _take_back(self, lines: list[Correction]) -> list[Correction]:
        acts = {line.undoes for line in lines}
        self._add(lines)
        return [line for line in self.corrections if line.act in acts]

    def _fitter(self) -> Fitter:
        """Describe examples and pile by the frozen encoder, once."""
        if self._kept_fitter is not None:
            return self._kept_fitter
        assert self._support is not None and self._pile is not None
        start = replace(
            self.start,
            encoder=self.start.encoder.place(self.compute),
            pcn=self.start.pcn.to(self.compute.device),
            beside=tuple(encoder.place(self.compute) for encoder in self.start.beside),
        )
        known = self._known(self._support.readable.tolist(), self._pile.readable.tolist())
        images = torch.cat([self._support.images(known.examples), self._pile.images(known.taught)])
        self._kept_fitter = Fitter(
            start,
            Task(images, known.class_ids, self._pile.images(known.pool)),
            known.pool,
            self.settings,
            class_names=known.class_names,
            example_names=known.names,
        )
        return self._kept_fitter

    def _refitted(self) -> Fit:
        """Fit the model of now to what is known now, by the vectors that are there."""
        assert self.model is not None
        vectors = self.describe()
        known = self._known(vectors.support.readable.tolist(), vectors.pile.readable.tolist())
        examples, taught = vectors.support.of(known.examples), vectors.pile.of(known.taught)
        return fit_on_vectors(
            self.model,
            [torch.cat(parts) for parts in zip(examples, taught, strict=True)],
            known.class_ids,
            vectors.pile.of(known.pool),
            known.pool,
            self.settings,
            class_names=known.class_names,
            example_names=known.names,
        )

    def _known(self, examples: list[int], readable: list[int]) -> Known:
        return Known.of(self.inputs, self.settings, self.known, examples, readable)

    def _judged(self) -> list[LabelRow]:
        """Judge the pile: by its vectors where they are known, else by its images."""
        assert self.model is not None
        names = [self.inputs.name(path) for path in self.inputs.pile]
        report = partial(self.on_progress, "labelling")
        if (vectors := self.described()) is not None:
            return judge_vectors(self.model, vectors.pile, names, report)
        self.read()
        assert self._pile is not None
        return judge_store(self.model, self._pile, names, report, self.judge_blocks)

    def _describer(self) -> tuple[Describer, str]:
        """Return how the model, or the start, describes images, and a digest of it."""
        kept = self._kept_describer
        if kept is None or (self.model is not None and kept[0] is not self.model.describer):
            describer = self.model.describer if self.model else self._start_describer()
            kept = self._kept_describer = describer, describer_digest(describer)
        return kept

    def _check_files(self) -> None:
        """Refuse to read what is not there: the small pictures of the run would be lost as well."""
        files = (*self.inputs.support, *self.inputs.pile)
        missing = [path for path in files if not path.exists()]
        if missing:
            raise DataError(
                f"{len(missing)} of the run's {len(files)} images are not where they were, such as "
                f"{shown(missing[0])}; put them back: without them nothing new can be learnt"
            )

    def _start_describer(self) -> Describer:
        """Guess how the first answer will want images described; where it does not, once more."""
        encoders = tuple(encoder.place(self.compute) for encoder in self.start.encoders)
        answer = self.settings.solving.answer
        sizes_px = sizes_side_by_side(encoders)
        if len(encoders) == 1:
            sizes_px = (self.run.record["size_px"],)
        is_wide = answer.weighs_all
        weight = answer.texture_weight if is_wide else 0.0
        return Describer(encoders, sizes_px, answer.mirrored and is_wide, weight)

    def _is_better(self, fit: Fit) -> bool:
        """Tell whether a fit puts as many left-out examples right as the model of now."""
        if self.model is None or self.history is None:
            return True
        now = self.history.left_out if self.model.is_adapted else fit.frozen_left_out
        return fit.model.is_adapted and fit.left_out.accuracy >= now.accuracy

    def _note(self, judged: list[LabelRow], kind: str) -> None:
        """Keep what the model said, beside earlier answers."""
        assert self.model is not None
        answer = Answer.of(
            judged,
            self.model.class_names,
            number=self.answers[-1].number + 1 if self.answers else 1,
            kind=kind,
            n_corrections=self.run.record.get("n_corrections", 0),
        )
        answer.save(self.folder / ANSWERS)
        self.answers = [*self.answers, answer][-KEPT:]

    def _take(self, fit: Fit, kind: str, corrections: tuple[Correction, ...]) -> None:
        """Make a fit the model of the session, and write it down."""
        record = self.run.record
        fit.model.provenance.update(
            {key: record[key] for key in ("version", "encoder", "settings", "input_digests")}
        )
        fit.model.save(self.folder / "model", has_encoders=kind == "corrected")
        self.history = History.of(fit, [asdict(finding) for finding in self._findings])
        self.history.save(self.folder)
        self.model = fit.model
        record["fitted"], record["n_corrections"] = kind, len(corrections)
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
