"""The configurations of docs/results: they load, and ask for no result that is there already."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from appl.benchmark.collection import collect
from appl.benchmark.plan import Outline, make_outline
from appl.benchmark.tables import make_table
from appl.settings.benchmark import BenchSettings
from appl.settings.files import load_settings
from appl.store import ResultStore, RunKey
from appl.store.migrations import migrate_settings

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CONFIGS = sorted((RESULTS / "configs").glob("*.toml"))


def outline_of(name: str) -> Outline:
    return make_outline(load_settings(BenchSettings, RESULTS / "configs" / f"{name}.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_makes_a_table(path: Path, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    table = make_table([collect(outline_of(path.stem), store)])
    assert table.reference in table.rows


def test_table_1_goes_on_from_the_stored_results() -> None:
    stored_runs = json.loads((RESULTS / "runs.json").read_text()).values()
    runs = [
        RunKey(**{**run, "settings": migrate_settings(run["method"], run["settings"])})
        for run in stored_runs
    ]
    known = {run.key for run in runs}
    # Where patients are kept apart, who is whose patient is part of the data.
    plain = [run for run in runs if not run.protocol.get("groups_apart")]
    digests = {run.target: run.data_digest for run in plain}
    outline = outline_of("table1")
    found = {
        (row.title, target)
        for row in outline.rows
        for target in outline.settings.targets
        if outline.run(row, target, digests[target]).key in known
    }
    stored = ["ProtoNet", "Linear probe", "Label propagation", "TIM", "APPL robust"]
    assert {(row, target) for row in stored for target in digests} <= found


def test_ablation_and_sweep_share_the_base_row_with_table_1() -> None:
    keys = {}
    for name in ("table1", "table3", "sensitivity"):
        outline = outline_of(name)
        (row,) = (row for row in outline.rows if row.title == "APPL robust")
        keys[name] = outline.run(row, "cropdiseases", "d").key
    assert len(set(keys.values())) == 1


def test_table_2_joins_its_shots(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    names = ("table2-20shot", "table2-44shot", "table2-50shot")
    table = make_table([collect(outline_of(name), store) for name in names])
    assert [(c.target, c.n_shot) for c in table.columns if c.target == "chestx"] == [
        ("chestx", 20),
        ("chestx", 44),
    ]
    assert len(table.columns) == 8


def test_table_3_has_the_seven_variants() -> None:
    from appl.solver.variants import VARIANTS

    rows = load_settings(BenchSettings, RESULTS / "configs" / "table3.toml").rows
    assert [row.settings.get("variant") for row in rows] == [None, *VARIANTS]


def test_the_page_says_what_the_stored_results_say() -> None:
    script = RESULTS.parents[1] / "benchmarks" / "results_page.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
