"""`appl bench run` with every method that is registered, as on a fresh machine."""

import csv
from pathlib import Path

import pytest
import tomli_w

from appl.core.methods import METHODS
from appl.datasets.packed import pack_folder
from appl.settings.files import structure_settings
from appl.settings.rival_training import RivalTrainSettings
from appl.training.rival import train_rival
from appl.weights import load_file
from tests.benchmark.conftest import bench_root, write_target
from tests.cli.commands import run

__all__ = ["bench_root"]  # the fixture, shared with tests/benchmark

# Steps that take seconds on real tasks and say nothing here.
FEWER = {
    "fine_tune": {"n_epochs": 1},
    "transductive_fine_tune": {"n_epochs": 1},
    "adapted_propagation": {"n_epochs": 1},
    "entropy_fine_tune": {"n_steps": 1},
    "information_fine_tune": {"n_steps": 1},
    "pseudo_fine_tune": {"n_steps": 1},
    "alpha_tim": {"n_iterations": 5},
    "appl": {"preset": "robust", "changes": {"adaptation": {"n_iterations": 1}}},
}


def test_all_rows_finish(bench_root: Path, tmp_path: Path) -> None:
    """Two episodes each; meta-trained rows get weights from a training of one task."""
    write_target(tmp_path / "source", 6, 21, seed=2)
    source = pack_folder(tmp_path / "source", tmp_path / "packed", 32)
    names = list(source.class_names)
    rows = []
    for name in METHODS.names():
        row: dict[str, object] = {"method": name, "settings": FEWER.get(name, {})}
        if METHODS.get(name).card.is_meta_trained:
            settings = structure_settings(
                RivalTrainSettings,
                {
                    "method": name, "n_way": 3, "n_shot": 2, "n_query": 2, "n_epochs": 1,
                    "n_tasks": 1, "n_validation_episodes": 1,
                },
            )  # fmt: skip
            folder = tmp_path / name
            start = load_file(bench_root / "weights.safetensors")
            train_rival(start, source, names[:3], names[1:], settings, folder)
            row["weights"] = str(folder / "last.pt")
        rows.append(row)
    config = {
        "targets": {"noise": "Noise"},
        "rows": rows,
        "weights": str(bench_root / "weights.safetensors"),
        "image_px": 32,
        "n_episodes": 2,
        "protocol": {"n_way": 3, "n_shot": 2, "n_query": 3},
    }
    (tmp_path / "all.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    where = ["--results", str(tmp_path / "results.sqlite"), "--data", str(bench_root / "data")]
    config_file = str(tmp_path / "all.toml")
    options = ("--cache", str(tmp_path / "cache"), "--workers", "1")
    done = run("bench", "run", config_file, *where, *options)
    assert done.returncode == 0, done.stderr
    done = run("bench", "table", config_file, *where, "--out", str(tmp_path / "t.csv"))
    assert done.returncode == 0, done.stderr

    with (tmp_path / "t.csv").open(newline="") as file:
        found = {row["row"]: row for row in csv.DictReader(file)}
    cards = [METHODS.get(name).card for name in METHODS.names()]
    assert {card.title: card.takes for card in cards} == {t: r["takes"] for t, r in found.items()}
    assert {row["n_episodes"] for row in found.values()} == {"2"}


def test_a_meta_trained_row_without_weights_says_how_to_get_them(
    bench_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "targets": {"noise": "Noise"},
        "rows": [{"method": "gnn"}],
        "weights": str(bench_root / "weights.safetensors"),
    }
    (tmp_path / "gnn.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run("bench", "run", str(tmp_path / "gnn.toml"), "--data", str(bench_root / "data"))
    assert done.returncode != 0 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "holds no head; give the row weights of its own" in said
    assert "`appl train meta --method gnn` makes them" in said
