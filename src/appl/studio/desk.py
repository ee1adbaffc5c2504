"""What the pages work on: one run, one session that may write to it, one job at a time.

A run that another process writes to is shown as it lies on disk, and nothing can be changed.
"""

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from appl.errors import DataError
from appl.labelling import asking
from appl.labelling.answers import Answer, read_answers
from appl.labelling.corrections import Correction, known_classes, read_corrections
from appl.labelling.inputs import Inputs
from appl.labelling.reopening import read_run_inputs
from appl.labelling.run_folder import ANSWERS, open_finished
from appl.labelling.session import Session
from appl.labelling.vectors import PileVectors
from appl.report.page import write_report
from appl.studio.jobs import Jobs
from appl.studio.pictures import Pictures

PREPARE, ANSWER, ADAPT = "prepare", "answer", "adapt"


class Desk:
    """A run on the desk."""

    def __init__(self, folder: Path, session: Session | None, who: str = "") -> None:
        """Take a session, or none: then the run can only be looked at."""
        self.folder, self.session, self.who = folder, session, who
        self.version = 0  # counts everything that a page should hear of
        self.said_version = 0  # counts what was said, and answers
        self.is_closing = False
        self.jobs = Jobs(self._changed)
        self._lock = threading.RLock()
        self._is_dirty = False
        self._loaded: tuple[list[Answer], tuple[Correction, ...]] = ([], ())
        if session is None:
            self._inputs = read_run_inputs(folder)
            self._loaded = _load(folder, self._inputs)
        else:
            session.on_progress = self.jobs.progress
            session.keeps_vectors = True
        self.pictures = Pictures(folder, self.inputs.pile, self.inputs.support)

    @property
    def inputs(self) -> Inputs:
        """The files of the run."""
        return self.session.inputs if self.session else self._inputs

    @property
    def can_write(self) -> bool:
        """Whether this process may change the run."""
        return self.session is not None

    @property
    def answers(self) -> list[Answer]:
        """What the model said so far, oldest first."""
        return self.session.answers if self.session else self._loaded[0]

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """What was said so far."""
        return self.session.corrections if self.session else self._loaded[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        """All classes: those that were given, those that were made, those of the answer."""
        last = self.answers[-1].class_names if self.answers else ()
        said = (name for name in known_classes(self.corrections).values() if name)
        return tuple(dict.fromkeys((*self.inputs.class_names, *said, *last)))

    def begin(self) -> None:
        """Do what has to be done before anybody can be asked: read, describe, answer."""
        session = self.session
        if session is None:
            return
        if session.answers or not session.can_answer:
            self.jobs.start(PREPARE, self._prepare)
        else:
            self.jobs.start(ANSWER, self._answer)

    def correct(self, images: Iterable[int], class_name: str) -> int:
        """Say what images are ("": none of the classes); return how many it is said of."""
        with self._lock:
            wanted = dict.fromkeys(images, class_name)
            self._writing().correct(wanted, who=self.who, new_classes=True)
            self._said()
            return len(wanted)

    def accept(self, images: Iterable[int]) -> int:
        """Say that images are what the answer says.

        Those without a label are left out, and those of which something else was said.
        """
        with self._lock:
            session = self._writing()
            if not session.answers:
                raise DataError("there is no answer to accept yet")
            last, known = session.answers[-1], session.known
            open_images = [i for i in images if 0 <= i < len(last) and i not in known]
            labels = {i: last.name(i) for i in open_images if last.name(i)}
            session.correct(labels, who=self.who, new_classes=True)
            self._said()
            return len(labels)

    def skip(self, images: Iterable[int]) -> None:
        """Pass over images."""
        with self._lock:
            self._writing().skip(images, who=self.who)
            self._said()

    def undo(self) -> list[int]:
        """Take back what was said last; return its images."""
        with self._lock:
            lines = self._writing().undo(who=self.who)
            self._said()
            return [line.image for line in lines]

    def redo(self) -> list[int]:
        """Say again what was taken back last."""
        with self._lock:
            lines = self._writing().redo(who=self.who)
            self._said()
            return [line.image for line in lines]

    def teach(self) -> bool:
        """Answer anew with all that was said; false where something else is running."""
        session = self._writing()
        if not session.can_answer:
            raise DataError("name images of at least two classes first")
        return self.jobs.start(ANSWER, self._answer)

    def adapt(self) -> bool:
        """Adapt the encoder anew; false where something else is running."""
        session = self._writing()
        if not session.can_answer:
            raise DataError("name images of at least two classes first")
        return self.jobs.start(ADAPT, self._adapt)

    def teach_next(self, n: int) -> list[int]:
        """Return the images to ask for, class by class as the answer has them."""
        chosen = asking.teach_next(self._described(), n)
        last = self.answers[-1]
        order = {image: place for place, image in enumerate(chosen)}
        return sorted(chosen, key=lambda i: (int(last.class_ids[i]), order[i]))

    def similar(self, image: int, n: int) -> list[int]:
        """Return what looks most like an image."""
        return asking.similar(self._described(), image, n)

    def groups(self) -> list[list[int]]:
        """Return the pile in groups."""
        return asking.groups(self._described())

    def described(self) -> PileVectors | None:
        """Return what the encoders say of all images, where it is there."""
        return self.session.described() if self.session else None

    @cached_property
    def pile_places(self) -> dict[str, int]:
        """The number of each image by the name it has in tables."""
        return {self.inputs.name(path): i for i, path in enumerate(self.inputs.pile)}

    def close(self) -> None:
        """Stop, keep what was said in the labels, and let others have the run."""
        self.is_closing = True
        self.jobs.cancel()
        self.jobs.wait()
        session = self.session
        if session is None:
            return
        session.on_progress = lambda _stage, _done, _total: None
        try:
            if session.model and session.has_news and session.described():
                session.answer()
                self._is_dirty = True
            if self._is_dirty:
                write_report(session.folder)
            if session.rows is not None:
                session.finish()
        finally:
            session.close()

    def _prepare(self) -> str:
        self._writing().describe()
        return ""

    def _answer(self) -> str:
        session = self._writing()
        session.answer()
        self._is_dirty = True
        self._said()
        if len(session.answers) < 2:
            return f"The first answer: {len(session.answers[-1]):,} images."
        n_changed = int(session.answers[-1].changed_since(session.answers[-2]).sum())
        return f"Answered anew: {n_changed:,} labels changed."

    def _adapt(self) -> str:
        session = self._writing()
        if not session.adapt(only_if_better=bool(session.answers)):
            return (
                "The adaptation was not taken: left-out examples were not told apart better. "
                "The answer stays."
            )
        return self._answer()

    def _writing(self) -> Session:
        if self.session is None:
            raise DataError("another process works on this run; here it can only be looked at")
        return self.session

    def _described(self) -> Session:
        session = self._writing()
        if session.described() is None:
            raise DataError("the images are not ready yet; wait for the bar")
        return session

    def _said(self) -> None:
        self.said_version += 1
        self._changed()

    def _changed(self) -> None:
        self.version += 1


def _load(folder: Path, inputs: Inputs) -> tuple[list[Answer], tuple[Correction, ...]]:
    """Read a run that is not ours: its answers, or its labels, if it has any."""
    answers = read_answers(folder / ANSWERS)
    if not answers:
        try:
            rows = open_finished(folder).rows()
            names: Sequence[str] = inputs.class_names
            answers = [Answer.of(rows, names, number=1, kind="frozen", n_corrections=0)]
        except DataError:
            answers = []
    return answers, read_corrections(folder)
