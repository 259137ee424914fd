"""Accuracy beside diffprivlib: our sides of the comparison, at a small size; diffprivlib itself is no dependency."""

import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import utility


@pytest.fixture(scope="module")
def rows():
    """Three settings of each method, two releases of each."""
    return pd.DataFrame(utility.rows(None, releases=2, every=4))


def test_rows_are_short_and_prepared_one_by_one():
    for name in utility.BOUNDS:
        X, y, X_test, _ = utility.prepared(name)
        assert np.linalg.norm(np.vstack([X, X_test]), axis=1).max() <= 1
        assert set(np.unique(y)) == set(range(y.max() + 1))


def test_all_methods_have_as_many_settings_and_the_same_budgets(rows):
    private = rows[rows["method"] != "no privacy"]
    counts = private.groupby(["data", "method", "delta", "adjacency", "epsilon"]).size()
    assert len(counts) == 2 * 2 * (2 * 2 * 2 + 1)  # tables, epsilons, (methods x deltas x adjacencies + DP-SGD)
    assert (counts == 3).all()


def test_accuracy_grows_with_epsilon_and_stays_below_that_without_privacy(rows):
    best = rows.groupby(["data", "method", "epsilon"])["accuracy"].max()
    for data in ("breast_cancer", "digits"):
        assert best[data, "DPSGD", 1.0] < best[data, "DPSGD", 3.0] < best[data, "no privacy", np.inf]


def test_the_other_side_is_asked_in_its_own_python(tmp_path):
    """A stand-in for the other Python reads the same split and answers in the same form."""
    stand_in = tmp_path / "python"
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import json, sys, numpy\n"
        "given = json.loads(sys.argv[2])\n"
        "rows = len(numpy.load(given['path'])['X'])\n"
        "scores = [(e, C, [rows] * given['releases']) for e in given['epsilons'] for C in given['C']]\n"
        "print(json.dumps({'version': '0', 'scores': scores}))\n"
    )
    stand_in.chmod(0o755)
    split = utility.prepared("digits")
    found = list(utility.diffprivlib(str(stand_in), split, [0.1, 1.0], 2))
    assert [row["accuracy"] for row in found] == [len(split[0])] * 4
    assert {row["delta"] for row in found} == {0.0}
