"""The pictures of the page: which are shown, in which order, how many; the map and the charts."""

import base64
import re
from pathlib import Path

import pytest

from appl.images.thumbnails import Thumbnails
from appl.report.page import write_report
from appl.report.sheets import MAX_PICTURES
from tests.report.fake_run import FakeRun, Page, picture, report


def test_strangers_do_not_count_for_their_class(run: FakeRun) -> None:
    text = report(run).parts["classes"]

    assert "rust 33 images: 24 accepted, 9 to review" in text
    assert "healthy 24 images: 24 accepted, 0 to review" in text


def test_strangers_the_most_foreign_first(run: FakeRun) -> None:
    text = report(run).parts["first"]

    places = [text.index(f"stranger{i}.png") for i in (2, 1, 0)]
    assert places == sorted(places)
    assert "60% healthy distance 4.0 stranger2.png" in text


def test_the_closest_call_is_reviewed_first(run: FakeRun) -> None:
    page = report(run)
    keys = [v["data-p"] for tag, v in page.of_part["first"] if tag == "img"]

    assert keys[:9] == [f"r{i}" for i in range(48, 57)]
    assert "50% rust or 25% healthy" in page.parts["first"]


def test_sheets_show_the_surest_and_the_least_sure_once_each(run: FakeRun) -> None:
    page = report(run)
    keys = [v["data-p"] for tag, v in page.of_part["sheets"] if tag == "img"]

    # Row 47 is the surest of "rust", row 48 its least sure.
    assert keys[0] == "r47"
    assert "r48" in keys
    assert len(keys) == len(set(keys))
    assert "93%" in page.parts["sheets"]


@pytest.mark.parametrize("decision", ["accept", "review", "none-of-these"])
def test_a_sheet_shows_the_copies_of_an_image_once(tmp_path: Path, decision: str) -> None:
    run = FakeRun(tmp_path / "run")
    for number in range(30):
        # Three images, ten times each under names of their own, and judged alike.
        path = picture(tmp_path / "pile" / f"copy{number}.png", number % 3)
        run.add("rust", 0.6, decision, path=path)
    part = "sheets" if decision == "accept" else "first"
    keys = [v["data-p"] for tag, v in report(run).of_part[part] if tag == "img"]

    assert keys == ["r0", "r1", "r2"]


def test_both_maps_show_the_examples_and_the_pool(run: FakeRun) -> None:
    run.pool = [4, 10, 57]
    page = report(run)
    points = [v["data-p"] for tag, v in page.of_part["map"] if tag == "path" and "data-p" in v]

    one_map = ["r4", "r10", "r57", *(f"e{i}" for i in range(6))]
    assert points == one_map * 2
    assert "It shows 3 images of 60" in page.parts["map"]
    assert "image4.png healthy, 72%" in page.parts["map"]
    assert "stranger0.png none of these (healthy, 60%)" in page.parts["map"]
    assert "0-0.png your example of rust" in page.parts["map"]


def test_files_that_could_not_be_read_have_no_picture(run: FakeRun) -> None:
    n_all = len(report(run).pictures)
    Path(run.rows[47].path).unlink()
    Path(run.examples[0]).write_bytes(b"no image")
    run.write_thumbnails()
    page = Page(write_report(run.folder).read_text(encoding="utf-8"))

    assert len(page.pictures) == n_all - 2
    assert "no picture" in page.parts["sheets"]
    assert "no picture" in page.parts["classes"]


def test_pictures_outlive_the_files(run: FakeRun) -> None:
    before = report(run).pictures
    for path in (*(row.path for row in run.rows), *run.examples):
        Path(path).unlink()
    assert Page(write_report(run.folder).read_text(encoding="utf-8")).pictures == before


@pytest.mark.parametrize("name", ["pile.thumbs", "pile.thumbs.json", "support.thumbs"])
def test_a_run_without_thumbnails_has_a_page(run: FakeRun, name: str) -> None:
    n_all = len(report(run).pictures)
    (run.folder / "images" / name).unlink()
    page = Page(write_report(run.folder).read_text(encoding="utf-8"))

    keys = [v["data-p"] for tag, v in page.elements if tag == "img" and "data-p" in v]
    assert 0 < len(keys) < n_all
    assert not [key for key in keys if key.startswith("r" if "pile" in name else "e")]
    assert "no picture" in page.parts["sheets" if "pile" in name else "classes"]


