"""What a run of a chapter needs is known before a kernel is started."""

import ast
import json
import re

import pytest

from dpnotes.lab import chapters
from dpnotes.lab.plans import PLANS, check_plan

RUNNING = [chapter.name for chapter in chapters.all_chapters() if "scale" in chapter.parameters]


def parameters(chapter, **own):
    return {p.name: p.default for p in chapters.chapter(chapter).parameters.values()} | own


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DPNOTES_RUNS", str(tmp_path / "runs"))


def runs(chapter):
    """Names of the experiments whose rows a chapter may run: calls with a ``compute`` other than "stored"."""
    cells = json.loads(chapters.chapter(chapter).source.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for call in (node for cell in code for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        computed = [keyword.value for keyword in call.keywords if keyword.arg == "compute"]
        if name == "rows_of":
            yield f"{chapters.chapter(chapter).of}_{ast.literal_eval(call.args[0])}"
        elif name == "experiments.rows" and computed and ast.unparse(computed[0]) != "'stored'":
            yield re.sub(r"f?'|\{name\}|'", "", ast.unparse(call.args[0]))


@pytest.mark.parametrize("chapter", RUNNING)
def test_all_that_a_chapter_runs_is_in_its_plan(chapter):
    plan = PLANS[chapters.chapter(chapter).of]
    planned = [name for scale in ("paper", "quick") for name, *_ in plan(parameters(chapter, scale=scale))]
    for name in runs(chapter):
        assert any(plan.startswith(name) for plan in planned), name


def test_chapters_with_a_scale_have_a_plan():
    assert {chapters.chapter(name).of for name in RUNNING} == set(PLANS)


@pytest.mark.parametrize("chapter", RUNNING)
@pytest.mark.parametrize("own", [{"scale": "quick"}, {"compute": "stored"}], ids=str)
def test_neither_the_quick_scale_nor_published_rows_need_data(chapter, own):
    check_plan(chapter, parameters(chapter, **own))


@pytest.mark.parametrize(
    ("chapter", "own", "message"),
    [
        (
            "bagging",
            {"subsample_sizes": [200]},
            "would run 5 rows that need 'mnist', not in .*: dpnotes data fetch",
        ),
        ("bagging", {"compute": "all", "gaps": "run"}, "'fashion_mnist'.* dpnotes data fetch fashion_mnist"),
        (
            "dpbag",
            {"compute": "all"},
            "'adult' and 'diabetes130', not in .*fetch adult; .*fetch diabetes130",
        ),
        ("intrinsic_sgd", {"dataset": "covertype", "n_seeds": 7}, "dpnotes data fetch covertype"),
        ("private_prediction", {"compute": "all"}, "would run [0-9]+ rows that need 'mnist', not in"),
    ],
)
def test_data_that_are_not_here_are_named_with_what_would_bring_them(chapter, own, message):
    with pytest.raises(FileNotFoundError, match=message):
        check_plan(chapter, parameters(chapter, **own))


@pytest.mark.parametrize(
    ("chapter", "own", "message"),
    [
        (
            "bagging",
            {"scale": "quick", "subsample_sizes": [50, 5000]},
            r"in \[1, 1442\].* got 5000 in \[50, 5000\]",
        ),
        ("intrinsic_sgd", {"learning_rate": 9.0}, "learning_rate must be <= "),
        ("intrinsic_sgd", {"dataset": "adlut"}, "dataset must be one of"),
    ],
)
def test_what_depends_on_the_data_is_checked_as_well(chapter, own, message):
    with pytest.raises(ValueError, match=message):
        check_plan(chapter, parameters(chapter, **own))


@pytest.mark.parametrize("chapter", PLANS)
def test_a_file_that_is_not_there_is_said(chapter):
    with pytest.raises(FileNotFoundError, match=r"no such file|no file"):
        check_plan(chapter, parameters(chapter, dataset="nowhere.csv"))
