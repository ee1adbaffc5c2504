"""Seconds that a person waits in `appl studio`, for piles of 1,000 to 100,000 images.

    python benchmarks/studio_latency.py run IMAGES OUT.csv --sizes 1000 10000 100000
    python benchmarks/studio_latency.py table OUT.csv

IMAGES is a class-folder tree: five examples of each of its first ten classes, the others a pile.
That pile is labelled by the command, then enlarged by copies under other names, whose vectors are
moved a little. Command and browser are processes of their own; the waits are those of the page:
until the first picture, from a key to "saved", from a key to the new answer, and the frames while
the whole pile flies past.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _measuring import append_rows, command_line, read_rows, serve

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.studio.big_run import enlarge  # noqa: E402
from tests.studio.conftest import BROWSERS, FLAGS  # noqa: E402

COLUMNS = (
    "n_images", "first_paint_s", "saved_s", "answered_s", "frame_ms", "slowest_frame_ms",
    "elements", "page_mb", "process_mb",
)  # fmt: skip
N_CLASSES, N_EXAMPLES = 10, 5
SCROLL = """async () => {
  const grid = document.getElementById("grid"), frames = [];
  let elements = 0, last = performance.now();
  for (let i = 0; i <= 300; i++) {
    grid.scrollTop = (grid.scrollHeight * i) / 300;
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    frames.push(now - last);
    last = now;
    elements = Math.max(elements, document.querySelectorAll("*").length);
  }
  frames.sort((a, b) => a - b);
  return [frames[150], frames[300], elements, performance.memory.usedJSHeapSize / 1e6];
}"""
SAVED = "Number(document.querySelector('#saved').textContent.match(/· ([\\d,]+) said/)[1])"
ANSWER = "Number(document.querySelector('#saved').textContent.match(/Answer (\\d+)/)[1])"


def lay_out(source: Path, folder: Path) -> None:
    """Link examples and a pile."""
    (folder / "pile").mkdir(parents=True)
    for place in sorted(path for path in source.iterdir() if path.is_dir())[:N_CLASSES]:
        (folder / "examples" / place.name).mkdir(parents=True)
        for number, image in enumerate(sorted(place.iterdir())):
            target = folder / "examples" / place.name if number < N_EXAMPLES else folder / "pile"
            (target / f"{place.name}-{image.name}").symlink_to(image.resolve())


def first_run(source: Path, folder: Path) -> Path:
    """Label the pile as it is, and let the studio look at every image."""
    lay_out(source, folder)
    run = folder / "run"
    places = [str(folder / "examples"), str(folder / "pile")]
    command = [sys.executable, "-m", "appl", "label", *places, "--out", str(run), "--no-adapt"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    from appl.core.compute import resolve_compute
    from appl.labelling.reopening import reopen

    session = reopen(run, resolve_compute())
    session.describe()
    session.finish()
    return run


def until(claim: Callable[[], object], seconds: float = 600) -> None:
    """Wait until a claim holds."""
    end = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def measure(run: Path, browser) -> dict[str, object]:
    """Measure one run."""
    command = [sys.executable, "-m", "appl", "studio", str(run), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        address = next(line.split()[1] for line in process.stdout if line.startswith("Open http"))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(".tile img[src]", timeout=600_000)
        until(lambda: page.evaluate("document.querySelector('.tile img[src]').naturalWidth"))
        first_paint = time.perf_counter() - began
        until(lambda: page.evaluate("document.querySelector('#job').hidden"))
        saved, answered = [], []
        for number, key in enumerate(("1", "2", "3"), 1):
            began = time.perf_counter()
            page.keyboard.press(key)
            until(lambda wanted=number: page.evaluate(SAVED) == wanted)
            saved.append(time.perf_counter() - began)
            now, began = page.evaluate(ANSWER), time.perf_counter()
            page.keyboard.press("t")
            until(lambda known=now: page.evaluate(ANSWER) > known)
            answered.append(time.perf_counter() - began)
            until(lambda: page.evaluate("document.querySelector('#job').hidden"))
            time.sleep(0.5)
        frame, slowest, elements, page_mb = page.evaluate(SCROLL)
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1000
        page.close()
    finally:
        process.kill()
        process.wait()
    return {
        "first_paint_s": f"{first_paint:.2f}",
        "saved_s": f"{sorted(saved)[1]:.3f}",
        "answered_s": f"{sorted(answered)[1]:.2f}",
        "frame_ms": f"{frame:.1f}",
        "slowest_frame_ms": f"{slowest:.0f}",
        "elements": elements,
        "page_mb": f"{page_mb:.0f}",
        "process_mb": f"{peak:.0f}",
    }


def run(given: argparse.Namespace) -> None:
    """Measure piles of all sizes, one after the other."""
    from playwright.sync_api import sync_playwright

    path = next(path for path in BROWSERS if Path(path).exists())
    with tempfile.TemporaryDirectory(prefix="appl-studio-") as place, sync_playwright() as started:
        first = first_run(given.images, Path(place))
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        for n_images in given.sizes:
            folder = Path(shutil.copytree(first, Path(place) / f"run-{n_images}"))
            row = {"n_images": n_images, **measure(enlarge(folder, n_images, moves=True), browser)}
            shutil.rmtree(folder)
            append_rows(given.out, COLUMNS, [row])
            print(json.dumps(row), flush=True)
        browser.close()


def table(given: argparse.Namespace) -> None:
    """Print what was measured, as it stands in docs/studio.md."""
    print("| images | first picture, s | saved, s | new answer, s | frame, ms | process, MB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    names = ("first_paint_s", "saved_s", "answered_s", "frame_ms", "process_mb")
    for row in read_rows(given.out):
        cells = [f"{int(row['n_images']):,}", *(row[name] for name in names)]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    measuring = command_line(__doc__, "images", run, table)
    measuring.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    serve(measuring)
