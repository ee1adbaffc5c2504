from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from appl.benchmark import solving
from appl.benchmark.collection import collect
from appl.benchmark.features import embed, open_features
from appl.benchmark.plan import Plan, data_digests, make_outline, make_plan
from appl.benchmark.processes import ProcessWorkers
from appl.benchmark.runner import open_jobs, run_plan
from appl.benchmark.solving import Job, solve
from appl.benchmark.tables import make_table
from appl.core import compute
from appl.core.methods import Solution
from appl.encoders.describing import resized
from appl.errors import DataError, SettingsError, UnknownNameError
from appl.rivals._fine_tuning import FineTuning
from appl.settings.benchmark import BenchSettings, ProtocolSettings, RowSettings
from appl.settings.files import structure_settings
from appl.solver.rows import APPL
from appl.store import EpisodeResult, ResultStore
from appl.weights import Pretrained, class_mean_pcn, save_weights
from tests.map_encoder import make_map_encoder
from tests.token_encoder import make_token_encoder


@pytest.fixture
def plan(bench_settings: BenchSettings, bench_root: Path, tmp_path: Path) -> Plan:
    return make_plan(bench_settings, bench_root / "data", tmp_path / "cache")


def accuracies(plan: Plan, store: ResultStore) -> dict[tuple[str, str], list[float]]:
    return {
        (row.title, target.name): [r.accuracy for r in store.results(plan.run(row, target))]
        for row in plan.rows
        for target in plan.targets.values()
    }


def solve_here(plan: Plan, job: Job, tmp_path: Path) -> list[EpisodeResult]:
    features = lambda r, t: open_features(embed(plan, r, t, tmp_path / "cache"))  # noqa: E731
    (results,) = solve(plan, job, features)
    return results


def test_two_workers_give_what_this_process_gives(
    plan: Plan, bench_root: Path, tmp_path: Path
) -> None:
    store = ResultStore(tmp_path / "two.sqlite")
    cache = tmp_path / "cache"
    run_plan(plan, cache, store, lambda p: ProcessWorkers(p, bench_root / "data", cache, 2))
    found = accuracies(plan, store)
    assert {key: len(values) for key, values in found.items()} == {
        ("ProtoNet", "noise"): 4,
        ("ProtoNet", "more"): 4,
        ("TIM", "noise"): 4,
        ("TIM", "more"): 4,
        ("APPL", "noise"): 2,
        ("APPL", "more"): 2,
    }
    alone = ResultStore(tmp_path / "alone.sqlite")
    for job in open_jobs(plan, alone):
        run = plan.run(plan.rows[job.rows[0]], plan.targets[job.target])
        alone.add(run, solve_here(plan, job, tmp_path))
    assert accuracies(plan, alone) == found
    assert list(open_jobs(plan, store)) == []


