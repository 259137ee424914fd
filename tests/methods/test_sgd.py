"""NoisySGD, AugmentedSGD and DPSGD: what is released and with which noise, what
guarantees rest on.
"""

import decimal
import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from dpnotes import DPSGD
from dpnotes.accounting import dp_sgd, dp_sgd_noise_multiplier, gaussian_sigma
from dpnotes.accounting.papers import augmenting_sigma
from dpnotes.learners import (
    NetworkClassifier,
    fit_dp_sgd_linear,
    fit_networks,
    fit_sgd,
    multilayer_perceptron,
)
from dpnotes.methods import AugmentedSGD, NoisySGD, _sgd, logistic_loss, noisy_descents
from tests.methods.conftest import follows, is_normal


def test_noise_vanishes_at_large_epsilon(cancer):
    """Another road: scikit-learn's minimiser of the same objective, the intercept as
    a penalised weight.
    """
    X, y = cancer
    model = NoisySGD(
        1e9, 0.1, steps=2000, learning_rate=3.0, l2=0.01, noise_seed=0
    ).fit(X, y)
    rows = np.hstack([X, np.ones((len(X), 1))])
    plain = LogisticRegression(
        C=1 / (len(X) * 0.01), fit_intercept=False, tol=1e-9, max_iter=1000
    ).fit(rows, y)
    np.testing.assert_allclose(weights_of(model), plain.coef_[0], atol=1e-4)


@pytest.mark.parametrize(
    "change", [{"radius": 3.0}, {"l2": 0.1}, {"l2": 0.1, "radius": 3.0}, {}]
)
def test_noise_is_the_least_that_meets_the_budget(cancer, change):
    model = NoisySGD(
        1.0, 1e-4, steps=400, learning_rate=2.0, noise_seed=0, **change
    ).fit(*cancer)
    assert model.profile_.delta(1.0) == pytest.approx(1e-4)
    assert (model.profile_.status, model.profile_.adjacency) == ("proved", "zero-out")
    assert model.profile_.parameters["sigma"] == model.noise_sigma_
    assert model.profile_.parameters["shift"] == pytest.approx(
        2.0 * math.sqrt(2) / len(cancer[0])
    )
    if "radius" in change:
        assert np.hypot(np.linalg.norm(model.coef_), model.intercept_[0]) <= 3 * (
            1 + 1e-12
        )


def test_an_exchanged_record_shifts_a_step_twice_as_far_as_an_empty_one():
    model = NoisySGD(1.0, 1e-4, steps=50, learning_rate=2.0)
    empty = model.calibrate(569)
    assert model.set_params(adjacency="replace-one").calibrate(569) == pytest.approx(
        2 * empty
    )


def test_an_empty_record_has_no_gradient_and_keeps_its_place(cancer):
    """One step from zero, where the gradient of each record is half of it: the
    record's label is no class.
    """
    X, y = cancer
    labels = np.where(np.arange(len(y)) == 3, 7, y)
    model = NoisySGD(
        1e12, 1e-4, steps=1, learning_rate=2.0, classes=[0, 1], noise_seed=0
    ).fit(X, labels)
    signed = (2 * y - 1)[:, None] * np.hstack([X, np.ones((len(X), 1))])
    # the sum is of one record less, and divided by all
    expected = (signed.sum(axis=0) - signed[3]) / len(X)
    np.testing.assert_allclose(weights_of(model), expected, atol=1e-6)
    shift = np.linalg.norm(signed[3]) / len(X)
    # a gradient at zero is half of the bound
    assert shift == pytest.approx(model.profile_.parameters["shift"] / 2)


def test_noise_of_a_step_has_the_stated_law(cancer):
    """One step of many runs from zero: Kolmogorov-Smirnov at 1e-3; a scale 5% off
    must be noticed.
    """
    X, y = cancer
    generator = np.random.default_rng(0)
    ends = noisy_descents(
        X, y, n_runs=2000, steps=1, learning_rate=1.0, sigma=0.3, generator=generator
    )
    step = ((y - 0.5) @ np.hstack([X, np.ones((len(X), 1))])) / len(X)
    assert follows(ends - step, stats.norm(scale=0.3))


def order_of(runs, n):
    """The order of the records in each pass of the first run."""
    seed = np.random.SeedSequence(int(runs.order_seeds[0]), spawn_key=(0,))
    stream = np.random.default_rng(seed)
    while True:
        yield stream.permutation(n)


