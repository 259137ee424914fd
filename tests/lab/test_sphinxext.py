"""What the extension of the book sets: links where the repository's address is told,
pictures that phones take.
"""

import base64
import hashlib
import json
from types import SimpleNamespace

import pytest
from sphinx.errors import ConfigError

from dpnotes.lab import sphinxext
from dpnotes.lab.chapters import Chapter
from dpnotes.lab.experiments import verified
from dpnotes.lab.figures import NARROW

GIVEN = {"repository_url": "", "navbar_persistent": []}


def options(monkeypatch, address):
    monkeypatch.setenv("DPNOTES_REPOSITORY", address)
    config = SimpleNamespace(html_theme_options=dict(GIVEN))
    sphinxext.link_repository(None, config)
    return config.html_theme_options


def test_without_an_address_there_are_no_links(monkeypatch):
    assert options(monkeypatch, "") == GIVEN


@pytest.mark.parametrize(
    ("address", "url", "branch", "provider"),
    [
        (
            "https://github.com/owner/name",
            "https://github.com/owner/name",
            "main",
            "github",
        ),
        (
            "https://github.com/owner/name.git",
            "https://github.com/owner/name",
            "main",
            "github",
        ),
        (
            "https://git.example.org/owner/name/@release/1",
            "https://git.example.org/owner/name",
            "release/1",
            "gitlab",
        ),
    ],
)
def test_an_address_brings_links_and_a_launch_button(
    monkeypatch, address, url, branch, provider
):
    found = options(monkeypatch, address)
    assert found["navbar_persistent"] == []
    assert [found[f"repository_{name}"] for name in ("url", "branch", "provider")] == [
        url,
        branch,
        provider,
    ]
    assert found["use_repository_button"]
    assert found["launch_buttons"]["binderhub_url"].startswith("https://")


@pytest.mark.parametrize(
    "address",
    ["github.com/owner/name", "https://github.com/owner", "git@host:owner/name", "x"],
)
def test_what_is_no_address_is_refused(monkeypatch, address):
    with pytest.raises(
        ConfigError, match="DPNOTES_REPOSITORY must be https://HOST/OWNER/NAME"
    ):
        options(monkeypatch, address)


@pytest.mark.parametrize(
    "quoted",
    [str, lambda text: json.dumps({"cells": [text]}, indent=1)],
    ids=["page", "notebook"],
)
def test_pages_name_the_source_of_the_package(monkeypatch, quoted):
    """As a clone has it, unless there is an address; what is said of a clone or a
    wheel is left alone.
    """
    given = '`pip install ".[book,pdf]"`, `pip install .`'
    kept = '`pip install -e ".[lab]"`, `pip install "a.whl[book]"`'
    told = (
        '`pip install "dpnotes[book,pdf] @ {0}"`, `pip install "dpnotes @ {0}"`'.format(
            "git+https://host/owner/name@b"
        )
    )
    source = [quoted(given + kept)]
    monkeypatch.delenv("DPNOTES_REPOSITORY", raising=False)
    sphinxext.name_source(None, "page", source)
    assert source == [quoted(given + kept)]
    monkeypatch.setenv("DPNOTES_REPOSITORY", "https://host/owner/name@b")
    sphinxext.name_source(None, "page", source)
    assert source == [quoted(told + kept)]


def test_no_address_is_in_the_tree(repository):
    """The same sources are built anywhere; who publishes them tells the address."""
    container = json.loads(
        (repository / ".devcontainer" / "devcontainer.json").read_text()
    )
    assert "make setup" in container["postCreateCommand"]
    assert "dpnotes" in container["name"]
    binder = (repository / ".binder" / "requirements.txt").read_text()
    assert "-e .[book,lab]" in binder
    for name in (
        "_config.yml",
        ".devcontainer/devcontainer.json",
        ".binder/requirements.txt",
        "README.md",
    ):
        assert "github.com/" not in (repository / name).read_text()


