"""Folders, imagefolder and FiftyOne: by the readers that users have, or by the documented form."""

import json
from pathlib import Path

import pytest

from appl.errors import DataError
from appl.exchange.exporting import export_run
from appl.exchange.importing import read_statements
from appl.exchange.labelled import read_run
from tests.report.fake_run import FakeRun


def test_each_class_has_a_folder_that_every_system_takes(odd: FakeRun, tmp_path: Path) -> None:
    out = export_run(odd.folder, "folders", tmp_path / "out", which="all").path
    folders = {path.name for path in out.iterdir() if path.is_dir()}
    assert folders == {
        "a_b-2", "class _", "=cmd", "CON_", "Test", "validation", "café 🌿", "class _review",
        "_review", "_none-of-these", "_unreadable",
    }  # fmt: skip
    named = json.loads((out / "classes.json").read_text(encoding="utf-8"))
    assert named["a_b"] == "a/b" and named["a_b-2"] == "a:b" and named["class _"] == ".."
    # The same file name twice in a class: both are kept.
    assert sorted(path.name for path in (out / "Test").iterdir()) == [
        "test-2.png", "test.png", "train 5, 'x'.png"
    ]  # fmt: skip


def test_moving_a_file_to_another_folder_changes_its_label(odd: FakeRun, tmp_path: Path) -> None:
    out = export_run(odd.folder, "folders", tmp_path / "out").path
    (out / "=cmd" / "test.png").rename(out / "a_b-2" / "moved.png")
    said = {statement.path.name: statement.label for statement in read_statements(out)}
    assert said["moved.png"] == "a:b"
    (out / "classes.json").write_text("[1]")
    with pytest.raises(DataError, match=r"classes\.json does not name classes"):
        read_statements(out)


@pytest.mark.slow
def test_datasets_reads_the_imagefolder(odd: FakeRun, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    out = export_run(odd.folder, "imagefolder", tmp_path / "out").path
    found = datasets.load_dataset("imagefolder", data_dir=str(out), cache_dir=str(tmp_path / "c"))
    # Files called test and a class called validation make no splits.
    assert list(found) == ["train"]
    expected = [image for image in read_run(odd.folder).images if image.decision == "accept"]
    assert found["train"]["label"][:] == [image.label for image in expected]
    assert found["train"]["said_by"][0] == "person"
    for row, image in zip(found["train"], expected, strict=True):
        assert row["image"].size == (30, 20) and row["original_path"] == str(image.path)


def test_fiftyone_finds_its_documented_form(odd: FakeRun, tmp_path: Path) -> None:
    """As FiftyOneImageClassificationDataset is read: by file name without its ending."""
    out = export_run(odd.folder, "fiftyone", tmp_path / "out").path
    found = json.loads((out / "labels.json").read_text(encoding="utf-8"))
    files = {path.stem: path for path in (out / "data").iterdir()}
    assert set(found) == {"classes", "labels"} and found["classes"] == list(odd.class_names)
    assert files.keys() == found["labels"].keys() and len(files) == 21
    images = read_run(odd.folder).images
    for (key, target), image in zip(sorted(found["labels"].items()), images, strict=True):
        assert files[key].read_bytes() == image.path.read_bytes()
        if image.label:
            assert found["classes"][target["label"]] == image.label
            assert target["confidence"] == image.confidence
        else:
            assert target is None
