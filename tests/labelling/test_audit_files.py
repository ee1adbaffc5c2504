"""An audit in a run's folder: drawn, filled in, read back, gone on with."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from appl.errors import DataError
from appl.labelling import audit_files, run_folder
from appl.labelling.audit_files import (
    NONE_OF_THESE,
    SAID,
    SHEET,
    Audit,
    Said,
    begin_audit,
    find_audit,
    find_certificate,
    judge_audit,
    lessons,
    read_verdicts,
    unsaid,
)
from appl.labelling.rows import LabelRow, read_rows, write_rows
from appl.labelling.run_folder import FORMAT, LABELS, open_finished, open_to_add

CLASSES = ("=cmd", "leaf, rust")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 130 labels, 100 of them accepted."""
    rows = [
        LabelRow(
            f"pile/{i}.png", CLASSES[i % 2], 0.5 + i / 300, CLASSES[1 - i % 2], 0.1,
            "accept" if i >= 30 else "review", 0.5, "",
        )
        for i in range(130)
    ]  # fmt: skip
    path = tmp_path / "run"
    path.mkdir()
    write_rows(path / LABELS, rows)
    record = {
        "format": FORMAT,
        "state": "finished",
        "settings": {"target_error": 0.05},
        "classes": dict.fromkeys(CLASSES, 5),
        "sha256": {},
    }
    (path / "run.json").write_text(json.dumps(record))
    run = open_finished(path)
    run.save()
    return path


def opened(folder: Path) -> Audit:
    audit = find_audit(open_finished(folder))
    assert audit is not None
    return audit


