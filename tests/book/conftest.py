"""Chromium on the built book, for the tests of its pages."""

import pytest

from dpnotes import _chromium


@pytest.fixture(scope="module")
def browser():
    with _chromium.browser() as opened:
        yield opened


def note_failure(tab, request):
    # who leaves a page cancels what is still under way, such as its icon
    if request.failure != "net::ERR_ABORTED":
        tab.faults.append(f"no answer: {request.url} ({request.failure})")


@pytest.fixture
def tab(browser):
    """A new tab that notes what goes wrong in it."""
    context = browser.new_context(color_scheme="light")
    tab = context.new_page()
    tab.faults = []
    tab.on(
        "console",
        lambda m: tab.faults.append(m.text) if m.type in ("error", "warning") else None,
    )
    tab.on("pageerror", lambda error: tab.faults.append(str(error)))
    tab.on("requestfailed", lambda request: note_failure(tab, request))
    tab.on(
        "request",
        lambda r: (
            None
            if r.url.startswith(("file:", "data:", "blob:"))
            else tab.faults.append(r.url)
        ),
    )
    yield tab
    context.close()
