"""The book as one PDF: in order, with an outline, nothing cut; and what is missing
is said.
"""

import re
import sys

import pypdf
import pytest

from dpnotes import _chromium
from dpnotes._extras import install_command
from dpnotes.lab.chapters import BookError, _build, print_book

PAGE = """<!doctype html><html data-theme="dark"><head><title>{title} — book</title></head><body><article>
<h1>{title}</h1><p class="whole"></p><details class="above-input"><summary>code</summary><pre>folded code</pre></details>
<details class="below-input"><summary>out</summary><p>folded output</p></details>
<div class="cell tag_scroll-output"><p>a hundred rows</p></div>
<div class="admonition dropdown toggle-hidden"><p>the solution</p></div>
<p><a href="{other}.html">to the other page</a></p>
<table><tr>{cells}</tr></table></article></body></html>"""


@pytest.fixture
def book(tmp_path):
    """Two built pages, one of them with a table of several times the paper's width."""
    html = tmp_path / "_build" / "html" / "book"
    html.mkdir(parents=True)
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n- file: book/zebra\n"
    )
    for name, other, columns in (("index", "zebra", 3), ("zebra", "index", 30)):
        cells = "".join(f"<td>column{i}ofmany</td>" for i in range(columns))
        (html / f"{name}.html").write_text(
            PAGE.format(title=name, other=other, cells=cells)
        )
    return tmp_path


def printed(book):
    """Text of each page of the PDF, and the entries of its outline."""
    reader = pypdf.PdfReader(print_book(book))
    outline = [entry.title for entry in reader.outline if not isinstance(entry, list)]
    return [page.extract_text() for page in reader.pages], outline


@pytest.mark.needs("browser")
def test_pages_are_whole_and_in_order(book):
    (cover, contents, *texts), outline = printed(book)
    assert outline == ["Contents", "index", "zebra"]
    assert cover.split()[0] == "index"
    assert contents.split() == ["Contents", "index", "3", "zebra", "4"]
    pages = (book / "_build" / "html" / "book").glob("*.html")
    leading = [page.stem for page in pages if "../book.pdf" in page.read_text()]
    assert leading == ["index"]
    for number, (name, text) in enumerate(zip(outline[1:], texts, strict=True), 3):
        # the title, and the running head over it
        assert text.split().count(name) == 2
        assert str(number) in text.split()
        assert "a hundred rows" not in text
        assert "folded output" in text
        assert "the solution" in text
        assert "folded code" not in text
    assert "column29ofmany" in "".join(texts[1].split())


@pytest.mark.needs("browser")
def test_running_heads_cover_nothing(book):
    reader = pypdf.PdfReader(print_book(book))
    for page in reader.pages[2:]:
        painted = pypdf.generic.ContentStream(page.get_contents(), reader).operations
        names = [operator for _, operator in painted]
        filled = [place - 1 for place, name in enumerate(names) if name == b"f"]
        wide = [place for place in filled if painted[place][0][2] > 700]
        # beneath the last of them is the head, above it the text of the page
        assert names[wide[-1] :].count(b"Tj") > names[: wide[-1]].count(b"Tj")


@pytest.mark.needs("browser")
def test_what_cannot_fit_is_an_error(book, monkeypatch):
    monkeypatch.setattr(
        _build, "PREPARE", _build.PREPARE.replace("e.style.zoom =", "const unused =")
    )
    with pytest.raises(
        BookError, match="1 formulas or tables do not fit on the paper: zebra: column0"
    ):
        printed(book)
    assert not (book / "_build" / "html" / "book.pdf").exists()


def test_a_missing_library_is_named(book, monkeypatch):
    monkeypatch.setattr(
        _chromium, "find_spec", lambda name: None if name == "pypdf" else sys
    )
    with pytest.raises(
        BookError, match=re.escape(f"{install_command('pdf')} (not installed: pypdf)")
    ):
        print_book(book)


def test_a_missing_browser_is_named(book, monkeypatch):
    monkeypatch.setattr(_chromium, "program", lambda: str(book / "no-browser"))
    with pytest.raises(
        BookError, match="a PDF needs Chromium or Chrome, none could be started"
    ):
        print_book(book)


def test_a_book_that_is_not_built_is_an_error(book):
    (book / "_build" / "html" / "book" / "zebra.html").unlink()
    with pytest.raises(
        BookError, match=r"there is no .*zebra.html: run `dpnotes build` first"
    ):
        print_book(book)
