"""A run's folder made by hand: what `appl label` leaves, without an encoder."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from appl.errors import DataError
from appl.images.decode import decode
from appl.images.thumbnails import make_thumbnail, write_thumbnails
from appl.labelling.history import History
from appl.labelling.left_out import LeftOut
from appl.labelling.model import FORMAT as MODEL_FORMAT
from appl.labelling.novelty import NOVEL_AT
from appl.labelling.rows import LabelRow, unreadable_row, write_rows
from appl.labelling.run_folder import FORMAT, pile_thumbnails, support_thumbnails
from appl.report.page import write_report

VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}


def picture(path: Path, shade: int = 100, size: tuple[int, int] = (30, 20)) -> str:
    """Write a small picture and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = (shade % 256, (shade * 7) % 256, (shade * 13) % 256)
    Image.new("RGB", size, colour).save(path)
    return str(path)


@dataclass
class FakeRun:
    """What a run holds; `write` puts it on disk."""

    folder: Path
    class_names: tuple[str, ...] = ("rust", "healthy")
    n_shot: int = 3
    rows: list[LabelRow] = field(default_factory=list)
    pool: list[int] | None = None  # all rows that could be read
    is_adapted: bool = True
    adapt: bool = True
    n_records: int = 4
    n_left_out: int = 6
    facts: dict[str, Any] = field(default_factory=dict)
    acceptance: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        label: str,
        confidence: float | None = 0.9,
        decision: str = "accept",
        *,
        novelty: float | None = 0.5,
        name: str = "",
        path: str = "",
    ) -> LabelRow:
        """Add an image of the pile; its picture is made unless a path is given."""
        number = len(self.rows)
        if not path:
            path = picture(self.folder.parent / "pile" / (name or f"image{number}.png"), number)
        others = [other for other in self.class_names if other != label]
        second = None if confidence is None else round((1 - confidence) / 2, 4)
        if decision == "none-of-these":
            novelty = max(novelty or 0, NOVEL_AT + 0.1)
        row = LabelRow(path, label, confidence, others[0], second, decision, novelty, "")  # type: ignore[arg-type]
        self.rows.append(row)
        return row

    def add_unreadable(self, name: str = "torn.png") -> LabelRow:
        """Add an image that cannot be opened."""
        path = self.folder.parent / "pile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no image")
        row = unreadable_row(str(path), "not a readable image")
        self.rows.append(row)
        return row

    @property
    def examples(self) -> list[str]:
        return [
            str(self.folder.parent / "support" / f"{class_id}-{shot}.png")
            for class_id in range(len(self.class_names))
            for shot in range(self.n_shot)
        ]

    def write(self) -> Path:
        for shade, path in enumerate(self.examples):
            picture(Path(path), 40 * shade)
        self.write_thumbnails()
        n_way, ids = len(self.class_names), []
        for class_id in range(n_way):
            ids += [class_id] * self.n_shot
        (self.folder / "model").mkdir(parents=True)
        record = {
            "format": FORMAT,
            "state": "labelled",
            "identity": "1d" * 32,
            "version": "0.1.0",
            "versions": {"python": "3.11"},
            "settings": {
                "adapt": self.adapt,
                "target_error": 0.05,
                "solving": {"adaptation": {"n_iterations": 30}},
            },
            "classes": dict.fromkeys(self.class_names, self.n_shot),
            "sha256": {},
            "support": self.examples,
            "support_class_ids": ids,
            "notes": [],
            "seconds": {"reading": 1.5},
            "input_digests": {"pile": "ab" * 32},
        }
        promise = {"wanted": 0.05, "promised": 0.05, "threshold": 0.6, "n_examples": 40}
        model = {
            "format": MODEL_FORMAT,
            "sha256": {},
            "prototypes": "class mean (untrained)",
            "classes": list(self.class_names),
            "encoder": "small",
            "encoder_sources": [{"name": "weights", "licence": "Apache-2.0"}],
            "temperature": 1.0,
            "acceptance": promise | self.acceptance,
            "novelty": {"class_reference": 2.0, "example_reference": 0.5},
            "examples": self.examples,
            "example_class_ids": ids,
            "is_adapted": self.is_adapted,
        }
        (self.folder / "run.json").write_text(json.dumps(record | self.record))
        (self.folder / "model" / "model.json").write_text(json.dumps(model | self.model))
        write_rows(self.folder / "labels.csv", self.rows)
        self._history(ids).save(self.folder)
        return self.folder

    def write_thumbnails(self) -> None:
        """Make the pictures anew, of the files as they are now."""
        made: dict[str, bytes] = {}
        stems = (pile_thumbnails(self.folder), support_thumbnails(self.folder))
        for stem, paths in zip(
            stems, ([row.path for row in self.rows], self.examples), strict=True
        ):
            with write_thumbnails(stem) as add:
                for path in paths:
                    if path not in made:
                        made[path] = _thumbnail(path)
                    add(made[path])

    def _history(self, ids: list[int]) -> History:
        n_way = len(self.class_names)
        readable = [i for i, row in enumerate(self.rows) if row.decision != "unreadable"]
        pool = torch.tensor(readable if self.pool is None else self.pool)
        generator = torch.Generator().manual_seed(0)
        # Of two numbers each: a map already.
        vectors = torch.randn(2, len(ids) + len(pool), 2, generator=generator)
        if not self.is_adapted:
            vectors[1] = vectors[0]
        records = [
            {
                "iteration": i + 1,
                "n_label_changes": 4 - i,
                "selected_share": 0.5,
                "support_accuracy": 1.0,
                "class_balance": [1 / n_way] * n_way,
            }
            for i in range(self.n_records)
        ]
        class_ids = torch.arange(self.n_left_out) % n_way
        scores = 2 * torch.nn.functional.one_hot(class_ids, n_way).float()
        far = torch.ones(self.n_left_out)
        parts = (torch.arange(self.n_left_out), class_ids, scores, far, far)
        left_out, frozen = (LeftOut(*(part.clone() for part in parts)) for _ in range(2))
        labels = torch.zeros(self.n_records, len(pool), dtype=torch.int16)
        facts: dict[str, Any] = {"fell_back": [], "doubtful_examples": [], "augmentations": []}
        facts |= {"findings": []} | self.facts
        return History(records, labels, pool, left_out, frozen, vectors, facts)


def _thumbnail(path: str) -> bytes:
    try:
        return make_thumbnail(decode(Path(path), 200))
    except DataError:
        return b""


class Page(HTMLParser):
    """A parsed page: its elements, and the text of every part; unbalanced tags are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.parts: dict[str, str] = {}  # text by the id of the section
        self.of_part: dict[str, list[tuple[str, dict[str, str]]]] = {}
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._part = "header"
        self._joins = False  # a place to break a word is no space
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "section":
            self._part = values["id"]
        if tag == "script":
            self.scripts.append("")
        self._joins = tag == "wbr"
        self.elements.append((tag, values))
        self.of_part.setdefault(self._part, []).append((tag, values))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag
        if tag == "section":
            self._part = "rest"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif self._open and self._open[-1] != "style":
            before = self.parts.get(self._part, "")
            self.parts[self._part] = " ".join(f"{before}{' ' * (not self._joins)}{data}".split())
            self._joins = False

    @property
    def pictures(self) -> list[str]:
        return [a["src"] for tag, a in self.elements if tag == "img" and "src" in a]


def report(fake: FakeRun) -> Page:
    """Write a run and its report, and read the page."""
    return Page(write_report(fake.write()).read_text(encoding="utf-8"))
