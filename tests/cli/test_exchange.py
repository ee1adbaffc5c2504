"""`appl export` and `appl correct` as a user gives them."""

import csv
import json

import pytest

from tests.cli.commands import run
from tests.labelling.conftest import CLASSES, write_tree

FROZEN = ("--encoder", "resnet10", "--size-px", "32", "--no-adapt", "--target-error", "0.1")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    tree = write_tree(tmp_path_factory.mktemp("exchange") / "given")
    arguments = ("label", str(tree / "support"), str(tree / "pile"), "--out")
    arguments = (*arguments, str(tree / "run"), *FROZEN)
    assert run(*arguments).returncode == 0
    return tree, arguments


def test_export_examples_again_and_correct(labelled, tmp_path):
    tree, label_again = labelled
    # Accepted labels, as class folders, are the examples of another run.
    out = tmp_path / "sorted"
    shown = run("export", str(tree / "run"), "--to", "folders", "--out", str(out))
    assert shown.returncode == 0 and "(accepted)" in shown.stdout
    examples = tmp_path / "coco.json"
    run("export", str(tree / "run"), "--to", "coco", "--out", str(examples))
    for place in (out, examples):
        shown = run("doctor", str(place), str(tree / "support"), "--json")
        assert shown.returncode == 0, shown.stderr
        assert set(json.loads(shown.stdout)["classes"]) == set(CLASSES)

    table = tmp_path / "labels.csv"
    shown = run("export", str(tree / "run"), "--to", "csv", "--out", str(table), "--json")
    assert json.loads(shown.stdout)["n_images"] == 24
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows[0]["label"] = next(name for name in CLASSES if name != rows[0]["label"])
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    shown = run("correct", str(tree / "run"), str(table))
    assert shown.returncode == 0, shown.stderr
    assert (
        "New corrections: 1, of 1 labels taken" in shown.stdout
        and "agree with the run" in shown.stdout
    )
    found = json.loads(run("correct", str(tree / "run"), str(table), "--json").stdout)
    assert found["n_new"] == 0 and found["n_taken"] == 1
    assert run(*label_again).returncode == 0
    assert json.loads((tree / "run" / "run.json").read_text())["n_corrections"] == 1


def test_formats_are_listed(labelled):
    tree, _ = labelled
    listed = json.loads(run("export", str(tree / "run"), "--to", "list", "--json").stdout)
    assert listed["csv"]["is_read"] and not listed["fiftyone"]["is_read"]
    assert "label-studio" in run("export", str(tree / "run"), "--to", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "export what? Say --to FORMAT --out PLACE"),
        (("--to", "csv"), "export what?"),
        (("--out", "x"), "export what?"),
        (("--to", "csv", "--out", "x", "--onnx", "y"), "export what?"),
        (("--to", "cvs", "--out", "x"), "no format is called 'cvs'; try csv"),
        (("--to", "csv", "--out", "."), "is there already; choose another --out"),
    ],
)
def test_a_users_mistake_is_one_line(labelled, arguments, message, tmp_path, monkeypatch):
    tree, _ = labelled
    monkeypatch.chdir(tmp_path)
    shown = run("export", str(tree / "run"), *arguments)
    assert shown.returncode == 2 and message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1 and not list(tmp_path.iterdir())
