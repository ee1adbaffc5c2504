"""What is handed on: the images of a run with their labels, and what a person said of them."""

import json
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from appl.errors import DataError
from appl.labelling.corrections import known_classes, read_corrections
from appl.labelling.inputs import from_shown, shown
from appl.labelling.rows import class_names_of
from appl.labelling.run_folder import CERTIFICATE, open_finished

NONE_OF_THESE = "none-of-these"


@dataclass(frozen=True)
class LabelledImage:
    """An image of the pile; what a person said of it stands above what the model found."""

    path: Path
    label: str  # empty: none of the classes, or not readable
    confidence: float | None
    runner_up: str
    runner_up_confidence: float | None
    decision: str
    novelty: float | None
    said_by: Literal["model", "person"] = "model"


@dataclass(frozen=True)
class Handover:
    """A run as it is handed on."""

    class_names: tuple[str, ...]
    images: tuple[LabelledImage, ...]
    certificate: dict[str, Any] | None  # of an audit of these labels
    version: str
    link: bool = False  # images by links instead of copies


@dataclass(frozen=True)
class Statement:
    """What a file says of an image; an empty label: none of the classes."""

    path: Path
    label: str
    by_person: bool | None = None  # None: the file does not say
    decision: str = ""


def read_run(folder: Path) -> Handover:
    """Read the labels of a run."""
    run = open_finished(folder)
    said, rows = known_classes(read_corrections(folder)), run.rows()
    images = []
    for number, row in enumerate(rows):
        image = LabelledImage(
            from_shown(row.path),
            row.label,
            row.confidence,
            row.runner_up,
            row.runner_up_confidence,
            row.decision,
            row.novelty,
        )
        if row.decision == NONE_OF_THESE:
            # What it would have been called is no label, but the next best guess.
            image = replace(
                image,
                label="",
                confidence=None,
                runner_up=row.label,
                runner_up_confidence=row.confidence,
            )
        if number in said:
            name = said[number]
            decision = "accept" if name else NONE_OF_THESE
            image = replace(image, label=name, confidence=1.0, decision=decision, said_by="person")
        images.append(image)
    found = run.record.get("audit")
    holds = found is not None and found["labels_sha256"] == run.record["sha256"].get("labels.csv")
    return Handover(
        class_names_of(run.record["classes"], rows, said),
        tuple(images),
        json.loads(run.checked(CERTIFICATE).read_bytes()) if holds else None,
        run.record["version"],
    )


def chosen(handover: Handover, which: str) -> Handover:
    """Keep the images with accepted labels, with any label, or all."""
    kept = [
        image
        for image in handover.images
        if which == "all"
        or (which == "labelled" and image.decision in ("accept", "review"))
        or (which == "accepted" and image.decision == "accept")
    ]
    return replace(handover, images=tuple(kept))


def require_files(handover: Handover) -> None:
    """Refuse to go on where images are not where they were."""
    missing = [image.path for image in handover.images if not image.path.is_file()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(handover.images)} images are not where they were, first "
            f"{shown(missing[0])}; give the command where `appl label` was given, or bring them "
            "back"
        )


def path_from(path: Path, folder: Path) -> str:
    """Return a path as a file in `folder` names it: from there if it lies below, else whole."""
    whole, root = whole_path(path), _resolved(os.path.abspath(folder))  # noqa: PTH100
    below = os.path.join(root, "")  # noqa: PTH118  a hundred thousand times: no objects
    return shown(whole.removeprefix(below))


def whole_path(path: Path) -> str:
    """Return where a file lies; a link to a file stays one."""
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    return os.path.join(_resolved(folder), name)  # noqa: PTH118


@lru_cache(maxsize=4096)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)


def path_in(text: str, folder: Path) -> Path:
    """Return the file that a file in `folder` names."""
    return from_shown(os.fspath(folder / text))
