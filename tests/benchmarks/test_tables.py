"""The tables beside other libraries, and of bounds beside lower bounds: our sides,
at a small size.
"""

import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import _common, auditing, noise, real_tables, tightness, utility
from dpnotes.accounting import gaussian
from dpnotes.lab.head_to_head.tables import losses


def test_bounds_of_epsilon_are_read_as_the_best_they_imply():
    # at some deltas the bound is exact, at others it says nothing
    deltas = [0.0, 1e-5, 0.01, 0.2]
    # mu = 2
    exact = gaussian(sigma=0.5)
    bounds = [0.0] + [float(exact.epsilon(delta)) for delta in deltas[1:]]
    assert auditing.theirs(bounds, deltas, "mu") == pytest.approx(2.0, rel=1e-6)
    assert auditing.theirs([2.0, 1.5, 1.2, 0.9], deltas, "pi") == 0.01
    assert auditing.theirs([0.0, 0.0, 0.0, 0.0], deltas, "mu") == 0.0


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Answer in the place of another Python, in which no side is computed."""

    def write(program):
        peers = tmp_path / "peers.py"
        start = "import json, sys, numpy\ngiven = json.loads(sys.argv[3])\n"
        load = "arrays = numpy.load(sys.argv[2])\n"
        peers.write_text(f"{start}{load}print(json.dumps({program}))\n")
        monkeypatch.setattr(_common, "PEERS", peers)
        return sys.executable

    return write


def test_both_sides_audit_the_same_scores_and_ours_is_below_the_truth(stand_in):
    # a bound of each case, which tells of the size of its scores
    python = stand_in(
        "{'version': '0', 'found': [{'split': [arrays[f'case{i}'].shape[1] / 1e4] *"
        " len(given['deltas'])} for i in range(given['cases'])]}"
    )
    found = pd.DataFrame(auditing.rows((300,), 1, python))
    assert len(found) == 2 * len(auditing.CASES)
    own = found[found["side"] == "dpnotes"]
    assert (own["above"] == 0).all()
    assert own["fraction"].between(0.05, 1).all()
    other = found[found["side"] == "jax_privacy, split"]
    assert set(other["version"]) == {"0"}
    # the largest delta with a bound above 0, where that is what counts
    last = other[other["quantity"] == "advantage"].iloc[-1]
    assert last["bound"] == max(auditing.DELTAS)


def test_a_comparison_goes_on_until_its_standard_error_is_small():
    """Accuracies of standard deviation 0.02 need 2 * 400 releases of each for an
    error of 0.001.
    """
    stream = np.random.default_rng(0)

    def accuracies(count, seed):
        return stream.normal(0.8 if seed is None else 0.9, 0.02, size=count)

    found = noise.compared(accuracies, enough=0.001, seconds=1e9)
    assert found["standard_error"] <= 0.001
    assert 400 < found["releases"] < 1600
    assert found["difference"] == found["exact"] - found["seeded"]
    assert found["difference"] == pytest.approx(-0.1, abs=0.01)
    # what is affordable
    assert noise.compared(accuracies, enough=1e-9, seconds=0.0)["releases"] == 8


def test_one_side_repeats_and_the_other_does_not():
    """Batches of one side have seeds of their own."""
    names = set()
    for name, _, accuracies in noise.comparisons():
        # once for each method, and not for those that take long
        if name in names or name in ("DPSGD", "LossPerturbation"):
            continue
        names.add(name)
        first = accuracies(6, 0)
        np.testing.assert_array_equal(first, accuracies(6, 0))
        others = accuracies(6, 1), accuracies(6, None)
        for other in others:
            assert 0.05 < other.mean() < 1
        # one label in a hundred changes with the noise
        assert (first != np.append(*others).reshape(2, 6)).any()
    assert len(names) == 10


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", ["gaussian", "laplace", "pure", "bagging", "sampled", "soft_vote", "gnmax"]
)
def test_bounds_are_not_below_an_explicit_pair(name):
    # the exact ones are tight, and no bound is below
    [row] = tightness.tightness(4, (name,))
    assert row["below"] == 0
    assert row["worst_delta"] < (1.001 if row["exactness"] == "exact" else 1e4)


def test_a_bound_that_is_too_small_is_seen():
    pair = tightness.normal(1.0)
    # one per cent more noise than the pair has
    assert gaussian(sigma=1.01).delta(1.0) < pair.delta(1.0)
    exact = gaussian(sigma=1.0).delta(1.0)
    assert exact == pytest.approx(pair.delta(1.0), rel=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_unlike_constructors_compose_near_a_fine_grid():
    # the last has another adjacency than the others
    names = "laplace", "subsampled gaussian", "soft_vote", "gaussian, replace-one"
    rows = pd.DataFrame(tightness.matrix(names))
    refused = rows["refused"]
    assert refused.sum() == 3
    assert rows.loc[refused, "reason"].str.contains("adjacency").all()
    made = rows[~refused]
    assert (made["ours"] <= 1.01 * made["fine_grid"]).all()
    assert (made["ours"] >= made["lower"] * (1 - 1e-6)).all()
    assert np.isfinite(made["ours"]).all()


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
    # a model without privacy has no budget
    private = rows[rows["method"] != "no privacy"]
    counts = private.groupby(["data", "method", "delta", "adjacency", "epsilon"]).size()
    # tables, epsilons, (methods x deltas x adjacencies + DP-SGD)
    assert len(counts) == 2 * 2 * (2 * 2 * 2 + 1)
    assert (counts == 3).all()


def test_accuracy_grows_with_epsilon_and_stays_below_that_without_privacy(rows):
    best = rows.groupby(["data", "method", "epsilon"])["accuracy"].max()
    for data in ("breast_cancer", "digits"):
        low, high = best[data, "DPSGD"]
        assert low < high < best[data, "no privacy", np.inf]


def test_diffprivlib_is_asked_in_its_own_python(stand_in):
    python = stand_in(
        "{'version': '0', 'scores': [(e, C, [len(arrays['X'])] * given['releases'])"
        " for e in given['epsilons'] for C in given['C']]}"
    )
    split = utility.prepared("digits")
    found = list(utility.diffprivlib(python, split, [0.1, 1.0], 2))
    assert [row["accuracy"] for row in found] == [len(split[0])] * 4
    assert {row["delta"] for row in found} == {0.0}


def test_sealed_tables_are_those_of_the_hash(monkeypatch, tmp_path):
    assert len(real_tables.lists()["sealed"]) >= 12
    changed = tmp_path / "tables.toml"
    # the target of one table is changed
    text = real_tables.LISTS.read_text()
    changed.write_text(text.replace('"smoker"', '"ban"'))
    monkeypatch.setattr(real_tables, "LISTS", changed)
    with pytest.raises(ValueError, match="sealed"):
        real_tables.lists()


def test_models_lose_what_they_are_behind_the_best_private_one(monkeypatch):
    monkeypatch.setattr(real_tables, "SPLITS", 1)
    X = np.random.default_rng(7).uniform(-1, 1, (600, 6))
    y = (X[:, 2] * X[:, 5] > 0).astype(int)
    rows = pd.DataFrame(real_tables.of_table("product", X, y))
    assert set(rows["epsilon"]) == {1.0, 3.0, np.inf}
    one = rows[rows["epsilon"] == 3.0].set_index("model")
    # of one epsilon, beside the models without privacy
    lost = losses(rows[rows["epsilon"] != 1.0]).set_index("model")
    assert set(lost.index) == set(real_tables.OURS)
    for measure, sign in (("auc", -1), ("log_loss", 1)):
        behind = sign * one[measure] - (sign * one[measure]).min()
        assert lost[f"{measure}_mean"].to_dict() == pytest.approx(behind.to_dict())


def test_bounds_are_rounded_outwards_to_two_digits():
    # up for an upper bound, down for a lower one
    assert real_tables.rounded(1234.0, up=True) == 1300.0
    assert real_tables.rounded(-0.0561, up=False) == pytest.approx(-0.057)
    assert real_tables.rounded(0.0, up=True) == 0.0