def weights_of(model):
    """The weights of a fitted model of two classes, the intercept last."""
    return np.append(model.coef_, model.intercept_)


# 569 records: 11 steps a pass
SETTING = {"batch_size": 48, "steps": 23, "learning_rate": 1.0, "device": "cpu"}


def test_without_noise_it_is_the_learner(cancer):
    """Another road: a plain loop over the batches of the learner's own order."""
    X, y = cancer
    model = AugmentedSGD(1e9, 0.1, noise_seed=3, **SETTING).fit(X, y)
    words = np.random.RandomState(3).randint(2**32, size=4, dtype=np.uint32)
    seed = int.from_bytes(words.tobytes(), "little")
    start = fit_sgd(X, y, n_runs=1, random_state=seed, checkpoints=[0], **SETTING)
    w = start.trajectory[0, 0].copy()
    rows = np.hstack([X, np.ones((len(X), 1))])
    passes = order_of(start, 569)
    batches = np.vstack([next(passes)[: 11 * 48].reshape(11, 48) for _ in range(3)])
    for batch in batches[:23]:
        w -= ((1 / (1 + np.exp(-rows[batch] @ w)) - y[batch]) @ rows[batch]) / 48
    np.testing.assert_allclose(weights_of(model), w, atol=6 * model.noise_sigma_)
    assert model.noise_sigma_ < 1e-5


def test_noise_has_the_stated_law(cancer):
    """Normal by Kolmogorov-Smirnov, and of the stated scale by its square, at 1e-3;
    a scale 5% off must be noticed.
    """
    X, y = cancer
    models = [
        AugmentedSGD(1.0, 1e-3, noise_seed=s, **SETTING).fit(X, y) for s in range(250)
    ]
    # the same seed, next to no noise
    quiet = [clone(model).set_params(epsilon=1e9).fit(X, y) for model in models]
    ends, starts = (np.array([*map(weights_of, each)]) for each in (models, quiet))
    assert is_normal(ends - starts, models[0].noise_sigma_)


def test_noise_is_that_of_the_proved_sensitivity(cancer):
    X, y = cancer
    model = AugmentedSGD(1.0, 1e-3, noise_seed=0, **SETTING).fit(X, y)
    # 23 steps begin a third pass
    assert model.sensitivity_ == pytest.approx(math.sqrt(2) * 3 / 48)
    assert model.noise_sigma_ == pytest.approx(
        gaussian_sigma(1.0, 1e-3, sensitivity=model.sensitivity_)
    )
    assert (model.profile_.status, model.profile_.adjacency) == ("proved", "zero-out")
    assert model.profile_.delta(1.0) == pytest.approx(1e-3)
    assert (
        AugmentedSGD(1.0, 1e-3, **SETTING).fit(X, y).profile_.implementation == "exact"
    )
    exchanged = AugmentedSGD(
        1.0, 1e-3, noise_seed=0, adjacency="replace-one", **SETTING
    ).fit(X, y)
    assert exchanged.profile_.adjacency == "replace-one"
    assert exchanged.noise_sigma_ == pytest.approx(2 * model.noise_sigma_)


def test_what_rests_on_what(cancer):
    """Each guarantee says what it assumes; counting on the noise of SGD removes as
    much from what is added.
    """

    def fit(**change):
        given = {"noise_seed": 0, "adjacency": "replace-one", **SETTING, **change}
        return AugmentedSGD(1.0, 1e-3, **given).fit(*cancer)

    proved = fit()
    own = fit(intrinsic_sigma=0.1, noise_seed=None).profile_
    assert own.implementation == "ideal reals"
    counted = fit(intrinsic_sigma=0.1)
    assert math.hypot(counted.noise_sigma_, 0.1) == pytest.approx(proved.noise_sigma_)
    assert counted.profile_.status == "assumption"
    assert counted.profile_.delta(1.0) == pytest.approx(1e-3)

    fraction = fit(sensitivity="published")
    assert fraction.sensitivity_ == pytest.approx(2 * math.sqrt(2) * 23 * 48 / 569 / 48)
    assert fraction.profile_.status == "refuted"
    # whole passes: the two sensitivities are the same
    whole = fit(sensitivity="published", batch_size=569, steps=2)
    assert whole.profile_.status == "proved"

    observed = fit(sensitivity=0.02, intrinsic_sigma=0.1)
    assert _sgd.OBSERVED in observed.profile_.assumption
    assert observed.noise_sigma_ == 0  # 0.1 is more than is asked for
    assert fit(sensitivity=0.02).profile_.status == "assumption"
    assert fit(sensitivity=0.5).profile_.status == "proved"

    classical = fit(analysis="published")
    assert classical.noise_sigma_ == augmenting_sigma(
        1.0, 1e-3, sensitivity=proved.sensitivity_, analysis="published"
    )


