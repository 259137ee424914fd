"""The built book in a real browser, opened from its files: every page, wide and
narrow, light and dark; sliders.
"""

import json
import os
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from dpnotes import accounting
from dpnotes.lab import chapters
from dpnotes.lab.store import book_folder

HTML = book_folder() / "_build" / "html"
pytestmark = pytest.mark.needs("browser", "pages")
LARGEST = 1_500_000  # bytes of a page
DEPTHS = [
    "book/index.html",
    "book/foundations/votes.html",
    "search.html",
    "_modules/index.html",
]


def pages():
    """Addresses of the pages below the root: those of the table of contents, and
    some that Sphinx adds.
    """
    contents = yaml.safe_load((book_folder() / "_toc.yml").read_text())
    left, files = (
        [entry for part in contents["parts"] for entry in part["chapters"]],
        [contents["root"]],
    )
    while left:
        entry = left.pop(0)
        files.append(entry["file"])
        left += entry.get("sections", [])
    return [
        *(f"{file}.html" for file in files),
        "search.html",
        "genindex.html",
        "_modules/index.html",
    ]


def visit(tab, page, *, width=1280):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto((HTML / page).as_uri())
    tab.evaluate("window.MathJax?.startup?.promise?.then(() => true)")


@pytest.mark.parametrize("page", pages())
def test_a_page_is_whole_light_and_readable(tab, page):
    assert (HTML / page).stat().st_size < LARGEST
    visit(tab, page, width=1280)
    assert tab.title()
    assert tab.evaluate(RAW_MATHEMATICS) == []
    assert (
        tab.evaluate(
            "document.querySelectorAll('[data-mml-node=merror], .MathJax_Error').length"
        )
        == 0
    )
    assert tab.evaluate(UNNAMED_FIGURES) == []
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('main pre')].filter(p =>"
            " !p.textContent.trim()).length"
        )
        == 0
    )
    assert "Traceback (most recent call last)" not in tab.inner_text("main")
    assert dead_links(tab) == []
    readable(tab, 1280, axe="light")
    assert tab.evaluate(BROKEN_IMAGES) == []


@pytest.mark.parametrize("page", pages())
def test_a_page_fits_a_phone(tab, page):
    visit(tab, page, width=390)
    readable(tab, 390, axe="dark")


def readable(tab, width, *, axe):
    """A page is no wider than its window, and can be read in light and in dark, by the
    keyboard and aloud.

    axe-core reads it in one of the two, since that takes seconds; contrast is looked at
    in both.
    """
    # colours are looked at once they have changed
    tab.add_style_tag(content="* { transition: none !important; }")
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function(
            "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
        )
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert tab.evaluate(PALE_TEXT) == [], scheme
        if scheme == axe:
            assert barriers(tab) == [], scheme
    assert tab.evaluate(NAMELESS) == []
    assert tab.evaluate(CUT_FORMULAS) == []
    assert tab.faults == []


def barriers(tab):
    """What axe-core finds to be a serious or critical barrier to some readers."""
    if not tab.evaluate("typeof axe === 'object'"):
        tab.evaluate(
            files("axe_playwright_python")
            .joinpath("axe.min.js")
            .read_text(encoding="utf-8")
        )
    settings = "{resultTypes: ['violations'], preload: false}"  # nothing is requested
    found = tab.evaluate(f"axe.run({{exclude: ['mjx-container']}}, {settings})")
    grave = [
        rule
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in grave
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("page", DEPTHS)
def test_search_leads_from_pages_of_every_depth_by_keys_alone(tab, page):
    visit(tab, page)
    tab.keyboard.press("Control+k")
    tab.keyboard.type("pate")
    tab.wait_for_selector("#found a")
    first, second = tab.evaluate(
        "[...document.querySelectorAll('#found a')].slice(0, 2).map(a => a.href)"
    )
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("document.activeElement.href") == second
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    tab.wait_for_url(first)
    assert tab.faults == []


def test_search_answers_what_strangers_ask(tab):
    questions = tomllib.loads(
        (Path(__file__).parent / "questions.toml").read_text(encoding="utf-8")
    )
    visit(tab, "book/index.html")
    tab.keyboard.press("Control+k")
    field = tab.locator("form.bd-search input").last
    first, missed = {}, []
    for question, answers in questions.items():
        field.fill(question)
        hits = tab.evaluate(
            "[...document.querySelectorAll('#found a')].slice(0, 3).map(a => a.href)"
        )
        first[question] = [hit.split("/book/")[-1] for hit in hits]
        if not any(
            hit.startswith(answer) for hit in first[question] for answer in answers
        ):
            missed.append((question, first[question]))
    assert len(first) >= 20
    assert missed == []


@pytest.mark.parametrize(
    "page",
    ["book/private_prediction.html", "book/implementations.html", "book/bagging.html"],
)
def test_on_a_phone_panels_stand_under_each_other(tab, page):
    visit(tab, page, width=390)
    assert tab.evaluate(BROKEN_IMAGES) == []
    taken = tab.evaluate(
        "[...document.querySelectorAll('main .cell_output figure img')].map(image =>"
        " image.currentSrc)"
    )
    assert taken
    assert [source for source in taken if not source.endswith(".narrow.png")] == []
    assert tab.evaluate("document.querySelectorAll('main figure.scrolls').length") == 0


def test_the_keyboard_reaches_what_a_mouse_does(tab):
    visit(tab, "book/foundations/votes.html", width=390)
    tab.keyboard.press("Tab")
    assert (
        tab.evaluate("document.activeElement.getAttribute('href')") == "#main-content"
    )
    folded, reached = tab.evaluate(FOLDED), set()
    for _ in range(400):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
            )
        )
        assert tab.evaluate(RING), tab.evaluate("document.activeElement.outerHTML")[
            :200
        ]
    assert folded
    assert set(folded) <= reached
    tab.evaluate("document.querySelector('main details.hide > summary').focus()")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.querySelector('main details.hide').open")


