"""The digest of an experiment's code: what changes it, what does not, and that nothing that is run escapes it."""

import subprocess
import sys

import pandas as pd
import pytest
import sweep_toys

from dpnotes.lab.experiments import EXPERIMENTS
from dpnotes.lab.store import _code as module
from dpnotes.lab.store import adopt, code, read_store, sweep, trace
from dpnotes.lab.store._format import Row
from dpnotes.lab.store._store import Store

SOURCES = {
    "dpnotes": '"""The package."""\nfrom dpnotes import learners as learners\n',
    "dpnotes.learners": (
        "from dpnotes.learners._fit import fit as fit\nfrom dpnotes.learners._other import other as other\n"
    ),
    "dpnotes.learners._fit": '''
"""Fitting."""
import numpy as np
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from dpnotes.learners._other import Kind
RATE = 0.5
def fit(rows: "list[float]", kind: "Kind | None" = None) -> float:
    """Fit a mean."""
    if not rows:
        raise ValueError("rows must not be empty")
    return RATE * np.mean(rows) + step(1)
def step(count):
    return count
''',
    "dpnotes.learners._other": "def other():\n    return 1\nclass Kind:\n    pass\n",
    "dpnotes.lab.runs": """
from dpnotes import learners
TOLERANCE = 0.1
@experiment("toy.run")
def run(seed):
    from dpnotes.lab.data import load
    return {"y": learners.fit(load(seed))}
def elsewhere():
    return learners.other()
""",
    "dpnotes.lab.data": "def load(seed):\n    return [seed]\n",
}


def digest(sources):
    return module.Tree(sources.get).digest("dpnotes.lab.runs", "run")


def edited(name, old, new):
    assert old in SOURCES[name]
    return SOURCES | {name: SOURCES[name].replace(old, new)}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dpnotes.learners._fit", '"""Fit a mean."""', '"""Fit the mean of rows."""  # a comment'),
        ("dpnotes.learners._fit", '"""Fitting."""', ""),
        ("dpnotes.learners._fit", ' -> float:', ":"),
        ("dpnotes.learners._fit", '"list[float]"', '"list[int]"'),
        ("dpnotes.learners._fit", "must not be empty", "must have at least one number"),
        ("dpnotes.learners._other", "return 1", "return 2"),
        ("dpnotes.learners._other", "class Kind:", "class Kind(dict):"),
        ("dpnotes.lab.runs", "TOLERANCE = 0.1", "TOLERANCE = 0.2"),
        ("dpnotes.lab.runs", "return learners.other()", "return 0"),
    ],
)  # fmt: skip
def test_prose_types_and_what_is_not_reached_leave_the_digest(name, old, new):
    assert digest(edited(name, old, new)) == digest(SOURCES) is not None


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dpnotes.learners._fit", "RATE = 0.5", "RATE = 0.6"),
        ("dpnotes.learners._fit", "return count", "return count + 1"),
        ("dpnotes.learners._fit", "np.mean(rows)", "np.median(rows)"),
        ("dpnotes.learners._fit", "import numpy as np", "import cupy as np"),
        ("dpnotes.learners._fit", "if not rows", "if rows is None"),
        ("dpnotes.learners._fit", '"""Fitting."""', "import sys\nsys.setrecursionlimit(10)"),
        ("dpnotes.learners", "._fit import fit as fit", "._other import other as fit"),
        ("dpnotes.lab.data", "return [seed]", "return [seed, 1]"),
        ("dpnotes.lab.runs", "load(seed)", "load(seed + 1)"),
        ("dpnotes.lab.runs", "learners.fit(", "sum((learners,))("),
    ],
)
def test_whatever_the_function_reaches_changes_the_digest(name, old, new):
    assert digest(edited(name, old, new)) not in (digest(SOURCES), None)


@pytest.mark.parametrize(("name", "same"), [("statement_", True), ("statement", False)])
def test_methods_that_tell_of_a_fit_leave_the_digest(name, same):
    plain, more = "class step(float):\n    pass\n", f"    def {name}(self):\n        return RATE\n"
    before, after = (
        edited("dpnotes.learners._fit", "def step(count):\n    return count\n", text) for text in (plain, plain + more)
    )
    assert (digest(before) == digest(after)) is same


def test_a_definition_may_move_to_another_module():
    text = SOURCES["dpnotes.learners._fit"]
    step = text[text.index("def step") :]
    moved = "from dpnotes.learners._steps import step\n" + text.replace(step, "")
    assert digest(SOURCES | {"dpnotes.learners._fit": moved, "dpnotes.learners._steps": step}) == digest(SOURCES)


def test_a_module_that_is_passed_on_counts_as_a_whole():
    whole = edited("dpnotes.lab.runs", "learners.fit(load(seed))", "vars(learners)['fit'](load(seed))")
    other = whole | {"dpnotes.learners._other": "def other():\n    return 2\n"}
    assert digest(whole) != digest(other)


def test_no_digest_of_what_is_not_there():
    assert module.Tree(SOURCES.get).digest("dpnotes.lab.runs", "lost") is None
    assert module.Tree(SOURCES.get).digest("dpnotes.lab.lost", "run") is None

    def local(x):
        return {"y": x}

    assert code(local) is not None  # with the test that it stands in
    exec(compile("def typed(x): return {'y': x}", "<typed>", "exec"), namespace := {"__name__": "__main__"})
    assert code(namespace["typed"]) is None


@pytest.mark.parametrize(
    "name", ["dpbag_adult_logistic", "dpbag_filtered", "private_prediction_privacy", "intrinsic_sgd_utility"]
)
def test_every_function_of_the_package_that_a_row_runs_is_reached(name):
    experiment = EXPERIMENTS[name]
    called = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            called.add((frame.f_globals.get("__name__"), frame.f_code.co_qualname.partition(".")[0]))

    row, before = min(experiment.grids["quick"](), key=experiment.cost), sys.getprofile()
    sys.setprofile(note)
    try:
        experiment.function(**row)
    finally:
        sys.setprofile(before)
    function = experiment.function
    reached = module.Tree(module._source).reached(function.__module__, function.__name__)
    defined = {
        (home, name)
        for home, name in called
        if home and home.startswith("dpnotes.") and name in vars(sys.modules[home]) and not name.startswith("<")
    }
    assert len(defined) > 5  # more, but for what another test had computed before
    assert {(*home.split("."), name) for home, name in defined} <= set(reached)


def git(folder, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A repository in which an experiment got a name and moved; the commits, first to last."""
    repository = tmp_path / "repository"
    commits = []
    for home, text in (
        ("dpnotes/toy.py", "def run(seed):\n    return {}\n"),
        ("dpnotes/lab/toy/runs.py", '@experiment("toy.run")\ndef run(seed):\n    return {"y": 1}\n'),
    ):
        path = repository / home
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git(repository.parent, "init", "-q", str(repository))
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "change")
        commits.append(git(repository, "rev-parse", "HEAD")[:10])
        path.unlink()
    monkeypatch.setattr(module, "CHECKOUT", repository)
    module.code_at.cache_clear()
    module._committed.cache_clear()
    return commits