def test_sensitivity_to_an_empty_record_holds_and_is_attained():
    """The gradients of the others cancel and that of the record has norm L: each visit
    moves the weights by all of it.

    The record keeps its place in the order and its batches their size.
    """
    n = 60
    X = np.tile([[1.0, 0.0], [-1.0, 0.0]], (n // 2, 1))
    X[0] = [0.0, 1.0]
    y = np.zeros(n, dtype=np.int64)
    empty = np.arange(n) == 0
    setting = {"batch_size": 6, "steps": 13, "learning_rate": 0.01, "device": "cpu"}
    # every record of class 0 is far on the wrong side
    steep = np.array([0.0, 0.0, 400.0])
    runs = fit_sgd(
        X, y, neighbours=[0], replacement=1, n_runs=50, initial=steep, **setting
    )
    others = fit_sgd(X, y, empty=empty, n_runs=50, initial=steep, **setting)
    apart = np.linalg.norm(runs.weights - others.weights, axis=1)
    step = math.sqrt(2) * 0.01 / 6
    np.testing.assert_allclose(apart, step * runs.visits[:, 0], rtol=1e-9, atol=1e-12)
    model = AugmentedSGD(1.0, 1e-3, **setting).fit(X, np.arange(n) % 2)
    assert apart.max() == pytest.approx(2 * step) == pytest.approx(model.sensitivity_)


def test_rounding_of_the_descent_is_counted():
    """Another computation: the same descent in decimal numbers of 60 digits.

    Rows of many digits, steps at the largest rate, weights that grow.
    """
    generator = np.random.default_rng(0)
    setting = {"steps": 40, "batch_size": 3, "learning_rate": 4.0}
    X = generator.normal(size=(12, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-15)
    y = (X[:, 0] > 0).astype(int)  # can be told apart, so that the weights grow
    runs = fit_sgd(
        X, y, n_runs=1, random_state=1, checkpoints=[0], device="cpu", **setting
    )
    passes = order_of(runs, 12)
    order = np.concatenate([next(passes) for _ in range(10)]).reshape(40, 3)
    with decimal.localcontext(prec=60):
        real = np.vectorize(decimal.Decimal, otypes=[object])
        rows = real(np.hstack([X, np.ones((12, 1))]))
        w = real(runs.trajectory[0, 0])
        for batch in order:
            p = [1 / (1 + (-logit).exp()) for logit in rows[batch] @ w]
            w = w - 4 * (np.array(p) - y[batch]) @ rows[batch] / 3
        off = math.sqrt(
            sum((a - b) ** 2 for a, b in zip(real(runs.weights[0]), w, strict=True))
        )
    bound = (
        _sgd._rounding(logistic_loss(1.0), steps=40, rate=4.0, batch_size=3, d=5) / 2
    )
    assert 1e-5 * bound < off <= bound < 1e-8


def test_sensitivity_holds_on_random_tables_and_long_rows():
    """Tables whose rows are all but one within the bound: whatever that one holds,
    up to the ends of float64.
    """
    generator = np.random.default_rng(0)
    setting = {
        "batch_size": 4,
        "steps": 9,
        "learning_rate": 4.0,
        "device": "cpu",
        "classes": [0, 1],
        "noise_seed": 1,
    }
    X = generator.normal(size=(16, 3))
    y = generator.integers(2, size=16)
    ends = []
    scales = (1.0, 1.0, 1e3, 1e308, -1e155, 5e-324, 0.0)
    for scale, label in zip(scales, (5, 0, 1, 0, 1, 1, 0), strict=True):
        rows = X.copy()
        labels = y.copy()
        rows[3] = scale * np.sign(X[3])
        labels[3] = label
        model = AugmentedSGD(1e9, 0.1, **setting).fit(rows, labels)
        ends.append(weights_of(model))
    # from the table where record 3 is empty, under one seed
    apart = np.linalg.norm(np.array(ends) - ends[0], axis=1)
    assert model.sensitivity_ == pytest.approx(3 * math.sqrt(2))
    assert 0.1 * model.sensitivity_ < apart.max() <= model.sensitivity_ * (1 + 1e-9)
    assert (apart[1:] > 0).all()


def test_beyond_the_bound_there_is_no_guarantee(cancer):
    X, y = cancer
    fast = {**SETTING, "learning_rate": 4.5, "require_bound": False}
    model = AugmentedSGD(1.0, 1e-3, noise_seed=0, **fast).fit(X, y)
    assert model.profile_.delta(np.array([0.0, 1.0, 100.0])).tolist() == [1, 1, 1]
    assert "no guarantee" in model.profile_.remark
    assert model.sensitivity_ == pytest.approx(math.sqrt(2) * 4.5 * 3 / 48)
    assert model.profile_.adjacency == "zero-out"


LINEAR = {
    "sample_rate": 0.1,
    "steps": 60,
    "learning_rate": 4.0,
    "clipping_norm": 0.5,
    "accountant": "rdp",
}


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_budget_is_met_with_the_least_noise(digits, accountant):
    budget = {"sample_rate": 0.1, "steps": 40, "accountant": accountant}
    model = DPSGD(2.0, 1e-4, learning_rate=4.0, noise_seed=0, **budget).fit(*digits)
    assert model.noise_multiplier_ == dp_sgd_noise_multiplier(2.0, 1e-4, **budget)
    assert model.profile_.delta(2.0) <= 1e-4
    less = dp_sgd(noise_multiplier=0.99 * model.noise_multiplier_, **budget)
    assert less.delta(2.0) > 1e-4


def test_what_is_trained_is_the_learner(digits):
    X, y = digits
    model = DPSGD(noise_multiplier=1.0, noise_seed=3, **LINEAR).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31))
    settings = {name: value for name, value in LINEAR.items() if name != "accountant"}
    settings |= {"n_classes": 10, "n_records": len(X), "noise_multiplier": 1.0}
    models = fit_dp_sgd_linear(X, y, seed=seed, **settings)
    np.testing.assert_array_equal(model.predict(X), models.votes(X)[0])
    assert model.score(X, y) > 0.6


def test_noise_without_a_seed_is_the_mechanisms_own(digits, monkeypatch):
    """Batches of all rows leave the noise as the only random choice: constants in
    its place repeat the fit.
    """
    whole = LINEAR | {"sample_rate": 1.0, "steps": 3}
    model = DPSGD(noise_multiplier=1.0, **whole).fit(*digits)
    assert model.profile_.implementation == "ideal reals"
    monkeypatch.setattr("dpnotes.methods._dp_sgd.normal_floats", np.ones)
    first, second = (
        DPSGD(noise_multiplier=1.0, **whole).fit(*digits).predict_proba(digits[0])
        for _ in range(2)
    )
    np.testing.assert_allclose(first, second, rtol=1e-10)


def test_a_network_starts_from_public_weights(digits):
    """With next to no step the predictions are those of the weights that were given,
    but for a new last layer.
    """
    X = digits[0].astype(np.float32)
    y = digits[1]

    def build(generator):
        return multilayer_perceptron((64,), 10, hidden=(16,), generator=generator)

    public = fit_networks(
        build,
        X,
        y,
        np.arange(len(X))[None],
        epochs=5,
        batch_size=32,
        learning_rate=0.01,
        seed=0,
    )
    how = {
        "noise_multiplier": 1.0,
        "steps": 1,
        "learning_rate": 1e-12,
        "noise_seed": 0,
        "accountant": "rdp",
    }
    for new in (False, True):
        given = public.state_dict(0)
        start = NetworkClassifier(
            None, architecture="mlp", hidden=(16,), initial=given, new_last_layer=new
        )
        tuned = DPSGD(network=start, **how).fit(X, y)
        same = (tuned.predict(X) == public.votes(X)[0]).mean()
        assert same == 1 if not new else same < 0.5
        torch.testing.assert_close(
            tuned._fitted.model.models.parameters["1.weight"][0], given["1.weight"]
        )
