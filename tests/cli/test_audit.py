"""`appl audit` as a user gives it: draw, mark, certify, learn."""

import csv
import json

import pytest

from tests.cli.commands import run
from tests.labelling.conftest import CLASSES, write_tree

FROZEN = ("--encoder", "resnet10", "--size-px", "32", "--no-adapt", "--target-error", "0.1")


@pytest.fixture
def labelled(tmp_path):
    tree = write_tree(tmp_path / "given")
    arguments = ("label", str(tree / "support"), str(tree / "pile"), "--out")
    arguments = (*arguments, str(tmp_path / "run"), *FROZEN)
    assert run(*arguments).returncode == 0
    return tmp_path / "run", arguments


def fill_in(folder):
    """Mark by the truth, which is in the file names, but for one label that is called wrong."""
    with (folder / "audit/audit.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["label"] == CLASSES[int(row["path"].rsplit("/", 1)[1][0])]
        row["verdict"] = "right"
    other = next(name for name in CLASSES if name != rows[0]["label"])
    rows[0] |= {"verdict": "wrong", "true_label": other}
    with (folder / "verdict.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "verdict.csv", rows


def test_draw_mark_certify_and_learn(labelled):
    folder, label_again = labelled
    shown = run("audit", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "audit.html" in shown.stdout and "--verdict FILE" in shown.stdout
    drawn = json.loads(run("audit", str(folder), "--json").stdout)
    assert drawn["certificate"] is None and drawn["n_waiting"] == drawn["n_to_look"] > 5
    assert drawn["wanted"] == 0.1 and drawn["n_accepted"] <= 24

    path, rows = fill_in(folder)
    shown = run("audit", str(folder), "--verdict", str(path))
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert f"{len(rows)} were looked at: 1 is wrong." in text
    assert f"{len(rows)} labels that you judged are examples" in text
    found = json.loads(run("audit", str(folder), "--json").stdout)["certificate"]
    assert found["n_wrong"] == 1 and 0 < found["low"] < found["share"] <= found["high"]
    assert "1 is wrong" in (folder / "report.html").read_text(encoding="utf-8")
    # The same table again: the same certificate, and nothing is learnt twice.
    again = json.loads(run("audit", str(folder), "--verdict", str(path), "--json").stdout)
    assert again["n_learnt"] == 0 and again["certificate"] == found

    # Another promise of the same verdicts; nobody has to look again.
    for wanted, is_kept in (("0.5", True), ("0.01", False)):
        shown = run("audit", str(folder), "--wanted", wanted, "--json")
        certificate = json.loads(shown.stdout)["certificate"]
        assert certificate["is_kept"] == is_kept and certificate["n_looks"] == 1

    shown = run(*label_again)
    assert shown.returncode == 0, shown.stderr
    record = json.loads((folder / "run.json").read_text())
    assert record["n_corrections"] == len(rows)
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "made anew since somebody looked" in report
    assert json.loads(run("audit", str(folder), "--json").stdout)["certificate"] is None


def test_mistakes_are_one_line(labelled, tmp_path):
    folder, _ = labelled
    for arguments, message in (
        ((str(tmp_path / "absent"),), "is no run of `appl label`"),
        ((str(folder), "--verdict", str(tmp_path / "x.csv")), "draw one with `appl audit"),
    ):
        shown = run("audit", *arguments)
        assert shown.returncode == 2 and message in shown.stderr
        assert len(shown.stderr.strip().splitlines()) == 1
    assert not (folder / ".lock").exists()
