"""Chapters of a toy book: parameters, execution, freshness. No chapter of the real
book is run here.
"""

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dpnotes.lab import chapters, store
from dpnotes.lab.chapters import _chapter, _display, _execute

CELL = """
scale = "paper"  # "paper" or "quick"
epsilon = 1.0  # privacy budget
seeds = 5
replace = True
sizes = [300, 500]  # records drawn
rates = [0.1, 0.2]  # learning rates
"""
# starting a kernel brings warnings of libraries that are not ours
kernel = pytest.mark.filterwarnings("default")


def notebook(*cells, tags=("parameters",)):
    """A notebook of code cells, the first of them tagged."""
    made = [
        {
            "cell_type": "code",
            "id": f"c{i}",
            "metadata": {},
            "source": cell,
            "outputs": [],
            "execution_count": None,
        }
        for i, cell in enumerate(cells)
    ]
    made[0]["metadata"] = {"tags": list(tags)}
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {
            "cells": made,
            "metadata": {"kernelspec": spec},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.fixture
def book(tmp_path):
    """A checkout with two chapters, given out of alphabetical order, and two other
    pages.
    """
    for folder in ("book/results/published", "dpnotes"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nparts:\n- caption: A\n  chapters:\n  -"
        " file: book/zebra\n    sections:\n    - file: book/ant\n- caption: B\n "
        " chapters:\n  - file: book/api\n"
    )
    (tmp_path / "dpnotes" / "core.py").write_text("x = 1\n")
    (tmp_path / "book" / "zebra.ipynb").write_text(
        notebook(
            "n = 1\ncompute = 'missing'", "import os\nprint(n, compute, os.getcwd())"
        )
    )
    (tmp_path / "book" / "ant.ipynb").write_text(notebook("n = 1", "1 / (n - 1)"))
    (tmp_path / "book" / "not_in_the_book.ipynb").write_text(notebook("n = 1"))
    return tmp_path


def printed(path):
    cells = json.loads(Path(path).read_text())["cells"]
    return "".join(
        "".join(output.get("text", ""))
        for cell in cells
        for output in cell.get("outputs", [])
    )


class TestParameters:
    def test_names_defaults_and_comments_are_read(self):
        found = _chapter.parse(CELL, "toy")
        assert {name: p.default for name, p in found.items()} == {
            "scale": "paper",
            "epsilon": 1.0,
            "seeds": 5,
            "replace": True,
            "sizes": [300, 500],
            "rates": [0.1, 0.2],
        }
        assert found["scale"].help == '"paper" or "quick"'
        assert found["rates"].help == "learning rates"
        assert found["seeds"].help == ""

    @pytest.mark.parametrize(
        ("name", "given", "value"),
        [
            ("scale", "quick", "quick"),
            ("scale", "1", "1"),  # text stays text
            ("epsilon", "1e-6", 1e-6),
            ("epsilon", "2", 2.0),
            ("epsilon", 2, 2.0),
            ("seeds", " 7", 7),
            ("seeds", "-1", -1),
            ("replace", "false", False),
            ("replace", "True", True),
            ("sizes", "[200, 800]", [200, 800]),
            ("sizes", "200, 800", [200, 800]),
            ("sizes", "[]", []),
            ("rates", "[1, 2.5]", [1.0, 2.5]),
        ],
    )
    def test_values_take_the_type_of_the_default(self, name, given, value):
        checked = _chapter.check(_chapter.parse(CELL, "toy"), {name: given}, "toy")[
            name
        ]
        assert checked == value
        assert type(checked) is type(value)

    @pytest.mark.parametrize(
        ("name", "given", "message"),
        [
            ("epsilon", "abc", "must be a number, such as 1.0, got 'abc'"),
            ("epsilon", "True", "must be a number"),
            ("epsilon", "__import__('os')", "must be a number"),
            ("seeds", "2.5", "must be a whole number, such as 5, got '2.5'"),
            ("seeds", "true", "must be a whole number"),
            ("seeds", "", "must be a whole number"),
            ("replace", "1", "must be True or False, such as True, got '1'"),
            ("replace", "yes", "must be True or False"),
            ("scale", 3, "must be text, such as 'paper', got 3"),
            ("sizes", "300", "must be a list, such as .*300, 500.*, got '300'"),
        ],
    )
    def test_ill_typed_values_are_refused(self, name, given, message):
        with pytest.raises(
            TypeError, match=f"parameter '{name}' of chapter 'toy' {message}"
        ):
            _chapter.check(_chapter.parse(CELL, "toy"), {name: given}, "toy")


class TestRules:
    @pytest.mark.parametrize(
        ("line", "valid", "wrong"),
        [
            (
                'scale = "a"  # one of "a", "b c": of the grid',
                ["a", "b c"],
                ["", "c", '"a"'],
            ),
            ("n = 2  # one of 1, 2", [1, 2], [0, 3]),
            ("n = 1  # >= 1: records", [1, 10**9], [0, -1]),
            ("x = 1.0  # > 0", [1e-9, 3], [0, -1, "1e999"]),
            ("x = 1.0  # <= 1.5", [1.5, -2], [1.51, "-1e999"]),
            ("x = 0.5  # in (0, 1]: a fraction: small", [1e-9, 1], [0, 1.001]),
            ("x = 0.5  # in [0, 1)", [0, 0.999], [-0.1, 1]),
            ("n = 0  # 0 or >= 2", [0, 2, 3], [1, -1]),
            ("n = 1  # -1 or in [1, 4]", [-1, 1, 4], [0, 5]),
            (
                "sizes = []  # each >= 1",
                ["[]", "[1, 2]"],
                ["[1, 0]", "[2.5]", "['a']", "[True]"],
            ),
            ("rates = []  # each > 0.0", ["[1, 0.5]"], ["[0]"]),
            ('names = ["a"]  # each one of "a", "b"', ["['b', 'a']"], ["['c']", "[1]"]),
        ],
    )
    def test_values_are_held_against_the_rule(self, line, valid, wrong):
        found = _chapter.parse(line, "toy")
        (name,) = found
        for value in valid:
            _chapter.check(found, {name: value}, "toy")
        for value in wrong:
            with pytest.raises(
                ValueError, match=f"parameter '{name}' of chapter 'toy' must be "
            ):
                _chapter.check(found, {name: value}, "toy")

    @pytest.mark.parametrize(
        ("line", "given", "message"),
        [
            (
                's = "a"  # one of "a", "b": h',
                "quik",
                'must be one of "a", "b", got \'quik\'',
            ),
            (
                "n = [2]  # each >= 1: h",
                "[50, -5]",
                "must be a list, each >= 1, whole numbers, got -5 in [50, -5]",
            ),
            ("x = 0.5  # in (0, 1): h", "1", "must be in (0, 1), got 1.0"),
        ],
    )
    def test_an_error_names_the_value_and_what_is_valid(self, line, given, message):
        found = _chapter.parse(line, "toy")
        with pytest.raises(ValueError, match=re.escape(message) + "$"):
            _chapter.check(found, dict.fromkeys(found, given), "toy")

    @pytest.mark.parametrize(
        "line",
        [
            'scale = "c"  # one of "a", "b"',  # its default is none of them
            "n = 1  # >= : records",
            "x = 0.5  # in (0, 1",
            "n = 0  # 0 or > two: x",
        ],
    )
    def test_a_rule_that_cannot_be_read_is_refused(self, line):
        with pytest.raises(ValueError, match="chapter 'toy'"):
            _chapter.parse(line, "toy")


class TestBook:
    def test_chapters_are_the_notebooks_of_the_contents_in_their_order(self, book):
        assert [chapter.name for chapter in chapters.all_chapters(book)] == [
            "zebra",
            "ant",
        ]

    def test_importing_the_package_is_cheap(self):
        heavy = "{'papermill', 'nbformat', 'IPython', 'pandas', 'torch', 'sphinx'}"
        code = (
            f"import sys, dpnotes.lab.chapters, dpnotes.lab.cli; assert not {heavy} &"
            " set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_the_digest_covers_all_that_a_chapter_shows_and_nothing_else(self, book):
        zebra = chapters.chapter("zebra", book)
        digests = [zebra.digest()]

        def changed():
            digests.append(zebra.digest())
            return digests[-1] not in digests[:-1]

        assert (
            zebra.digest({"compute": "all"})
            != zebra.digest({"compute": "stored"})
            == zebra.digest()
        )
        for path in (
            "book/zebra.ipynb",
            "dpnotes/core.py",
            "dpnotes/new/module.py",
            "book/results/zebra_table1.csv",
            "book/results/published/zebra.csv",
            "book/results/published/findings_zebra.csv",
            "book/evidence/zebra_evidence.ipynb",
        ):
            # new files count, too
            (book / path).parent.mkdir(exist_ok=True)
            with (book / path).open("a") as file:
                file.write("\n")
            assert changed(), path
        for path in ("book/ant.ipynb", "book/results/ant.csv", "README.md"):
            (book / path).write_text("\n")
            assert not changed(), path

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "{}",
            "[]",
            '{"metadata": null}',
            '{"metadata": {"dpnotes": 3}}',
            "\udcff",
        ],
    )
    def test_a_damaged_copy_is_not_fresh(self, book, content):
        zebra = chapters.chapter("zebra", book)
        zebra.executed.parent.mkdir(parents=True)
        zebra.executed.write_bytes(content.encode(errors="surrogateescape"))
        assert not zebra.is_fresh()

    def test_a_file_that_a_parameter_names_counts(self, book, tmp_path):
        zebra = chapters.chapter("zebra", book)
        own = tmp_path / "own.csv"
        digests = set()
        names = {zebra.run_name({}), zebra.run_name({"n": 2})}
        for content in ("a", "b"):
            own.write_text(content)
            digests.add(zebra.digest({"dataset": str(own)}))
            # a file that changed is another run
            names.add(zebra.run_name({"dataset": str(own)}))
        assert len(digests) == 2
        assert len(names) == 4  # none is executed into the notebook of another


