"""`appl data` as a user runs it."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from appl.cli.app import app
from appl.cli.data import data
from appl.datasets._registry import DATASETS
from tests.cli.commands import run
from tests.datasets.readers.test_chestx import write_table
from tests.datasets.readers.trees import fill, touch

BIRDS = {"004.Groove_billed_Ani": 2, "007.Parakeet_Auklet": 1}


def call(*arguments, root=None):
    environment = {"APPL_DATA": str(root) if root else None}
    return CliRunner().invoke(app, ["data", *map(str, arguments)], env=environment)


def call_json(*arguments, root=None):
    done = call(*arguments, "--json", root=root)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_list_says_what_is_known_and_what_is_found(tmp_path):
    fill(tmp_path / "cub", BIRDS)
    fill(tmp_path / "EuroSAT" / "2750", {"Forest": 1, "Desert": 1})
    records = {record["name"]: record for record in call_json("list", root=tmp_path)}
    assert list(records) == DATASETS.names()
    assert records["isic"]["terms"] == "CC BY-NC 4.0" and records["isic"]["found"] is None
    cub = records["cub"]["found"]
    assert cub["path"] == str(tmp_path / "cub") and (cub["n_classes"], cub["n_images"]) == (2, 3)
    assert cub["provenance"] == "partial: 2 of 200 classes, 3 of 11,788 images"
    assert "class 'Desert' is not one of the 10" in records["eurosat"]["found"]["error"]
    shown = call("list", root=tmp_path).stdout
    for text in ("CC BY-NC 4.0", "github.com/phelber/EuroSAT", "found   partial: 2 of 200 classes"):
        assert text in shown
    assert "set APPL_DATA" in call("list").stdout


def test_check_goes_class_by_class(tmp_path):
    fill(tmp_path, BIRDS)
    report = call_json("check", "cub", tmp_path)
    rows = {row["name"]: row for row in report["classes"]}
    assert len(rows) == 200
    assert rows["004.Groove_billed_Ani"] == {
        "name": "004.Groove_billed_Ani", "found": 2, "published": 60, "verdict": "58 missing",
    }  # fmt: skip
    assert rows["200.Common_Yellowthroat"]["verdict"] == "not there"
    assert report["splits"] == {
        "train": ["007.Parakeet_Auklet"],
        "test": ["004.Groove_billed_Ani"],
    }
    shown = call("check", "cub", tmp_path)
    assert shown.exit_code == 0  # a part is named, not refused
    assert shown.stdout.strip().endswith("partial: 2 of 200 classes, 3 of 11,788 images")
    assert "58 missing" in shown.stdout
    assert call("check", "cub", tmp_path, "--strict").exit_code == 1


def test_check_says_more_all_and_not_published(tmp_path):
    counts = {"AnnualCrop": 3000, "Forest": 3001}
    fill(tmp_path / "EuroSAT", counts)
    rows = {r["name"]: r["verdict"] for r in call_json("check", "eurosat", tmp_path)["classes"]}
    assert (rows["AnnualCrop"], rows["Forest"]) == ("all", "1 more")
    fill(tmp_path / "plantae", {"rose": 1})
    rows = call_json("check", "plantae", tmp_path / "plantae")["classes"]
    assert [(row["name"], row["verdict"]) for row in rows] == [("rose", "not published")]


def test_check_names_missing_files(tmp_path):
    write_table(tmp_path)
    touch(tmp_path / "images" / "00000004_001.png")
    report = call_json("check", "chestx", tmp_path)
    assert report["missing"] == ["00000001_000", "00000004_000", "00000005_000"]
    assert report["n_groups"] == 1
    assert "Not there: 00000004_000" in call("check", "chestx", tmp_path).stdout


def test_show_writes_a_contact_sheet(tmp_path):
    fill(tmp_path / "cub", BIRDS, ".png")
    out = tmp_path / "made" / "sheet.png"
    done = call("show", "cub", "--out", out, "--size-px", 32, "--images", 3, root=tmp_path)
    assert done.exit_code == 0 and "2 of 2 classes" in done.stdout and "partial" in done.stdout
    with Image.open(out) as sheet:
        assert sheet.height == 4 + 2 * 36
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]  # nothing half-written


def test_add_registers_a_tree_that_list_and_check_know(tmp_path):
    tree = fill(tmp_path / "elsewhere" / "leaves", {"oak": 2, "ash": 1})
    split = tmp_path / "split.json"
    split.write_text('{"train": ["oak"], "validation": ["ash"]}')
    root = tmp_path / "root"
    done = call("add", "leaves", tree, "--role", "source", "--split", split, root=root)
    assert done.exit_code == 0
    assert done.stdout.strip() == "leaves: 3 images in 2 classes (1 train, 1 validation)"
    record = call_json("list", root=root)[-1]
    assert (record["name"], record["role"], record["found"]["n_images"]) == ("leaves", "source", 3)
    report = call_json("check", "leaves", root=root)
    assert [row["verdict"] for row in report["classes"]] == ["not published"] * 2
    birds = fill(tmp_path / "birds", BIRDS)
    assert call("add", "cub", birds, root=root).exit_code == 0
    assert call_json("check", "cub", root=root)["path"] == str(birds)


def test_every_data_set_and_command_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    heads = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert {DATASETS.get(name).title for name in DATASETS.names()} <= heads
    commands = {command.name or command.callback.__name__ for command in data.registered_commands}
    assert set(re.findall(r"^appl data (\w+)", text, re.MULTILINE)) == commands


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "cup", "."), "no data set is called 'cup'; try cub"),
        (("check", "cub"), "where is cub? Give its folder, or set APPL_DATA"),
        (("check", "cub", "nowhere"), "nowhere is not a folder; give the one that holds CUB"),
        (("check", "cub", "--data", "."), ". has no CUB (looked for cub, CUB_200_2011, CUB)"),
        (("show", "isic", "."), "holds ISIC in no layout that we know"),
        (("add", "leaves", "."), "no data root to register it in; set APPL_DATA"),
        (("add", "leaves", "empty", "--data", "."), "empty has no sub-folders"),
        (("add", "a/b", "tree", "--data", "."), "'a/b' is no name for a data set"),
        (("add", "x", "tree", "--data", ".", "--role", "t"), "role = 't' is not a choice"),
        (("add", "cub", "tree", "--data", ".", "--role", "source"), "leave out --role, --split"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.delenv("APPL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "tree", BIRDS)
    (tmp_path / "empty").mkdir()
    shown = run("data", *arguments)
    assert shown.returncode == 2 and message in shown.stderr
    assert "Traceback" not in shown.stderr and len(shown.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "appl-data.toml").exists()
