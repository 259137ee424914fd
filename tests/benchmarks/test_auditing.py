"""Audits beside jax_privacy: our side and how its answers are read; jax_privacy itself is no dependency."""

import sys

import numpy as np
import pytest

from benchmarks import auditing
from dpnotes.accounting import gaussian


def test_bounds_of_epsilon_are_read_as_the_best_they_imply():
    deltas = [0.0, 1e-5, 0.01, 0.2]
    bounds = [float(gaussian(sigma=0.5).epsilon(delta)) if delta else 0.0 for delta in deltas]
    assert auditing.theirs(bounds, deltas, "mu", 0.0) == pytest.approx(2.0, rel=1e-6)
    assert auditing.theirs([2.0, 1.5, 1.2, 0.9], deltas, "pi", 1.0) == 0.01
    assert auditing.theirs([0.0, 0.0, 0.0, 0.0], deltas, "mu", 0.0) == 0.0


def test_our_side_is_below_the_truth():
    given = list(auditing.cases((300,), (500,), 1))
    found = auditing.rows(given)
    assert len(found) == len(auditing.CASES) + 2  # one run, of both Gaussian cases
    assert (found["above"] == 0).all()
    assert found["fraction"].between(0.05, 1).all()
    assert np.isfinite(found["seconds"]).all()


def test_the_other_side_is_asked_in_its_own_python(tmp_path):
    """A stand-in for the other Python reads the same scores and answers in the same form."""
    stand_in = tmp_path / "python"
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "given = json.load(open(sys.argv[2]))\n"
        "found = [{'split': ([len(case['scores'][0]) / 1e4] * len(case['deltas']), 0.5)} for case in given]\n"
        "print(json.dumps({'version': '0', 'found': found}))\n"
    )
    stand_in.chmod(0o755)
    given = list(auditing.cases((100,), (), 1))
    assert auditing.jax_privacy(str(stand_in), given) == "0"
    bound, seconds = given[-1]["sides"]["jax_privacy, split"]
    assert (bound, seconds) == (max(auditing.DELTAS), 0.5)
