"""The page as a person uses it: by keys alone, by mouse alone, in two tabs, killed, on a phone."""

import os
import signal
import subprocess
import sys
import time

import pytest

from appl.labelling.corrections import known_classes, read_corrections
from appl.labelling.reopening import reopen
from appl.labelling.rows import read_rows
from appl.studio.desk import Desk
from tests.labelling.conftest import CLASSES
from tests.labelling.test_session import CPU
from tests.studio.big_run import enlarge
from tests.studio.conftest import holds, served, until

pytestmark = pytest.mark.browser
BLUE, RED, GREEN = CLASSES  # sorted by name on the page: blue 1, green 2, red 3


@pytest.fixture
def address(desk):
    with served(desk) as found:
        yield found


def known(run):
    return known_classes(read_corrections(run))


def saved(page, n):
    holds(page, f"document.querySelector('#saved').textContent.includes('{n} said')")


def tile(page, image):
    return page.locator(f"#tile-{image}")


def answered(page, number):
    holds(page, f"document.querySelector('#saved').textContent.startsWith('Answer {number} ')")


def test_the_whole_loop_by_keys_alone(address, run, new_page):
    page = new_page(address)
    assert page.evaluate("document.activeElement.id") == "grid"
    page.keyboard.press("r")  # surest first
    page.keyboard.press("Home")
    first = page.evaluate("document.querySelector('.tile.focus').dataset.image")
    page.keyboard.press("3")
    saved(page, 1)
    assert known(run) == {int(first): RED}
    for key in ("ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "n"):
        page.keyboard.press(key)
    saved(page, 4)
    assert sorted(known(run).values()) == ["", "", "", RED]
    page.keyboard.press("u")
    saved(page, 1)
    page.keyboard.press("U")
    saved(page, 4)
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")  # one image, large
    page.wait_for_selector("#large .bars li")
    shown = int(page.get_attribute("#large .whole", "data-image"))
    page.keyboard.press("c")
    page.keyboard.type("something new")
    page.keyboard.press("Enter")
    saved(page, 5)
    assert known(run)[shown] == "something new"
    assert int(page.get_attribute("#large .whole", "data-image")) != shown  # on to the next
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    answered(page, 2)
    assert read_rows(run / "labels.csv")[shown].label == "something new"
    page.keyboard.press("x")
    page.wait_for_selector("h3 :text-matches('Perhaps')")
    page.keyboard.press("l")
    holds(page, "document.querySelector('#chosen').textContent == '10 selected'")
    before = known(run)
    page.keyboard.press("a")
    until(lambda: len(known(run)) > len(before))
    assert known(run).items() >= before.items()  # accepting takes no word back
    page.keyboard.press("?")
    assert page.locator("#keys[open] dt").count() > 12
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("Home")
    page.keyboard.press("Control+a")
    holds(page, "document.querySelectorAll('.tile.on').length > 2")


def test_the_whole_loop_by_mouse_alone(address, run, new_page):
    page = new_page(address)
    page.click("text=blue, upright >> nth=0")  # the class in the list: shows it alone
    holds(page, "document.querySelector('#count').textContent == '8 shown'")
    tiles = page.locator(".tile")
    order = page.evaluate(
        """[...document.querySelectorAll(".tile")].map((t) => [t.getBoundingClientRect(), t])
          .sort(([a], [b]) => a.y - b.y || a.x - b.x).map(([, t]) => Number(t.dataset.image))"""
    )
    assert tiles.count() == 8
    tile(page, order[0]).click()
    tile(page, order[2]).click(modifiers=["Shift"])
    tile(page, order[5]).click(modifiers=["Control"])
    tile(page, order[1]).click(modifiers=["Control"])
    assert page.inner_text("#chosen") == "3 selected"
    page.click("#buttons >> text=red level")
    saved(page, 3)
    assert known(run) == dict.fromkeys([order[0], order[2], order[5]], RED)
    one, two = tile(page, order[0]).bounding_box(), tile(page, order[3]).bounding_box()
    page.mouse.move(one["x"] + 5, one["y"] + 5)
    page.mouse.down()
    page.mouse.move(two["x"] + 30, two["y"] + 60, steps=5)
    page.mouse.up()
    assert page.inner_text("#chosen") == "4 selected"
    page.click("#verbs >> text=None")
    saved(page, 5)
    page.click("#undo")
    saved(page, 3)
    page.click("#teach")
    answered(page, 2)
    page.click("label:has-text('what I said')")
    page.click("text=blue, upright >> nth=0")
    holds(page, "document.querySelector('#count').textContent == '3 shown'")
    page.locator(".tile").first.dblclick()
    page.click("#large .close")
    with page.expect_response("**/api/map"):
        page.click("button[data-view=map]")
    box = page.locator("#canvas").bounding_box()
    page.wait_for_timeout(200)
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2)]
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] - 2)
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=3)
    page.mouse.up()
    assert page.inner_text("#chosen") == "24 selected"


