"""A headless Chromium or Chrome, which prints pages: the extra [pdf]."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpnotes._extras import install_command

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OFFLINE = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@contextmanager
def browser(*libraries: str, error: type[Exception] = RuntimeError) -> Iterator[Any]:
    """A browser of Playwright, closed at the end; ``error`` if it, or one of the
    ``libraries``, is not there.
    """
    if lacking := [
        name for name in ("playwright", *libraries) if find_spec(name) is None
    ]:
        raise error(
            f"a PDF needs the extra [pdf]: {install_command('pdf')} (not installed:"
            f" {', '.join(lacking)})"
        )
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=program(), args=arguments()
            )
        except sync_api.Error as reason:
            what = reason.message.splitlines()[0]
            raise error(
                f"a PDF needs Chromium or Chrome, none could be started: {what};"
                " install one, or run `playwright install chromium`"
            ) from reason
        yield opened
        opened.close()


def print_page(html: str, path: Path) -> None:
    """Print a page that needs nothing else, on the paper that its style names."""

    def work() -> None:
        with browser() as opened:
            tab = opened.new_page(color_scheme="light")
            tab.set_content(html)
            tab.pdf(
                path=path, prefer_css_page_size=True, print_background=True, tagged=True
            )

    # Playwright refuses the thread of an event loop, which Jupyter's is
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def program() -> str | None:
    """Path of a Chromium or Chrome; None if none is on the path, for Playwright's
    own.
    """
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def arguments() -> list[str]:
    """What Chromium is started with: it asks nothing of the network, and has no
    sandbox where root runs it.
    """
    return [
        *OFFLINE,
        *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
