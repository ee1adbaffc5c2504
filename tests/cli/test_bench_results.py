"""`appl bench table`, `sensitivity`, `compare` and `report` on a made-up store, no images."""

import csv
import json
from pathlib import Path

import pytest
import tomli_w
from typer.testing import CliRunner

from appl.benchmark.plan import Outline, make_outline
from appl.cli.app import app
from appl.errors import ApplError, DataError, SettingsError
from appl.settings.benchmark import BenchSettings
from appl.settings.files import load_settings
from appl.store import ResultStore
from tests.benchmark.conftest import bench_root
from tests.benchmark.fake_store import add

__all__ = ["bench_root"]  # the fixture, shared with tests/benchmark

ROWS = [
    {"method": "prototypical"},
    {"method": "appl", "title": "APPL robust", "settings": {"preset": "robust"}},
]
ACCURACIES = {"ProtoNet": [50.0, 60.0, 70.0], "APPL robust": [55.0, 60.0, 85.0]}


def write_config(folder: Path, name: str, **changes: object) -> Path:
    values = {"targets": {"cub": "CUB"}, "rows": ROWS, "n_episodes": 10, **changes}
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(values), encoding="utf-8")
    return path


def outline_of(config: Path) -> Outline:
    return make_outline(load_settings(BenchSettings, config))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with few.toml, many.toml and their results."""
    store = ResultStore(tmp_path / "results.sqlite")
    for name, n_shot in (("few", 5), ("many", 20)):
        config = write_config(tmp_path, name, protocol={"n_shot": n_shot}, title="Both")
        for row, accuracies in ACCURACIES.items():
            add(store, outline_of(config), row, "cub", [a + n_shot / 5 for a in accuracies])
    store.close()
    return tmp_path


def bench(folder: Path, *arguments: object) -> str:
    words = ["bench", *map(str, arguments), "--results", str(folder / "results.sqlite")]
    result = CliRunner().invoke(app, words)
    if isinstance(result.exception, ApplError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_table_needs_no_images(folder: Path) -> None:
    text = bench(folder, "table", folder / "few.toml")
    assert "| ProtoNet | 61.00 ± 9.24 | 3 | 0.5 | none |" in text
    assert "| APPL robust | +6.67 ± 18.97 |" in text


def test_the_file_is_what_is_printed_in_the_format_of_its_ending(folder: Path) -> None:
    out = folder / "t.csv"
    text = bench(folder, "table", folder / "few.toml", folder / "many.toml", "--out", out)
    assert out.read_text() == text
    lines = csv.DictReader(out.open(encoding="utf-8"))
    rows = [(line["row"], line["n_shot"], float(line["mean"])) for line in lines]
    assert rows[0] == ("ProtoNet", "5", 61.0) and rows[1] == ("ProtoNet", "20", 64.0)
    latex = bench(folder, "table", folder / "few.toml", "--format", "latex")
    assert latex.startswith("\\begin{tabular}")
    with pytest.raises(SettingsError, match="no format is called 'word'"):
        bench(folder, "table", folder / "few.toml", "--format", "word")


def test_reference_and_quotes_by_option(folder: Path) -> None:
    options = ["--reference", "APPL robust", "--quote", "HVM"]
    text = bench(folder, "table", folder / "few.toml", *options)
    assert "| ProtoNet | -6.67 ± 18.97 |" in text and "the paper's HVM" in text


def test_reading_makes_no_store(tmp_path: Path) -> None:
    config = write_config(tmp_path, "few")
    with pytest.raises(DataError, match=r"no results at .*appl bench run"):
        bench(tmp_path, "table", config)
    assert not (tmp_path / "results.sqlite").exists()


def test_compare_by_title_and_by_method(folder: Path) -> None:
    names = ["APPL robust", "ProtoNet", "--config", folder / "few.toml"]
    figure = folder / "scatter.svg"
    values = json.loads(bench(folder, "compare", *names, "--json", "--out", figure))
    assert values["targets"]["CUB"] == {
        "wins": 2,
        "ties": 1,
        "losses": 0,
        "win_share": pytest.approx(5 / 6),
        "difference": pytest.approx(20 / 3),
        "interval": pytest.approx(18.973, abs=1e-3),
        "n": 3,
    }
    assert figure.read_text().count("<svg") == 1
    assert "83%" in bench(folder, "compare", *names)
    with pytest.raises(ApplError, match="several rows 'appl'; give a key"):
        bench(folder, "compare", "appl", "prototypical")


def test_sensitivity_draws_what_is_stored(folder: Path) -> None:
    ranges = {"preset": "robust", "alpha": [0.1], "threshold": [], "lambda_coh": []}
    config = write_config(folder, "sweep", rows=[], sensitivity={**ranges, "lambda_dis": []})
    store = ResultStore(folder / "results.sqlite")
    add(store, outline_of(config), "α₀ = 0.1", "cub", [50.0, 61.0, 85.0])
    store.close()
    text = bench(folder, "sensitivity", config, "--out", folder / "s.svg")
    # The base row is that of few.toml: nothing is done twice.
    assert "| APPL robust | 67.67 ±" in text and "| α₀ = 0.1 | -2.33 ± 7.99 |" in text
    assert (folder / "s.svg").read_text().count("α₀") == 1
    empty = write_config(folder, "empty", rows=[], sensitivity=ranges, image_px=96)
    with pytest.raises(DataError, match="nothing to draw"):
        bench(folder, "sensitivity", empty, "--out", folder / "none.svg")
    with pytest.raises(SettingsError, match="no figure is drawn as"):
        bench(folder, "sensitivity", config, "--data", folder / "nowhere", "--out", "s.gif")
    with pytest.raises(SettingsError, match=r"few\.toml has no preset under \[sensitivity\]"):
        bench(folder, "sensitivity", folder / "few.toml")


@pytest.mark.slow
def test_sensitivity_runs_what_is_missing_and_goes_on(bench_root: Path, tmp_path: Path) -> None:
    ranges = {"preset": "robust", "alpha": [0.1], "threshold": [], "lambda_coh": []}
    config = write_config(
        tmp_path,
        "sweep",
        targets={"noise": "Noise"},
        rows=[],
        weights=str(bench_root / "weights.safetensors"),
        image_px=32,
        n_episodes=1,
        protocol={"n_way": 2, "n_shot": 1, "n_query": 2},
        sensitivity={**ranges, "lambda_dis": []},
    )
    options = ["--data", bench_root / "data", "--cache", tmp_path / "cache", "--workers", 1]
    options += ["--out", tmp_path / "s.svg"]
    first = bench(tmp_path, "sensitivity", config, *options)
    assert "| APPL robust |" in first and (tmp_path / "s.svg").exists()
    store = ResultStore(tmp_path / "results.sqlite")
    before = [store.results(run) for run in store.runs()]
    store.close()
    assert [len(results) for results in before] == [1, 1]
    bench(tmp_path, "sensitivity", config, *options)
    store = ResultStore(tmp_path / "results.sqlite")
    assert [store.results(run) for run in store.runs()] == before


def test_report_is_written(folder: Path) -> None:
    out = folder / "report.html"
    untitled = write_config(folder, "plain")
    bench(folder, "report", folder / "few.toml", folder / "many.toml", untitled, "--out", out)
    html = out.read_text(encoding="utf-8")
    assert "CUB, 20-shot" in html
    assert "<h2>Both</h2>" in html and "<h2>plain</h2>" in html
