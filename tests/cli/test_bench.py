"""`appl bench` as a user runs it, in processes of its own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import tomli_w

from tests.benchmark.conftest import ROWS, bench_root
from tests.cli.commands import run

__all__ = ["bench_root"]  # the fixture, shared with tests/benchmark


def write_config(bench_root: Path, folder: Path, n_episodes: int) -> Path:
    rows = [dict(row) for row in ROWS]
    rows[2]["n_episodes"] = n_episodes
    config = {
        "targets": {"noise": "Noise", "more": "More"},
        "rows": rows,
        "weights": str(bench_root / "weights.safetensors"),
        "image_px": 32,
        "n_episodes": n_episodes,
        "protocol": {"n_way": 3, "n_shot": 2, "n_query": 3},
    }
    path = folder / "bench.toml"
    path.write_text(tomli_w.dumps(config), encoding="utf-8")
    return path


def command(verb: str, config: Path, bench_root: Path, folder: Path) -> list[str]:
    options = ["--data", bench_root / "data", "--results", folder / "results.sqlite"]
    if verb == "run":
        options += ["--cache", folder / "cache", "--workers", "2"]
    return [sys.executable, "-m", "appl", "bench", verb, str(config), *map(str, options)]


def n_stored(path: Path) -> int:
    if not path.exists():
        return 0
    with sqlite3.connect(path, timeout=60) as database:
        tables = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'episodes'")
        if not tables.fetchone()[0]:
            return 0
        return int(database.execute("SELECT count(*) FROM episodes").fetchone()[0])


def test_a_killed_run_goes_on_without_loss_or_repetition(bench_root: Path, tmp_path: Path) -> None:
    config = write_config(bench_root, tmp_path, n_episodes=12)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole = command("run", config, bench_root, tmp_path)
    store = tmp_path / "results.sqlite"
    process = subprocess.Popen(
        whole, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and n_stored(store) < 3:
        time.sleep(0.02)
    before = n_stored(store)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 3 <= before < 72
    with sqlite3.connect(store) as database:
        kept = database.execute("SELECT * FROM episodes").fetchall()
    assert run(*whole[3:]).returncode == 0
    with sqlite3.connect(store) as database:
        after = database.execute("SELECT * FROM episodes").fetchall()
    assert len(after) == 72  # three rows, two targets, twelve episodes: none lost, none twice
    assert set(kept) <= set(after)  # what was there is as it was
    table = run(*command("table", config, bench_root, tmp_path)[3:])
    assert "| ProtoNet |" in table.stdout and "| APPL |" in table.stdout


def test_a_meta_trained_method_says_how_its_weights_are_made() -> None:
    done = run("methods")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "its weights: appl train meta --method gnn " in said
    assert "--method tim" not in said


def test_methods_are_listed() -> None:
    done = run("methods", "--json")
    cards = json.loads(done.stdout)
    assert cards["tim"]["takes"] == "transductive"
    assert cards["appl"]["title"] == "APPL"