def test_a_phone_is_offered_the_picture_that_a_figure_has_for_it(tmp_path):
    png = b"the usual picture"
    phone = b"that for a phone"
    shown = {
        "image/png": base64.b64encode(png).decode(),
        NARROW: base64.b64encode(phone).decode(),
    }
    output = {
        "cells": [
            {
                "metadata": {},
                "outputs": [
                    {"data": shown},
                    {"data": {"image/png": ""}},
                    {"text": "printed"},
                ],
            },
            {"metadata": {}},
        ]
    }
    executed = tmp_path / "_build" / "executed" / "book" / "page.ipynb"
    executed.parent.mkdir(parents=True)
    executed.write_text(json.dumps(output))
    name = hashlib.sha256(png).hexdigest()
    app = SimpleNamespace(
        srcdir=tmp_path,
        outdir=tmp_path,
        env=SimpleNamespace(doc2path=lambda page: tmp_path / f"{page}.ipynb"),
    )
    image = f'<img alt="a" src="../_images/{name}.png" />'
    other = '<img alt="b" src="../_images/other.png" />'
    context = {"body": image + other}
    sphinxext.offer_narrow(app, "book/page", "", context, "a tree")
    source = (
        f'<source media="(max-width: 576px)" srcset="../_images/{name}.narrow.png" />'
    )
    assert context["body"] == f"<picture>{source}{image}</picture>{other}"
    assert (tmp_path / "_images" / f"{name}.narrow.png").read_bytes() == phone


def test_words_that_a_chapter_saved_are_read_without_quotation_marks(tmp_path):
    chapter = Chapter("toy", tmp_path)
    chapter.executed.parent.mkdir(parents=True)
    saved = {
        "metadata": {"scrapbook": {"name": "toy-verdict", "mime_prefix": "record/"}},
        "data": {"record/text/plain": repr("nine agree")},
    }
    cell = {"metadata": {}, "outputs": [saved]}
    chapter.executed.write_text(json.dumps({"cells": [cell]}))
    assert sphinxext._glued(chapter) == {"toy-verdict": "nine agree"}


def test_a_constant_is_not_described_in_the_words_of_its_type():
    borrowed = (str.__doc__ or "").splitlines()
    own = ["The level of all intervals."]
    for lines in (borrowed, own):
        sphinxext.leave_constants(None, "data", "LEVEL", "text", None, lines)
    assert (borrowed, own) == ([], ["The level of all intervals."])


def test_per_cent_is_written_in_one_way_but_in_code_and_in_markup():
    body = "<p>{}</p><i style='width: 5%'>{}</i><code>a % 2, 7%</code>"
    context = {"script_files": [], "css_files": []}
    context["body"] = body.format("90.66% and 95 %", "of 3\N{NO-BREAK SPACE}%")
    sphinxext.tidy(None, "page", "page.html", context, None)
    one_way = ("90.66 % and 95 %", "of 3 %")
    shown = (text.replace(" %", "\N{NO-BREAK SPACE}%") for text in one_way)
    assert context["body"] == body.format(*shown)


def test_bookkeeping_is_one_folded_note_at_the_foot():
    box = (
        "```{admonition} To run this notebook\n:class: tip dropdown\nFirst set"
        " up.\n```\n\n"
    )
    title = {"cell_type": "markdown", "metadata": {}}
    code = {"cell_type": "code", "metadata": {}, "outputs": []}
    for chapter, told in (("bagging", [verified("bagging"), ""]), ("votes", [])):
        cells = [{**title, "source": ["# A\n\n", box, "Text."]}, code]
        sphinxext._fold_bookkeeping(cells, chapter)
        assert cells[0]["source"] == "# A\n\nText."
        foot = [*told, "First set up.", "```"]
        assert cells[2]["source"].splitlines()[2:] == foot


def test_a_page_has_the_answers_of_its_own_exercises_that_ask_for_numbers():
    named = '<span class="pre">guarantee-4</span>, <span class="pre">dp-sgd-6</span>'
    context = {"body": named}
    sphinxext.ask_in_page(None, "page", "", context, None)
    found = context["body"].removeprefix(named).partition(">")[2]
    asked = json.loads(found.removesuffix("</script>"))
    [(name, (right, [[hint, wrong]]))] = asked.items()
    assert name == "guarantee-4"
    assert right[0] == 2.0
    assert "part (b)" in hint
    assert wrong[0] is None
    empty = {"body": "text"}
    sphinxext.ask_in_page(None, "page", "", empty, None)
    assert empty == {"body": "text"}


@pytest.mark.parametrize(
    ("formula", "after", "kept"),
    [("d", ",", ","), ("d", "-private data", "-private"), ("d" * 70, "-private", "")],
)
def test_what_follows_a_formula_stays_with_it_if_a_phone_has_the_room(
    formula, after, kept
):
    shown = f'<span class="math notranslate nohighlight">{formula}</span>'
    context = {"script_files": [], "css_files": [], "body": f"{shown}{after}"}
    sphinxext.tidy(None, "page", "page.html", context, None)
    together = f'<span class="keep">{shown}{kept}</span>' if kept else shown
    assert context["body"] == together + after.removeprefix(kept)
