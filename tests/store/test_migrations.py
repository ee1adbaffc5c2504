"""Results of version 0.1 are found under the settings of today."""

import json
import sqlite3
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path

import pytest

from appl.settings.files import structure_settings
from appl.settings.presets import PRESET_NAMES
from appl.settings.solving import SolveSettings
from appl.store import EpisodeResult, ResultStore, RunKey, read_export, results, write_export
from appl.store.migrations import migrate_settings
from appl.store.results import DATA

RUNS = Path(__file__).parents[2] / "docs" / "results" / "runs.json"

# `asdict(AdaptSettings.preset(...))` of version 0.1, written out.
PAPER = {
    "n_iterations": 100,
    "optimiser": "gradient",
    "learning_rate": 0.01,
    "adapts": "all",
    "frozen_stages": 0,
    "batch_norm": "joint",
    "predict_batch_norm": "as_adapted",
    "pseudo_labels": "soft",
    "detach_pseudo_labels": True,
    "pseudo_from": "distances",
    "threshold": 0.4,
    "threshold_rule": "fixed",
    "query_loss_from": 1,
    "use_support_loss": True,
    "use_query_loss": True,
    "support_loss": "as_is",
    "support_reduction": "sum",
    "query_reduction": "sum",
    "cohesion_reduction": "sum",
    "separation_pairs": "unordered",
    "lambda_dis": 0.1,
    "lambda_coh": 0.001,
    "distance_scale": "raw",
    "gap": 5.0,
    "predict_from": "current",
    "predict_with": "adapted",
    "texture_weight": 0.0,
    "standardise_images": False,
    "recluster_every": 1,
    "query_batch": 0,
    "micro_batch": 0,
    "seed": 0,
    "prototypes": {
        "kind": "pcn",
        "n_slots": 5,
        "order": "as_given",
        "few_shots": "error",
        "cluster_start": "first",
        "cluster_rounds": 10,
        "cluster_share": "equal",
        "seed": 0,
    },
    "wma": {
        "use": True,
        "alpha": 0.5,
        "gamma": 0.99,
        "alpha_floor": 0.0,
        "first_alpha": "decayed",
        "start": "zero",
    },
    "views": {"n_views": 1, "kinds": "from_task", "wma_on": "same", "predict_on": "clean"},
    "information": {
        "n_iterations": 40,
        "temperature": 15.0,
        "support_weight": 3.0,
        "evenness": 1.0,
        "least_evenness": 0.03,
        "uneven_at": 0.035,
        "certainty": 0.1,
    },
}
RELEASED = PAPER | {
    "optimiser": "adam",
    "predict_batch_norm": "running",
    "pseudo_labels": "hard",
    "query_loss_from": 2,
    "support_reduction": "mean",
    "query_reduction": "mean_selected",
    "separation_pairs": "ordered",
    "lambda_dis": 1.0,
    "standardise_images": True,
    "prototypes": PAPER["prototypes"] | {"few_shots": "repeat"},
    "wma": PAPER["wma"] | {"start": "first", "first_alpha": "initial", "alpha_floor": 0.1},
}
ROBUST = PAPER | {
    "n_iterations": 15,
    "optimiser": "adam",
    "learning_rate": 0.003,
    "adapts": "batch_norm",
    "frozen_stages": -1,
    "batch_norm": "running",
    "pseudo_from": "information",
    "threshold_rule": "by_way",
    "support_loss": "leave_one_out",
    "support_reduction": "mean",
    "query_reduction": "mean_all",
    "cohesion_reduction": "mean",
    "distance_scale": "calibrated",
    "predict_from": "information",
    "texture_weight": 0.5,
    "recluster_every": 10,
    "prototypes": PAPER["prototypes"]
    | {
        "order": "symmetric",
        "few_shots": "class_mean",
        "cluster_start": "plus_plus",
        "cluster_share": "size",
    },
    "wma": PAPER["wma"] | {"start": "debiased"},
    "views": PAPER["views"] | {"n_views": 4, "predict_on": "mirrored"},
}
OLD = {"paper": PAPER, "released": RELEASED, "robust": ROBUST}


