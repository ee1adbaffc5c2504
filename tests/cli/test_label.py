"""The labelling commands as a user gives them."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from appl.cli.app import main
from appl.cli.label import better_encoder
from tests.cli.commands import run
from tests.labelling.conftest import CLASSES, write_tree

QUICK = ("--encoder", "resnet10", "--size-px", "32")
# Where it is not about what the encoder learns.
FROZEN = (*QUICK, "--no-adapt")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("cli") / "given")


@pytest.fixture(scope="module")
def labelled(given):
    out = given.parent / "run"
    shown = run("label", str(given / "support"), str(given / "pile"), "--out", str(out), *QUICK)
    assert shown.returncode == 0, shown.stderr
    return out, shown.stdout


def test_label_writes_everything_and_says_where(labelled):
    out, text = labelled
    for name in ("labels.csv", "report.html", "run.json", "model/model.json"):
        assert (out / name).is_file()
    assert "labels.csv" in text and "report.html" in text and "accept" in text
    assert not (out / "work").exists()


def test_the_same_command_again_has_nothing_to_do(given, labelled):
    out, _ = labelled
    arguments = ("label", str(given / "support"), str(given / "pile"), "--out", str(out), *QUICK)
    before = (out / "labels.csv").stat().st_mtime_ns
    shown = run(*arguments, "--json")
    assert json.loads(shown.stdout)["n_images"] == 24
    assert (out / "labels.csv").stat().st_mtime_ns == before


def test_predict_explain_and_suggest_speak_json(given, labelled):
    out, _ = labelled
    image = str(given / "pile" / "1-0.png")
    (row,) = json.loads(run("predict", str(out), image, "--json").stdout)
    assert row["label"] == CLASSES[1] and row["path"] == image
    found = json.loads(run("explain", str(out), image, "--json").stdout)
    assert found["row"]["label"] == CLASSES[1] and len(found["nearest"]) == 5
    assert len(json.loads(run("suggest", str(out), "-n", "3", "--json").stdout)) == 3


def test_the_same_in_words(given, labelled, tmp_path):
    out, _ = labelled
    image = str(given / "pile" / "1-0.png")
    table = tmp_path / "new.csv"
    shown = run("predict", str(out), image, "--out", str(table))
    assert CLASSES[1] in shown.stdout and table.read_text().startswith("path,label,confidence")
    assert "nearest examples" in run("explain", str(out), image).stdout
    assert "--from" in run("suggest", str(out)).stdout


def test_doctor_names_what_it_finds(given, tmp_path):
    tree = shutil.copytree(given, tmp_path / "given")
    (tree / "pile" / "bad.png").write_text("x")
    found = json.loads(run("doctor", str(tree / "support"), str(tree / "pile"), "--json").stdout)
    assert found["n_pile"] == 25 and found["precision"] in ("fp32", "bfloat16")
    assert [f["kind"] for f in found["findings"]] == ["unreadable"]
    assert "bad.png" in run("doctor", str(tree / "support"), str(tree / "pile")).stdout


def bad_pile(tree):
    """Every kind of file that a real pile may hold."""
    pile = tree / "pile"
    grey = np.linspace(0, 65535, 1600).astype(np.uint16).reshape(40, 40)
    Image.fromarray(grey).save(pile / "b-16-bit.png")
    colour = Image.open(pile / "0-0.png")
    colour.convert("P").save(pile / "b-palette.png")
    colour.convert("CMYK").save(pile / "b-cmyk.tif")
    colour.convert("RGBA").save(pile / "b-alpha.png")
    colour.save(pile / "b-moving.gif", save_all=True, append_images=[colour.rotate(90)])
    colour.save(pile / "b-pages.tif", save_all=True, append_images=[colour])
    exif = Image.Exif()
    exif[0x0112] = 6
    colour.save(pile / "b-turned.jpg", exif=exif)
    colour.save(pile / ("n" * 240 + ".png"))
    colour.save(pile / "comma, space.png")
    with open(os.fsencode(pile) + b"/caf\xe9.png", "wb") as file:  # noqa: PTH123
        colour.save(file, "PNG")
    (pile / "u-text.jpg").write_text("hello")
    whole = (pile / "b-turned.jpg").read_bytes()
    (pile / "u-cut.jpg").write_bytes(whole[: len(whole) // 2])
    (pile / "u-empty.png").touch()
    Image.new("1", (30000, 30000)).save(pile / "u-bomb.png")
    (pile / "loop").symlink_to(pile, target_is_directory=True)


def test_bad_files_are_set_aside_by_name_and_the_rest_goes_on(tmp_path):
    tree = write_tree(tmp_path / "given", classes=("=cmd|' /C calc'!A0", "<b>x</b>", "a, b"))
    bad_pile(tree)
    out = tmp_path / "run"
    shown = run("label", str(tree / "support"), str(tree / "pile"), "--out", str(out), *FROZEN)
    assert shown.returncode == 0, shown.stderr
    assert "Traceback" not in shown.stderr and "Warning" not in shown.stderr
    lines = (out / "labels.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 24 + 10 + 4
    unreadable = [line for line in lines if ",unreadable," in line]
    assert len(unreadable) == 4 and all("/u-" in line for line in unreadable)
    assert not any(cell.startswith("=") for line in lines for cell in line.split(","))
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<b>x</b>" not in page and "&lt;b&gt;x&lt;/b&gt;" in page


@pytest.mark.parametrize(
    ("support", "pile", "message"),
    [
        ("absent", "pile", "absent: no such folder or CSV file of examples"),
        ("support", "absent", "absent: no such folder, list or file"),
        ("support", "support", "nothing to label"),
        ("pile", "pile", "no sub-folders"),
    ],
)
def test_a_users_mistake_is_one_line(given, tmp_path, support, pile, message):
    shown = run(
        "label", str(given / support), str(given / pile), "--out", str(tmp_path / "run"), *QUICK
    )
    assert shown.returncode == 2 and message in shown.stderr
    assert "Traceback" not in shown.stderr and not (tmp_path / "run").exists()


def test_weights_that_are_none_are_named(given, tmp_path):
    fake = tmp_path / "x.safetensors"
    fake.write_text("hello")
    shown = run(
        "label", str(given / "support"), str(given / "pile"), "--out", str(tmp_path / "r"),
        "--encoder", str(fake),
    )  # fmt: skip
    assert shown.returncode == 2 and "is not a whole safetensors file" in shown.stderr


def test_a_place_that_cannot_be_written_is_named(given, tmp_path):
    (tmp_path / "file").touch()
    shown = run(
        "label", str(given / "support"), str(given / "pile"),
        "--out", str(tmp_path / "file" / "run"), *QUICK,
    )  # fmt: skip
    assert shown.returncode == 2 and "file" in shown.stderr and "Traceback" not in shown.stderr


def test_a_full_disk_is_said_and_nothing_is_lost(given, tmp_path, monkeypatch, capsys):
    from appl.images import store

    real = store.write_atomically

    def full(path, data):
        raise OSError(28, "No space left on device")

    arguments = ["appl", "label", str(given / "support"), str(given / "pile")]
    arguments += ["--out", str(tmp_path / "run"), *FROZEN]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(store, "write_atomically", full)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "no space is left" in capsys.readouterr().err
    monkeypatch.setattr(store, "write_atomically", real)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0 and (tmp_path / "run" / "labels.csv").exists()


def test_an_interrupted_run_says_how_to_go_on(given, tmp_path, monkeypatch, capsys):
    from appl.images import store

    real, out = store.write_atomically, tmp_path / "run"

    def interrupted(path, data):
        real(path, data)
        raise KeyboardInterrupt  # what Ctrl-C comes to, once something is kept

    arguments = ["appl", "label", str(given / "support"), str(given / "pile")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(out), *FROZEN])
    monkeypatch.setattr(store, "write_atomically", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 130 and "Traceback" not in shown.err
    assert "the same command goes on" in " ".join(shown.out.split())
    assert not (out / "labels.csv").exists()
    monkeypatch.setattr(store, "write_atomically", real)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0 and (out / "report.html").exists()


def test_a_second_encoder_is_named_once_where_there_is_one_to_have(monkeypatch):
    monkeypatch.setattr("appl.weights.hub.cached_weights", lambda _name: None)
    said = better_encoder("efficientnet_lite0")
    assert said is not None and "`appl encoders get dinov2_vits14`" in said
    assert said.endswith("--encoder efficientnet_lite0+dinov2_vits14")
    monkeypatch.setattr("appl.weights.hub.cached_weights", lambda _name: Path("here"))
    assert "encoders get" not in (better_encoder("efficientnet_lite0") or "")
    assert better_encoder("resnet10") is None
