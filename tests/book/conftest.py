"""Chromium on the built book, for the tests of its pages."""

import os
import shutil

import pytest

from dpnotes.lab.store import book_folder

HTML = book_folder() / "_build" / "html"
# Set by `make test`, which has just built the book: pages that are not there are then a failure.
BUILT = bool(os.environ.get("DPNOTES_BOOK_BUILT"))
OFFLINE = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser():
    if not (HTML / "index.html").is_file():
        if BUILT:
            pytest.fail(f"the book was to be built, but there is no {HTML / 'index.html'}")
        pytest.skip("the book is not built: run `dpnotes build` first")
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)  # none: Playwright's own, if it has one
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=[*OFFLINE, "--no-first-run", *sandbox])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium to open the book with: {error.message.splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def tab(browser):
    """A new tab that notes what goes wrong in it."""
    context = browser.new_context(color_scheme="light")
    tab = context.new_page()
    tab.faults = []
    tab.on("console", lambda m: tab.faults.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: tab.faults.append(str(error)))
    tab.on("requestfailed", lambda request: tab.faults.append(f"no answer: {request.url}"))
    tab.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else tab.faults.append(r.url))
    yield tab
    context.close()