def test_undo_goes_on_across_a_restart(run, new_page):
    for expected, keys in (({0: GREEN}, "2"), ({}, "u")):
        desk = Desk(run, reopen(run, CPU))
        desk.close, close = (lambda: None), desk.session.close
        try:
            with served(desk) as address:
                page = new_page(address)
                page.evaluate("document.querySelector('#order').value = 'pile'")
                page.dispatch_event("#order", "change")
                page.locator("#grid").focus()
                page.keyboard.press("Home")
                page.keyboard.press(keys)
                saved(page, len(expected))
                page.context.close()
        finally:
            close()
        assert known(run) == expected


def test_killed_during_a_correction_everything_that_was_shown_as_saved_is_there(run, new_page):
    command = [sys.executable, "-m", "appl", "studio", str(run), "--no-open", "--who", "Ada"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        address = next(line.split()[1] for line in process.stdout if line.startswith("Open http"))
        page = new_page(address)
        page.keyboard.press("Home")
        for _ in range(6):
            page.keyboard.press("2")
        saved(page, 6)
        # Many more, and the process dies among them.
        for _ in range(12):
            page.keyboard.press("3")
        shown = int(page.inner_text("#saved").split("· ")[1].split()[0])
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = known(run)
    assert len(found) >= max(6, shown)
    page.wait_for_selector("#notice:has-text('has ended')")
    desk = Desk(run, reopen(run, CPU))  # no lock was left behind
    with served(desk) as address:
        saved(new_page(address), len(found))
    desk.close()


def test_a_cancelled_adaptation_leaves_the_answer_and_the_page_stays_usable(address, run, new_page):
    before = (run / "labels.csv").read_bytes()
    page = new_page(address)
    page.keyboard.press("Shift+T")
    page.wait_for_selector("#job-words:has-text('Adapting to your images: ')")
    page.keyboard.press("2")
    saved(page, 1)
    page.click("#cancel")
    page.wait_for_selector("#toast:has-text('Cancelled')")
    assert (run / "labels.csv").read_bytes() == before and len(known(run)) == 1


def test_a_second_tab_only_looks_until_it_is_handed_the_pen(address, run, new_page):
    first, second = new_page(address), new_page(address)
    second.wait_for_selector("#notice:has-text('Another tab')")
    second.keyboard.press("1")
    second.wait_for_selector("#toast:has-text('only looks')")
    first.keyboard.press("1")
    saved(first, 1)
    saved(second, 1)  # and sees it
    holds(second, "document.querySelectorAll('.tile.said').length == 1")
    second.click("#pen")
    first.wait_for_selector("#notice:has-text('Another tab')")
    second.wait_for_selector("#notice", state="hidden")
    second.keyboard.press("End")
    second.keyboard.press("n")
    saved(second, 2)


def test_a_second_process_only_looks(desk, run, new_page):
    with served(Desk(run, None)) as address:
        page = new_page(address)
        page.wait_for_selector("#notice:has-text('Another process')")
        page.keyboard.press("1")
        page.wait_for_selector("#toast:has-text('only looks')")
        page.keyboard.press("Enter")
        page.wait_for_selector("#large .history li")
    assert known(run) == {}


def test_a_class_that_is_a_script_is_a_name(address, run, new_page):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    page = new_page(address)
    page.keyboard.press("c")
    page.keyboard.type(evil)
    page.keyboard.press("Enter")
    saved(page, 1)
    page.keyboard.press("t")
    answered(page, 2)
    page.click(f"#classes >> text={evil}")
    holds(page, "document.querySelector('#count').textContent != '24 shown'")
    page.locator(".tile").first.dblclick()
    page.wait_for_selector("#large .history li")
    assert evil in page.inner_text("#large")
    assert page.locator("img[src=x]").count() == 0 and page.locator("body script").count() == 0
    page.wait_for_timeout(200)


def test_ten_thousand_tiles_are_scrolled_through_without_being_there(run, new_page, capsys):
    with served(Desk(enlarge(run, 10_000), None)) as address:
        page = new_page(address)
        holds(page, "document.querySelector('#count').textContent == '10,000 shown'")
        most, slowest = page.evaluate(
            """async () => {
              const grid = document.getElementById("grid");
              let most = 0, slowest = 0;
              for (let i = 0; i <= 60; i++) {
                const began = performance.now();
                grid.scrollTop = (grid.scrollHeight * i) / 60;
                for (const _ of [1, 2]) await new Promise((done) => requestAnimationFrame(done));
                slowest = Math.max(slowest, performance.now() - began);
                most = Math.max(most, document.querySelectorAll("*").length);
              }
              return [most, slowest];
            }"""
        )
        assert most < 2500
        page.locator("#grid").focus()
        page.keyboard.press("End")
        holds(page, "document.querySelector('.tile.focus img[src]')")
        with capsys.disabled():
            print(f"\n10,000 tiles: at most {most} elements, slowest two frames {slowest:.0f} ms")


def test_on_a_phone(address, run, new_page):
    page = new_page(address, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tiles = page.locator(".tile")
    assert len({round(tiles.nth(i).bounding_box()["x"]) for i in range(6)}) == 3
    tiles.nth(0).tap()
    tiles.nth(1).tap()
    assert page.inner_text("#chosen") == "2 selected"
    page.tap("#buttons >> text=green")
    saved(page, 2)
    page.tap("#drawer")
    page.tap("#classes >> text=red level")
    holds(page, "document.querySelector('#count').textContent == '8 shown'")
    for button in page.locator("#verbs button, #buttons button").all():
        assert button.bounding_box()["height"] >= 38


def test_every_control_has_a_name_and_both_themes_have_contrast(address, new_page):
    page = new_page(address, color_scheme="light")
    page.keyboard.press("Control+a")
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select, canvas, .tile")].filter((e) =>
          !(e.getAttribute("aria-label") || e.innerText || e.labels?.[0]?.innerText ||
            e.closest("dialog"))).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    assert page.get_attribute("#grid", "aria-activedescendant").startswith("tile-")
    for _ in range(2):
        for where in (
            "#saved",
            ".tile.on b",
            ".tile em",
            "#teach",
            "#classes .n",
            "h3.section small",
        ):
            assert contrast(page, where) >= 4.5, where
        page.click("#theme")
        page.wait_for_timeout(50)
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


CONTRAST = """(element) => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let under = element;
  while (rgb(getComputedStyle(under).backgroundColor)[3] === 0) under = under.parentElement;
  const both = [getComputedStyle(element).color, getComputedStyle(under).backgroundColor];
  const [a, b] = both.map((c) => light(rgb(c))).sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


def contrast(page, where):
    found = page.locator(where).first
    if found.count() == 0 or found.is_disabled():
        return 21
    return found.evaluate(CONTRAST)


def test_tests_that_wait_do_wait():
    began = time.monotonic()
    with pytest.raises(AssertionError):
        until(lambda: False, 0.1)
    assert time.monotonic() - began < 5
