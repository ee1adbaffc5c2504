"""Label Studio: tasks by its documented schema, and its two JSON exports."""

import json
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from appl.errors import DataError
from appl.exchange.exporting import export_run
from appl.exchange.importing import read_statements
from appl.exchange.labelled import read_run
from tests.report.fake_run import FakeRun


def test_tasks_have_predictions_with_scores_and_annotations_of_persons(odd: FakeRun, tmp_path):
    exported = export_run(odd.folder, "label-studio", tmp_path / "out")
    tasks = json.loads((tmp_path / "out/tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == 21
    root = tmp_path / "pile"
    assert f"DOCUMENT_ROOT={root}" in exported.note
    for task, image in zip(tasks, read_run(odd.folder).images, strict=True):
        start, address = task["data"]["image"][:21], task["data"]["image"][21:]
        assert start == "/data/local-files/?d=" and root / unquote(address) == image.path
        assert not set(" ?#&'") & set(address)
    first, second, third = tasks[:3]
    assert "predictions" not in first and "model_version" not in str(first["annotations"])
    assert first["annotations"][0]["result"][0]["value"] == {"choices": ["Test"]}
    assert second["annotations"][0]["result"][0]["value"] == {"choices": ["none-of-these"]}
    (prediction,) = third["predictions"]
    assert prediction["score"] == 0.9 and prediction["model_version"].startswith("appl ")
    (result,) = prediction["result"]
    assert result == {
        "from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": ["a:b"]}
    }  # fmt: skip
    assert "predictions" not in tasks[-1]  # unreadable
    # The setup names what the tasks name.
    setup = ElementTree.parse(tmp_path / "out/labels.xml").getroot()
    image, choices = setup.find("Image"), setup.find("Choices")
    assert image is not None and choices is not None
    assert (image.get("name"), image.get("value")) == ("image", "$image")
    assert (choices.get("name"), choices.get("toName")) == ("label", "image")
    values = [choice.get("value") for choice in choices]
    assert values == [*odd.class_names, "none-of-these"]


def export_of(folder: Path, tasks: object) -> Path:
    path = folder / "project-1.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def annotated(label: str, data: dict[str, str], **more: object) -> dict[str, object]:
    """A task as the JSON export has it."""
    result = {
        "value": {"choices": [label]}, "id": "x1", "from_name": "choice", "to_name": "image",
        "type": "choices", "origin": "manual",
    }  # fmt: skip
    annotation = {"id": 1, "completed_by": 1, "result": [result], "was_cancelled": False} | more
    return {"id": 5, "annotations": [annotation], "data": data, "predictions": []}


def test_its_json_export(tmp_path: Path) -> None:
    tasks = [
        annotated("rust", {"image": "/data/local-files/?d=part%201/a%20b.png"}),
        annotated("healthy", {"image": "/data/upload/3/0a1b2c3d-leaf%201.png"}),
        annotated("none-of-these", {"image": "https://example.org/x/c.png?token=1"}),
        annotated("rust", {"image": "/data/local-files/?d=x.png", "path": "/pile/d.png"}),
        annotated("rust", {"img_file": "e.png", "note": "n"}),
        annotated("rust", {"image": "skipped.png"}, was_cancelled=True),
        {"id": 6, "annotations": [], "data": {"image": "not yet.png"}},
    ]
    said = read_statements(export_of(tmp_path, tasks))
    assert [(s.path.name, s.label) for s in said] == [
        ("a b.png", "rust"), ("leaf 1.png", "healthy"), ("c.png", ""), ("d.png", "rust"),
        ("e.png", "rust"),
    ]  # fmt: skip
    assert said[0].path == tmp_path / "part 1/a b.png" and said[3].path == Path("/pile/d.png")
    assert all(s.by_person for s in said)


def test_its_short_export(tmp_path: Path) -> None:
    tasks = [
        {"image": "a.png", "id": 1, "choice": "rust", "annotator": 1, "lead_time": 2.5},
        {"image": "b.png", "id": 2, "label": {"choices": ["healthy"]}},
        {"image": "c.png", "id": 3},
    ]
    said = read_statements(export_of(tmp_path, tasks))
    assert [(s.path, s.label) for s in said] == [
        (tmp_path / "a.png", "rust"),
        (tmp_path / "b.png", "healthy"),
    ]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([1], "is no list of Label Studio tasks"),
        ([annotated("x", {"image": "a.png"}) | {"data": 3}], "task 1 is no classification"),
        ([{"image": "a.png", "choice": ["x", "y"]}], "task 1: a.png has two labels, x and y"),
        ([annotated("x", {"text": "hello"})], "task 1 is no classification of an image"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, tasks: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_statements(export_of(tmp_path, tasks))
