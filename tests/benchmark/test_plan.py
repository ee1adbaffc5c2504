"""Targets by the names of data sets."""

import json
from dataclasses import replace
from pathlib import Path

from appl.benchmark.collection import collect
from appl.benchmark.formats import to_markdown
from appl.benchmark.plan import Plan, data_digests, make_outline, make_plan
from appl.benchmark.runner import run_plan
from appl.benchmark.tables import make_table
from appl.datasets.listing import list_folder
from appl.datasets.own import OwnSet, register
from appl.datasets.packed import pack
from appl.method.pcn import PCN
from appl.settings.benchmark import BenchSettings, RowSettings
from appl.settings.files import structure_settings
from appl.store import EpisodeResult, ResultStore
from appl.weights import load_weights, save_weights
from tests.benchmark.conftest import write_target
from tests.benchmark.fake_store import fake_outline

TEST_BIRDS = ["004.Groove_billed_Ani", "008.Rhinoceros_Auklet", "012.Yellow_headed_Blackbird"]


def write_birds(folder: Path, *, with_training: bool) -> None:
    names = [*TEST_BIRDS, "001.Black_footed_Albatross"] if with_training else TEST_BIRDS
    write_target(folder, len(names), 5, seed=3)
    for number, name in enumerate(names):
        (folder / f"class{number}").rename(folder / name)


class Idle:
    """Workers that are never asked: nothing is left to do."""

    n_workers = 0

    def submit(self, job: object) -> None:
        raise AssertionError

    done = close = lambda self: []


def table_of(plan: Plan, tmp_path: Path) -> str:
    """A table of a store that a run has told of its data; an episode makes the data known."""
    store = ResultStore(tmp_path / "r.sqlite")
    row, target = plan.rows[0], next(iter(plan.targets.values()))
    store.add(plan.run(row, target), [EpisodeResult(0, 50.0, 1.0)])
    run_plan(plan, tmp_path / "cache", store, lambda _: Idle())
    return to_markdown(make_table([collect(plan.outline, store)]))


def test_a_known_name_is_read_by_its_reader_and_gives_its_test_classes(
    bench_settings: BenchSettings, tmp_path: Path
) -> None:
    write_birds(tmp_path / "data" / "CUB_200_2011" / "images", with_training=True)
    settings = replace(bench_settings, targets={"cub": "Birds"})
    plan = make_plan(settings, tmp_path / "data", tmp_path / "cache")
    target = plan.targets["cub"]
    assert target.data.class_names == tuple(TEST_BIRDS) and len(target.data.class_ids) == 15
    assert len(target.draw(plan, 0).query) == 9
    assert "Data: Birds: partial: 4 of 200 classes, 20 of 11,788 images." in table_of(
        plan, tmp_path
    )


def test_a_pack_of_test_classes_keeps_its_digest(
    bench_settings: BenchSettings, tmp_path: Path
) -> None:
    write_birds(tmp_path / "data" / "cub", with_training=False)
    settings = replace(bench_settings, targets={"cub": "Birds"})
    plan = make_plan(settings, tmp_path / "data", tmp_path / "cache")
    plain = pack(list_folder(tmp_path / "data" / "cub"), tmp_path / "other", 32)
    assert plan.targets["cub"].data.digest == plain.digest
    assert plan.targets["cub"].data.class_names == plain.class_names


def test_a_registered_tree_is_a_target(
    bench_settings: BenchSettings, bench_root: Path, tmp_path: Path
) -> None:
    register("mine", OwnSet(str(bench_root / "data" / "noise")), tmp_path)
    settings = replace(bench_settings, targets={"mine": "Mine"})
    plan = make_plan(settings, tmp_path, tmp_path / "cache")
    assert len(plan.targets["mine"].data.class_names) == 4
    text = table_of(plan, tmp_path)
    assert "Data:" not in text  # nothing is published that it could be compared with


def test_an_option_counts_in_the_key_only_where_it_is_used() -> None:
    plain = fake_outline()
    row = plain.rows[0]
    assert set(plain.run(row, "cub", "d").protocol) == {
        *("n_way", "n_shot", "n_query", "dirichlet", "seed", "margin")
    }
    same = fake_outline(protocol={"n_ood": 0, "groups_apart": False})
    others = [fake_outline(protocol={name: 1}) for name in ("n_ood", "seed")]
    others.append(fake_outline(protocol={"groups_apart": True}))
    keys = [outline.run(row, "cub", "d").key for outline in (plain, same, *others)]
    assert keys[0] == keys[1] and len(set(keys)) == 4


def test_groups_count_in_the_data_digest_where_they_are_kept_apart(
    bench_settings: BenchSettings, tmp_path: Path
) -> None:
    write_birds(tmp_path / "data" / "cub", with_training=False)
    settings = replace(bench_settings, targets={"cub": "Birds"})
    apart = replace(settings, protocol=replace(settings.protocol, groups_apart=True))

    def digests() -> list[str]:
        return [data_digests(given, tmp_path / "data")["cub"] for given in (settings, apart)]

    before = digests()
    notes = {"group_of": {f"{TEST_BIRDS[0]}/{number}": "nest" for number in (0, 1)}}
    (tmp_path / "data" / "cub.json").write_text(json.dumps(notes))
    assert digests()[0] == before[0] and digests()[1] != before[1]
    plan = make_plan(apart, tmp_path / "data", tmp_path / "cache")
    assert plan.run(plan.rows[0], plan.targets["cub"]).data_digest == digests()[1]


def test_a_table_says_which_rows_have_a_trained_pcn(
    bench_settings: BenchSettings, bench_root: Path, tmp_path: Path
) -> None:
    start = load_weights(bench_root / "weights.safetensors")
    trained = tmp_path / "trained.safetensors"
    save_weights(trained, replace(start, pcn=PCN(512, initialisation="random")))
    rows = [
        {"method": "appl", "title": "Mean"},
        {"method": "appl", "title": "Learnt", "weights": str(trained)},
        {"method": "appl", "title": "Without", "settings": {"variant": "without_pcn"}},
        {"method": "prototypical"},
    ]

    def prototypes(*chosen: int) -> str:
        chosen_rows = tuple(structure_settings(RowSettings, rows[i], "row") for i in chosen)
        return make_outline(replace(bench_settings, rows=chosen_rows)).prototypes

    assert prototypes(0, 2, 3) == "class mean (untrained)"
    assert prototypes(1, 2) == "trained"
    assert prototypes(0, 1) == "class mean (untrained): Mean; trained: Learnt"
    assert prototypes(2, 3) == ""
