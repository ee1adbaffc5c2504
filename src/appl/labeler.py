"""Labelling from Python: `FewShotLabeler`, the same as `appl label` and `appl predict`."""

import csv
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from appl.core.compute import resolve_compute
from appl.errors import ApplError, DataError
from appl.exchange.exporting import export_run
from appl.exchange.importing import find_inputs
from appl.images.decode import decode, to_square
from appl.labelling.audit import Certificate
from appl.labelling.audit_files import begin_audit, take_verdicts
from appl.labelling.judging import judge_files
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, write_rows
from appl.labelling.run_folder import adding_to
from appl.labelling.session import Session
from appl.report.audit_page import write_audit_page
from appl.report.page import write_report
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.weights import Pretrained, load_pretrained

# A file, an array (height, width, 3) or (height, width) of bytes, or an image in memory.
ImageLike = str | Path | NDArray[Any] | Image.Image
Examples = str | Path | Mapping[str, Sequence[ImageLike]]


@dataclass(frozen=True)
class LabelResult:
    """The labels of a pile: rows as in labels.csv."""

    rows: tuple[LabelRow, ...]
    folder: Path

    def __iter__(self) -> Iterator[LabelRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_csv(self, path: str | Path) -> None:
        """Write labels.csv somewhere else."""
        write_rows(Path(path), self.rows)

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        write_report(self.folder)
        shutil.copyfile(self.folder / "report.html", path)

    def export(
        self, to: str, out: str | Path, *, which: str | None = None, link: bool = False
    ) -> Path:
        """Write the labels in the format of another program, as `appl export --to` does."""
        return export_run(self.folder, to, Path(out), which=which, link=link).path

    def draw_audit(
        self, n: int = 0, *, wanted: float | None = None, seed: int | None = None
    ) -> Path:
        """Draw accepted labels to look at, and return the page to mark the wrong ones on.

        Beside it lies audit.csv, to fill in instead. `n` 0: as many as show `wanted` faultless.
        """
        with adding_to(self.folder) as run:
            return write_audit_page(begin_audit(run, n, wanted=wanted, seed=seed))

    def certify(self, table: str | Path) -> Certificate:
        """Read the table that the page saved: how many of all accepted labels are wrong."""
        with adding_to(self.folder) as run:
            certificate, _ = take_verdicts(run, Path(table))
            return certificate

    def to_pandas(self) -> Any:
        """Return a DataFrame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ApplError("to_pandas needs pandas; install it with pip install pandas") from error
        return pandas.DataFrame([asdict(row) for row in self.rows])


class FewShotLabeler:
    """Adapt once in `fit`; `predict` is then a pure function of the image."""

    def __init__(self, start: Pretrained | LabelModel, settings: LabelSettings) -> None:
        self.settings = settings
        self._start = start
        self._model = start if isinstance(start, LabelModel) else None
        self._session: Session | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def from_pretrained(cls, name: str | Path = "efficientnet_lite0", **settings: Any) -> Self:
        """Start from an encoder by name, a weights file, or a saved labeler or run by its folder.

        `settings` are those of `LabelSettings`: size_px, adapt, target_error, …
        """
        chosen = with_changes(LabelSettings(), **settings)
        if Path(name).is_dir():
            return cls(LabelModel.load(Path(name)), chosen)
        return cls(load_pretrained(name), with_changes(chosen, encoder=str(name)))

    def fit(self, examples: Examples, pile: str | Path | Sequence[ImageLike]) -> Self:
        """Adapt to a pile from a few examples of each class.

        `examples` is a folder with a sub-folder a class, a CSV, or a mapping from class names to
        images; `pile` a folder, a text file of paths, a glob, or images.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="appl-")
        root = Path(self._folder.name)
        inputs = find_inputs(
            _examples_on_disk(examples, root / "given" / "examples"),
            _pile_on_disk(pile, root / "given" / "pile"),
        )
        start = self._start
        if isinstance(start, LabelModel):
            start = start.as_start()
        self._session = Session.open(inputs, self.settings, root / "run", start, resolve_compute())
        self._session.label()
        self._session.finish()
        self._model = self._session.model
        return self

    @property
    def model(self) -> LabelModel:
        """The fitted model."""
        if self._model is None:
            raise ApplError("this labeler has learnt nothing yet; call fit first")
        return self._model

    @property
    def classes_(self) -> tuple[str, ...]:
        """The class names, in the order of the columns of `predict_proba`."""
        return self.model.class_names

    def label_pile(self) -> LabelResult:
        """Return the labels of the pile that `fit` was given."""
        if self._session is None or self._session.rows is None:
            raise ApplError("no pile was given; call fit(examples, pile) first")
        return LabelResult(tuple(self._session.rows), self._session.folder)

    def predict(self, images: Sequence[ImageLike]) -> list[str]:
        """Return the class name of each image."""
        return [self.classes_[i] for i in self.predict_proba(images).argmax(1)]

    def predict_proba(self, images: Sequence[ImageLike]) -> NDArray[np.float32]:
        """Return calibrated probabilities (n_images, n_classes)."""
        model = self.model
        if not len(images):
            return np.empty((0, len(model.class_names)), dtype=np.float32)
        pixels = np.stack([to_square(_opened(image), model.size_px) for image in images])
        probs = model.judge(torch.from_numpy(pixels).permute(0, 3, 1, 2)).probs
        return probs.numpy()

    def predict_rows(self, paths: Sequence[str | Path]) -> list[LabelRow]:
        """Return rows as in labels.csv; a file that cannot be read is a row that says so."""
        return judge_files(self.model, [Path(path) for path in paths])

    def save(self, folder: str | Path) -> None:
        """Write the model; `from_pretrained(folder)` and `appl predict` read it."""
        self.model.save(Path(folder) / "model")


def _opened(image: ImageLike) -> Image.Image:
    if isinstance(image, str | Path):
        return decode(Path(image), 1 << 16)
    if isinstance(image, Image.Image):
        return image
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise DataError(
            f"an array of {pixels.dtype} with shape {pixels.shape} is no image; give bytes "
            "(height, width, 3)"
        )
    return Image.fromarray(pixels)


def _examples_on_disk(examples: Examples, folder: Path) -> Path:
    if isinstance(examples, str | Path):
        return Path(examples)
    folder.mkdir(parents=True)
    table = folder / "examples.csv"
    with table.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        for number, (name, images) in enumerate(examples.items()):
            for path in _written(images, folder / str(number)):
                writer.writerow([path.resolve(), name])
    return table


def _pile_on_disk(pile: str | Path | Sequence[ImageLike], folder: Path) -> str:
    if isinstance(pile, str | Path):
        return str(pile)
    paths = _written(pile, folder)
    if not paths:
        raise DataError("the pile is empty; there is nothing to label")
    table = folder / "pile.txt"
    table.write_bytes(b"\n".join(bytes(path.resolve()) for path in paths))
    return str(table)


def _written(images: Sequence[ImageLike], folder: Path) -> list[Path]:
    """Return a file for each image: itself, or a lossless copy of what is in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, image in enumerate(images):
        if isinstance(image, str | Path):
            paths.append(Path(image))
        else:
            paths.append(folder / f"{number:06}.png")
            _opened(image).save(paths[-1])
    return paths
