"""Values of the text and sentences about the published rows: ``book/checks``."""

import json
import re

import pytest

from dpnotes.lab import chapters

CHAPTERS = chapters.all_chapters()
SHOWN = re.compile(r"\{glue:(?:text)?\}`([^`]+)`")
GLUED = re.compile(r"\bglue\(\s*\"([^\"]+)")
WRONG = """
def counted():
    return {"toy-count": 3}

def compared():
    assert 1 > 2  # "one is more than two"
"""


def sources(chapter, kind):
    cells = json.loads(chapter.source.read_text(encoding="utf-8"))["cells"]
    of_kind = [cell["source"] for cell in cells if cell["cell_type"] == kind]
    return "\n".join("".join(lines) for lines in of_kind)


def recorded(path):
    """Names of the values that an executed copy has for its text."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    found = [
        output["metadata"].get("scrapbook")
        for output in outputs
        if "metadata" in output
    ]
    return [each["name"] for each in found if each]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_what_the_text_shows_is_computed_once_and_shown(chapter):
    """Of a chapter that is built as it is now, the build ran the checks."""
    glued = GLUED.findall(sources(chapter, "code"))
    if chapters.checks_file(chapter).is_file():
        if chapter.is_fresh():
            names = recorded(chapter.executed)
        else:
            names = [*glued, *chapters.values_of_text(chapter)]
        assert len(names) == len(set(names))
        assert set(names) == set(SHOWN.findall(sources(chapter, "markdown")))
    assert len(glued) == len(set(glued))


def test_a_sentence_that_rows_contradict_is_named(tmp_path):
    chapter = chapters.Chapter("toy", root=tmp_path)
    assert chapters.values_of_text(chapter) == {}
    path = chapters.checks_file(chapter)
    path.parent.mkdir(parents=True)
    path.write_text(WRONG, encoding="utf-8")
    wrong = re.escape(f"{path}:6: the published rows contradict the text (compared):")
    with pytest.raises(chapters.BookError, match=wrong):
        chapters.values_of_text(chapter)
    path.write_text(WRONG.partition("def compared")[0], encoding="utf-8")
    assert chapters.values_of_text(chapter) == {"toy-count": 3}
