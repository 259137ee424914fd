"""Chapters as they are committed: clean, parameterised, and with fences that end
where they should.
"""

import json
import re

import pytest

from dpnotes.lab import chapters
from dpnotes.lab.store import book_folder

BOOK = book_folder() / "book"
CHAPTERS = chapters.all_chapters()
PAGES = [*sorted(BOOK.rglob("*.md")), *(chapter.source for chapter in CHAPTERS)]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FENCE = re.compile(r"^ {0,3}(?P<ticks>`{3,}|:{3,})(?P<info>[^`]*)$")

each_chapter = pytest.mark.parametrize(
    "chapter", CHAPTERS, ids=lambda chapter: chapter.name
)


def cells(path, kind):
    return [
        cell
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == kind
    ]


def texts(page):
    """Markdown of a page, in pieces that stand for themselves."""
    return (
        [page.read_text()]
        if page.suffix == ".md"
        else ["".join(c["source"]) for c in cells(page, "markdown")]
    )


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_tests_that_a_page_names_exist():
    """A table of pitfalls names the test that guards against each of them."""
    named = {
        found
        for page in PAGES
        for text in texts(page)
        for found in NAMED_TEST.findall(text)
    }
    assert named
    for file, name in sorted(named):
        source = (book_folder() / file).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in source, f"{file} has no {name}"


def fence_faults(text):
    """What is wrong with the fences of a Markdown text, in words."""
    faults = []
    outer, start, body = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if outer is None:
            if fence:
                outer, start, body = fence, number, []
                if not fence["info"].strip():
                    faults.append(
                        f"line {number}: a fence without a language or directive"
                        " begins, or one too many ends"
                    )
        elif (
            fence
            and fence["ticks"].startswith(outer["ticks"])
            and not fence["info"].strip()
        ):
            if outer["info"].startswith("{"):
                faults += [
                    f"in the fence of line {start}: {fault}"
                    for fault in fence_faults("\n".join(body))
                ]
            outer = None
        elif fence and fence["ticks"].startswith(outer["ticks"]):
            faults.append(
                f"line {number}: a fence as long as the one of line {start} around it,"
                " which ends too early"
            )
        else:
            body.append(line)
    if outer is not None:
        faults.append(f"line {start}: this fence never ends")
    if text.count("$$") % 2:
        faults.append("an odd number of $$")
    return faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("```{prf:proof}\na\n```", 0),
        ("````{prf:proof}\n```{math}\na\n```\n````", 0),
        (":::{note}\n```python\na\n```\n:::", 0),
        # the trap: it ends early, without any warning of Sphinx
        ("```{prf:proof}\n```{math}\na\n```\n```", 3),
        ("````{prf:proof}\n```{math}\na\n````", 1),
        ("```python\na", 1),
        ("$$ a", 1),
    ],
)
def test_faulty_fences_are_found(text, faults):
    assert len(fence_faults(text)) == faults


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_are_balanced(page):
    assert [fault for text in texts(page) for fault in fence_faults(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_section_begins_in_a_fold(page):
    """It would end the fold in the browser, and the rest of it would be open."""
    unclosed = 0
    for line in "\n".join(texts(page)).splitlines():
        unclosed += line.count("<details") - line.count("</details>")
        assert not (unclosed and line.startswith("## ")), line
    assert unclosed == 0


@each_chapter
def test_no_outputs_no_counts_and_nothing_of_a_machine(chapter):
    assert json.loads(chapter.source.read_text())["metadata"] == METADATA
    for cell in cells(chapter.source, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        assert set(cell["metadata"]) <= {"tags", "mystnb"}


@each_chapter
def test_parameters_come_first_each_with_a_comment(chapter):
    assert "parameters" in cells(chapter.source, "code")[0]["metadata"]["tags"]
    assert [
        parameter.name
        for parameter in chapter.parameters.values()
        if not parameter.help
    ] == []


@each_chapter
def test_what_is_valid_is_declared(chapter):
    """But for what is free text: the name of a machine, of papers, of a reader's own
    data.
    """
    free = {
        name
        for name, found in chapter.parameters.items()
        if not found.rule and type(found.default) is not bool
    }
    assert free <= {"dataset", "machine", "papers", "target"}


@each_chapter
def test_figures_have_a_name_a_caption_and_alternative_text(chapter):
    for cell in cells(chapter.source, "code"):
        if "figure" in (settings := cell["metadata"].get("mystnb", {})):
            assert {"name", "caption"} <= settings["figure"].keys()
            assert (
                "HTML(" in str(cell["source"]) or len(settings["image"]["alt"]) > 30
            ), settings["figure"]["name"]


def test_every_notebook_is_in_the_book():
    notebooks = sorted(
        path for path in BOOK.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
    )
    assert notebooks == sorted(chapter.source for chapter in CHAPTERS)
    assert len({chapter.name for chapter in CHAPTERS}) == len(CHAPTERS)
