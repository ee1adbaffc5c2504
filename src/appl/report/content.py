"""What a run left in its folder, read for the report: no weights, so it takes no time."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from appl.errors import DataError
from appl.images.thumbnails import Thumbnails
from appl.labelling.audit import Certificate
from appl.labelling.audit_files import find_certificate
from appl.labelling.confidence import Acceptance
from appl.labelling.history import History
from appl.labelling.inputs import shown
from appl.labelling.rows import LabelRow
from appl.labelling.run_folder import open_finished, pile_thumbnails, support_thumbnails


@dataclass(frozen=True)
class Example:
    """An example that could be read: where it lies and the class that it was given."""

    path: str
    class_id: int


@dataclass(frozen=True)
class RunContent:
    """A run as its files tell it."""

    record: dict[str, Any]  # run.json
    model: dict[str, Any]  # model.json
    history: History
    rows: list[LabelRow]
    pile_thumbnails: Thumbnails | None  # in the order of the rows
    support_thumbnails: Thumbnails | None  # in the order of the record's `support`
    certificate: Certificate | None = None  # of an audit of these labels
    was_audited: bool = False  # there is a certificate, but of earlier labels

    @classmethod
    def load(cls, folder: Path) -> "RunContent":
        """Read a run that has labels."""
        run = open_finished(folder)
        return cls(
            run.record,
            run.model_record(),
            run.history(),
            run.rows(),
            _thumbnails(pile_thumbnails(folder)),
            _thumbnails(support_thumbnails(folder)),
            *find_certificate(run),
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of their ids."""
        return tuple(self.model["classes"])

    @property
    def is_adapted(self) -> bool:
        """Whether the labels come from an encoder that was adapted."""
        return bool(self.model["is_adapted"])

    @property
    def acceptance(self) -> Acceptance:
        """The threshold and its promise."""
        return Acceptance(**self.model["acceptance"])

    @cached_property
    def examples(self) -> list[Example]:
        """The examples that could be read, in the model's order."""
        names, support = self.model["examples"], self.record["support"]
        if len(names) != len(support):
            # Some could not be read. The record holds whole paths, the model those that were given.
            known = set(support)
            whole = [shown(Path(name).resolve()) for name in names]
            support = [w if w in known else name for w, name in zip(whole, names, strict=True)]
        ids = self.model["example_class_ids"]
        return [Example(path, class_id) for path, class_id in zip(support, ids, strict=True)]

    @cached_property
    def labelled(self) -> dict[str, list[int]]:
        """For each class the rows that were given it, accepted or to review."""
        found: dict[str, list[int]] = {name: [] for name in self.class_names}
        for i, row in enumerate(self.rows):
            if row.decision in ("accept", "review"):
                found.setdefault(row.label, []).append(i)
        return found

    @cached_property
    def decisions(self) -> Counter[str]:
        """How many images were accepted, left to review, none of these, unreadable."""
        return Counter(row.decision for row in self.rows)


def _thumbnails(stem: Path) -> Thumbnails | None:
    try:
        return Thumbnails.open(stem)
    except DataError:  # removed since: a page without pictures is better than none
        return None