def test_one_switch_opens_what_is_folded_and_is_remembered(tab):
    page = (HTML / "book" / "bagging.html").as_uri()
    opened = "[...document.querySelectorAll('main details.fold-{}')].map(d => d.open)"
    tab.goto(page)
    names = tab.locator("main details.fold > summary").all_inner_texts()
    assert "Proof of Theorem 8.1" in names
    assert any(name.startswith("Code of Fig. 8.1, ") for name in names)
    assert tab.locator("main summary[aria-label]").count() == 0
    for depth, proofs, code in (
        ("the story", False, False),
        ("with proofs and details", True, False),
        ("everything, with code", True, True),
    ):
        tab.get_by_label(depth, exact=True).check()
        for _ in range(2):  # the next page, too
            for kind in ("proof", "more"):
                assert set(tab.evaluate(opened.format(kind))) == {proofs}
            assert set(tab.evaluate(opened.format("code"))) == {code}
            tab.goto(page)
    assert tab.faults == []


def dead_links(tab):
    """Links of a page to files of the book that are not there."""
    targets = tab.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)")
    paths = {
        unquote(urlsplit(target).path)
        for target in targets
        if target.startswith("file:")
    }
    return sorted(path for path in paths if not os.path.exists(path))


def test_the_first_page_leads_into_the_book(tab):
    tab.goto((HTML / "index.html").as_uri(), wait_until="commit")
    tab.wait_for_url("**/book/index.html")
    title = tab.inner_text("h1").strip("#\n ")
    assert tab.inner_text("body").count(title) == tab.title().count(title) == 1
    assert tab.faults == []


def test_search_finds_words_of_the_chapters(tab):
    tab.goto(f"{(HTML / 'search.html').as_uri()}?q=bagging")
    tab.wait_for_selector("#search-results li a")
    targets = tab.evaluate(
        "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
    )
    assert any("/book/bagging.html" in target for target in targets)
    assert tab.faults == []


@pytest.mark.parametrize(
    "chapter", chapters.all_chapters(), ids=lambda chapter: chapter.name
)
def test_a_chapter_can_be_downloaded_with_its_outputs_and_without_holes(tab, chapter):
    visit(tab, f"{chapter.folder}/{chapter.name}.html")
    target = tab.get_attribute("a.btn-download-source-button", "href")
    offered = json.loads((HTML / chapter.folder / target).read_text())
    committed = json.loads(chapter.source.read_text())
    kinds = [
        ["".join(cell["source"]) for cell in each["cells"] if cell["cell_type"] == kind]
        for each in (offered, committed)
        for kind in ("code", "markdown")
    ]
    code, text, committed_code, committed_text = kinds
    if code[0].startswith("%pip install"):
        code = code[1:]
    assert code == committed_code
    assert len(text) == len(committed_text)
    assert re.findall(r"\{[a-z:]+\}`[^`]*`|`{3,}\{[^\n]*", "\n".join(text)) == []
    assert any(cell.get("outputs") for cell in offered["cells"])


# Texts between dollars or \( \) that MathJax has left as they are, code apart.
RAW_MATHEMATICS = r"""() => {
  const article = document.querySelector('main').cloneNode(true);
  article.querySelectorAll('pre, code, script, style, mjx-container, a').forEach(e => e.remove());
  return article.textContent.match(/\$[^$\n]+\$|\\\(|\\\[|\\begin\{/g) ?? [];
}"""

# What scrolls and cannot be reached by the keyboard, or has no name.
NAMELESS = """() => [...document.querySelectorAll('main *')].filter(e => {
  const style = getComputedStyle(e);
  const scrolls = /auto|scroll/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1
    || /auto|scroll/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1;
  return scrolls && e.clientWidth && !e.closest('mjx-assistive-mml') && (e.tabIndex !== 0 || !e.ariaLabel);
}).map(e => e.outerHTML.slice(0, 200))"""