def square(x):
    return {"y": x * x}


# the corrections need none of this package
CHECKED = [each for each in chapters.all_chapters() if "corrections" not in each.folder]


@pytest.mark.parametrize("chapter", CHECKED, ids=lambda chapter: chapter.name)
def test_a_chapter_checks_its_parameters_first_whoever_set_them(chapter):
    cells = json.loads(chapter.source.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    imports = (ast.ImportFrom, ast.Import)
    first = next(
        part for part in ast.parse(code[1]).body if not isinstance(part, imports)
    )
    call = rf'(begin|check_parameters)\("{chapter.name}", globals\(\)\)'
    assert re.search(call, ast.unparse(first).replace("'", '"'))
    # valid together, so that one wrong value is found
    own = {name: each.default for name, each in chapter.parameters.items()}
    for name in own:
        with pytest.raises((TypeError, ValueError), match=f"parameter '{name}' of"):
            chapters.check_parameters(chapter.name, own | {name: object()})
    chapters.check_parameters(chapter.name, own)


def test_a_device_that_is_not_here_is_named_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("bagging", "intrinsic_sgd_evidence"):
        with pytest.raises(ValueError, match="PyTorch sees no GPU"):
            chapters.chapter(name).check({"device": "cuda"})


def test_a_run_shows_titles_what_is_reused_and_a_bar(tmp_path):
    shown = io.StringIO()
    grid = [{"x": x} for x in range(3)]
    store.sweep(square, grid[:1], store=tmp_path / "rows", progress=False)
    with _execute._shown(0.0, shown) as hooks:
        for kind, source in (
            ("code", "# no title"),
            ("markdown", "(label)=\n## The rows\nText"),
            ("markdown", "Text"),
        ):
            hooks["on_cell_start"](
                cell={"cell_type": kind, "source": source}, cell_index=0
            )
        store.sweep(square, grid, store=tmp_path / "rows", progress=False)
    assert "DPNOTES_PROGRESS" not in os.environ
    lines = shown.getvalue().replace("\r", "\n").splitlines()
    assert [line.split(" s  ")[1:] for line in lines[:1]] == [["The rows"]]
    assert lines[1] == "test_chapters.square: 1 of 3 rows were there"
    assert "2/2" in lines[-1]


@kernel
class TestExecute:
    def test_a_fresh_copy_is_published_with_its_parameters_and_grows_stale(self, book):
        zebra = chapters.chapter("zebra", book)
        assert not zebra.is_fresh()
        assert chapters.execute(zebra, {"compute": "stored"}, zebra.executed) > 0
        assert printed(zebra.executed) == f"1 stored {book}\n"
        recorded = json.loads(zebra.executed.read_text())["metadata"]["dpnotes"]
        assert recorded["digest"] == zebra.digest()
        assert recorded["parameters"] == {"compute": "stored"}
        assert zebra.is_fresh()
        assert [path.name for path in zebra.executed.parent.iterdir()] == [
            "zebra.ipynb"
        ]
        (book / "dpnotes" / "core.py").write_text("x = 2\n")
        assert not zebra.is_fresh()

    def test_what_is_unchanged_need_not_be_executed_again(self, book, tmp_path):
        # papermill formats paths
        zebra = chapters.chapter("zebra", book)
        folder = tmp_path / "{n} runs"
        output = folder / "zebra.ipynb"
        given = {"compute": "missing"}
        assert not chapters.is_unchanged(zebra, given, output)
        chapters.execute(zebra, given, output)
        assert printed(output) == f"1 missing {book}\n"
        assert chapters.is_unchanged(zebra, given, output)
        assert not chapters.is_unchanged(zebra, {"compute": "stored"}, output)
        everything = json.loads(output.read_text())
        everything["metadata"]["dpnotes"]["digest"] = zebra.digest({"compute": "all"})
        (folder / "all.ipynb").write_text(json.dumps(everything))
        assert not chapters.is_unchanged(
            zebra, {"compute": "all"}, folder / "all.ipynb"
        )
        # a row that was computed since then
        (folder / "zebra_table").mkdir()
        (folder / "zebra_table" / "0123456789ab.json").write_text("a row")
        assert not chapters.is_unchanged(zebra, given, output)

    def test_kernels_that_start_together_take_no_ports_from_each_other(
        self, book, tmp_path
    ):
        # a port is found free before its kernel takes it
        (book / "book" / "zebra.ipynb").write_text(
            notebook(
                "n = 1",
                "from ipykernel.connect import get_connection_info\n"
                "print(get_connection_info(unpack=True)['transport'])",
            )
        )
        output = tmp_path / "zebra.ipynb"
        chapters.execute(chapters.chapter("zebra", book), {}, output)
        assert printed(output) == ("ipc\n" if os.name == "posix" else "tcp\n")

    def test_a_kernel_that_does_not_start_is_named(self, book, tmp_path):
        spec = {"display_name": "", "language": "python", "argv": ["false"]}
        folder = tmp_path / "kernels" / "python3"
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps(spec))
        output = tmp_path / "zebra.ipynb"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUPYTER_PATH", str(tmp_path))
            with pytest.raises(chapters.BookError, match="'zebra': its kernel died"):
                chapters.execute(chapters.chapter("zebra", book), {}, output)
        assert not output.exists()

    def test_a_failed_run_is_never_published(self, book, tmp_path):
        ant = chapters.chapter("ant", book)
        output = tmp_path / "out" / "ant.ipynb"
        output.parent.mkdir()
        output.write_text("the run before")
        ended = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"],
            capture_output=True,
            text=True,
        )
        (output.parent / f"ant.{int(ended.stdout)}-1.partial.ipynb").write_text(
            "left by a killed process"
        )
        (output.parent / f"ant.{os.getpid()}-1.partial.ipynb").write_text(
            "another run, of this process"
        )
        with pytest.raises(
            chapters.BookError,
            match=r"chapter 'ant' failed in cell 2: ZeroDivisionError.*partial",
        ) as e:
            chapters.execute(ant, {}, output)
        assert "1 / (n - 1)" in e.value.trace
        # a failure leaves it alone
        assert output.read_text() == "the run before"
        assert "ZeroDivisionError" in (output.parent / "ant.partial.ipynb").read_text()
        chapters.execute(ant, {"n": 3}, output)
        names = sorted(path.name for path in output.parent.iterdir())
        assert names == [f"ant.{os.getpid()}-1.partial.ipynb", "ant.ipynb"]

    def test_a_book_with_a_failing_chapter_is_not_built(self, book, capfd):
        with pytest.raises(
            chapters.BookError, match="1 of 2 chapters failed; the book was not built"
        ):
            chapters.build(root=book)
        out, err = capfd.readouterr()
        assert "ant                     FAILED" in out
        assert "ZeroDivisionError" in err
        assert chapters.chapter("zebra", book).is_fresh()  # what could be executed was
        assert not (book / "_build" / "html").exists()


class TestSource:
    def test_source_is_shown_without_its_docstring(self):
        shown = _display.source(_display.source)
        assert shown.startswith("# dpnotes/lab/chapters/_display.py\ndef source(")
        assert "Examples" not in shown
