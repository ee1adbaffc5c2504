"""The page as a whole: what it says, and that names cannot harm it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import appl.report
from appl.errors import DataError
from appl.report.page import write_report
from tests.report.fake_run import FakeRun, Page, report

SCRIPT_CLASS = "<script>alert(1)</script>"
EVIL_FILE = '"><img src=x onerror=alert(1)>.png'
TEMPLATES = Path(appl.report.__file__).parent / "templates"


def test_counts_are_told_in_tiles_and_in_words(run: FakeRun) -> None:
    run.add_unreadable()
    text = report(run).parts["header"]

    assert re.findall(r"\b(\d+) (images|accepted|to review|none of these|unreadable)\b", text)[
        -5:
    ] == [
        ("61", "images"),
        ("48", "accepted"),
        ("9", "to review"),
        ("3", "none of these"),
        ("1", "unreadable"),
    ]
    assert "6 examples of 2 classes were used to label 61 images" in text
    assert "48 labels are accepted, 9 are for you to review" in text
    assert "1 file could not be read" in text


def test_the_file_needs_no_other(run: FakeRun) -> None:
    path = write_report(run.write())
    html = path.read_text(encoding="utf-8")
    page = Page(html)

    assert path == run.folder / "report.html"
    links = [
        values[name]
        for _, values in page.elements
        for name in ("src", "href", "srcset", "xlink:href", "action", "data")
        if name in values
    ]
    assert links
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in links)
    assert not re.search(r"https?:|url\(|@import", html)
    assert not any(tag in ("link", "iframe", "object", "embed") for tag, _ in page.elements)
    targets = {values["id"] for _, values in page.elements if "id" in values}
    assert {link[1:] for link in links if link.startswith("#")} <= targets


def test_names_that_are_code_stay_names(tmp_path: Path) -> None:
    names = (SCRIPT_CLASS, '" onload="x', "$x_1^2$ {{ 7*7 }}", "ümlaut 🌿 " + "long" * 200)
    fake = FakeRun(tmp_path / "run", names, n_shot=2)
    for name in names:
        fake.add(name, 0.9)
        fake.add(name, 0.5, "review")
    fake.add(SCRIPT_CLASS, 0.9, name=EVIL_FILE)
    fake.add(SCRIPT_CLASS, 0.5, "none-of-these", name="=1+1.png")
    fake.facts = {
        "findings": [{"kind": "flat", "text": SCRIPT_CLASS, "files": [EVIL_FILE]}],
        "doubtful_examples": [[0, 2, 0.9]],
        "fell_back": [SCRIPT_CLASS],
    }
    fake.record = {"notes": [SCRIPT_CLASS]}
    page = report(fake)

    assert page.scripts[0].strip() == (TEMPLATES / "report.js").read_text().strip()
    assert len(page.scripts) == 1
    attributes = [values for _, values in page.elements]
    assert not any(name.startswith("on") for values in attributes for name in values)
    assert all(source.startswith("data:") for source in page.pictures)
    for part in ("warnings", "classes", "first", "sheets", "map", "adaptation"):
        assert SCRIPT_CLASS in page.parts[part], part
    for part in ("warnings", "map"):
        assert EVIL_FILE in page.parts[part], part
    assert any(values.get("title", "").endswith(f"/pile/{EVIL_FILE}") for values in attributes)
    for name in names:
        assert name in page.parts["classes"]
    assert "=1+1.png" in page.parts["first"]


def test_doubtful_examples_are_named_with_their_picture(run: FakeRun) -> None:
    run.facts = {"doubtful_examples": [[1, 1, 0.91]]}
    page = report(run)

    assert (
        "Labelled rust , looks like healthy (91% sure): worth a second look"
        in (page.parts["warnings"])
    )
    assert [v["data-p"] for tag, v in page.of_part["warnings"] if tag == "img"] == ["e1"]


def test_an_unreadable_example_does_not_shift_the_others(run: FakeRun) -> None:
    run.model = {"examples": run.examples[1:], "example_class_ids": [0, 0, 1, 1, 1]}
    run.facts = {"doubtful_examples": [[0, 1, 0.9]]}
    page = report(run)

    doubt = [v["title"] for tag, v in page.of_part["warnings"] if tag == "img"]
    assert doubt == [run.examples[1]]


def test_warnings_name_five_files_and_count_the_rest(run: FakeRun) -> None:
    files = [f"twin{i}.png" for i in range(8)]
    run.facts = {"findings": [{"kind": "leak", "text": "8 images are examples", "files": files}]}
    run.acceptance = {"wanted": 0.01, "promised": 0.125, "n_examples": 7}
    run.class_names = ("rust", "healthy", "mildew")
    text = report(run).parts["warnings"]

    assert "twin4.png" in text
    assert "twin5.png" not in text
    assert "and 3 more" in text
    assert "no less than 12.5% can be promised" in text
    assert "No image was given the label mildew" in text


def test_without_warnings_one_line_says_so(run: FakeRun) -> None:
    text = report(run).parts["warnings"]

    assert text == (
        "Before you trust the labels Nothing was found that speaks against these labels."
    )


def test_without_adaptation_there_is_one_map_and_no_curve(run: FakeRun) -> None:
    run.is_adapted, run.adapt, run.n_records = False, False, 0
    page = report(run)

    assert (
        "without an adaptation to your images, since this was switched off"
        in (page.parts["header"])
    )
    assert [v["class"] for tag, v in page.of_part["map"] if tag == "svg"].count("map") == 1
    assert "There was none" in page.parts["adaptation"]
    assert not any(tag == "svg" for tag, _ in page.of_part["adaptation"])


def test_an_adaptation_that_was_thrown_away_is_shown_with_its_reason(run: FakeRun) -> None:
    run.is_adapted = False
    run.facts = {"fell_back": ["one class swallowed the pile"]}
    page = report(run)

    for part in ("header", "warnings", "adaptation"):
        assert "since one class swallowed the pile" in page.parts[part]
    assert sum(tag == "svg" for tag, _ in page.of_part["adaptation"]) == 4


def test_headings_are_in_order_and_pictures_have_words(run: FakeRun) -> None:
    page = report(run)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert all("alt" in values for tag, values in page.elements if tag == "img")
    assert all(
        "aria-label" in v or v.get("aria-hidden") for tag, v in page.elements if tag == "svg"
    )


def test_a_report_that_fails_leaves_the_old_one(run: FakeRun) -> None:
    path = write_report(run.write())
    before = path.read_bytes()
    (run.folder / "labels.csv").write_text("other,columns\n")

    with pytest.raises(DataError, match="other columns"):
        write_report(run.folder)
    assert path.read_bytes() == before
    assert not [file for file in run.folder.iterdir() if file.name.startswith(".")]


def test_a_full_disk_leaves_the_old_report(run: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_report(run.write())
    before = path.read_bytes()

    def fail(_handle: int) -> None:
        raise OSError("no space left")

    Path(run.rows[0].path).unlink()
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(run.folder)
    assert path.read_bytes() == before


def test_details_hold_what_repeats_the_run(run: FakeRun) -> None:
    text = report(run).parts["details"]

    for fact in ("adaptation.n_iterations 30", "licence Apache-2.0", "ab" * 32, "reading 1.5 s"):
        assert fact in text
