"""A run to work on, served in this process, and a browser that looks at it."""

import contextlib
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from appl.labelling.reopening import reopen
from appl.settings.files import with_changes
from appl.studio.app import make_app
from appl.studio.desk import Desk
from appl.studio.serving import listening
from tests.labelling.conftest import write_tree
from tests.labelling.test_session import CPU, SETTINGS, label

BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Long enough that nobody waits for its end: it is there to be cancelled.
ENDLESS = with_changes(SETTINGS.solving, adaptation={"n_iterations": 5000})


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished run of 24 images of three classes, whose vectors are there."""
    tree = write_tree(tmp_path_factory.mktemp("studio") / "given")
    run = tree.parent / "run"
    label(tree, run, replace(SETTINGS, adapt=False, solving=ENDLESS)).finish()
    session = reopen(run, CPU)
    session.describe()
    session.finish()
    return run


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it to work on."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def desk(run, monkeypatch):
    monkeypatch.setattr("appl.studio.desk.write_report", lambda _folder: None)  # takes seconds
    opened = Desk(run, reopen(run, CPU), "Ada")
    yield opened
    opened.close()


@contextlib.contextmanager
def served(desk):
    """Serve a run from a thread; yield its address."""
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        app = make_app(desk, hosts={f"127.0.0.1:{port}"})
        config = uvicorn.Config(app, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            desk.is_closing = True  # lets its pages go
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def browser():
    path = next((path for path in BROWSERS if Path(path).exists()), None)
    if path is None:
        reason = f"no browser at {', '.join(BROWSERS)}"
        # Where all is to be tested, a test that is left out has failed.
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def new_page(browser):
    """Open pages that must not complain; each is a tab of its own."""
    errors, contexts = [], []

    def new(address, **options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        page.on("console", lambda m: errors.append(m.text) if "Security" in m.text else None)
        page.goto(address)
        page.wait_for_selector(".tile")
        holds(page, "document.querySelector('#saved').textContent")
        return page

    yield new
    for context in contexts:
        context.close()
    assert errors == []


def until(claim, seconds=20):
    """Wait until a claim holds."""
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def holds(page, expression):
    """Wait until something holds in a page, whose policy forbids what Playwright has for it."""
    until(lambda: page.evaluate(expression))
