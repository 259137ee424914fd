"""The built book in a real browser, opened from its files: every page, wide and narrow, light and dark."""

import json
import os
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from dpnotes.lab import chapters
from dpnotes.lab.store import book_folder

HTML = book_folder() / "_build" / "html"
WIDTHS = (1280, 390)


def pages():
    """Addresses of the pages below the root: those of the table of contents, and some that Sphinx adds."""
    contents = yaml.safe_load((book_folder() / "_toc.yml").read_text())
    left, files = [entry for part in contents["parts"] for entry in part["chapters"]], [contents["root"]]
    while left:
        entry = left.pop(0)
        files.append(entry["file"])
        left += entry.get("sections", [])
    return [*(f"{file}.html" for file in files), "search.html", "genindex.html", "_modules/index.html"]


def visit(tab, page):
    tab.goto((HTML / page).as_uri())
    tab.evaluate("window.MathJax?.startup?.promise?.then(() => true)")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", pages())
def test_a_page_fits_loads_and_is_readable(tab, page, width):
    tab.set_viewport_size({"width": width, "height": 900})
    visit(tab, page)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert tab.evaluate(PALE_TEXT) == [], scheme
    assert tab.faults == []


@pytest.mark.parametrize("page", pages())
def test_what_a_page_shows_is_whole(tab, page):
    visit(tab, page)
    assert tab.title()
    assert tab.evaluate(RAW_MATHEMATICS) == []
    assert tab.evaluate("document.querySelectorAll('[data-mml-node=merror], .MathJax_Error').length") == 0
    assert tab.evaluate(BROKEN_IMAGES) == []
    assert tab.evaluate(UNNAMED_FIGURES) == []
    assert tab.evaluate("[...document.querySelectorAll('main pre')].filter(p => !p.textContent.trim()).length") == 0
    assert "Traceback (most recent call last)" not in tab.inner_text("main")
    assert dead_links(tab, page) == []


def dead_links(tab, page):
    """Links of a page to files of the book that are not there."""
    targets = tab.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)")
    paths = {unquote(urlsplit(target).path) for target in targets if target.startswith("file:")}
    return sorted(path for path in paths if not os.path.exists(path))


def test_the_first_page_leads_into_the_book(tab):
    tab.goto((HTML / "index.html").as_uri(), wait_until="commit")
    tab.wait_for_url("**/book/index.html")
    assert tab.faults == []


def test_search_finds_words_of_the_chapters(tab):
    tab.goto(f"{(HTML / 'search.html').as_uri()}?q=bagging")
    tab.wait_for_selector("#search-results li a")
    targets = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")
    assert any("/book/bagging.html" in target for target in targets)
    assert tab.faults == []


@pytest.mark.parametrize("chapter", chapters.all_chapters(), ids=lambda chapter: chapter.name)
def test_a_chapter_can_be_downloaded_as_committed(tab, chapter):
    visit(tab, f"{chapter.folder}/{chapter.name}.html")
    target = tab.get_attribute("a.btn-download-source-button", "href")
    offered = HTML / chapter.folder / target
    assert json.loads(offered.read_text()) == json.loads(chapter.source.read_text())


# Texts between dollars or \( \) that MathJax has left as they are, code apart.
RAW_MATHEMATICS = r"""() => {
  const article = document.querySelector('main').cloneNode(true);
  article.querySelectorAll('pre, code, script, style, mjx-container, a').forEach(e => e.remove());
  return article.textContent.match(/\$[^$\n]+\$|\\\(|\\\[|\\begin\{/g) ?? [];
}"""

BROKEN_IMAGES = """async () => {
  const images = [...document.images];
  images.forEach(image => { image.loading = 'eager'; });
  await Promise.all(images.map(image => image.decode().catch(() => null)));
  return images.filter(image => !image.naturalWidth).map(image => image.src);
}"""

UNNAMED_FIGURES = """() => [...document.querySelectorAll('main img')]
  .filter(image => !image.alt || /[.](png|svg|jpe?g)$/.test(image.alt)  // the latter is what Sphinx writes for none
    || !image.closest('figure')?.querySelector('figcaption'))
  .map(image => image.src)"""

# Texts of a page with less contrast to their background than WCAG 2 asks for (AA), hidden ones apart.
PALE_TEXT = """() => {
  const parse = color => (color.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = (top, under) => {
    const alpha = top[3] ?? 1;
    return [0, 1, 2].map(i => alpha * top[i] + (1 - alpha) * under[i]);
  };
  const background = element => {
    if (!element) return [255, 255, 255];
    const own = parse(getComputedStyle(element).backgroundColor);
    return (own[3] ?? 1) === 1 ? own : over(own, background(element.parentElement));
  };
  const luminance = color => {
    const [r, g, b] = color.slice(0, 3).map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest('.headerlink, script, style')) continue;
    const style = getComputedStyle(element);
    const under = background(element);
    const [a, b] = [luminance(over(parse(style.color), under)), luminance(under)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      found.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${node.textContent.trim().slice(0, 40)}`);
    }
  }
  return [...found].slice(0, 10);
}"""
