"""Measures of the pages of the built book: ``python -m tests.book.measure`` after ``dpnotes build``."""

import json
import re
import shutil

import pandas as pd
from playwright.sync_api import sync_playwright

from dpnotes.lab import prose
from dpnotes.lab.store import book_folder

ASIDE = re.compile(
    r"(?sm)```+python.*?```+|\$\$.*?\$\$(?: \([\w-]+\))?|\$[^$]*\$|^(?:`{3,}|:\w+:).*?$"
)  # code, formulas, what opens and sets up a directive


def place(page):
    return book_folder() / "_build" / "html" / page.path.relative_to(book_folder()).with_suffix(".html")


def measure(page, tab):
    """Pixels at 1280 and at 390 px, kB, words, code cells, glued and typed numbers, exercises of a page."""
    built = place(page)
    found = {"page": page.name, "kB": built.stat().st_size // 1000}
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(built.as_uri())
        tab.evaluate("window.MathJax?.startup?.promise?.then(() => true)")
        found[f"{width} px"] = tab.evaluate("document.documentElement.scrollHeight")
    sources = [number.source for number in page.numbers()]
    notebook = json.loads(page.path.read_text()) if page.path.suffix == ".ipynb" else {"cells": []}
    return found | {
        "words": len(re.findall(r"[^\W\d_][\w'-]*", ASIDE.sub(" ", page.prose))),
        "cells": sum(cell["cell_type"] == "code" for cell in notebook["cells"]),
        "glued": sources.count("glued"),
        "typed": sources.count("typed"),
        "exercises": len(re.findall(r"^(?:\*\*|`+\{admonition\} Exercise )\d+[: ]", page.prose, re.MULTILINE)),
    }


if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        rows = [measure(page, browser.new_page()) for page in prose.pages() if place(page).is_file()]
    print(pd.DataFrame(rows).to_string(index=False))
