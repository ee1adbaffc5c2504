import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from appl.errors import DataError
from appl.store import EpisodeResult, ResultStore, RunKey, read_export, write_export

RUN = RunKey(
    method="tim",
    settings={"n_iterations": 3},
    target="leaves",
    data_digest="d1",
    protocol={"n_way": 5},
    weights="resnet10",
    weights_digest="w1",
    encoder="resnet10",
    image_px=84,
)


def test_results_come_back(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(
        RUN, [EpisodeResult(3, 61.25, 0.5, {"why": "finished"}, "1.0"), EpisodeResult(1, 60, 1)]
    )
    store.close()
    again = ResultStore(tmp_path / "r.sqlite")
    assert again.done(RUN) == {1, 3}
    first, second = again.results(RUN)
    assert (first.episode, second.accuracy, second.record) == (1, 61.25, {"why": "finished"})
    assert again.runs() == [RUN]


def test_an_episode_is_kept_once_and_as_it_was(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(RUN, [EpisodeResult(0, 50.0, 1.0)])
    store.add(RUN, [EpisodeResult(0, 99.0, 1.0), EpisodeResult(1, 70.0, 1.0)])
    assert [result.accuracy for result in store.results(RUN)] == [50.0, 70.0]


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"n_iterations": 4}},
        {"data_digest": "d2"},
        {"weights_digest": "w2"},
        {"protocol": {"n_way": 6}},
        {"image_px": 96},
        {"method": "appl"},
    ],
)
def test_whatever_changes_a_result_is_another_run(tmp_path: Path, change: dict) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(RUN, [EpisodeResult(0, 50.0, 1.0)])
    assert store.done(replace(RUN, **change)) == set()


def test_names_of_files_do_not_make_another_run(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(RUN, [EpisodeResult(0, 50.0, 1.0)])
    assert store.done(replace(RUN, weights="a/copy.safetensors", target="copy")) == {0}


def test_export_and_import_give_the_same_store(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(RUN, [EpisodeResult(i, 100 / 3 + i, 0.25, {"loss": [1.5]}, "1.0") for i in range(3)])
    write_export(store, tmp_path / "out")
    other = ResultStore(tmp_path / "other.sqlite")
    read_export(other, tmp_path / "out")
    read_export(other, tmp_path / "out")
    assert other.results(RUN) == store.results(RUN)


def test_an_export_is_short_and_exact(tmp_path: Path) -> None:
    run = replace(RUN, protocol={"n_way": 5, "n_query": 15})
    other = replace(run, target="tiles", data_digest="d2")
    at = "2026-01-01T00:00:00+00:00"
    # Shares of 75 queries in float arithmetic, and a number that is none.
    shares = [100 * (right / 75) for right in range(76)] + [12.3456, 33.33333]
    store = ResultStore(tmp_path / "r.sqlite")
    results = [EpisodeResult(i, share, 0.25, {}, "1.0", at) for i, share in enumerate(shares)]
    store.add(run, results)
    store.add(other, [EpisodeResult(0, 40.0, 1.0, {"loss": 2}, "", at), results[1]])
    write_export(store, tmp_path / "out")
    lines = (tmp_path / "out" / "episodes.csv").read_text().splitlines()
    assert ",59,78.6667,0.250,,," in lines  # run, version and time are those of the line above
    again = ResultStore(tmp_path / "again.sqlite")
    read_export(again, tmp_path / "out")
    for each in (run, other):
        assert again.results(each) == store.results(each)
        assert len(again.results(each)) in (2, 78)


def test_an_export_whose_files_do_not_belong_together_is_named(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    store.add(RUN, [EpisodeResult(0, 50.0, 1.0)])
    write_export(store, tmp_path / "out")
    (tmp_path / "out" / "runs.json").write_text("{}")
    with pytest.raises(DataError, match=f"a run {RUN.key[:16]} that runs.json has not"):
        read_export(ResultStore(tmp_path / "other.sqlite"), tmp_path / "out")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    with pytest.raises(TypeError):
        store.add(RUN, [EpisodeResult(0, 50.0, 1.0), EpisodeResult(1, 50.0, 1.0, {"x": object()})])
    assert store.done(RUN) == set()
    store.add(RUN, [EpisodeResult(0, 50.0, 1.0)])
    assert store.done(RUN) == {0}


def test_another_file_and_a_newer_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("this is no database, but long enough to be one " * 9)
    with pytest.raises(DataError, match="not a result store"):
        ResultStore(tmp_path / "text.sqlite")
    with sqlite3.connect(tmp_path / "new.sqlite") as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="newer appl"):
        ResultStore(tmp_path / "new.sqlite")


def test_a_store_of_schema_1_learns_of_its_data(tmp_path):
    path = tmp_path / "r.sqlite"
    ResultStore(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE data")
        database.execute("PRAGMA user_version = 1")
        database.commit()
    store = ResultStore(path)
    store.note_data("ab", "partial: 4 of 200 classes")
    store.note_data("ab", "partial: 5 of 200 classes")
    write_export(store, tmp_path / "text")
    store.close()
    other = ResultStore(tmp_path / "other.sqlite")
    read_export(other, tmp_path / "text")
    assert other.provenances() == {"ab": "partial: 5 of 200 classes"}
    (tmp_path / "text" / "data.json").unlink()
    read_export(other, tmp_path / "text")  # as schema 1 exported
