"""The page of an audit: what it holds, that names cannot harm it, and that its script works."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from appl.labelling.audit_files import Said, begin_audit, find_audit, judge_audit, read_verdicts
from appl.labelling.run_folder import open_finished
from appl.report.audit_page import write_audit_page
from appl.report.page import write_report
from tests.report.fake_run import FakeRun, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = '</script><script>alert("1")</script>'


def page_of(run: FakeRun, n: int = 20) -> Page:
    folder = run.write()
    path = write_audit_page(begin_audit(open_finished(folder), n))
    return Page(path.read_text(encoding="utf-8"))


def looks(page: Page) -> list[dict[str, str]]:
    return [values for tag, values in page.elements if values.get("class") == "look"]


def test_every_drawn_label_has_a_tile_beside_the_examples_of_its_class(run: FakeRun) -> None:
    page = page_of(run)
    audit = find_audit(open_finished(run.folder))
    assert audit is not None
    assert [look["data-key"] for look in looks(page)] == [audit.key(i) for i in audit.by_class]
    groups = [v["data-label"] for tag, v in page.elements if tag == "section" and "data-label" in v]
    assert groups == ["healthy", "rust"]
    assert len(page.pictures) == len(audit.images) + 2 * run.n_shot
    # Nothing tells how sure the label is: who knows it believes it.
    assert not re.search(r"0\.[789]|[789]\d ?%", "".join(page.parts.values()).replace("95 %", ""))


def test_the_page_needs_no_other_file_and_no_network(run: FakeRun) -> None:
    page = page_of(run)
    links = [v[name] for _, v in page.elements for name in ("src", "href") if name in v]
    assert links and all(link.startswith("data:image/jpeg;base64,") for link in links)
    text = (run.folder / "audit/audit.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|url\(|@import|fetch\(", text)
    policy = next(v["content"] for _, v in page.elements if "Policy" in v.get("http-equiv", ""))
    assert policy.startswith("default-src 'none'")


def test_names_that_are_code_stay_names(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path / "run", (EVIL, "=1+1"), n_shot=2)
    for i in range(30):
        fake.add((EVIL, "=1+1")[i % 2], name=f'"><img src=x onerror=alert({i})>.png')
    page = page_of(fake)
    assert len(page.scripts) == 1 and "alert" not in page.scripts[0]
    assert not any(name.startswith("on") for _, values in page.elements for name in values)
    labels = {v["data-label"] for _, v in page.elements if "data-label" in v}
    assert labels == {EVIL, "'=1+1"}  # as the table holds it: no spreadsheet runs it


def test_of_an_image_that_has_moved_the_small_picture_is_shown(run: FakeRun) -> None:
    folder = run.write()
    shutil.rmtree(folder.parent / "pile")
    page = Page(
        write_audit_page(begin_audit(open_finished(folder), 10)).read_text(encoding="utf-8")
    )
    assert len(page.pictures) == 10 + 2 * run.n_shot


def test_what_was_said_is_not_asked_again(run: FakeRun) -> None:
    folder = run.write()
    audit = begin_audit(open_finished(folder), 20)
    judge_audit(
        audit, dict.fromkeys(audit.images, Said("right")) | {audit.images[0]: Said("wrong")}
    )
    larger = begin_audit(open_finished(folder), 30)
    page = Page(write_audit_page(larger).read_text(encoding="utf-8"))
    assert len(looks(page)) == 10 and "20 more were looked at before" in page.parts["header"]
    # Where nothing waits, all may be looked at again, as they were marked.
    page = Page(write_audit_page(audit).read_text(encoding="utf-8"))
    assert sorted(look["data-verdict"] for look in looks(page)) == ["right"] * 19 + ["wrong"]


def test_the_report_says_what_was_found_and_when_it_no_longer_holds(run: FakeRun) -> None:
    folder = run.write()

    def part() -> str:
        return Page(write_report(folder).read_text(encoding="utf-8")).parts["audit"]

    assert "Nobody has looked yet" in part()
    audit = begin_audit(open_finished(folder), 30)
    judge_audit(
        audit, dict.fromkeys(audit.images, Said("right")) | {audit.images[0]: Said("wrong")}
    )
    text = part()
    assert "Of 48 accepted labels 30 were looked at: 1 is wrong." in text
    assert "That at most 5.0% are wrong is not shown." in text
    assert "healthy 24" in text and "rust 24" in text
    assert "More labels are wrong" not in (folder / "report.html").read_text(encoding="utf-8")
    judge_audit(audit, dict.fromkeys(audit.images, Said("wrong")))
    assert "30 are wrong: surely more than 5.0% of all" in " ".join(
        Page(write_report(folder).read_text(encoding="utf-8")).parts["warnings"].split()
    )
    opened = open_finished(folder)
    rows = opened.rows()
    run.rows = rows[::-1]
    from appl.labelling.rows import write_rows

    write_rows(folder / "labels.csv", run.rows)
    opened.save()
    assert "made anew since somebody looked" in part()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_marks_made_by_keys_come_back_as_verdicts(run: FakeRun, tmp_path: Path) -> None:
    """A browser opens the page from its file; a script presses keys and saves."""
    page_of(run, 20)
    path = run.folder / "audit/audit.html"
    act = """<script>
    URL.createObjectURL = (blob) => { blob.text().then((text) => {
      const shown = document.createElement("pre"); shown.id = "saved"; shown.textContent = text;
      document.body.append(shown); }); return "data:,"; };
    const press = (key) => document.activeElement.dispatchEvent(
      new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("x"); press("ArrowRight"); press("u"); press("ArrowDown"); press("c");
    document.activeElement.value = "rust";
    document.activeElement.dispatchEvent(new Event("change"));
    press("Escape"); press("ArrowRight"); press("x"); press("x"); press("s");
    document.querySelector("#unseen .quiet").click();
    </script></body>"""
    acted = tmp_path / "acted.html"
    acted.write_text(path.read_text(encoding="utf-8").replace("</body>", act), encoding="utf-8")
    assert CHROMIUM is not None
    shown = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000",
            "--window-size=500,400", "--dump-dom", acted.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    saved = re.search(r'<pre id="saved">(.*?)</pre>', shown, re.DOTALL)
    assert saved, shown[-2000:]
    table = tmp_path / "saved.csv"
    table.write_text(html.unescape(saved[1]), encoding="utf-8")
    audit = find_audit(open_finished(run.folder))
    assert audit is not None
    said = read_verdicts(audit, table)
    first, second = audit.by_class[:2]
    assert said[first] == Said("wrong") and said[second] == Said("unsure")
    assert list(said.values()).count(Said("wrong", "rust")) == 1
    assert Said("right") in said.values()  # marked and unmarked again
    assert len(said) < 20  # what was never on the screen has no verdict
