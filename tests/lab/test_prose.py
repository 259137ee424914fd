"""Numbers of the text have a source, comparisons an assertion; and the tool that says so tells them apart."""

import json

import pytest
from click.testing import CliRunner

from dpnotes.lab import cli, prose

PAGES = {page.name: page for page in prose.pages()}
each_page = pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)


@each_page
def test_every_number_has_a_source(page):
    """Glue it, quote its words in the comment of an assertion, or list them with the reason in book/constants.toml."""
    typed = [f"{n.text}: {n.context}" for n in page.numbers() if n.source == "typed"]
    assert not typed, "\n".join(typed)


@each_page
def test_what_is_quoted_is_still_said(page):
    assert page.stale() == []


@each_page
def test_comparisons_are_asserted(page):
    """The comment of an assertion of the page quotes words of the sentence, or the sentence names a claim."""
    unasserted = [sentence for sentence, asserted in page.comparisons() if not asserted]
    assert not unasserted, "\n".join(unasserted)


def test_constants_are_of_pages_and_have_a_reason():
    listed = prose._constants(next(iter(PAGES.values())).path.parent / "constants.toml")
    assert set(listed) <= set(PAGES)
    for name, phrases in listed.items():
        numbers = PAGES[name].numbers()
        for phrase, reason in phrases.items():
            assert len(reason) > 5, phrase
            assert any(n.source == "constant" and n.text in phrase for n in numbers), f"{phrase!r} holds no number"


@pytest.fixture
def page(tmp_path):
    """Makes a page of a book with one printed value, 0.866."""

    def made(text, code="", constants=""):
        book = tmp_path / "book"
        (book / "results" / "published").mkdir(parents=True, exist_ok=True)
        (book / "results" / "published" / "toy_table1.csv").write_text("paper,value\nsomebody,0.866\n")
        (book / "constants.toml").write_text(constants)
        prose._constants.cache_clear()
        cells = [{"cell_type": "markdown", "source": [text]}, {"cell_type": "code", "source": [code]}]
        (book / "toy.ipynb").write_text(json.dumps({"cells": cells}))
        return prose.Page(book / "toy.ipynb")

    yield made
    prose._constants.cache_clear()


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("It reaches 12 points.", ["typed"]),
        ("It reaches {glue:text}`a` points.", ["glued"]),
        ("It reaches 1,234.5 or 10 %.", ["typed", "typed"]),
        ("Three of nine hold.", ["typed"]),
        ("None of the nine holds.", ["typed"]),
        ("The value is $0.43$.", ["typed"]),
        (r"So $\varepsilon = 0.43$, $x \approx 1.2 \pm 0.1$.", ["typed"] * 3),
        (r"So $\varepsilon = 3$, $10^{-5}$, $\tfrac{1}{2} x$ and $\delta$ = 3.", []),
        ("$$\nx = 0.5\n$$ (eq-a)", []),
        ("```{prf:theorem}\nAt most 12.\n```\nThen 13.", ["typed"]),
        (":::{note}\nAt most 12.\n:::", ["typed"]),
        ("````{admonition} A\n```python\n12\n```\n13\n````", ["typed"]),
        ("As in Table 2a, Figures 4 to 6, claims 3, 5 and 7, `x = 12` and {numref}`fig-3` of CIFAR-10.", []),
        ("See [the chapter](page12.html) of 2021, (2020).", []),
        ('The paper says "more than 12 points".', ["cited"]),
        ("The printed 86.6 % are not 0.867.", ["cited", "typed"]),
        ("We find 0.866.", ["typed"]),
        ("The {cite:t}`somebody` report 0.866. We find 12.", ["cited", "typed"]),
    ],
)
def test_sources_are_told_apart(page, text, sources):
    assert [number.source for number in page(text).numbers()] == sources


def test_an_assertion_carries_the_words_that_it_quotes(page):
    text = "It is 12 points ahead. It is 12 points\nbehind."
    code = 'for x in y:\n    assert x > (\n        12\n    )  # "12 points ahead"\nz = 1  # "12 points behind"\n'
    assert [n.source for n in page(text, code).numbers()] == ["asserted", "typed"]
    code = 'if x:  # "12 points behind", and "12 points ahead"\n    assert y'
    assert [n.source for n in page(text, code).numbers()] == ["asserted", "asserted"]
    assert page(text, code).assertions == [("assert y", ["12 points behind", "12 points ahead"])]
    assert page(text, 'assert y  # "13 points"').stale() == ["13 points"]


def test_a_constant_is_its_words_and_not_its_digits(page):
    listed = '[toy]\n"with 12 channels" = "the paper\'s"\n'
    found = page("A network with 12 channels gains 12 points.", constants=listed)
    assert [n.source for n in found.numbers()] == ["constant", "typed"]
    assert page("With 12.", constants=listed).stale() == ["with 12 channels"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Bagging is ahead of DP-SGD.", [False]),
        ("Bagging is ahead of DP-SGD, wrong by claim 7.", [True]),
        ("Bagging is one method. It is ahead.", []),
        ('The paper says "bagging beats DP-SGD".', []),
        ("DPBag is better. PATE is\nworse.", [False, True]),
    ],
)
def test_comparisons_are_found(page, text, found):
    assert [asserted for _, asserted in page(text, 'assert x  # "PATE is worse"').comparisons()] == found


def test_the_command_lists_assertions_and_fails_where_a_number_is_typed(page, monkeypatch):
    monkeypatch.setattr(prose, "pages", lambda: [page("It is 12 ahead, of 13.", 'assert x > 12  # "12 ahead"')])
    done = CliRunner().invoke(cli.main, ["check", "toy"])
    assert done.exit_code == 1
    assert "toy: 0 glued, 1 asserted, 0 cited, 0 constant, 1 typed; 1 assertions" in done.output
    assert "13" in done.output.splitlines()[1]
    assert "assert x > 12  '12 ahead'" in done.output
    monkeypatch.setattr(prose, "pages", lambda: [page("Nothing.")])
    assert CliRunner().invoke(cli.main, ["check"]).exit_code == 0
    assert "unknown page 'toys'; known: toy" in CliRunner().invoke(cli.main, ["check", "toys"]).output
