"""What holds for every format: whole or not at all, nothing overwritten, nothing outside."""

import os
from pathlib import Path

import pytest

from appl.errors import DataError, SettingsError, UnknownNameError
from appl.exchange.exporting import export_run
from appl.exchange.format import FORMATS
from appl.exchange.importing import find_examples, guess_format, read_statements
from appl.exchange.labelled import read_run
from appl.labelling.audit_files import Said, begin_audit, judge_audit
from appl.labelling.corrections import append_corrections, said_at_once
from appl.labelling.inputs import find_support
from appl.labelling.run_folder import open_finished
from tests.exchange.conftest import CLASSES
from tests.report.fake_run import FakeRun

NAMES = FORMATS.names()
READ = [name for name in NAMES if FORMATS.get(name).read]
SUFFIX = {"csv": ".csv", "parquet": ".parquet", "coco": ".json"}


def exported(odd: FakeRun, name: str, **choices: object) -> Path:
    out = odd.folder.parent / "out" / f"labels{SUFFIX.get(name, '')}"
    return export_run(odd.folder, name, out, **choices).path


def test_the_formats_are_those_that_are_documented() -> None:
    assert set(NAMES) == {
        "csv", "folders", "parquet", "coco", "label-studio", "imagefolder", "fiftyone"
    }  # fmt: skip
    assert set(READ) == {"csv", "folders", "parquet", "coco", "label-studio"}
    homes = Path(__file__).parents[2] / "src/appl/exchange/formats"
    files = {path.stem for path in homes.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in NAMES} == files


def test_what_a_person_said_stands_above_what_was_found(odd: FakeRun) -> None:
    images = read_run(odd.folder).images
    assert images[0].label == "Test" and images[0].said_by == "person"
    assert images[1].label == "" and images[1].decision == "none-of-these"
    assert images[2].label == "a:b" and images[2].said_by == "model"
    strange = images[-2]
    assert strange.label == "" and strange.runner_up == "a/b"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_written_whole_and_nothing_is_overwritten(odd: FakeRun, name: str) -> None:
    before = sorted(odd.folder.parent.rglob("*"))
    out = exported(odd, name)
    made = set(odd.folder.parent.rglob("*")) - set(before)
    assert all(path == out.parent or path.is_relative_to(out) for path in made)
    assert out.is_dir() == (FORMATS.get(name).place == "folder")
    content = out.read_bytes() if out.is_file() else sorted(out.rglob("*"))
    with pytest.raises(DataError, match="is there already; choose another --out"):
        exported(odd, name)
    assert content == (out.read_bytes() if out.is_file() else sorted(out.rglob("*")))


@pytest.mark.parametrize("name", NAMES)
def test_a_failure_leaves_nothing_behind(odd: FakeRun, name: str, monkeypatch) -> None:
    real = FORMATS.get(name).write

    def fails(*arguments):
        real(*arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS.get(name).__dict__, "write", fails)
    with pytest.raises(OSError, match="No space"):
        exported(odd, name)
    assert list((odd.folder.parent / "out").iterdir()) == []


@pytest.mark.parametrize("name", [n for n in READ if n != "label-studio"])
def test_what_was_written_is_read_as_it_was(odd: FakeRun, name: str) -> None:
    out = exported(odd, name, which="accepted")
    statements = read_statements(out)
    expected = [image for image in read_run(odd.folder).images if image.decision == "accept"]
    assert len(statements) == len(expected) == 17
    assert sorted(s.label for s in statements) == sorted(image.label for image in expected)
    assert all(s.path.is_file() for s in statements)
    if name != "folders":  # copies, there
        found = {os.path.realpath(s.path): s.label for s in statements}
        assert found == {os.path.realpath(image.path): image.label for image in expected}
        assert {s.by_person for s in statements} <= {True, False, None}
    content = {s.path.read_bytes(): s.label for s in statements}
    assert content[expected[0].path.read_bytes()] == "Test"


