"""Chapters as a reader re-executes them: by papermill alone, and by the command
line.
"""

import json
import os
import subprocess
import sys

import pytest

from dpnotes.lab import chapters

CHAPTERS = chapters.all_chapters()
# On a machine that only computes, there is no Jupyter Book: neither the command line
# nor a kernel may need it.
WITHOUT_BOOK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jupyter_book", "myst_nb", "sphinx"):
            raise ModuleNotFoundError(f"{name} is not here", name=name)

sys.meta_path.insert(0, Absent())
from dpnotes.lab.cli import main
main()
"""


def execute(command, repository, runs):
    places = {"PYTHONPATH": str(repository), "DPNOTES_RUNS": str(runs)}
    environment = {**os.environ, **places, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def quick(chapter):
    return ["-p", "scale", "quick"] if "scale" in chapter.parameters else []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_chapter_runs_at_quick_scale(chapter, repository, tmp_path):
    """One without a scale, and built as it is now, was executed like this for the
    book.
    """
    path = chapter.executed
    if "scale" in chapter.parameters or not chapter.is_fresh():
        run = [
            "-c",
            WITHOUT_BOOK,
            "run",
            chapter.name,
            *quick(chapter),
            "--out",
            str(tmp_path),
        ]
        execute(run, repository, tmp_path)
        # with parameters the name has six digits of theirs
        (path,) = tmp_path.glob(f"{chapter.name}*.ipynb")
    notebook = json.loads(path.read_text())
    assert notebook["metadata"]["dpnotes"]["parameters"] == dict(
        [quick(chapter)[1:]] if quick(chapter) else []
    )
    streams = [
        o
        for cell in notebook["cells"]
        for o in cell.get("outputs", [])
        if o.get("name") == "stderr"
    ]
    assert streams == []  # no warnings, no progress bars left behind


@pytest.mark.needs("pages")
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_page_is_light_and_shows_nothing_that_papermill_injects(chapter, repository):
    page = repository / "_build" / "html" / chapter.folder / f"{chapter.name}.html"
    assert page.stat().st_size < 1_500_000  # bytes
    assert "# Parameters" not in page.read_text(encoding="utf-8")


def test_plain_papermill_runs_the_bagging_chapter(repository, tmp_path):
    """Rows that are run go to the folder of runs; the published ones are not
    touched.
    """
    output = tmp_path / "out.ipynb"
    arguments = [
        "book/bagging.ipynb",
        str(output),
        "-p",
        "scale",
        "quick",
        "-p",
        "seeds",
        "1",
        "--no-progress-bar",
    ]
    execute(["-m", "papermill", *arguments], repository, tmp_path / "runs")
    assert json.loads(output.read_text())["metadata"]["papermill"]["exception"] is None
    assert list((tmp_path / "runs" / "bagging_table2a").glob("*.json"))
