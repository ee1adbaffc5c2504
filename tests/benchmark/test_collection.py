from pathlib import Path

import pytest

from appl.benchmark.collection import collect
from appl.errors import DataError
from appl.store import ResultStore
from tests.benchmark.fake_store import add, digest_of, fake_outline


def test_results_are_found_without_the_data(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline({"cub": "CUB", "cars": "Cars"})
    add(store, outline, "TIM", "cub", [50.0, 60.0])
    found = collect(outline, store).stored
    assert list(found) == [("TIM", "cub")]
    assert found["TIM", "cub"].accuracies == {0: 50.0, 1: 60.0}
    assert found["TIM", "cub"].run.data_digest == digest_of("cub")


@pytest.mark.parametrize(
    "other",
    [
        fake_outline(image_px=96),
        fake_outline(margin=1.15),
        fake_outline(protocol={"seed": 1}),
        fake_outline(protocol={"n_query": 5}),
        fake_outline(weights_digest="f" * 64),
        fake_outline(rows=[("TIM", "tim", {"n_iterations": 7})]),
        fake_outline({"cars": "Cars"}),
    ],
)
def test_results_of_anything_else_are_not(tmp_path: Path, other: object) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    add(store, fake_outline(), "TIM", "cub", [50.0])
    assert collect(other, store).stored == {}  # type: ignore[arg-type]


def test_a_row_has_no_more_episodes_than_it_asks_for(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline(n_episodes=2)
    add(store, outline, "TIM", "cub", [50.0, 60.0, 70.0])
    assert collect(outline, store).stored["TIM", "cub"].accuracies == {0: 50.0, 1: 60.0}


def test_two_sets_of_files_must_be_told_apart(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline()
    add(store, outline, "ProtoNet", "cub", [40.0], digest="a" * 64)
    add(store, outline, "TIM", "cub", [50.0], digest="b" * 64)
    with pytest.raises(DataError, match=r"'cub' on different files .*a{12} and b{12}.*--data"):
        collect(outline, store)
    told = collect(outline, store, {"cub": "b" * 64}).stored
    assert list(told) == [("TIM", "cub")]
