import math
from dataclasses import replace
from pathlib import Path

import pytest

from appl.benchmark.collection import Collection, collect
from appl.benchmark.grids import NONE, conditions, make_grids
from appl.benchmark.tables import Column, make_table
from appl.errors import SettingsError, UnknownNameError
from appl.store import ResultStore
from tests.benchmark.fake_store import add, fake_outline, simple_collection

CUB = Column("cub", "CUB", 5)


def test_means_intervals_and_differences_by_hand(tmp_path: Path) -> None:
    table = make_table([simple_collection(tmp_path)])
    cell = table.cells["TIM", CUB]
    assert (cell.accuracy.mean, cell.accuracy.n) == (65.0, 3)
    # Deviations −11, 1, 10: population σ = √74.
    assert cell.accuracy.interval == pytest.approx(1.96 * math.sqrt(74) / math.sqrt(3))
    assert table.reference == "ProtoNet"
    assert cell.difference.mean == 5.0  # of 4, 6, 5
    # s = 1, and t of two degrees of freedom is 4.3027.
    assert cell.difference.interval == pytest.approx(4.30265 / math.sqrt(3))
    assert table.cells["ProtoNet", CUB].difference.mean == 0.0
    assert table.rows == {"ProtoNet": "none", "TIM": "transductive"}


def test_any_row_can_be_the_reference(tmp_path: Path) -> None:
    collection = simple_collection(tmp_path)
    table = make_table([collection], "TIM")
    assert table.cells["ProtoNet", CUB].difference.mean == -5.0
    with pytest.raises(UnknownNameError, match="no row is called 'TMI'; did you mean 'TIM'"):
        make_table([collection], "TMI")


def test_without_protonet_there_are_no_differences(tmp_path: Path) -> None:
    rows = [("A", "prototypical", {}), ("B", "tim", {})]
    table = make_table([simple_collection(tmp_path, rows=rows)])
    assert table.reference == ""
    assert len(make_grids(table)) == 1


def test_a_mean_needs_every_target(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline({"cub": "CUB", "cars": "Cars"})
    add(store, outline, "ProtoNet", "cub", [50.0, 60.0])
    add(store, outline, "ProtoNet", "cars", [30.0])
    add(store, outline, "TIM", "cub", [58.0, 62.0])
    table = make_table([collect(outline, store)])
    mean = table.mean_accuracy("ProtoNet", 5)
    assert mean is not None and mean.mean == 42.5
    assert table.mean_accuracy("TIM", 5) is None
    accuracies, differences = make_grids(table)
    shown = {line[0].words: [text.words for text in line[1:]] for line in accuracies.lines}
    assert shown["ProtoNet"][:3] == ["55.00 ± 6.93", "30.00 ± 0.00", "42.50 ± 3.46"]
    assert shown["TIM"][1:3] == [NONE, NONE]
    assert shown["ProtoNet"][3:] == ["1–2", "0.5", "none"]
    assert [text.words for text in differences.lines[0]] == ["TIM", "+5.00 ± 38.12", NONE, NONE]
    assert differences.lines[0][1].style == ""  # of 8 and 2: two episodes decide little


def test_a_mean_difference_needs_pairs_on_every_target(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    outline = fake_outline({"cub": "CUB", "cars": "Cars"})
    add(store, outline, "ProtoNet", "cub", [50.0])
    for target in ("cub", "cars"):
        add(store, outline, "TIM", target, [58.0])
    table = make_table([collect(outline, store)])
    assert table.mean_accuracy("TIM", 5) is not None
    assert table.mean_difference("TIM", 5) is None


def test_shots_are_joined_as_columns(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    twenty = fake_outline({"cub": "CUB", "isic": "ISIC"}, n_shot=20, quote=["ProtoNet"])
    fifty = fake_outline({"cub": "CUB"}, n_shot=50)
    add(store, twenty, "TIM", "cub", [70.0])
    add(store, twenty, "TIM", "isic", [50.0])
    add(store, fifty, "TIM", "cub", [80.0])
    table = make_table([collect(outline, store) for outline in (twenty, fifty)])
    (grid, _) = make_grids(table)
    assert grid.head[1:5] == ("CUB, 20-shot", "CUB, 50-shot", "ISIC, 20-shot", "mean, 20-shot")
    tim, quote = grid.lines[1:]
    assert [text.words[:5] for text in tim[1:5]] == ["70.00", "80.00", "50.00", "60.00"]
    # Table 2 of the paper has ISIC, not CUB.
    assert [text.words for text in quote[:5]] == [
        "quoted: the paper's ProtoNet",
        NONE,
        NONE,
        "49.50 ± 0.55",
        "",
    ]
    assert all(text.style == "italic" for text in quote)
    assert "5-way 20 and 50-shot" in grid.notes[0]


def quoting(collection: Collection, quotes: dict[str, str]) -> Collection:
    rows = tuple(replace(r, quote=quotes.get(r.title, "")) for r in collection.outline.rows)
    return replace(collection, outline=replace(collection.outline, rows=rows))


def test_the_papers_row_stands_below_ours_of_the_same_method(tmp_path: Path) -> None:
    plain = simple_collection(tmp_path, quote=["APPL"])
    table = make_table([quoting(plain, {"ProtoNet": "ProtoNet"})])
    (grid, _) = make_grids(table)
    assert [line[0].words for line in grid.lines] == [
        "ProtoNet",
        "quoted: the paper's ProtoNet",
        "TIM",
        "quoted: the paper's APPL",
    ]
    assert {len(line) for line in grid.lines} == {len(grid.head)}
    assert [line[0].style for line in grid.lines] == ["", "italic", "", "italic"]
    assert table.all_quotes == ("ProtoNet", "APPL")
    assert any(note.startswith("Quoted rows") for note in grid.notes)
    # What is asked for takes the place of all that the configuration quotes.
    asked = make_table([quoting(plain, {"ProtoNet": "ProtoNet"})], quotes=["HVM"])
    assert asked.all_quotes == ("HVM",)


def test_a_row_that_quotes_what_the_paper_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"the paper has no row 'ProtNet'; .*'ProtoNet'"):
        make_table([quoting(simple_collection(tmp_path), {"TIM": "ProtNet"})])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": {"seed": 3}}, "seed = 0 and seed = 3"),
        ({"protocol": {"n_query": 5}}, "n_query = 15 and n_query = 5"),
        ({"protocol": {"dirichlet": 2.0}}, r"dirichlet = 0.0 and dirichlet = 2.0"),
        ({"image_px": 224}, "image_px = 84 and image_px = 224"),
        ({"margin": 1.15}, "margin = 1.0 and margin = 1.15"),
        ({"weights_digest": "f" * 64}, "weights = 'resnet10 eee.* and weights = 'resnet10 fff"),
    ],
)
def test_protocols_are_never_mixed(tmp_path: Path, changes: dict, words: str) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    pair = [collect(fake_outline(n_shot=20), store), collect(fake_outline(**changes), store)]
    with pytest.raises(SettingsError, match=f"one table cannot hold {words}") as error:
        make_table(pair)
    assert "\n" not in str(error.value)


