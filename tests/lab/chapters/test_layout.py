"""`dpnotes book`: what the wheel brings of the book, how it is laid out, and where
commands find it then.
"""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hatchling.builders.wheel import WheelBuilder

from dpnotes.lab import _places, cli
from dpnotes.lab._places import MARK, book_folder, published_store, runs_store
from dpnotes.lab.chapters import _layout, all_chapters, lay_out

HIDDEN = re.compile(r"/(\.|__pycache__)")  # caches and locks, which git ignores


def test_the_wheel_brings_all_that_the_book_is_made_of(repository):
    """Asked of the build back end, which builds nothing here."""
    # what hatchling would pack
    files = WheelBuilder(str(repository)).recurse_included_files()
    brought = {file.distribution_path.replace("\\", "/") for file in files}
    names = [
        path.relative_to(repository)
        for path in (repository / "book").rglob("*")
        if path.is_file()
    ]
    wanted = {
        f"dpnotes/lab/_book/{name.as_posix()}"
        for name in names
        if not HIDDEN.search(name.as_posix())
    }
    assert len(wanted) > 60
    assert wanted - brought == {"dpnotes/lab/_book/book/ruff.toml"}
    assert {
        "dpnotes/lab/_book/_config.yml",
        "dpnotes/lab/_book/_toc.yml",
        "dpnotes/py.typed",
    } < brought
    assert not any("tests/" in name or "benchmarks/" in name for name in brought)


@pytest.fixture
def source(tmp_path):
    """A small book as a wheel brings it."""
    root = tmp_path / "brought"
    for name, text in (
        ("_toc.yml", "root: book/index\n"),
        ("book/index.md", "one\n"),
        ("book/results/a.csv", "1\n"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class TestLayout:
    def test_into_a_new_folder_and_again(self, source, tmp_path):
        folder = tmp_path / "new" / "mine"
        assert lay_out(folder, source=source) == (
            ["_toc.yml", "book/index.md", "book/results/a.csv"],
            [],
        )
        laid = {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file()
        }
        assert laid == {MARK, "_toc.yml", "book/index.md", "book/results/a.csv"}
        assert lay_out(folder, source=source) == ([], [])

    def test_a_new_version_keeps_what_the_reader_changed(self, source, tmp_path):
        folder = tmp_path / "mine"
        lay_out(folder, source=source)
        (folder / "book" / "results" / "a.csv").write_text("1\n2\n")
        (folder / "notes.txt").write_text("my own")
        (source / "book" / "results" / "a.csv").write_text("1\n3\n")
        (source / "book" / "index.md").write_text("two\n")
        assert lay_out(folder, source=source) == (
            ["book/index.md"],
            ["book/results/a.csv"],
        )
        assert (folder / "book" / "index.md").read_text() == "two\n"
        assert (folder / "book" / "results" / "a.csv").read_text() == "1\n2\n"
        # asked again, it is still the reader's
        assert lay_out(folder, source=source)[1] == ["book/results/a.csv"]
        assert lay_out(folder, source=source, force=True) == (
            ["book/results/a.csv"],
            [],
        )
        assert (folder / "book" / "results" / "a.csv").read_text() == "1\n3\n"
        assert (folder / "notes.txt").read_text() == "my own"

    def test_an_interrupted_one_is_gone_on_with(self, source, tmp_path, monkeypatch):
        # the disk is full from some file on
        write = _layout._write
        folder = tmp_path / "mine"

        def full(path, content):
            if path.name == "index.md":
                raise OSError(28, "No space left on device")
            write(path, content)

        monkeypatch.setattr(_layout, "_write", full)
        with pytest.raises(OSError, match="No space"):
            lay_out(folder, source=source)
        monkeypatch.undo()
        assert lay_out(folder, source=source) == (
            ["book/index.md", "book/results/a.csv"],
            [],
        )

    @pytest.mark.parametrize("force", [False, True])
    def test_a_folder_of_something_else_is_refused(self, source, tmp_path, force):
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(
            ValueError,
            match=r"FOLDER must be new, empty, or made by `dpnotes book`.*other files",
        ):
            lay_out(tmp_path, source=source, force=force)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": [1]}'])
    def test_a_damaged_list_is_refused(self, source, tmp_path, text):
        folder = tmp_path / "mine"
        lay_out(folder, source=source)
        (folder / MARK).write_text(text)
        with pytest.raises(ValueError, match=r"dpnotes-book.json is damaged"):
            lay_out(folder, source=source)

    def test_in_a_checkout_there_is_nothing_to_lay_out(self, tmp_path):
        done = CliRunner().invoke(cli.main, ["book", str(tmp_path / "mine")])
        assert done.exit_code == 2
        assert "the book of the checkout" in done.output
        assert not (tmp_path / "mine").exists()


def test_the_real_book_can_be_laid_out(repository, tmp_path):
    """From the checkout's own files, as the wheel brings them: the chapters are
    found there.
    """
    shutil.copytree(repository / "book", tmp_path / "brought" / "book")
    shutil.copy(repository / "_toc.yml", tmp_path / "brought")
    lay_out(tmp_path / "mine", source=tmp_path / "brought")
    assert [c.name for c in all_chapters(tmp_path / "mine")] == [
        c.name for c in all_chapters()
    ]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as installed without a checkout, in an empty working directory;
    the book in the package.
    """
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
    outer = installed.parent
    inner = installed
    (outer / MARK).write_text("{}")
    assert book_folder() == outer
    assert runs_store("x") == outer / "runs" / "x"
    (inner / MARK).write_text("{}")
    assert book_folder() == inner
    assert published_store("x") == inner / "book" / "results" / "x.csv"


def test_else_an_error_names_the_command(installed):
    with pytest.raises(FileNotFoundError, match="make one with `dpnotes book FOLDER`"):
        book_folder()


def test_a_chapter_by_itself_reads_the_rows_of_the_package_and_writes_beside_it(
    installed, monkeypatch
):
    assert published_store("x") == _places.PACKAGED / "book" / "results" / "x.csv"
    assert runs_store("x") == Path.cwd() / "runs" / "x"
    monkeypatch.setenv("DPNOTES_RUNS", str(installed / "elsewhere"))
    assert runs_store("x") == installed / "elsewhere" / "x"
    monkeypatch.setattr(_places, "PACKAGED", installed / "nowhere")
    with pytest.raises(FileNotFoundError, match="dpnotes book"):
        published_store("x")
