"""What a file teaches of a run: words of persons, labels that differ; by path or by name."""

import shutil
from pathlib import Path

import pytest

from appl.errors import DataError
from appl.exchange.exporting import export_run
from appl.exchange.importing import Lessons, find_lessons, guess_format, read_statements
from appl.labelling.run_folder import open_finished
from tests.report.fake_run import FakeRun


def lessons(odd: FakeRun, place: Path, **choices: bool) -> Lessons:
    return find_lessons(open_finished(odd.folder), read_statements(place), **choices)


def test_of_ones_own_export_only_words_of_a_person_and_changes_are_taken(odd: FakeRun, tmp_path):
    out = export_run(odd.folder, "csv", tmp_path / "labels.csv").path
    found = lessons(odd, out)
    assert found.by_image == {0: "Test", 1: ""} and found.n_agreeing == 18
    lines = out.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].replace("a:b", "..")
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lessons(odd, out).by_image == {0: "Test", 1: "", 2: ".."}
    assert len(lessons(odd, out, with_agreeing=True).by_image) == 20


def test_files_that_were_moved_between_folders_are_corrections(odd: FakeRun, tmp_path: Path):
    out = export_run(odd.folder, "folders", tmp_path / "out", link=True).path
    (out / "café 🌿" / "train 7, 'x'.png").rename(out / "_none-of-these.png")
    (out / "_none-of-these").mkdir()
    (out / "_none-of-these.png").rename(out / "_none-of-these" / "train 7, 'x'.png")
    found = lessons(odd, out)
    assert found.by_image == {0: "Test", 15: ""}  # the first was a person's word before


def test_a_name_that_is_there_once_is_enough(odd: FakeRun, tmp_path: Path) -> None:
    table = tmp_path / "elsewhere" / "t.csv"
    table.parent.mkdir()
    table.write_text("path,label\n\"/gone/train 2, 'x'.png\",=cmd\n/gone/other.png,=cmd\n")
    found = lessons(odd, table)
    assert found.by_image == {5: "=cmd"} and [p.name for p in found.not_in_pile] == ["other.png"]
    table.write_text("path,label\n/gone/test.png,=cmd\n")
    with pytest.raises(DataError, match="the pile has 9 images of that name; give whole paths"):
        lessons(odd, table)


def test_what_contradicts_itself_or_the_run_is_named(odd: FakeRun, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("path,label\npile/part 1/test.png,=cmd\npile/part 1/test.png,CON\n")
    with pytest.raises(DataError, match="is called '=cmd' and 'CON'; keep one"):
        lessons(odd, table)
    table.write_text("path,label\npile/part 1/test.png,blue\n")
    with pytest.raises(DataError, match=r"no class of .* is called 'blue'"):
        lessons(odd, table)


def test_formats_are_told_by_what_is_there(odd: FakeRun, tmp_path: Path) -> None:
    for name, place in (
        ("csv", "a.csv"), ("parquet", "a.parquet"), ("coco", "a.json"), ("folders", "f"),
        ("label-studio", "ls"),
    ):  # fmt: skip
        assert guess_format(export_run(odd.folder, name, tmp_path / place).path) == name
    shutil.copy(tmp_path / "ls" / "tasks.json", tmp_path / "b.json")
    assert guess_format(tmp_path / "b.json") == "label-studio"
    with pytest.raises(DataError, match="no such file or folder"):
        guess_format(tmp_path / "absent")
