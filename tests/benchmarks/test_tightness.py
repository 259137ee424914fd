"""Bounds beside lower bounds, and constructors composed with each other: a slice of what ``make campaign`` keeps."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import tightness

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", ["gaussian", "laplace", "pure", "bagging", "sampled", "soft_vote", "gnmax"])
def test_bounds_are_not_below_an_explicit_pair(name):
    [row] = tightness.tightness(4, (name,))
    assert row["below"] == 0
    assert row["worst_delta"] < (1.001 if row["exactness"] == "exact" else 1e4)


def test_a_bound_that_is_too_small_is_seen():
    pair = tightness.normal(1.0)
    assert tightness.accounting.gaussian(sigma=1.01).delta(1.0) < pair.delta(1.0)
    assert tightness.accounting.gaussian(sigma=1.0).delta(1.0) == pytest.approx(pair.delta(1.0), rel=1e-4)


def test_unlike_constructors_compose_near_a_fine_grid():
    rows = pd.DataFrame(tightness.matrix(("laplace", "subsampled gaussian", "soft_vote", "gaussian, replace-one")))
    refused = rows["refused"]
    assert refused.sum() == 3
    assert rows.loc[refused, "reason"].str.contains("adjacency").all()
    made = rows[~refused]
    assert (made["ours"] <= 1.01 * made["fine_grid"]).all()
    assert (made["ours"] >= made["lower"] * (1 - 1e-6)).all()
    assert np.isfinite(made["ours"]).all()
