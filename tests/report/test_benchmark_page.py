"""The report of a benchmark: what it says, and that titles cannot harm it."""

import re
from pathlib import Path

import pytest

from appl.benchmark.collection import Collection, collect
from appl.errors import DataError
from appl.report.benchmark_page import write_benchmark_page
from appl.store import ResultStore
from tests.benchmark.fake_store import add, digest_of, fake_outline, simple_collection
from tests.report.fake_run import Page

SCRIPT = "<script>alert(1)</script>"


def page_of(folder: Path, *collections: Collection) -> Page:
    write_benchmark_page(collections, folder / "report.html")
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_tables_episodes_time_and_origin(tmp_path: Path) -> None:
    collection = simple_collection(tmp_path, title="Small", quote=["APPL"])
    page = page_of(tmp_path, collection)
    text = page.parts["part1"]
    assert "6 episodes solved 1 data set 2 runs" in page.parts["header"]
    assert "TIM 65.00 ± 9.73 3 2 transductive" in text
    assert "quoted: the paper's APPL 67.46 ± 0.78" in text
    assert "TIM +5.00 ± 2.48" in text
    assert "Better than ProtoNet in 100% of 3 episodes, by +5.00 ± 2.48 points" in text
    # Two seconds an episode, 600 of them on one target.
    assert "TIM 3 2.000 0.00 0.3" in text
    run = collection.stored["TIM", "cub"].run
    assert f"TIM CUB 5 3 {run.key[:16]} {digest_of('cub')[:16]} 0.1.0 2026-11-16 22:17" in text
    assert "e" * 64 in text  # the weights
    titles = [values.get("title") for _, values in page.elements]
    assert run.key in titles and digest_of("cub") in titles


def test_the_file_needs_no_other(tmp_path: Path) -> None:
    page = page_of(tmp_path, simple_collection(tmp_path))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|@import|url\((?!#)", html)
    assert not any(tag in ("link", "iframe", "img", "script") for tag, _ in page.elements)
    ids = [values["id"] for _, values in page.elements if "id" in values]
    links = [v["href"] for tag, v in page.elements if tag == "a"]
    assert {link[1:] for link in links} <= set(ids)
    assert sum(tag == "svg" for tag, _ in page.elements) == 2


def test_titles_that_are_code_stay_titles(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    rows = [("ProtoNet", "prototypical", {}), (SCRIPT, "tim", {})]
    outline = fake_outline({"cub": f'{SCRIPT}" onload="x'}, rows, title=SCRIPT)
    for row, _, _ in rows:
        add(store, outline, row, "cub", [50.0, 60.0])
    page = page_of(tmp_path, collect(outline, store))
    assert page.scripts == []
    assert not any(name.startswith("on") for _, values in page.elements for name in values)
    assert page.parts["part1"].count(SCRIPT) >= 6


def test_benchmarks_of_one_title_share_a_table(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    collections = []
    for title, n_shot in (("Two", 20), ("Two", 50), ("Alone", 5)):
        outline = fake_outline(title=title, n_shot=n_shot)
        add(store, outline, "TIM", "cub", [50.0 + n_shot])
        collections.append(collect(outline, store))
    page = page_of(tmp_path, *collections)
    assert "Two CUB, 20-shot CUB, 50-shot" in page.parts["part1"]
    assert page.parts["part2"].startswith("Alone CUB episodes")
    assert "part3" not in page.parts


def test_a_run_in_two_tables_is_counted_once(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    whole, part = fake_outline(title="A"), fake_outline(title="B", n_episodes=1)
    add(store, whole, "TIM", "cub", [50.0, 60.0])
    page = page_of(tmp_path, collect(part, store), collect(whole, store))
    assert "2 episodes solved 1 data set 1 run:" in page.parts["header"]


def test_nothing_to_report_is_an_error(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "r.sqlite")
    with pytest.raises(DataError, match="no result for these configurations"):
        write_benchmark_page([collect(fake_outline(), store)], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
