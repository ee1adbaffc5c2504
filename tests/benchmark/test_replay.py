"""Episodes from a manifest: the same results as drawn ones, and no other data."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from appl.benchmark.features import embed, open_features
from appl.benchmark.plan import Plan, make_plan
from appl.benchmark.processes import ProcessWorkers
from appl.benchmark.replay import check_data, check_settings, make_manifest
from appl.benchmark.runner import open_jobs, run_plan
from appl.benchmark.solving import solve
from appl.datasets.manifest import Manifest
from appl.errors import DataError, SettingsError
from appl.settings.benchmark import BenchSettings, RowSettings
from appl.store import ResultStore, RunKey


@pytest.fixture
def settings(bench_settings: BenchSettings) -> BenchSettings:
    return replace(bench_settings, rows=(RowSettings("prototypical"), RowSettings("tim")))


@pytest.fixture
def manifest(settings: BenchSettings, bench_root: Path) -> Manifest:
    return make_manifest(settings, bench_root / "data")


def turned(manifest: Manifest) -> Manifest:
    """Put the last episode first: possible ones, and not those that the seed gives."""
    target = manifest.targets["noise"]
    changed = replace(target, episodes=target.episodes[::-1])
    return replace(manifest, targets={**manifest.targets, "noise": changed})


def keys(plan: Plan) -> dict[str, str]:
    return {name: plan.run(plan.rows[0], target).key for name, target in plan.targets.items()}


def accuracies(store: ResultStore, run: RunKey) -> list[float]:
    return [result.accuracy for result in store.results(run)]


def test_it_is_made_without_decoding_and_again_the_same(
    settings: BenchSettings, bench_root: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("appl.images.store.decode_for_square", fail)
    assert make_manifest(settings, bench_root / "data") == manifest
    assert [len(target.episodes) for target in manifest.targets.values()] == [4, 4]
    longer = replace(settings, rows=(*settings.rows, RowSettings("tim", "Long", n_episodes=7)))
    assert len(make_manifest(longer, bench_root / "data").targets["more"].episodes) == 7


def test_replayed_and_drawn_episodes_share_their_results(
    settings: BenchSettings, bench_root: Path, manifest: Manifest, tmp_path: Path
) -> None:
    data, cache = bench_root / "data", tmp_path / "cache"
    elsewhere = shutil.copytree(data, tmp_path / "elsewhere")
    drawn = make_plan(settings, data, cache)
    replayed = make_plan(settings, elsewhere, cache, manifest=manifest)
    assert keys(replayed) == keys(drawn)
    store, alone = ResultStore(tmp_path / "r.sqlite"), ResultStore(tmp_path / "alone.sqlite")
    # A run that draws was killed after its first job; the replay goes on in a process of its own.
    jobs = list(open_jobs(drawn, alone))
    for number, job in enumerate(jobs):
        (results,) = solve(drawn, job, lambda r, t: open_features(embed(drawn, r, t, cache)))
        run = drawn.run(drawn.rows[job.rows[0]], drawn.targets[job.target])
        alone.add(run, results)
        if number == 0:
            store.add(run, results)
    assert len(list(open_jobs(replayed, store))) == len(jobs) - 1
    run_plan(replayed, cache, store, lambda p: ProcessWorkers(p, elsewhere, cache, 1))
    assert list(open_jobs(drawn, store)) == []
    for row in drawn.rows:
        for target in drawn.targets.values():
            run = drawn.run(row, target)
            assert accuracies(store, run) == accuracies(alone, run) != []


def test_episodes_of_its_own_are_replayed_under_a_key_of_their_own(
    settings: BenchSettings, bench_root: Path, manifest: Manifest, tmp_path: Path
) -> None:
    data, cache = bench_root / "data", tmp_path / "cache"
    drawn = make_plan(settings, data, cache)
    changed = make_plan(settings, data, cache, manifest=turned(manifest))
    assert keys(changed)["more"] == keys(drawn)["more"]
    assert keys(changed)["noise"] != keys(drawn)["noise"]
    first, second = (plan.targets["noise"] for plan in (changed, drawn))
    assert first.draw(changed, 0).query.tolist() == second.draw(drawn, 3).query.tolist()
    assert first.draw(changed, 0).class_ids.tolist() == second.draw(drawn, 3).class_ids.tolist()
    assert check_data(turned(manifest), data) == {"noise": False, "more": True}


def test_workers_solve_the_episodes_of_the_manifest(
    settings: BenchSettings, bench_root: Path, manifest: Manifest, tmp_path: Path
) -> None:
    data, cache = bench_root / "data", tmp_path / "cache"
    found = []
    for given in (manifest, turned(manifest)):
        plan = make_plan(settings, data, cache, manifest=given)
        store = ResultStore(tmp_path / f"{len(found)}.sqlite")
        run_plan(plan, cache, store, lambda p: ProcessWorkers(p, data, cache, 1))
        runs = [plan.run(row, plan.targets["noise"]) for row in plan.rows]
        found.append(list(zip(*(accuracies(store, run) for run in runs), strict=True)))
    assert found[1] == found[0][::-1] != found[0]


def test_other_data_is_refused_and_named(
    settings: BenchSettings, bench_root: Path, manifest: Manifest, tmp_path: Path
) -> None:
    data = shutil.copytree(bench_root / "data", tmp_path / "data")
    assert check_data(manifest, data) == {"noise": True, "more": True}
    image = data / "more" / "class1" / "4.png"
    content = bytearray(image.read_bytes())
    content[-20] ^= 1
    image.write_bytes(content)
    with pytest.raises(DataError, match=r"target 'more': .*class1/4.png has another content"):
        check_data(manifest, data)
    image.unlink()
    for attempt in (
        lambda: check_data(manifest, data),
        lambda: make_plan(settings, data, tmp_path / "cache", manifest=manifest),
    ):
        with pytest.raises(DataError, match=r"target 'more': .*class1/4.png is missing;"):
            attempt()


def test_other_groups_are_other_data_where_they_are_kept_apart(
    settings: BenchSettings, tmp_path: Path, bench_root: Path
) -> None:
    shutil.copytree(bench_root / "data" / "noise", tmp_path / "data" / "cub")
    birds = ("004.Groove_billed_Ani", "008.Rhinoceros_Auklet", "012.Yellow_headed_Blackbird")
    for number, bird in enumerate((*birds, "016.Painted_Bunting")):
        (tmp_path / "data" / "cub" / f"class{number}").rename(tmp_path / "data" / "cub" / bird)
    plain = replace(settings, targets={"cub": "Birds"})
    apart = replace(plain, protocol=replace(settings.protocol, groups_apart=True))
    manifests = [make_manifest(given, tmp_path / "data") for given in (plain, apart)]
    notes = {"group_of": {f"{birds[0]}/{number}": "nest" for number in (0, 1)}}
    (tmp_path / "data" / "cub.json").write_text(json.dumps(notes))
    assert check_data(manifests[0], tmp_path / "data") == {"cub": True}
    with pytest.raises(DataError, match="target 'cub' has the files of the manifest in other gro"):
        check_data(manifests[1], tmp_path / "data")


def test_another_benchmark_is_refused(settings: BenchSettings, manifest: Manifest) -> None:
    check_settings(manifest, settings)
    seed = replace(settings, protocol=replace(settings.protocol, seed=4))
    with pytest.raises(SettingsError, match="manifest has seed = 0, the benchmark seed = 4"):
        check_settings(manifest, seed)
    with pytest.raises(SettingsError, match=r"no target 'cub' \(it has noise, more\)"):
        check_settings(manifest, replace(settings, targets={"cub": "CUB"}))
    with pytest.raises(SettingsError, match=r"has 4 episodes of target 'noise'.* asks for 9"):
        check_settings(manifest, replace(settings, n_episodes=9))
    check_settings(manifest, replace(settings, n_episodes=2))