def leaves(tree: dict, prefix: str = "") -> dict:
    """Name every value by its place: {"adaptation.views.n_views": 4, …}."""
    found = {}
    for key, value in tree.items():
        inner = leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else None
        found |= {f"{prefix}{key}": value} if inner is None else inner
    return found


def changed(place: str, value: object) -> dict:
    """Return the old settings of `paper` with one value that is another."""
    settings = deepcopy(PAPER)
    group = settings
    *groups, name = place.split(".")
    for part in groups:
        group = group[part]
    assert group[name] != value
    group[name] = value
    return settings


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_an_old_preset_is_the_preset_of_today(name: str) -> None:
    migrated = leaves(migrate_settings("appl", OLD[name]))
    today = leaves(asdict(SolveSettings.preset(name)))
    assert migrated.keys() == today.keys()
    for place, value in today.items():
        assert migrated[place] == value and type(migrated[place]) is type(value), place


@pytest.mark.parametrize(
    ("old", "value", "new", "found"),
    [
        ("n_iterations", 7, "adaptation.n_iterations", 7),
        ("optimiser", "adam", "adaptation.optimiser", "adam"),
        ("learning_rate", 0.5, "adaptation.learning_rate", 0.5),
        ("adapts", "batch_norm", "adaptation.parameters.move", "norms"),
        ("adapts", "weights", "adaptation.parameters.move", "weights"),
        ("frozen_stages", 3, "adaptation.parameters.frozen_stages", 3),
        ("batch_norm", "task", "adaptation.parameters.batch_norm", "task"),
        ("predict_batch_norm", "running", "adaptation.parameters.predict_batch_norm", "running"),
        ("pseudo_labels", "hard", "adaptation.pseudo_labels.kind", "hard"),
        ("detach_pseudo_labels", False, "adaptation.pseudo_labels.detach", False),
        ("pseudo_from", "information", "answer.teacher", "information"),
        ("pseudo_from", "propagation", "answer.teacher", "propagation"),
        ("threshold", 0.9, "adaptation.pseudo_labels.threshold", 0.9),
        ("threshold_rule", "by_way", "adaptation.pseudo_labels.threshold_rule", "by_way"),
        ("query_loss_from", 2, "adaptation.pseudo_labels.from_iteration", 2),
        ("use_support_loss", False, "adaptation.objective.use_support_loss", False),
        ("use_query_loss", False, "adaptation.objective.use_query_loss", False),
        ("support_loss", "leave_one_out", "adaptation.objective.support_loss", "leave_one_out"),
        ("support_reduction", "mean", "adaptation.objective.support_reduction", "mean"),
        ("query_reduction", "mean_all", "adaptation.objective.query_reduction", "mean_all"),
        ("cohesion_reduction", "mean", "adaptation.objective.cohesion_reduction", "mean"),
        ("separation_pairs", "ordered", "adaptation.objective.separation_pairs", "ordered"),
        ("lambda_dis", 0.2, "adaptation.objective.lambda_dis", 0.2),
        ("lambda_coh", 0.2, "adaptation.objective.lambda_coh", 0.2),
        ("distance_scale", "task", "adaptation.objective.distance_scale", "task"),
        ("gap", 2.0, "adaptation.objective.gap", 2.0),
        ("predict_from", "average", "adaptation.answer", "average"),
        ("predict_from", "propagation", "answer.rule", "propagation"),
        ("predict_from", "information", "answer.rule", "information"),
        ("predict_with", "both", "answer.encoders", "both"),
        ("texture_weight", 0.25, "answer.texture_weight", 0.25),
        ("standardise_images", True, "adaptation.standardise_images", True),
        ("recluster_every", 4, "adaptation.recluster_every", 4),
        ("query_batch", 40, "adaptation.query_batch", 40),
        ("micro_batch", 8, "adaptation.micro_batch", 8),
        ("seed", 9, "adaptation.seed", 9),
        ("prototypes.n_slots", 3, "adaptation.prototypes.n_slots", 3),
        ("prototypes.kind", "mean", "adaptation.prototypes.kind", "mean"),
        ("wma.alpha", 0.7, "adaptation.pseudo_labels.wma.alpha", 0.7),
        ("wma.use", False, "adaptation.pseudo_labels.wma.use", False),
        ("views.n_views", 4, "adaptation.views.n_views", 4),
        ("views.kinds", "all", "adaptation.views.kinds", "all"),
        ("views.wma_on", "clean", "adaptation.pseudo_labels.views", "clean"),
        ("views.predict_on", "mirrored", "answer.mirrored", True),
        ("information.n_iterations", 5, "answer.information.n_iterations", 5),
        ("information.temperature", 2.0, "answer.information.temperature", 2.0),
        ("information.support_weight", 0.2, "answer.information.support_weight", 0.2),
        ("information.evenness", 0.2, "answer.information.marginal_weight", 0.2),
        ("information.least_evenness", 0.2, "answer.information.least_marginal_weight", 0.2),
        ("information.uneven_at", 0.2, "answer.information.uneven_at", 0.2),
        ("information.certainty", 0.2, "answer.information.conditional_weight", 0.2),
    ],
)
def test_a_setting_goes_to_its_place_and_to_no_other(
    old: str, value: object, new: str, found: object
) -> None:
    migrated = migrate_settings("appl", changed(old, value))
    differs = leaves(asdict(SolveSettings())) | {new: found}
    assert leaves(migrated) == differs
    assert leaves(asdict(structure_settings(SolveSettings, migrated))) == differs


