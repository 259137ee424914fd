"""The built book as one PDF: each page printed by a headless Chromium, all of them put together with an outline."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from dpnotes._chromium import browser
from dpnotes.lab._places import book_folder
from dpnotes.lab.chapters._execute import BookError

PAPER = {"format": "A4", "margin": dict.fromkeys(("top", "right", "bottom", "left"), "15mm"), "scale": 0.8}
WIDTH = 850  # CSS pixels between the margins of A4 at that scale

# Code that is folded on the page is left out, outputs and solutions are opened, nothing scrolls.
STYLE = """
.bd-sidebar-primary, .bd-sidebar-secondary, .bd-header, .bd-header-article, .bd-footer, .bd-footer-content,
.prev-next-footer, .skip-link, .headerlink, .toggle-button, button.copybtn, #rtd-footer-container,
details.above-input, .cell_input:has(> details.above-input) { display: none !important; }
html, body { background: white !important; }
.bd-main, .bd-content, .bd-article-container, .bd-article, .bd-container, .bd-container__inner {
  display: block !important; margin: 0 !important; max-width: none !important; overflow: visible !important;
  padding: 0 !important; width: 100% !important; }
.bd-article * { max-height: none !important; }
.bd-article :is(.output, figure, div.math, pre, .pst-scrollable-table-container) {
  container-type: normal !important; overflow: visible !important; }
details > summary { display: none !important; }
details.below-input { border: 0 !important; padding: 0 !important; }
.bd-article :is(.cell, .cell_output, .output, .docutils.container, table, tbody, ul, ol, dl, .admonition, details) {
  break-inside: auto !important; }
h1, h2, h3, h4, caption, thead, .admonition-title { break-after: avoid; }
.bd-article :is(img, tr, mjx-container[display="true"], .admonition-title, .cell_input, div.highlight, pre) {
  break-inside: avoid !important; }
"""

# Opens what is folded, scales what is wider than its place, and says what is still cut.
PREPARE = """async () => {
  document.documentElement.dataset.theme = 'light';
  document.querySelectorAll('details:not(.above-input)').forEach(e => { e.open = true; });
  document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
  document.querySelectorAll('img').forEach(e => { e.loading = 'eager'; });
  await Promise.all([...document.images].map(e => e.decode().catch(() => null)));
  if (window.MathJax?.startup) await window.MathJax.startup.promise;
  for (const link of document.querySelectorAll('a[href]')) {
    const inside = link.hash && link.pathname === location.pathname;
    if (link.protocol === 'file:' && !inside) link.removeAttribute('href');
  }
  const article = document.querySelector('article') ?? document.body;
  const right = article.getBoundingClientRect().right + 1;
  const wide = 'mjx-container, table, img, svg, pre';
  const over = e => !e.parentElement.closest(wide) && e.getBoundingClientRect().right > right;
  for (const e of [...article.querySelectorAll(wide)].filter(over)) {
    const box = e.getBoundingClientRect();
    e.style.zoom = Math.max(0.2, 0.99 * (right - box.left) / box.width);
  }
  return [...article.querySelectorAll(wide)].filter(over).map(e => e.textContent.trim().slice(0, 60));
}"""


def print_book(root: Path | None = None) -> Path:
    """Print the built book as ``_build/book.pdf``.

    Formulas and tables that are wider than the paper are scaled until they fit; one that does not is an error. Folded
    code is left out, folded outputs and solutions are printed open.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Returns
    -------
    Path

    Raises
    ------
    BookError
        If the book is not built, a library or Chromium is missing, or something would be cut.
    """
    root = root or book_folder()
    pages = _pages(root)
    written, cut = root / "_build" / "book.pdf", []
    with browser("pypdf", error=BookError) as opened, TemporaryDirectory() as folder:
        from pypdf import PdfWriter

        book = PdfWriter()
        tab = opened.new_page(viewport={"width": WIDTH, "height": 1200}, color_scheme="light")
        tab.emulate_media(media="print")
        for number, page in enumerate(pages):
            tab.goto(page.as_uri())
            tab.add_style_tag(content=STYLE)
            cut += [f"{page.stem}: {text}" for text in tab.evaluate(PREPARE)]
            part = Path(folder) / f"{number}.pdf"
            tab.pdf(path=part, print_background=True, outline=True, tagged=True, **PAPER)
            book.append(part, outline_item=tab.title().partition(" —")[0].partition(" — ")[0])
        if cut:
            raise BookError(f"{len(cut)} formulas or tables do not fit on the paper: {'; '.join(cut)}")
        partial = written.with_suffix(".partial")
        book.write(partial)
        partial.replace(written)
    return written


def _pages(root: Path) -> list[Path]:
    """Built pages in the order of the table of contents."""
    from sphinx_external_toc.parsing import parse_toc_yaml

    html = root / "_build" / "html"
    pages = [html / f"{page}.html" for page in parse_toc_yaml(root / "_toc.yml")]
    if missing := [page for page in pages if not page.is_file()]:
        raise BookError(f"the book is not built, there is no {missing[0]}: run `dpnotes build` first")
    return pages
