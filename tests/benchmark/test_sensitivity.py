from pathlib import Path
from typing import Any

import pytest

from appl.benchmark.collection import collect
from appl.benchmark.curves import sensitivity_curves
from appl.benchmark.mixing import first_difference
from appl.benchmark.plan import Outline
from appl.benchmark.rows import Row
from appl.benchmark.sensitivity import sensitivity_rows
from appl.errors import SettingsError
from appl.settings.benchmark import BenchSettings
from appl.settings.files import structure_settings
from appl.solver.rows import APPL
from appl.store import ResultStore
from tests.benchmark.fake_store import add

RANGES = {"alpha": [0.9, 0.1], "threshold": [0.4], "lambda_coh": [1e-2], "lambda_dis": []}


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def sweep(**changes: Any) -> BenchSettings:
    values = {"preset": "robust", **RANGES, **changes}
    return structure_settings(
        BenchSettings, {"targets": {"crop": "Crop"}, "sensitivity": values, "n_episodes": 12}
    )


def outline(settings: BenchSettings) -> Outline:
    rows = [
        Row(APPL(**row.settings), row.method, row.title, 12, settings.weights, "e" * 64, "resnet10")
        for row in sensitivity_rows(settings)
    ]
    return Outline(settings, tuple(rows), "resnet10", "miniImageNet", "e" * 64)


def test_each_row_changes_one_setting_of_the_base() -> None:
    base, *others = outline(sweep()).rows
    assert base.title == "APPL robust"
    changed = {row.title: first_difference(base.settings, row.settings) for row in others}
    assert changed == {
        "α₀ = 0.1": ("adaptation.pseudo_labels.wma.alpha", 0.5, 0.1),
        "α₀ = 0.9": ("adaptation.pseudo_labels.wma.alpha", 0.5, 0.9),
        "λ_coh = 0.01": ("adaptation.objective.lambda_coh", 0.001, 0.01),
    }
    for row in others:
        ours, theirs = flat(row.settings), flat(base.settings)
        assert sum(ours[name] == theirs[name] for name in theirs) == len(theirs) - 1


def test_ranges_as_they_come_hold_the_values_that_the_paper_names() -> None:
    settings = structure_settings(
        BenchSettings, {"targets": {"crop": "Crop"}, "sensitivity": {"preset": "paper"}}
    )
    rows = outline(settings).rows
    # Five values of each of the four, the base's own once.
    assert len(rows) == 4 * 5 - 4 + 1
    keys = {outline(settings).run(row, "crop", "").key for row in rows}
    assert len(keys) == len(rows)
    ranges = settings.sensitivity
    assert 0.4 in ranges.threshold and {5e-3, 1e-1} <= set(ranges.lambda_coh)


def test_without_a_preset_there_are_no_rows() -> None:
    with pytest.raises(SettingsError, match="at least one target and one row"):
        sweep(preset="")
    with pytest.raises(SettingsError, match="no preset is called 'robus'"):
        outline(sweep(preset="robus"))


def test_curves_hold_the_base_in_its_place(tmp_path: Path) -> None:
    store, made = ResultStore(tmp_path / "r.sqlite"), outline(sweep())
    add(store, made, "APPL robust", "crop", [80.0, 90.0])
    add(store, made, "α₀ = 0.9", "crop", [70.0, 86.0])
    add(store, made, "α₀ = 0.1", "crop", [81.0, 91.0])
    alpha, threshold, coh, dis = sensitivity_curves(collect(made, store))
    assert [(p.value, p.accuracy.mean) for p in alpha.points] == [(0.1, 86), (0.5, 85), (0.9, 78)]
    assert [(p.difference.mean, p.difference.interval) for p in alpha.points] == [
        (1.0, 0.0),
        (0.0, 0.0),
        (-7.0, pytest.approx(12.7062 * 3)),  # t of one degree of freedom, s = 3·√2
    ]
    assert alpha.base == 0.5
    # Nothing was run but the base: it is the only point of the others.
    assert [len(curve.points) for curve in (threshold, coh, dis)] == [1, 1, 1]