def filled(path: Path, verdict: str = "right", delimiter: str = ",", **changed: str) -> Path:
    """Fill in a sheet as a spreadsheet does; `changed` says otherwise by the label's path."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    out = path.with_name("filled.csv")
    with out.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        for row in rows:
            said = changed.get(row["path"], verdict)
            row["verdict"], _, row["true_label"] = said.partition(" ")
            row["label"] = "12. Feb"  # names may have become anything
            writer.writerow(row)
    return out


def test_a_sheet_is_filled_in_and_read_back(folder: Path) -> None:
    audit = begin_audit(open_to_add(folder))
    audit.run.release()
    images = audit.images
    assert len(images) == len(set(images)) == 40 and min(images) >= 30  # of 100: fewer than 60
    first, second, third = (audit.rows[i] for i in images[:3])
    other = CLASSES[CLASSES.index(first.label) - 1]
    path = filled(
        folder / SHEET,
        delimiter=";",
        **{
            first.path: f"WRONG {other}",
            second.path: f"wrong {NONE_OF_THESE}",
            third.path: "unsure",
        },
    )
    run = open_to_add(folder)
    audit = opened(folder)
    audit.run = run
    certificate = judge_audit(audit, read_verdicts(audit, path))
    run.release()
    assert (certificate.n_wrong, certificate.n_unsure, certificate.n_looked) == (2, 1, 40)
    assert find_certificate(open_finished(folder)) == (certificate, False)
    stored = json.loads((folder / "certificate.json").read_text())
    assert stored["n_wrong"] == 2 and stored["seed"] == 0 and not stored["is_kept"]
    assert stored == open_finished(folder).record["audit"]
    # labels.csv is as it was, for all who read it.
    assert len(read_rows(open_finished(folder).checked(LABELS))) == 130

    taught = lessons(audit)
    assert taught[images[0]] == other and taught[images[1]] == "" and images[2] not in taught
    assert taught[images[3]] == audit.rows[images[3]].label and len(taught) == 39
    new = unsaid(taught, {images[0]: other, images[3]: ""})
    assert len(new) == 38 and images[0] not in new and images[3] in new


def test_the_same_command_again_changes_nothing_and_more_hold_what_was_said(folder: Path) -> None:
    run = open_to_add(folder)
    audit = begin_audit(run, 30, seed=5)
    sheet = (folder / SHEET).read_bytes()
    begin_audit(run)
    assert (folder / SHEET).read_bytes() == sheet
    certificate = judge_audit(audit, dict.fromkeys(audit.images, Said("right")))
    assert certificate.n_looks == 1
    # What was said may be mended: that is no second look.
    mended = judge_audit(opened(folder), {audit.images[0]: Said("unsure")})
    assert mended.n_looks == 1 and mended.n_unsure == 1
    run.record = open_finished(folder).record
    with pytest.raises(DataError, match="holds an audit with --seed 5 and 30 verdicts"):
        begin_audit(run, seed=6)
    larger = begin_audit(run, 60)
    assert set(audit.images) < set(larger.images) and len(larger.waiting) == 30
    with pytest.raises(DataError, match="30 of 60 labels have no verdict"):
        judge_audit(larger, {})
    certificate = judge_audit(larger, dict.fromkeys(larger.waiting, Said("right")))
    assert certificate.n_looks == 2 and certificate.n_unsure == 1 and certificate.n_looked == 60
    assert len(begin_audit(run, 20).images) == 60  # what was said is not thrown away


@pytest.mark.parametrize("step", range(6))
def test_a_kill_at_any_write_damages_nothing(folder: Path, monkeypatch, step: int) -> None:
    run = open_to_add(folder)
    audit = begin_audit(run, 20)
    real, writes = audit_files.write_atomically, []

    def dies(path: Path, data: bytes) -> None:
        writes.append(path)
        if len(writes) > step:
            raise KeyboardInterrupt
        real(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(audit_files, "write_atomically", dies)
        patched.setattr(run_folder, "write_atomically", dies)
        with pytest.raises(KeyboardInterrupt):
            judge_audit(audit, dict.fromkeys(audit.images, Said("right")))
    run.release()
    run = open_to_add(folder)
    again = begin_audit(run)
    assert again.images == audit.images
    certificate = judge_audit(again, dict.fromkeys(audit.images, Said("right")))
    assert certificate.n_looks == 1 and find_certificate(open_finished(folder))[0] == certificate


def test_an_audit_of_earlier_labels_is_none_of_these(folder: Path) -> None:
    run = open_to_add(folder)
    audit = begin_audit(run, 20)
    judge_audit(audit, dict.fromkeys(audit.images, Said("right")))
    rows = read_rows(folder / LABELS)
    write_rows(folder / LABELS, [replace(rows[0], label=CLASSES[1]), *rows[1:]])  # not accepted
    run.save()
    assert find_certificate(run) == (None, True) and find_audit(run) is None
    again = begin_audit(run, 20)
    assert again.said == {} and again.n_looks == 0
    # What was judged has become examples: a sample that came back would find them right.
    assert len(set(again.images) & set(audit.images)) < 15
    # Nothing that a person said is lost.
    assert (folder / "audit/verdicts-earlier-1.csv").exists() and not (folder / SAID).exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("verdict", "opinion", 1), "no column 'verdict'"),
        (lambda t: t.replace("\nk", "\nkk", 1), "line 2: 'kk.*' is not of this audit"),
        (lambda t: t.replace(",right", ",rigth", 1), "line 2: 'rigth' is no verdict; write right"),
        (lambda t: t.replace(",right,", ",wrong,blue", 1), "line 2: no class is called 'blue'"),
        (lambda t: t.replace(",right,", ",right,none-of-these", 1), "which is it"),
        (lambda t: t + t.splitlines()[1].replace("right", "wrong") + "\n", "has two verdicts"),
        (
            lambda t: t.replace(",right", ",", 3),
            "3 of 20 labels have no verdict, first that of pile",
        ),
    ],
)
def test_a_table_that_cannot_be_meant_is_named_by_its_line(folder: Path, change, message) -> None:
    audit = begin_audit(open_to_add(folder), 20)
    path = filled(folder / SHEET)
    path.write_text(change(path.read_text(encoding="utf-8-sig")), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        judge_audit(audit, read_verdicts(audit, path))
    assert not (folder / "certificate.json").exists()


def test_files_that_are_none_of_an_audit_are_named(folder: Path, tmp_path: Path) -> None:
    audit = begin_audit(open_to_add(folder), 20)
    with pytest.raises(DataError, match="no such file; save the page"):
        read_verdicts(audit, tmp_path / "absent.csv")
    (tmp_path / "x.csv").write_bytes(b"key,verdict\nk\xff,right\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_verdicts(audit, tmp_path / "x.csv")
    with pytest.raises(DataError, match="image 0 is not in the sample"):
        judge_audit(audit, {0: Said("right")})


def test_a_run_that_accepts_nothing_has_nothing_to_audit(folder: Path) -> None:
    rows = [row for row in read_rows(folder / LABELS) if row.decision == "review"]
    write_rows(folder / LABELS, rows)
    run = open_finished(folder)
    run.save()
    with pytest.raises(DataError, match="no label was accepted"):
        begin_audit(run)


def test_what_was_changed_by_hand_is_not_sealed_anew(folder: Path) -> None:
    begin_audit(open_to_add(folder)).run.release()
    for name in (LABELS, "audit/sample.json"):
        path = folder / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        with pytest.raises(DataError, match="is not what the run wrote"):
            open_to_add(folder)
        path.write_bytes(before)
    run = open_to_add(folder)
    with pytest.raises(DataError, match="is being written by another"):
        open_to_add(folder)
    run.release()