@pytest.mark.parametrize("name", [n for n in NAMES if FORMATS.get(n).place == "folder"])
def test_no_name_leads_out_of_the_folder_or_onto_another(odd: FakeRun, name: str) -> None:
    out = exported(odd, name, which="all") if name != "label-studio" else exported(odd, name)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert all(path.resolve().is_relative_to(out.resolve()) for path in files)
    folded = [str(path.relative_to(out)).casefold() for path in files]
    assert len(set(folded)) == len(folded)
    for path in out.rglob("*"):
        assert not set('\\:*?"<>|') & set(path.name) and path.name.casefold() != "con"
    if name != "label-studio":
        pictures = [path for path in files if path.suffix == ".png"]
        assert len(pictures) == 21


def test_links_instead_of_copies(odd: FakeRun) -> None:
    out = exported(odd, "folders", link=True)
    links = list(out.rglob("*.png"))
    assert len(links) == 17 and all(path.is_symlink() and path.exists() for path in links)


@pytest.mark.parametrize("name", ["folders", "fiftyone"])
def test_images_that_have_moved_are_named(odd: FakeRun, name: str) -> None:
    Path(odd.rows[4].path).unlink()
    with pytest.raises(DataError, match=r"1 of \d+ images are not where they were, first .*part 2"):
        exported(odd, name)
    assert len(read_statements(exported(odd, "csv"))) > 10  # a table only names them


@pytest.mark.parametrize("name", [n for n in READ if n != "label-studio"])
def test_accepted_labels_are_examples_of_another_run(odd: FakeRun, name: str) -> None:
    examples = find_examples(exported(odd, name))
    # The one image that each of "a/b" and others lost to a person's word is where it was put.
    assert list(examples) == sorted(set(CLASSES) - {"a/b"})
    assert len(examples["Test"]) == 3 and all(p.is_file() for ps in examples.values() for p in ps)


def test_own_folders_and_tables_are_read_as_ever(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "x.png").write_bytes(b"")
    assert find_examples(tmp_path / "own") == find_support(tmp_path / "own")
    (tmp_path / "t.csv").write_text("path,label\nown/one/x.png,one\nown/two/x.png,two\n")
    assert find_examples(tmp_path / "t.csv") == find_support(tmp_path / "t.csv")
    with pytest.raises(DataError, match="no such folder or CSV"):
        find_examples(tmp_path / "absent.json")


def test_the_certificate_goes_along(odd: FakeRun) -> None:
    run = open_finished(odd.folder)
    run.save()
    audit = begin_audit(run, 10)
    judge_audit(audit, dict.fromkeys(audit.images, Said("right")))
    for name in NAMES:
        out = exported(odd, name)
        beside = out.with_name("labels.certificate.json")
        held = {
            "csv": lambda beside=beside: beside.read_bytes(),
            "coco": lambda out=out: out.read_bytes(),
            "parquet": lambda out=out: out.read_bytes(),
        }.get(name, lambda out=out: (out / "certificate.json").read_bytes())()
        assert b"labels_sha256" in held, name
        out.rename(out.with_name(f"done {name}"))
        beside.unlink(missing_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_only_a_person_named_goes_along(odd: FakeRun, name: str) -> None:
    append_corrections(odd.folder, said_at_once({2: "new one"}))
    assert "new one" in read_run(odd.folder).class_names
    out = exported(odd, name)
    if name not in ("imagefolder", "fiftyone"):
        assert "new one" in {statement.label for statement in read_statements(out)}


def test_wrong_choices_are_named(odd: FakeRun, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no format is called 'labelstudio'; try label-st"):
        export_run(odd.folder, "labelstudio", tmp_path / "x")
    with pytest.raises(SettingsError, match="which = 'some': it is one of accepted"):
        export_run(odd.folder, "csv", tmp_path / "x", which="some")
    with pytest.raises(DataError, match="what is it"):
        (tmp_path / "labels.xls").touch()
        guess_format(tmp_path / "labels.xls")
    with pytest.raises(DataError, match="imagefolder is written only"):
        read_statements(tmp_path, "imagefolder")
