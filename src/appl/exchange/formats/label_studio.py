"""Tasks for Label Studio: predictions with scores, annotations where a person spoke; and back.

tasks.json is what it imports, labels.xml the labelling setup of its project. Images are named by
addresses of its local files, from the folder that holds them all. Read back: its export as JSON or
JSON-MIN, annotations only: what a model predicted is nobody's word.
"""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import quoteattr

from appl.errors import DataError
from appl.exchange.format import FORMATS, Format
from appl.exchange.labelled import (
    NONE_OF_THESE,
    Handover,
    LabelledImage,
    Statement,
    path_in,
    whole_path,
)
from appl.exchange.reading import read_json
from appl.images.decode import SUFFIXES
from appl.labelling.inputs import shown

IMAGE, CHOICE = "image", "label"
LOCAL = "/data/local-files/?d="


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write tasks and setup."""
    paths = [Path(whole_path(image.path)) for image in handover.images]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    tasks = [
        _task(image, path, path.relative_to(root), handover.version)
        for image, path in zip(handover.images, paths, strict=True)
    ]
    (made / "tasks.json").write_text(json.dumps(tasks, ensure_ascii=False), encoding="utf-8")
    choices = "".join(
        f"\n    <Choice value={quoteattr(name)}/>"
        for name in (*handover.class_names, NONE_OF_THESE)
    )
    setup = (
        f'<View>\n  <Image name="{IMAGE}" value="${IMAGE}"/>\n'
        f'  <Choices name="{CHOICE}" toName="{IMAGE}" choice="single" required="true">{choices}\n'
        "  </Choices>\n</View>\n"
    )
    (made / "labels.xml").write_text(setup, encoding="utf-8")
    return (
        "start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={shown(root)}, take "
        f"{out / 'labels.xml'} as the labelling setup, and import {out / 'tasks.json'}"
    )


def read(place: Path) -> list[Statement]:
    """Read an export (JSON or JSON-MIN), or what `write` wrote."""
    if place.is_dir():
        place = place / "tasks.json"
    tasks = read_json(place)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{place} is no list of Label Studio tasks")
    said = []
    for number, task in enumerate(tasks, 1):
        try:
            found = _full(task) if "data" in task else _min(task)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise DataError(
                f"{place}, task {number} is no classification of an image ({error!r})"
            ) from error
        if found is None:
            continue  # not annotated yet
        address, labels = found
        if len(set(labels)) > 1:
            raise DataError(
                f"{place}, task {number}: {address} has two labels, "
                f"{' and '.join(sorted(set(labels)))}; keep one"
            )
        label = "" if labels[0] == NONE_OF_THESE else labels[0]
        said.append(Statement(path_in(_file(address), place.parent), label, True))
    return said


def _task(image: LabelledImage, path: Path, local: Path, version: str) -> dict[str, Any]:
    task: dict[str, Any] = {
        "data": {
            IMAGE: LOCAL + quote(os.fsencode(local)),
            "path": shown(path),
            "decision": image.decision,
            "novelty": image.novelty,
        }
    }
    name = image.label or (NONE_OF_THESE if image.decision == NONE_OF_THESE else "")
    if not name:
        return task
    result = {
        "from_name": CHOICE,
        "to_name": IMAGE,
        "type": "choices",
        "value": {"choices": [name]},
    }
    if image.said_by == "person":
        task["annotations"] = [{"result": [result]}]
    else:
        prediction = {"model_version": f"appl {version}", "result": [result]}
        task["predictions"] = [prediction | {"score": image.confidence}]
    return task


def _full(task: dict[str, Any]) -> tuple[str, list[str]] | None:
    """Return image and choices of a task of the JSON export."""
    labels = [
        str(choice)
        for annotation in task.get("annotations") or []
        if not annotation.get("was_cancelled")
        for result in annotation["result"]
        if result["type"] == "choices"
        for choice in result["value"]["choices"]
    ]
    data = task["data"]
    return (str(data.get("path") or _address(data)), labels) if labels else None


def _min(task: dict[str, Any]) -> tuple[str, list[str]] | None:
    """Return image and choice of a task of the JSON-MIN export."""
    label = task.get(CHOICE, task.get("choice"))
    if isinstance(label, dict):
        label = label["choices"]
    labels = [label] if isinstance(label, str) else list(label or [])
    return (str(task.get("path") or _address(task)), labels) if labels else None


def _address(data: dict[str, Any]) -> str:
    if isinstance(data.get(IMAGE), str):
        return str(data[IMAGE])
    for value in data.values():
        if isinstance(value, str) and Path(urlsplit(value).path).suffix.lower() in SUFFIXES:
            return value
    raise KeyError(IMAGE)


def _file(address: str) -> str:
    """Return the file's path, or as much of it as an address tells."""
    parts = urlsplit(address)
    local = parse_qs(parts.query).get("d")
    if local:
        return local[0]
    if parts.path.startswith("/data/upload/"):
        # It puts eight hexadecimal digits before the name of an uploaded file.
        return re.sub(r"^[0-9a-f]{8}-", "", unquote(parts.path.rsplit("/", 1)[1]))
    return unquote(parts.path) if parts.scheme else address


FORMATS.register("label-studio")(
    Format("tasks for Label Studio, with predictions", "folder", "all", False, write, read)
)