def test_the_digest_at_a_commit_is_that_of_its_sources(history):
    first, last = (module.code_at(commit, "toy.run") for commit in history)
    assert first is not None
    assert last is not None
    assert first != last
    assert module.code_at(history[0], "toy.walk") is None
    assert module.code_at(f"{history[0]}+", "toy.run") is None  # it was changed, nobody knows how
    assert module.code_at("0123456789", "toy.run") is None


@pytest.fixture
def older(store, history):
    """A store of the time before rows had a digest: one row of a clean commit, one of a changed tree."""
    for x, commit in enumerate((history[0], f"{history[0]}+")):
        Store(store).put([Row("toy.run", {"x": x}, {"y": x}, {"seconds": 1.0, "commit": commit})])
    lines = [line.split(",") for line in store.read_text().splitlines()]
    at = lines[0].index("code")
    store.write_text("".join(",".join([*line[:at], *line[at + 1 :]]) + "\n" for line in lines))
    return store


def test_rows_carry_the_digest_of_their_experiment(store):
    rows = sweep(sweep_toys.ratio, [{"a": 1}, {"a": 2}], store=store, progress=False)
    assert set(rows["code"]) == {code(sweep_toys.ratio)}


def test_a_store_without_digests_is_read_adopted_and_appended_to(older, tmp_path):
    before = read_store(older)
    assert before["code"].isna().all()
    assert adopt(older, tmp_path / "other.csv") == (2, 0)
    Store(older).put([Row("toy.run", {"x": 2}, {"y": 2}, {"seconds": 1.0, "code": "abc"})])
    after = read_store(older)
    assert after["code"].tolist()[2] == "abc"
    assert after["check"].tolist()[:2] == before["check"].tolist()  # an empty cell is not part of the check


def test_trace_fills_in_what_a_clean_commit_tells(older, history):
    before = read_store(older)
    assert trace(older) == (1, 1)
    after = read_store(older)
    assert after["code"].tolist()[0] == module.code_at(history[0], "toy.run")
    assert after["code"].isna().tolist() == [False, True]
    pd.testing.assert_frame_equal(after.drop(columns=["code", "check"]), before.drop(columns=["code", "check"]))
    assert trace(older) == (0, 1)