def test_what_is_stored_is_not_done_again(plan: Plan, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    run = plan.run(plan.rows[0], plan.targets["noise"])
    results = solve_here(plan, Job((0,), "noise", (0, 2)), tmp_path)
    store.add(run, results)
    left = [job for job in open_jobs(plan, store) if (job.rows, job.target) == ((0,), "noise")]
    assert left == [Job((0,), "noise", (1, 3))]


def test_first_episodes_come_first(plan: Plan, tmp_path: Path) -> None:
    jobs = list(open_jobs(plan, ResultStore(tmp_path / "r.sqlite")))
    firsts = [job.episodes[0] for job in jobs]
    assert firsts == sorted(firsts)


def test_a_preset_counts_by_its_values(plan: Plan, bench_settings: BenchSettings) -> None:
    row = plan.rows[2]
    assert row.settings["adaptation"]["n_iterations"] == 2
    assert row.settings["adaptation"]["parameters"]["move"] == "norms"


def test_uneven_piles_share_supports_with_even_ones(
    plan: Plan, bench_settings: BenchSettings, bench_root: Path, tmp_path: Path
) -> None:
    protocol = replace(bench_settings.protocol, dirichlet=2.0)
    uneven = make_plan(
        replace(bench_settings, protocol=protocol), bench_root / "data", tmp_path / "cache"
    )
    even_draw = plan.targets["noise"].draw(plan, 3)
    draw = uneven.targets["noise"].draw(uneven, 3)
    assert draw.support.tolist() == even_draw.support.tolist()
    assert len(draw.query) == len(even_draw.query) == 9
    row, target = plan.rows[0], plan.targets["noise"]
    assert plan.run(row, target).key != uneven.run(row, target).key


def test_strangers_are_answered_and_not_counted(
    plan: Plan, bench_settings: BenchSettings, bench_root: Path, tmp_path: Path
) -> None:
    protocol = replace(bench_settings.protocol, n_ood=5)
    strange = make_plan(
        replace(bench_settings, protocol=protocol), bench_root / "data", tmp_path / "cache"
    )
    assert len(strange.targets["noise"].draw(strange, 0).query) == 9 + 5
    job = Job((0,), "noise", (0, 1, 2, 3))  # ProtoNet answers each query by itself
    with_them, without = (solve_here(p, job, tmp_path) for p in (strange, plan))
    assert [r.accuracy for r in with_them] == [r.accuracy for r in without]


def test_table_from_the_store(plan: Plan, bench_root: Path, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    for job in open_jobs(plan, store):
        if job.target == "noise" and job.rows[0] < 2:
            run = plan.run(plan.rows[job.rows[0]], plan.targets[job.target])
            store.add(run, solve_here(plan, job, tmp_path))
    table = make_table([collect(plan.outline, store)])
    noise = table.columns[0]
    cell, base = table.cells["TIM", noise], table.cells["ProtoNet", noise]
    assert cell.difference.mean == pytest.approx(cell.accuracy.mean - base.accuracy.mean)
    assert ("APPL", noise) not in table.cells
    assert cell.run == plan.run(plan.rows[1], plan.targets["noise"])
    digests = data_digests(plan.settings, bench_root / "data")
    assert make_table([collect(plan.outline, store, digests)]).cells == table.cells


def test_mistakes_are_named(
    bench_settings: BenchSettings, bench_root: Path, tmp_path: Path
) -> None:
    def plan_with(**changes: object) -> Plan:
        settings = replace(bench_settings, **changes)  # type: ignore[arg-type]
        return make_plan(settings, bench_root / "data", tmp_path / "cache")

    with pytest.raises(UnknownNameError, match="prototypical"):
        plan_with(rows=(RowSettings("prototypicle"),))
    with pytest.raises(SettingsError, match="row 'tim': unknown key 'n_iteration'"):
        plan_with(rows=(RowSettings("tim", settings={"n_iteration": 3}),))
    with pytest.raises(SettingsError, match="two rows are called 'TIM'"):
        plan_with(rows=(RowSettings("tim"), RowSettings("prototypical", title="TIM")))
    with pytest.raises(DataError, match="nowhere"):
        plan_with(targets={"nowhere": "Nowhere"})
    with pytest.raises(SettingsError, match="at least one target"):
        structure_settings(BenchSettings, {"targets": {}, "rows": []})
    with pytest.raises(SettingsError, match="dirichlet"):
        ProtocolSettings(dirichlet=-1.0)


def test_episodes_solved_together_are_those_solved_one_by_one(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job((0,), "noise", tuple(range(12)))
    together = [result.accuracy for result in solve_here(plan, job, tmp_path)]
    kind = type(plan.rows[0].method)
    monkeypatch.setattr(kind, "card", replace(kind.card, takes_many=False))
    one_by_one = [result.accuracy for result in solve_here(plan, job, tmp_path)]
    assert together == one_by_one and len(set(together)) > 1


def test_tables_need_the_digest_of_a_rows_weights_only(
    bench_settings: BenchSettings, tmp_path: Path
) -> None:
    away = RowSettings("gnn", weights=str(tmp_path / "gnn.safetensors"), weights_digest="f" * 64)
    settings = replace(bench_settings, rows=(*bench_settings.rows, away))
    row = make_outline(settings).rows[-1]
    assert row.weights_digest == "f" * 64
    assert make_outline(settings).run(row, "noise", "d").weights == "gnn.safetensors"
    here = replace(away, method="prototypical", title="other", weights=bench_settings.weights)
    with pytest.raises(SettingsError, match=r"has other weights .* than weights_digest says"):
        make_outline(replace(settings, rows=(here,)))


FITTING = ("fine_tune", "transductive_fine_tune", "adapted_propagation")


@pytest.fixture
def fitting_plan(bench_settings: BenchSettings, bench_root: Path, tmp_path: Path) -> Plan:
    rows = [RowSettings(name, n_episodes=2, settings={"n_epochs": 1}) for name in FITTING]
    longer = RowSettings("fine_tune", "longer", n_episodes=1, settings={"n_epochs": 2})
    settings = replace(bench_settings, rows=(*rows, longer), targets={"noise": "Noise"})
    return make_plan(settings, bench_root / "data", tmp_path / "cache")


def test_rows_of_one_fit_share_it_and_answer_as_alone(
    fitting_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, store = fitting_plan, ResultStore(tmp_path / "r.sqlite")
    jobs = list(open_jobs(plan, store))
    assert [(job.rows, job.episodes) for job in jobs] == [
        ((0, 1, 2), (0,)),
        ((3,), (0,)),  # other settings of the fit
        ((0, 1, 2), (1,)),
    ]
    target = plan.targets["noise"]
    task = target.draw(plan, 0).load(target.data).task
    pretrained = plan.pretrained(plan.rows[0])
    alone = [row.method.solve(pretrained.encoder, pretrained.pcn, task) for row in plan.rows[:3]]  # type: ignore[union-attr]
    answers, n_fits = [], 0
    for row in plan.rows[:3]:
        kind = type(row.method)
        monkeypatch.setattr(kind, "answer_by", _kept(kind.answer_by, answers))  # type: ignore[union-attr]
    fit = FineTuning.fit
    monkeypatch.setattr(
        solving, "time", SimpleNamespace(perf_counter=lambda: 10.0 * n_fits + len(answers))
    )

    def count(self: FineTuning, *arguments: object) -> object:
        nonlocal n_fits
        n_fits += 1
        return fit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FineTuning, "fit", count)
    results = solve(plan, jobs[0], lambda _row, _target: pytest.fail("no features are needed"))
    assert n_fits == 1
    assert [len(found) for found in results] == [1, 1, 1]
    for expected, found in zip(alone, answers, strict=True):
        assert torch.equal(expected.scores, found.scores)
    assert [found[0].seconds for found in results] == [11.0] * 3  # as if each had fitted alone


def test_a_row_that_has_an_episode_already_is_left_out_of_its_fit(
    fitting_plan: Plan, tmp_path: Path
) -> None:
    plan, store = fitting_plan, ResultStore(tmp_path / "r.sqlite")
    run = plan.run(plan.rows[1], plan.targets["noise"])
    store.add(run, [EpisodeResult(0, 50.0, 1.0)])
    assert next(iter(open_jobs(plan, store))) == Job((0, 2), "noise", (0,))


def _kept(answer_by: Callable[..., Solution], answers: list[Solution]) -> Callable[..., Solution]:
    def answer(*arguments: object) -> Solution:
        answers.append(answer_by(*arguments))
        return answers[-1]

    return answer


def test_precision_is_part_of_a_rows_identity(
    bench_settings: BenchSettings,
    bench_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plan_with(*rows: RowSettings) -> Plan:
        settings = replace(bench_settings, rows=rows, targets={"noise": "Noise"})
        return make_plan(settings, bench_root / "data", tmp_path / "cache")

    short = {"preset": "robust", "changes": {"adaptation": {"n_iterations": 0}}}
    row = RowSettings("appl", n_episodes=1, settings=short)
    plan = plan_with(row, replace(row, precision="bf16"))
    target = plan.targets["noise"]
    assert [r.title for r in plan.rows] == ["APPL", "APPL, bf16"]
    assert plan.run(plan.rows[0], target).key != plan.run(plan.rows[1], target).key
    scores = []
    monkeypatch.setattr(APPL, "solve", _kept(APPL.solve, scores))
    jobs = [Job((number,), "noise", (0,)) for number in (0, 1, 0)]
    monkeypatch.setattr(compute, "cpu_has_bf16_units", lambda: True)
    for job in jobs:
        solve_here(plan, job, tmp_path)
    first, rounded, again = (solution.scores for solution in scores)
    assert torch.equal(first, again) and not torch.equal(first, rounded)
    assert (first.softmax(1) - rounded.softmax(1)).abs().max() < 0.1
    monkeypatch.setattr(compute, "cpu_has_bf16_units", lambda: False)
    with pytest.raises(SettingsError, match=r"'APPL, bf16': .* no bf16 units"):
        solve_here(plan, jobs[1], tmp_path)
    with pytest.raises(SettingsError, match=r"'tim': precision = 'bf16' .* frozen features"):
        plan_with(RowSettings("tim", precision="bf16"))


def test_rows_on_two_encoders_side_by_side(bench_root: Path, tmp_path: Path) -> None:
    """On frozen features their unit vectors stand in a row; APPL adapts both; others refuse."""
    for number, make in enumerate((make_map_encoder, make_token_encoder)):
        encoder = make()
        pretrained = Pretrained(encoder, class_mean_pcn(encoder))
        save_weights(tmp_path / f"{number}.safetensors", pretrained, exact=True)
    weights = f"{tmp_path / '0.safetensors'}+{tmp_path / '1.safetensors'}"
    values = {
        "targets": {"noise": "Noise"},
        "rows": [
            {"method": "prototypical"},
            {"method": "appl", "settings": {"changes": {"adaptation": {"n_iterations": 1}}}},
        ],
        "weights": weights,
        "image_px": 32,
        "n_episodes": 2,
        "protocol": {"n_way": 3, "n_shot": 2, "n_query": 3},
    }
    settings = structure_settings(BenchSettings, values, "bench")
    plan = make_plan(settings, bench_root / "data", tmp_path / "cache")
    assert plan.outline.encoder == "test_maps+test_tokens"
    features = np.load(embed(plan, plan.rows[0], plan.targets["noise"], tmp_path / "cache"))
    assert features.shape[1] == 6 + 8
    images = resized(plan.targets["noise"].data.images(torch.arange(5)), 24)  # its own size
    maps = plan.weights[weights].encoder.encode(images)
    unit = torch.nn.functional.normalize(maps).numpy() / 2**0.5
    np.testing.assert_allclose(features[:5, :6], unit, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-4)
    for row in range(2):
        results = solve_here(plan, Job((row,), "noise", (0, 1)), tmp_path)
        assert [r.episode for r in results] == [0, 1]
    assert results[0].record["n_iterations"] == 2  # one for each encoder
    rows = [{"method": "fine_tune"}]
    with pytest.raises(SettingsError, match="works on one encoder, and the weights are several"):
        make_outline(structure_settings(BenchSettings, values | {"rows": rows}, "bench"))
