"""Where the book is: one rule for all commands, and what it gives for stores."""

from pathlib import Path

import pytest

from dpnotes.lab import _places
from dpnotes.lab._places import MARK, book_folder, published_store, runs_store


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as installed without a checkout, in an empty working directory; the book in the package."""
    monkeypatch.setattr(_places, "CHECKOUT", tmp_path / "site-packages")
    monkeypatch.setattr(_places, "PACKAGED", tmp_path / "site-packages" / "_book")
    monkeypatch.delenv("DPNOTES_RUNS", raising=False)
    work = tmp_path / "home" / "work"
    for folder in (work, _places.PACKAGED / "book" / "results"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def test_the_checkout_comes_first(repository, tmp_path, monkeypatch):
    (tmp_path / MARK).write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPNOTES_RUNS", raising=False)
    assert book_folder() == repository
    assert published_store("x") == repository / "book" / "results" / "x.csv"
    assert runs_store("x") == repository / "runs" / "x"
    assert (book_folder() / "dpnotes" / "lab" / "_places.py").is_file()


def test_else_it_is_the_nearest_folder_that_was_laid_out(installed):
    outer, inner = installed.parent, installed
    (outer / MARK).write_text("{}")
    assert book_folder() == outer
    assert runs_store("x") == outer / "runs" / "x"
    (inner / MARK).write_text("{}")
    assert book_folder() == inner
    assert published_store("x") == inner / "book" / "results" / "x.csv"


def test_else_an_error_names_the_command(installed):
    with pytest.raises(FileNotFoundError, match="make one with `dpnotes book FOLDER`"):
        book_folder()


def test_a_chapter_by_itself_reads_the_rows_of_the_package_and_writes_beside_it(installed, monkeypatch):
    assert published_store("x") == _places.PACKAGED / "book" / "results" / "x.csv"
    assert runs_store("x") == Path.cwd() / "runs" / "x"
    monkeypatch.setenv("DPNOTES_RUNS", str(installed / "elsewhere"))
    assert runs_store("x") == installed / "elsewhere" / "x"
    monkeypatch.setattr(_places, "PACKAGED", installed / "nowhere")
    with pytest.raises(FileNotFoundError, match="dpnotes book"):
        published_store("x")
