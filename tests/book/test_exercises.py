"""Solutions of the exercises run, and pass the checks that readers' own code is put to."""

import json
import re

import pytest

from dpnotes import exercises
from dpnotes.lab import chapters

EXERCISE = re.compile(r"\*\*(\d+) \((?:[a-z ]+)(?:, `([\w-]+)`)?\)\.\*\*(.*?)(?=\n\*\*\d+ \(|\n## |\Z)", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def found(chapter):
    """Exercises of a chapter: number, name of its check, text with the solution."""
    cells = json.loads(chapter.source.read_text())["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return EXERCISE.findall(text)


COURSE = [c for c in chapters.all_chapters() if c.folder == "book/foundations" or found(c)]
ALL = [(chapter.name, *exercise) for chapter in COURSE for exercise in found(chapter)]


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_each_chapter_has_eight_to_ten(chapter):
    numbers = [int(number) for number, _, _ in found(chapter)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 8 <= len(numbers) <= 10
    assert all("Solution" in text for _, _, text in found(chapter))


@pytest.mark.parametrize(("chapter", "number", "name", "text"), ALL, ids=[f"{c}-{n}" for c, n, *_ in ALL])
def test_solutions_run_and_pass(chapter, number, name, text, capsys):
    namespace = {"__name__": "solution"}
    for code in CODE.findall(text):
        exec(code, namespace)
    if name:
        functions = [value for value in namespace.values() if getattr(value, "__module__", "") == "solution"]
        exercises.check(name, functions[-1])
        assert f"{name}: passed" in capsys.readouterr().out


def test_every_check_belongs_to_an_exercise():
    assert sorted(name for _, _, name, _ in ALL if name) == exercises.names()
