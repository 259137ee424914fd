"""Experiments of the chapter on intrinsic SGD: rows against plain computations,
precision, bounds, audits, results.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes.accounting.papers import sgd_sensitivity
from dpnotes.lab.intrinsic_sgd import experiments, grids, results, runs
from dpnotes.lab.intrinsic_sgd.data import located, records, resplit
from dpnotes.lab.intrinsic_sgd.results import task_name
from dpnotes.learners import fit_sgd
from tests.lab.intrinsic_sgd.tiny import SIZES, setting


@pytest.fixture(scope="module")
def weights():
    return np.asarray(runs.trained(runs.Setting(**setting()), "cpu").all_weights)


def test_statistics_are_those_of_plain_loops(weights):
    # seeds, data sets, weights
    R, S, p = weights.shape
    assert (R, S, p) == (6, 5, 31)
    found = runs.weight_stds(weights)
    sigmas = [np.std(weights[:, s] - weights[:, s].mean(axis=0)) for s in range(S)]
    assert found["sigma"] == pytest.approx(np.median(sigmas))
    assert (found["sigma_low"], found["sigma_high"]) == pytest.approx(
        (min(sigmas), max(sigmas))
    )
    assert found["direction_sigma_low"] == 0  # six runs do not span 31 directions
    # known standard deviations: 1, 2 and 5
    wide = runs.weight_stds(
        np.random.default_rng(0).normal(size=(400, 2, 3)) * [1.0, 2.0, 5.0]
    )
    assert wide["direction_sigma_low"] == pytest.approx(1.0, rel=0.1)
    assert wide["direction_sigma_high"] == pytest.approx(5.0, rel=0.1)

    def apart(one, two):
        return float(np.linalg.norm(one - two))

    same_seed = [
        apart(weights[r, a], weights[r, b])
        for r in range(R)
        for a in range(S)
        for b in range(a)
    ]
    same_data = [
        apart(weights[a, s], weights[b, s])
        for s in range(S)
        for a in range(R)
        for b in range(a)
    ]
    found = runs.sensitivities(weights)
    assert found["observed"] == pytest.approx(max(same_seed))
    assert found["neighbours"] == pytest.approx(
        max(apart(w[0], other) for w in weights for other in w[1:])
    )
    means = weights.mean(axis=0)
    assert found["means"] == pytest.approx(
        max(apart(means[0], other) for other in means[1:])
    )
    np.testing.assert_allclose(
        np.sort(runs.sample("data", weights, seed=0)), np.sort(same_seed)
    )
    np.testing.assert_allclose(
        np.sort(runs.sample("seed", weights, seed=0)), np.sort(same_data)
    )
    both = runs.sample("both", weights, seed=0)
    # all pairs that differ in both
    every = [
        apart(weights[a, s], weights[b, t])
        for a in range(R)
        for b in range(R)
        if a != b
        for s in range(S)
        for t in range(S)
        if s != t
    ]
    assert len(both) > 100_000
    assert abs(both.mean() - np.mean(every)) < 4 * np.std(every) / math.sqrt(len(both))
    # no pair that differs in one thing alone
    assert set(np.round(both, 9)) <= set(np.round(every, 9))
    p_values = runs.sample("p-value", weights, seed=0)
    assert p_values[0] == pytest.approx(stats.shapiro(weights[:, 0, 0]).pvalue)


STUDY = {"n_seeds": 12, "n_neighbours": 4, "random_state": 5}
SGD = {"batch_size": 48, "steps": 15, "learning_rate": 1.0, "device": "cpu"}


def test_neighbours_are_what_a_plain_loop_trains_on():
    X = records("breast_cancer").X.astype(np.float64)
    y = records("breast_cancer").y
    weights = runs.neighbour_runs(X, y, **STUDY, **SGD).all_weights
    # as the function draws them
    replaced = np.sort(np.random.default_rng(5).choice(len(X) - 1, 4, replace=False))
    sets = [(X[1:], y[1:])]
    for record in replaced:
        other = X[1:].copy()
        labels = y[1:].copy()
        other[record] = X[0]
        labels[record] = y[0]
        sets.append((other, labels))
    ends = np.stack(
        [fit_sgd(*s, n_runs=12, random_state=5, **SGD).weights for s in sets], axis=1
    )
    assert weights.shape == ends.shape
    np.testing.assert_allclose(weights, ends, rtol=1e-9, atol=1e-12)


@pytest.mark.needs("covertype", "adult")
def test_another_split_is_drawn_as_the_first_one_was():
    own = records("covertype")
    again = resplit("covertype", 0)
    other = resplit("covertype", 1)
    # from float32 in the units of another range
    np.testing.assert_allclose(again.X, own.X, atol=1e-6)
    np.testing.assert_array_equal(again.y_test, own.y_test)
    assert (len(other.X), len(other.X_test)) == (len(own.X), len(own.X_test))
    # 57 % are of one class
    assert (other.y[: len(own.y) // 2] != own.y[: len(own.y) // 2]).mean() > 0.4
    adult = records("adult")
    kept = resplit("adult", 1)
    assert kept.X.shape == adult.X.shape
    np.testing.assert_array_equal(kept.X_test, adult.X_test)


def test_bounds_are_those_of_the_library():
    one = {"lipschitz": 2**0.5, "smoothness": 0.5, "batch_size": 16}
    chosen = runs.Setting(**setting(steps=40))  # 455 records: 28 steps a pass
    assert chosen.bound("tight") == pytest.approx(
        sgd_sensitivity(**one, learning_rate=1.0, epochs=40 / 28)
    )
    assert chosen.bound("published") == pytest.approx(
        sgd_sensitivity(
            **one, learning_rate=1.0, epochs=40 * 16 / 456, analysis="published"
        )
    )
    # the first step of a pass is its largest
    falling = runs.Setting(**setting(steps=40, schedule="inverse"))
    # first steps of two passes
    assert falling.bound("tight") == pytest.approx(2 * 2**0.5 / 16 * (1 + 1 / 2))
    assert falling.bound("published") is None
    # networks are not convex
    assert runs.Setting(**setting(hidden=3)).bound("tight") is None
    assert runs.Setting(**setting(learning_rate=4.5)).bound("tight") is None
    for schedule in ("constant", "inverse", "inverse-root", "linear"):
        rates = runs.Setting(**setting(schedule=schedule)).rates
        assert rates[0] == 1.0
        assert (np.diff(rates) <= 0).all()
        assert rates[-1] > 0
        row = experiments.summary(**setting(schedule=schedule), device="cpu")
        assert row["neighbours"] <= row["proved"]


def test_noise_for_utility_is_paired_and_what_it_should_be():
    kwargs = {**setting(), "device": "cpu", "epsilon": 1.0, "analysis": "tight"}
    plain = experiments.utility(noise="proved", counted=False, **kwargs)
    counted = experiments.utility(noise="proved", counted=True, **kwargs)
    sigma = experiments.summary(**setting(), device="cpu")["sigma"]
    # variances add up to what is needed
    assert math.hypot(counted["noise_sigma"], sigma) == pytest.approx(
        plain["noise_sigma"]
    )
    assert counted["gain"] == pytest.approx(counted["accuracy"] - plain["accuracy"])
    assert plain["gain"] is None
    quiet = experiments.utility(
        noise="none",
        counted=False,
        **{**setting(), "device": "cpu", "epsilon": None, "analysis": None},
    )
    assert quiet["accuracy"] == pytest.approx(
        experiments.summary(**setting(), device="cpu")["accuracy"]
    )
    assert quiet["noise_sigma"] == 0
    # hardly any noise is left
    small = experiments.utility(
        noise="proved", counted=False, **{**kwargs, "epsilon": 1e6}
    )
    assert small["accuracy"] == pytest.approx(quiet["accuracy"], abs=0.01)


def test_a_shared_draw_is_the_first_one_at_seed_0_and_own_draws_are_those_of_utility():
    """As the authors' code draws: the seed set to 0, then p normal numbers; and
    against the rows of utility.
    """
    row = {name: value for name, value in setting().items() if name != "n_neighbours"}
    chosen = runs.Setting(**setting())
    found = experiments.summary(**setting(), device="cpu")
    kwargs = {
        "sensitivity": found["published"],
        "intrinsic_sigma": found["sigma"],
        "epsilon": 0.5,
        "device": "cpu",
    }
    shared, own = (
        experiments.draws(draw=draw, **kwargs, **row) for draw in ("shared", "own")
    )
    # as the authors' code has it
    noise = np.random.RandomState(0).normal(size=31, loc=0, scale=1)
    given = chosen.records
    ends = runs.trained(chosen, "cpu").weights
    noisy = ends + shared["noise_sigma"] * noise
    scores = [
        np.mean((given.X_test @ w[:-1] + w[-1] > 0) == given.y_test) for w in noisy
    ]
    assert shared["accuracy"] == pytest.approx(np.mean(scores))
    assert shared["accuracy_std"] == pytest.approx(np.std(scores, ddof=1))
    plain, counted = (
        experiments.utility(
            noise="published",
            analysis="published",
            counted=flag,
            epsilon=0.5,
            device="cpu",
            **setting(),
        )
        for flag in (False, True)
    )
    assert own["accuracy"] == pytest.approx(plain["accuracy"])
    assert own["gain"] == pytest.approx(counted["gain"])
    assert own["gap_closed"] == pytest.approx(
        counted["gain"] / (found["accuracy"] - plain["accuracy"])
    )
    assert own["noise_sigma"] == shared["noise_sigma"] == plain["noise_sigma"]


def test_trajectories_end_where_runs_end():
    row = {**setting("fixed"), "n_seeds": 3, "n_neighbours": 1, "steps": 40}
    found = [
        experiments.trajectory(run=run, step=40, **row, device="cpu")
        for run in range(3)
    ]
    given = records("breast_cancer")
    how = {"dtype": np.float64, "device": "cpu", **runs.Setting(**row).sgd}
    ends = fit_sgd(given.X[1:], given.y[1:], n_runs=3, **how).weights
    np.testing.assert_allclose([(f["first"], f["second"]) for f in found], ends[:, :2])
    starts = {
        experiments.trajectory(run=run, step=0, **row, device="cpu")["first"]
        for run in range(3)
    }
    assert len(starts) == 1


def test_last_iterate_rows_are_those_of_the_method():
    from dpnotes import NoisySGD

    row = experiments.last_iterate(
        dataset="breast_cancer",
        epsilon=1.0,
        steps=20,
        learning_rate=4.0,
        n_runs=5,
        seed=0,
    )
    given = records("breast_cancer")
    model = NoisySGD(
        1.0, 1 / 456, steps=20, learning_rate=4.0, adjacency="replace-one", noise_seed=0
    )
    model.fit(given.X, given.y)
    assert row["noise_sigma"] == model.noise_sigma_


def test_a_file_of_ones_own(tmp_path):
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, size=(250, 3))
    names = np.where(X[:, 0] > 0, "yes", "no")
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=names)
    table.to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "mine.toml").write_text('[columns]\n"*" = [-1, 1]\n')
    mine = located(str(tmp_path / "mine.csv"))
    for scale_rows, lengths in (
        (True, np.linalg.norm(X, axis=1, keepdims=True)),
        (False, 3**0.5),
    ):
        given = records(mine, scale_rows)
        assert (len(given.X), len(given.X_test), given.longest <= 1) == (200, 50, True)
        # the split is random, so rows are compared in order of their first feature
        both = np.vstack([given.X, given.X_test])
        scaled = X / lengths
        np.testing.assert_allclose(
            both[both[:, 0].argsort()], scaled[scaled[:, 0].argsort()], rtol=1e-5
        )
        assert (np.append(given.y, given.y_test) == (both[:, 0] > 0)).all()
    rows = grids.settings(
        "paper",
        dataset=str(tmp_path / "mine.csv"),
        scale_rows=True,
        n_seeds=4,
        steps=30,
    )
    assert [row["n_seeds"] for row in rows] == [4, 4]
    assert {row["dataset"] for row in rows} == {mine}
    assert task_name(mine) == "mine.csv"
    summary = experiments.summary(**rows[0], device="cpu")
    assert summary["n"] == 200
    # 512 are more than there are
    assert {row["batch_size"] for row in grids.hyperparameters(rows)} == {8, 32, 128}
    assert summary["accuracy"] > 0.6
    with pytest.raises(FileNotFoundError):
        records(str(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"n_seeds": 1},
            "n_seeds must be >= 2, or 0 for the task's own, got n_seeds=1",
        ),
        ({"dataset": "adlt"}, "dataset must be one of 'mnist', .* got dataset='adlt'"),
        (
            {"learning_rate": math.inf},
            "learning_rate must be > 0 and finite, or 0 for .* got learning_rate=inf",
        ),
        (
            {"learning_rate": 4.5},
            (
                "learning_rate must be <= 2 / smoothness = 4, got learning_rate=4.5;"
                " .*require_bound"
            ),
        ),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(change, message):
    with pytest.raises(ValueError, match=message):
        grids.settings("quick", **change)


def test_beyond_the_largest_rate_there_is_no_bound_and_no_epsilon_from_one():
    rows = grids.settings(
        "quick", learning_rate=4.5, require_bound=False, **SIZES, steps=40
    )
    assert {row["noise"] for row in grids.utilities(rows)} == {"none", "observed"}
    summary = pd.DataFrame(
        [{**row, **experiments.summary(**row, device="cpu")} for row in rows]
    )
    assert summary[["published", "proved"]].isna().all(axis=None)
    epsilons = results.with_epsilons(summary)
    assert (
        epsilons[["epsilon", "epsilon_exact", "epsilon_proved"]].isna().all(axis=None)
    )
    assert (epsilons["epsilon_observed"] > 0).all()