def test_settings_of_today_and_of_other_methods_stay_as_they_are() -> None:
    for name in PRESET_NAMES:
        once = migrate_settings("appl", OLD[name])
        assert migrate_settings("appl", once) == once
    rival = {"n_iterations": 3, "predict_from": "current"}
    assert migrate_settings("tim", rival) == rival


def test_migrating_leaves_what_it_was_given_as_it_was() -> None:
    given = deepcopy(ROBUST)
    migrate_settings("appl", given)
    assert given == ROBUST


def test_the_precision_of_a_row_stays_beside_its_settings() -> None:
    migrated = migrate_settings("appl", ROBUST | {"precision": "bf16"})
    assert migrated == asdict(SolveSettings.preset("robust")) | {"precision": "bf16"}


def test_every_published_run_has_settings_of_today() -> None:
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    n_appl = 0
    for run in runs.values():
        settings = migrate_settings(run["method"], run["settings"])
        if run["method"] != "appl":
            assert settings == run["settings"]
            continue
        n_appl += 1
        values = {key: value for key, value in settings.items() if key != "precision"}
        assert asdict(structure_settings(SolveSettings, values)) == values
    assert n_appl > 200
    # As many different runs as before: no two of them have become one.
    migrated = [
        RunKey(**{**run, "settings": migrate_settings(run["method"], run["settings"])}).key
        for run in runs.values()
    ]
    assert len(set(migrated)) == len(runs)


RUN = RunKey(
    method="appl",
    settings=ROBUST,
    target="leaves",
    data_digest="d1",
    protocol={"n_way": 5, "n_query": 15},
    weights="resnet10",
    weights_digest="w1",
    encoder="resnet10",
    image_px=84,
)
TODAY = replace(RUN, settings=asdict(SolveSettings.preset("robust")))
RIVAL = replace(RUN, method="tim", settings={"n_iterations": 150})


