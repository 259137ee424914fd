"""The first chapters answer twenty questions of a new reader, in their own words."""

import json
import tomllib
from pathlib import Path

import pytest

from dpnotes.lab import chapters

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
ALL = [(page, question, answer) for page, asked in QUESTIONS.items() for question, answer in asked.items()]


def test_there_are_twenty():
    assert len(ALL) == 20


@pytest.mark.parametrize(("page", "question", "answer"), ALL, ids=[question for _, question, _ in ALL])
def test_the_page_answers(page, question, answer):
    cells = json.loads(chapters.chapter(page).source.read_text())["cells"]
    text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert " ".join(answer.split()) in " ".join(text.split()), question