# Formulas on lines of their own that reach beyond their place, which scrolls.
CUT_FORMULAS = """() => [...document.querySelectorAll('main mjx-container[display]')].filter(e => {
  const right = part => part.getBoundingClientRect().right;
  return e.clientWidth && right(e.querySelector('mjx-math')) > right(e) + 1;
}).map(e => e.textContent)"""

# Where on a page, among all elements, the folds are that a reader can see.
FOLDED = """() => {
  const all = [...document.querySelectorAll('*')], folds = 'main summary, main .toggle-button';
  return all.filter(e => e.matches(folds) && e.checkVisibility()).map(e => all.indexOf(e));
}"""

# Whether the element that the keyboard is at, or what holds it, shows so.
RING = """() => {
  const shown = e => {
    const style = getComputedStyle(e);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none';
  };
  const here = document.activeElement;
  return here === document.body || shown(here) || shown(here.parentElement);
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

# Texts of a page with less contrast to their background than WCAG 2 asks for (AA),
# hidden ones apart.
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
    const style = getComputedStyle(element), drawn = element.closest('svg');
    // drawn on white, and dark pages invert both, but for what a reader moves
    const under = drawn && !drawn.closest('.live') ? [255, 255, 255] : background(element);
    const [a, b] = [luminance(over(parse(drawn ? style.fill : style.color), under)), luminance(under)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      found.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${node.textContent.trim().slice(0, 40)}`);
    }
  }
  return [...found].slice(0, 10);
}"""


MOVED = {
    "foundations/guarantee": ["fig-guarantee-drift", "fig-guarantee-trace"],
    "foundations/composition": ["fig-composition-drift"],
    "foundations/dp_sgd": ["fig-dpsgd-opening", "fig-dpsgd-steps"],
    "foundations/votes": ["fig-votes-opening"],
    "foundations/attacks": ["fig-attacks-slider"],
    "bagging": ["fig-bagging-tradeoff"],
    "private_prediction": ["fig-pp-idea", "fig-pp-which"],
    "choosing_epsilon": ["fig-choose"],
    "explorer": ["fig-explorer"],
}


@pytest.mark.parametrize("page", MOVED)
def test_every_slider_moves_its_figure_by_the_keyboard(tab, page):
    visit(tab, f"book/{page}.html")
    for name in MOVED[page]:
        figure = tab.locator(f"#{name} .live")
        for slider in figure.locator("input[type=range]").all():
            seen = set()
            for key in ("Home", "End"):
                slider.focus()
                tab.keyboard.press(key)
                seen.add(figure.locator("svg").inner_html() + figure.inner_text())
            assert len(seen) == 2
            tab.keyboard.press("Home")
    assert tab.faults == []


def test_the_explorer_hides_a_mechanism_and_keeps_its_state_in_the_address(tab):
    visit(tab, "book/explorer.html")
    tab.get_by_label("models N").focus()
    tab.keyboard.press("ArrowRight")
    tab.get_by_label("DP-SGD").uncheck()
    assert tab.locator("#fig-explorer td").count() == 9  # three numbers of three
    address = tab.url
    tab.goto((HTML / "book" / "index.html").as_uri())
    tab.goto(address)
    assert tab.locator("#fig-explorer td").count() == 9
    two = accounting.bagging(n=60_000, subsample=5000, n_models=2).advantage
    shown = tab.locator("#fig-explorer tr:has-text('bagging') td").first
    assert float(shown.inner_text()) == pytest.approx(two, rel=6e-3)
    assert tab.faults == []


def test_bells_can_be_moved_and_guessed_by_the_keyboard(tab):
    visit(tab, "book/foundations/guarantee.html")
    figure = tab.locator("#fig-guarantee-drift")
    assert not figure.locator("img").is_visible()
    figure.get_by_label("Noise").focus()
    for key, noise in (("Home", 0.25), ("End", 6.0)):
        tab.keyboard.press(key)
        right = (1 + accounting.gaussian(sigma=noise).advantage) / 2
        assert f"right in {right:.0%}".replace("%", " %") in figure.inner_text()
    tab.keyboard.press("Tab")
    for _ in range(4):  # publish, guess, publish, guess
        tab.keyboard.press("Enter")
    assert "of 2 so far" in figure.inner_text()
    picture = figure.locator("svg")
    wide = picture.get_attribute("viewBox")
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.wait_for_function(
        "wide => document.querySelector('.live svg').getAttribute('viewBox') !== wide",
        arg=wide,
    )
    tab.emulate_media(media="print")
    assert figure.locator("img").is_visible()
    assert not picture.is_visible()
    assert tab.faults == []
