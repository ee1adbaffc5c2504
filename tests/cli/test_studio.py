"""`appl studio` as a user gives it; the page itself is tested in tests/studio."""

import builtins
import re
import shutil

import pytest
import uvicorn

from appl.images.thumbnails import Thumbnails
from appl.labelling.corrections import (
    append_corrections,
    known_classes,
    read_corrections,
    said_at_once,
)
from appl.labelling.reopening import reopen
from tests.cli.commands import run
from tests.labelling.conftest import CLASSES, write_tree
from tests.labelling.test_session import CPU

QUICK = ("--encoder", "resnet10", "--size-px", "32", "--no-open")


@pytest.fixture
def served(monkeypatch):
    """Serve nobody: what the command prepares is looked at instead."""
    seen = []

    def look(server, sockets):
        guard = server.config.app.user_middleware[0]
        seen.append((server.config.app.state.desk, guard.kwargs, sockets[0].getsockname()))
        seen[-1][0].jobs.wait()

    monkeypatch.setattr(uvicorn.Server, "run", look)
    monkeypatch.setattr("appl.studio.desk.write_report", lambda _folder: None)
    monkeypatch.setattr("webbrowser.open", lambda address: seen.append(address))
    return seen


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("studio") / "given")


def test_examples_and_a_pile_become_a_run_with_an_answer(given, tmp_path, served):
    places = (str(given / "support"), str(given / "pile"))
    shown = run("studio", *places, "--out", str(tmp_path / "run"), *QUICK)
    assert shown.returncode == 0, shown.stderr
    (desk, guard, (host, port)) = served[0]
    assert host == "127.0.0.1" and guard["key"] == "" and f"127.0.0.1:{port}" in guard["hosts"]
    assert f"Open http://127.0.0.1:{port}/ in a browser" in shown.stdout
    assert len(desk.answers) == 1 and len(served) == 1  # --no-open: no browser
    assert (tmp_path / "run" / "labels.csv").exists()
    again = run("studio", str(tmp_path / "run"), "--no-open", "--who", "Ada")
    assert again.returncode == 0 and served[1][0].who == "Ada"


def test_a_pile_alone_is_a_run_without_an_answer(given, tmp_path, served):
    shown = run("studio", str(given / "pile"), "--out", str(tmp_path / "run"), *QUICK[:-1])
    assert shown.returncode == 0, shown.stderr
    assert served[0].startswith("http://127.0.0.1:")  # the browser was opened
    assert not (tmp_path / "run" / "labels.csv").exists()
    assert len(Thumbnails.open(tmp_path / "run" / "images" / "pile")) == 24
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    append_corrections(copy, said_at_once({1: CLASSES[0]}, who="Ben"))
    merged = run("studio", str(tmp_path / "run"), "--merge", str(copy), "--no-open")
    assert "0 images in conflict" in " ".join(merged.stdout.split())
    assert known_classes(read_corrections(tmp_path / "run")) == {1: CLASSES[0]}
    reopen(tmp_path / "run", CPU).close()  # nothing holds it


def test_over_a_network_the_address_holds_a_key(given, tmp_path, served):
    out = ("--out", str(tmp_path / "run"))
    shown = run("studio", str(given / "pile"), *out, *QUICK, "--host", "127.0.0.1")
    key = re.search(r"\?key=([\w-]{32})", shown.stdout.replace("\n", ""))[1]
    _, guard, _ = served[0]
    assert guard["key"] == key and all(h.startswith(("127.", "[127.")) for h in guard["hosts"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "is no run of `appl label`; to begin a run with it"),
        (["nowhere", "--out", "run"], "no such folder, list or file"),
        (["a", "b", "c"], "give a run, examples and a pile, or a pile alone"),
    ],
)
def test_mistakes_are_one_line(arguments, words, tmp_path, monkeypatch, served):
    monkeypatch.chdir(tmp_path)
    shown = run("studio", *arguments)
    assert shown.returncode == 2 and words in shown.stderr and served == []


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name.startswith("appl.studio"):
            raise ModuleNotFoundError("No module named 'starlette'", name="starlette")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    shown = run("studio", "anywhere")
    assert shown.returncode == 2 and "pip install 'appl[studio]'" in shown.stderr