def test_each_picture_is_that_of_its_image(run: FakeRun) -> None:
    """Also where an example could not be read, which the model then does not know."""
    run.model = {"examples": run.examples[1:], "example_class_ids": [0, 0, 1, 1, 1]}
    run.write()
    Path(run.examples[0]).write_bytes(b"no image")
    run.write_thumbnails()
    page = Page(write_report(run.folder).read_text(encoding="utf-8"))
    pile = Thumbnails.open(run.folder / "images" / "pile")
    support = Thumbnails.open(run.folder / "images" / "support")

    shown = {v["data-p"]: v["src"] for tag, v in page.elements if "data-p" in v and tag == "img"}
    assert {"e0", "e4", "r0", "r47"} <= shown.keys()
    for key, source in shown.items():
        place = int(key[1:])
        found = pile.thumbnail(place) if key[0] == "r" else support.thumbnail(place + 1)
        assert base64.b64decode(source.split(",")[1]) == found != b""
        assert source.startswith("data:image/jpeg;base64,")


def test_images_without_confidence(run: FakeRun) -> None:
    run.rows = []
    run.add("rust", None, "review", novelty=None)
    run.add("healthy", None, "review", novelty=None)
    page = report(run)

    assert "How sure the labels are" not in page.parts["confidence"]
    assert "2 to review" in page.parts["header"]


def test_a_large_pile_makes_no_large_page(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path / "run", ("a", "b", "c"))
    shared = [picture(tmp_path / f"{i}.png", i, (300, 200)) for i in range(30)]
    for i in range(10_000):
        decision = ("accept", "review", "none-of-these")[i % 3]
        fake.add("abc"[i % 7 % 3], 0.4 + i % 50 / 100, decision, path=shared[i % 30])
    fake.pool = list(range(0, 10_000, 5))
    path = write_report(fake.write())

    assert path.stat().st_size < 15e6
    assert 200 < len(Page(path.read_text(encoding="utf-8")).pictures) <= MAX_PICTURES


@pytest.mark.parametrize("n_classes", [12, 40, 130])
def test_many_classes(tmp_path: Path, n_classes: int) -> None:
    names = tuple(f"class {i:03}" for i in range(n_classes))
    fake = FakeRun(tmp_path / "run", names, n_shot=6)
    shared = [picture(tmp_path / f"{i}.png", i) for i in range(30)]
    for i in range(20 * n_classes):
        decision = "review" if i % 3 else "accept"
        fake.add(names[i % n_classes], 0.3 + i % 60 / 100, decision, path=shared[i % 30])
    page = report(fake)

    folded = [values for tag, values in page.of_part["sheets"] if tag == "details"]
    if n_classes > 12:
        assert ["open" in values for values in folded] == [True] + [False] * (n_classes - 1)
    else:
        assert folded == []
    assert len(page.pictures) <= MAX_PICTURES
    assert "other classes" in page.parts["map"]
    styles = {v.get("data-k") for tag, v in page.of_part["map"] if tag == "li"}
    assert styles == {f"k{i}" for i in range(10)} | {"other"}
    for name in names:
        assert name in page.parts["classes"]
    if n_classes <= 100:
        assert page.parts["sheets"].count("Surest first") == n_classes


def test_the_histogram_counts_every_image_that_has_a_confidence(run: FakeRun) -> None:
    run.add_unreadable()
    text = report(run).parts["confidence"]

    counts = re.findall(r"(\d+) images? (accepted|to review|none of these)\b", text)
    sums = {kind: sum(int(n) for n, k in counts if k == kind) for _, kind in counts}
    assert sums == {"accepted": 48, "to review": 9, "none of these": 3}
    assert "accepted above 60%" in text


@pytest.mark.parametrize(("n", "is_few"), [(19, True), (20, False)])
def test_trust_says_what_it_rests_on(run: FakeRun, n: int, is_few: bool) -> None:
    run.n_left_out = n
    text = report(run).parts["confidence"]

    assert f"It rests on {n} examples" in text
    assert ("too few to see anything" in text) == is_few


def test_trust_without_an_example_to_spare(run: FakeRun) -> None:
    run.n_left_out = 0
    assert "is not known" in report(run).parts["confidence"]