def write_schema_2(path: Path, *runs: RunKey) -> None:
    """Write a store as version 0.1 did, with two episodes of each run."""
    schema = resources.files("appl.store").joinpath("schema.sql").read_text()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{schema} {DATA} PRAGMA user_version = 2;")
        database.execute("INSERT INTO data VALUES ('d1', 'complete')")
        for run_id, run in enumerate(runs, 1):
            values = asdict(run) | {
                "run_id": run_id,
                "key": run.key,
                "settings": json.dumps(run.settings, sort_keys=True),
                "protocol": json.dumps(run.protocol, sort_keys=True),
            }
            places = ", ".join(f":{name}" for name in values)
            columns = ", ".join(values)
            database.execute(f"INSERT INTO runs ({columns}) VALUES ({places})", values)
            for episode in (0, 1):
                database.execute(
                    "INSERT INTO episodes VALUES (?, ?, ?, 0.5, ?, '0.1.0', '2026-01-01')",
                    [run_id, episode, 60.0 + run_id + episode, '{"loss": [1.5]}'],
                )
        database.commit()


def schema_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def test_results_of_an_old_store_are_found_under_todays_settings(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    write_schema_2(path, RUN, RIVAL)
    for _ in range(2):  # opened again, it is as it was
        store = ResultStore(path)
        assert store.runs() == [TODAY, RIVAL]
        assert store.done(TODAY) == {0, 1} and store.done(RUN) == set()
        assert [r.accuracy for r in store.results(TODAY)] == [61.0, 62.0]
        assert [r.accuracy for r in store.results(RIVAL)] == [62.0, 63.0]
        assert store.results(TODAY)[0].record == {"loss": [1.5]}
        assert store.provenances() == {"d1": "complete"}
        store.close()
        assert schema_of(path) == results.SCHEMA_VERSION


def test_new_episodes_of_an_old_run_join_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    write_schema_2(path, RUN)
    store = ResultStore(path)
    store.add(TODAY, [EpisodeResult(1, 99.0, 1.0), EpisodeResult(2, 70.0, 1.0)])
    assert store.runs() == [TODAY]
    assert [r.accuracy for r in store.results(TODAY)] == [61.0, 62.0, 70.0]


def test_an_old_export_is_read_as_one_of_today(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "today.sqlite")
    store.add(TODAY, [EpisodeResult(0, 50.0, 1.0, {}, "0.1.0", "2026-01-01")])
    write_export(store, tmp_path / "out")
    # The same text as version 0.1 wrote it: the run under its old key, with its old settings.
    for name in ("runs.json", "episodes.csv"):
        text = (tmp_path / "out" / name).read_text()
        assert TODAY.key[:16] in text
        (tmp_path / "out" / name).write_text(text.replace(TODAY.key[:16], RUN.key[:16]))
    described = json.dumps({RUN.key[:16]: asdict(RUN)})
    (tmp_path / "out" / "runs.json").write_text(described)
    other = ResultStore(tmp_path / "other.sqlite")
    read_export(other, tmp_path / "out")
    assert other.runs() == [TODAY] and other.results(TODAY) == store.results(TODAY)


class Killed(Exception):
    pass


def test_a_setting_that_came_later_has_the_value_that_a_run_was_made_with(tmp_path: Path) -> None:
    without = deepcopy(TODAY.settings)
    del without["adaptation"]["feature_scale"]
    assert migrate_settings("appl", without) == TODAY.settings
    assert "feature_scale" not in without["adaptation"]  # what was given stays as it was
    changed = deepcopy(TODAY.settings)
    changed["adaptation"]["feature_scale"] = 0.5
    assert migrate_settings("appl", changed) == changed


def test_a_migration_that_is_cut_short_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.sqlite"
    write_schema_2(path, RUN, RIVAL)

    def cut_short(method: str, settings: dict) -> dict:
        if method == "tim":  # the second run, when the first is written already
            raise Killed
        return migrate_settings(method, settings)

    monkeypatch.setattr(results, "migrate_settings", cut_short)
    with pytest.raises(Killed):
        ResultStore(path)
    assert schema_of(path) == 2
    with closing(sqlite3.connect(path)) as database:
        keys = {key for (key,) in database.execute("SELECT key FROM runs")}
    assert keys == {RUN.key, RIVAL.key}
    monkeypatch.undo()
    assert ResultStore(path).done(TODAY) == {0, 1}