def test_one_title_is_one_row(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    other = fake_outline(rows=[("TIM", "tim", {"n_iterations": 7})], n_shot=20)
    pair = [collect(fake_outline(), store), collect(other, store)]
    with pytest.raises(SettingsError, match=r"'TIM' cannot be both n_iterations = 150 and .* = 7"):
        make_table(pair)


def test_one_target_is_one_set_of_files(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    few, many = fake_outline(), fake_outline(n_shot=20)
    add(store, few, "TIM", "cub", [50.0], digest="a" * 64)
    add(store, many, "TIM", "cub", [50.0], digest="b" * 64)
    with pytest.raises(SettingsError, match="target 'cub' from different files"):
        make_table([collect(few, store), collect(many, store)])


def test_an_unknown_row_of_the_paper_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"the paper has no row 'ProtNet'; .*'ProtoNet'"):
        make_table([simple_collection(tmp_path)], quotes=["ProtNet"])


def test_a_table_says_what_its_queries_are(tmp_path: Path) -> None:
    plain = make_table([simple_collection(tmp_path / "plain")])
    assert "15 queries per class, seed 0" in conditions(plain)
    protocol = {"n_ood": 10, "groups_apart": True}
    text = conditions(make_table([simple_collection(tmp_path / "other", protocol=protocol)]))
    assert "15 queries per class and 10 out-of-distribution ones, not counted, patients" in text
    assert "patients and lesions on one side" in text


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0001, "< 0.001"), (0.0421, "0.042"), (55.4, "55"), (213.7, "214")]
)
def test_seconds_are_words_that_a_person_reads(tmp_path: Path, seconds: float, words: str) -> None:
    store, outline = ResultStore(tmp_path / "r.sqlite"), fake_outline()
    add(store, outline, "TIM", "cub", [50.0, 60.0], seconds=seconds)
    accuracies, *_ = make_grids(make_table([collect(outline, store)]))
    (line,) = (line for line in accuracies.lines if line[0].words == "TIM")
    assert line[3].words == words
