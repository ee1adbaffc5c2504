"""A real Ray cluster of two nodes on this machine."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appl.benchmark.cluster import RayWorkers
from appl.benchmark.plan import Plan, Target, make_plan
from appl.benchmark.processes import ProcessWorkers
from appl.benchmark.replay import make_manifest
from appl.benchmark.rows import Row
from appl.benchmark.runner import open_jobs, run_plan
from appl.errors import ApplError
from appl.settings.benchmark import BenchSettings
from appl.store import EpisodeResult, ResultStore

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture
def plan(bench_settings: BenchSettings, bench_root: Path, tmp_path: Path) -> Plan:
    return make_plan(bench_settings, bench_root / "data", tmp_path / "cache")


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield found
    ray.shutdown()
    found.shutdown()


def found_in(plan: Plan, store: ResultStore) -> str:
    """Everything that a run decides, as text: to the last digit."""
    return json.dumps(
        [
            [row.title, target.name, [(r.episode, r.accuracy) for r in store.results(run)]]
            for row in plan.rows
            for target in plan.targets.values()
            for run in [plan.run(row, target)]
        ]
    )


def test_a_node_that_dies_in_the_middle_changes_nothing(
    plan: Plan, bench_root: Path, tmp_path: Path, cluster: Any
) -> None:
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    cache = tmp_path / "cache"
    given: list[tuple[str, str, int]] = []

    def on_result(row: Row, target: Target, results: list[EpisodeResult]) -> None:
        if not given:
            assert ray.cluster_resources()["CPU"] == 2
            cluster.remove_node(other, allow_graceful=False)
        given.extend((row.title, target.name, result.episode) for result in results)

    store = ResultStore(tmp_path / "ray.sqlite")
    run_plan(plan, cache, store, lambda p: RayWorkers(p, cache, "auto"), on_result=on_result)
    assert len(given) == len(set(given)) == 20  # 2 rows × 2 targets × 4 + 1 × 2 × 2
    assert list(open_jobs(plan, store)) == []
    assert not other.any_processes_alive()

    alone = ResultStore(tmp_path / "alone.sqlite")
    run_plan(plan, cache, alone, lambda p: ProcessWorkers(p, bench_root / "data", cache, 1))
    assert found_in(plan, store) == found_in(plan, alone)


def test_a_manifest_is_replayed_by_the_cluster(
    bench_settings: BenchSettings, bench_root: Path, tmp_path: Path, cluster: Any
) -> None:
    data, cache = bench_root / "data", tmp_path / "cache"
    settings = replace(bench_settings, rows=bench_settings.rows[:2])
    manifest = make_manifest(settings, data)
    noise = manifest.targets["noise"]
    backwards = replace(noise, episodes=noise.episodes[::-1])  # not those that the seed gives
    manifest = replace(manifest, targets={**manifest.targets, "noise": backwards})
    plan = make_plan(settings, data, cache, manifest=manifest)
    ray.init(address=cluster.address, log_to_driver=False)
    replayed, drawn = ResultStore(tmp_path / "ray.sqlite"), ResultStore(tmp_path / "drawn.sqlite")
    run_plan(plan, cache, replayed, lambda p: RayWorkers(p, cache, "auto"))
    assert list(open_jobs(plan, replayed)) == []

    drawn_plan = make_plan(settings, data, cache)
    run_plan(drawn_plan, cache, drawn, lambda p: ProcessWorkers(p, data, cache, 1))
    for row, same in zip(plan.rows, drawn_plan.rows, strict=True):
        for name, target in plan.targets.items():
            got = [r.accuracy for r in replayed.results(plan.run(row, target))]
            run = drawn_plan.run(same, drawn_plan.targets[name])
            expected = [r.accuracy for r in drawn.results(run)]
            assert got == (expected[::-1] if name == "noise" else expected)


def test_a_cluster_that_is_not_there_is_named(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ApplError, match=r"no Ray cluster at '127.0.0.1:1'.*ray start --head"):
        RayWorkers(plan, tmp_path / "cache", "127.0.0.1:1")
