from pathlib import Path
from typing import Any

from appl.benchmark.adaptation_logs import adaptation_log_grid
from appl.benchmark.collection import collect
from appl.benchmark.grids import NONE
from appl.store import EpisodeResult, ResultStore
from tests.benchmark.fake_store import digest_of, fake_outline, simple_collection


def course(folder: Path, records: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """The lines of TIM's records on two targets, by title."""
    outline = fake_outline({"cub": "CUB", "cars": "Cars"}, protocol={"n_query": 2, "n_way": 5})
    store = ResultStore(folder / "results.sqlite")
    for target, kept in records.items():
        results = [EpisodeResult(i, 50.0, 1.0, record) for i, record in enumerate(kept)]
        store.add(outline.run(outline.rows[1], target, digest_of(target)), results)
    grid = adaptation_log_grid([collect(outline, store)])
    assert grid is not None
    assert all(len(line) == len(grid.head) for line in grid.lines)
    return {line[0].words: [text.words for text in line[1:]] for line in grid.lines}


def test_it_sums_up_the_records_of_all_targets_by_hand(tmp_path: Path) -> None:
    fell = {
        "loss": [2.0, 3.0, 0.5],
        "n_label_changes": 20,
        "balance": [0.1, 0.9],
        "support_accuracy": 1.0,
    }
    rose = {
        "loss": [1.0, 4.0],
        "n_label_changes": 5,
        "balance": [0.5, 0.5],
        "support_accuracy": 0.5,
    }
    found = course(tmp_path, {"cub": [fell, rose], "cars": [fell]})
    # ratios .25, 4, .25; changes 2, .5, 2 of ten queries; largest .9, .5, .9
    assert found == {"TIM": ["3", "0.25", "33%", "1.5", "77%", "83%"]}


def test_what_a_record_does_not_say_is_left_empty(tmp_path: Path) -> None:
    fits = [{"loss": [0.0, 0.0], "n_epochs": 2}]
    assert course(tmp_path, {"cub": fits}) == {"TIM": ["1", NONE, "0%", NONE, NONE, NONE]}


def test_rows_without_iterations_have_none(tmp_path: Path) -> None:
    assert adaptation_log_grid([simple_collection(tmp_path)]) is None
