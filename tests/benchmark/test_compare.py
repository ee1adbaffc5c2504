import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from appl.benchmark.collection import collect
from appl.benchmark.compare import Comparison, Pairs, compare_rows, compare_stored
from appl.errors import DataError, UnknownNameError
from appl.store import ResultStore
from tests.benchmark.fake_store import add, fake_outline

TARGETS = {"cub": "CUB", "cars": "Cars"}


def drawn(seed: int, n: int, level: float) -> list[float]:
    """Accuracies in steps of 1/15, so that ties occur."""
    rights = np.random.default_rng(seed).binomial(15, level, n)
    return [float(100 * right / 15) for right in rights]


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline(TARGETS)
    for seed, target in enumerate(TARGETS):
        add(store, outline, "TIM", target, drawn(seed, 30, 0.7))
        add(store, outline, "ProtoNet", target, drawn(seed + 10, 40, 0.6))
    return store


@pytest.mark.golden
def test_numbers_are_those_of_numpy_and_scipy(store: ResultStore) -> None:
    comparison = compare_rows([collect(fake_outline(TARGETS), store)], "TIM", "ProtoNet")
    means, halves = [], []
    for seed, pairs in enumerate(comparison.targets):
        difference = np.array(drawn(seed, 30, 0.7)) - np.array(drawn(seed + 10, 40, 0.6))[:30]
        assert pairs.difference.mean == pytest.approx(difference.mean())
        error = difference.std(ddof=1) / np.sqrt(30)
        low, high = stats.t.interval(0.95, 29, difference.mean(), error)
        assert pairs.difference.interval == pytest.approx((high - low) / 2)
        signs = np.sign(difference)
        assert (pairs.wins, pairs.ties) == ((signs > 0).sum(), (signs == 0).sum())
        assert pairs.ties > 0
        assert pairs.win_share == pytest.approx((signs.mean() + 1) / 2)
        means.append(difference.mean())
        halves.append((high - low) / 2)
    assert comparison.difference.mean == pytest.approx(np.mean(means))
    assert comparison.difference.interval == pytest.approx(np.hypot(*halves) / 2)
    everyone = [pairs.win_share for pairs in comparison.targets]
    assert comparison.win_share == pytest.approx(np.mean(everyone))


def test_the_other_way_round_is_the_mirror_image(store: ResultStore) -> None:
    collection = collect(fake_outline(TARGETS), store)
    one = compare_rows([collection], "TIM", "ProtoNet")
    other = compare_rows([collection], "ProtoNet", "TIM")
    assert other.win_share == pytest.approx(1 - one.win_share)
    assert other.difference.mean == pytest.approx(-one.difference.mean)


def test_values_are_json(store: ResultStore) -> None:
    comparison = compare_rows([collect(fake_outline(TARGETS), store)], "TIM", "ProtoNet")
    values = json.loads(json.dumps(comparison.as_values()))
    cub = values["targets"]["CUB"]
    assert cub["wins"] + cub["ties"] + cub["losses"] == cub["n"] == 30
    assert values["difference"] == comparison.difference.mean
    # One episode has no interval, and JSON has no word for "not a number".
    alone = Comparison("A", "B", (Pairs("CUB", (0,), (60.0,), (50.0,)),))
    assert alone.as_values()["interval"] is None
    assert alone.as_values()["targets"]["CUB"]["interval"] is None


def test_rows_of_a_store_by_method_or_key(store: ResultStore) -> None:
    by_title = compare_rows([collect(fake_outline(TARGETS), store)], "TIM", "ProtoNet")
    by_method = compare_stored(store, "tim", "prototypical")
    key = next(run.key for run in store.runs() if run.method == "tim")
    by_key = compare_stored(store, key[:8], "prototypical")
    for found in (by_method, by_key):
        assert [pairs.a for pairs in found.targets] == [pairs.a for pairs in by_title.targets]
        assert [pairs.title for pairs in found.targets] == ["cub", "cars"]
        assert found.a == f"tim {key[:8]} (resnet10, 84 px)"


def test_rows_of_a_store_that_cannot_be_told_or_paired(store: ResultStore) -> None:
    uneven = fake_outline(TARGETS, protocol={"dirichlet": 2.0})
    add(store, uneven, "TIM", "cub", [50.0])
    with pytest.raises(UnknownNameError, match=r"several rows 'tim'; give a key: .*dirichlet 2\.0"):
        compare_stored(store, "tim", "prototypical")
    key = next(run.key for run in store.runs() if run.protocol["dirichlet"])
    with pytest.raises(DataError, match=r"dirichlet = 2.0 and .* dirichlet = 0.0: other episodes"):
        compare_stored(store, key, "prototypical")
    with pytest.raises(UnknownNameError, match="no run 'tmi'; its methods: prototypical, tim"):
        compare_stored(store, "tmi", "prototypical")


def test_other_weights_are_compared_on_the_same_episodes_only(store: ResultStore) -> None:
    other = fake_outline(TARGETS, rows=[("ProtoNet", "prototypical", {})], weights_digest="f" * 64)
    add(store, other, "ProtoNet", "cub", [0.0, 10.0], digest="another set of files")
    key = next(run.key for run in store.runs() if run.weights_digest == "f" * 64)
    with pytest.raises(DataError, match=r"^.prototypical .* share no stored episode"):
        compare_stored(store, key, "tim")
    add(store, replace(other), "ProtoNet", "cub", [0.0, 10.0])
    found = compare_stored(store, key, "tim")
    assert [pairs.episodes for pairs in found.targets] == [(0, 1)]


def test_an_unknown_title_is_named(store: ResultStore) -> None:
    with pytest.raises(UnknownNameError, match="no row is called 'APPL'"):
        compare_rows([collect(fake_outline(TARGETS), store)], "TIM", "APPL")
