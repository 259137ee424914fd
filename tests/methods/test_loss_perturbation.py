"""Loss perturbation: recovery of the noise, the density of the release, profiles,
bad input.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

from dpnotes.accounting import gaussian_sigma, objective_perturbation
from dpnotes.methods import LossPerturbation, _private, fit_minimiser, secret_seed
from dpnotes.methods._linear import linear_task
from tests.methods.conftest import follows, is_normal


def perturbed(X, y, epsilon, delta=0.0, *, n_classes, n_repeats=1, seed, **parameters):
    """Releases of loss perturbation by its parameters."""
    method = LossPerturbation(epsilon, delta, device="cpu", **parameters)
    return method.fit_many(X, y, n_classes=n_classes, n_repeats=n_repeats, seed=seed)


def recovered_noise(models, X, y, *, n_classes, penalty):
    """The linear terms of which the weights are minimisers: minus the gradient of
    all else, [R, C, d].
    """
    rows = np.hstack([X, np.ones((len(X), 1))])
    weights = np.concatenate([models.weights, models.intercept[:, :, None]], axis=2)
    residual = special.softmax(weights @ rows.T, axis=1) - np.eye(n_classes)[y].T
    return -(residual @ rows + penalty * weights)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_released_weights_minimise_the_loss_with_noise_of_the_stated_distribution(
    adjacency,
):
    """From the weights back to the noise: shape and scale, at 1e-3, and a scale 5%
    or 10% off must be noticed.
    """
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, size=(40, 3))
    y = generator.integers(3, size=40)
    repeats = 1500
    make = {"l2": 0.01, "adjacency": adjacency, "n_repeats": repeats, "seed": 1}
    for delta in (0.0, 1e-5):
        stated = objective_perturbation(
            2.0, delta, n_classes=3, regulariser=0.4, bias=True, adjacency=adjacency
        )
        models, _ = perturbed(X, y, 2.0, delta, n_classes=3, **make)
        noise = recovered_noise(
            models, X, y, n_classes=3, penalty=40 * 0.01 + stated.regulariser
        )
        if delta == 0:
            norms = np.linalg.norm(noise, axis=2)
            assert follows(norms, stats.gamma(4, scale=1 / stated.rate), 1.1)
            # the classes' vectors are independent
            correlated = np.abs(np.corrcoef(norms.T) - np.eye(3)).max()
            assert correlated < 4 / math.sqrt(repeats)
        else:
            assert is_normal(noise, stated.sigma)


def test_two_classes_have_one_noise_and_its_negative():
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, size=(40, 3))
    y = generator.integers(2, size=40)
    stated = objective_perturbation(2.0, n_classes=2, regulariser=0.4, bias=True)
    models, _ = perturbed(X, y, 2.0, n_classes=2, l2=0.01, n_repeats=1500, seed=1)
    noise = recovered_noise(models, X, y, n_classes=2, penalty=0.4 + stated.regulariser)
    assert np.abs(noise.sum(axis=1)).max() < 1e-3  # of the tolerance
    assert follows(
        np.linalg.norm(noise[:, 0], axis=1),
        stats.gamma(4, scale=0.5 / stated.rate),
        1.1,
    )


def test_sum_of_losses_is_divided_by_the_public_n():
    """The map from noise to weights must not depend on the number of records: same
    noise, n and regulariser.
    """
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, size=(41, 3))
    y = generator.integers(3, size=41)
    stated = objective_perturbation(2.0, n_classes=3, regulariser=0.5, bias=True)
    noise = []
    for kept in (slice(41), slice(40)):
        records = (X[kept], y[kept])
        models, _ = perturbed(*records, 2.0, n_classes=3, l2=0.01, n=50, seed=3)
        penalty = 50 * 0.01 + stated.regulariser
        noise.append(recovered_noise(models, *records, n_classes=3, penalty=penalty))
    # equal up to the gradient at which a fit counts as exact, 1e-4 K with K = 2
    assert np.linalg.norm(noise[0] - noise[1]) < 2 * 1e-4 * 2


@pytest.mark.parametrize(("intercept", "delta"), [(True, 0.0), (False, 1e-5)])
def test_noise_and_regulariser_vanish_at_large_epsilon(digits, intercept, delta):
    X, y = digits
    model = LossPerturbation(
        1e9, delta, l2=1e-3, intercept=intercept, noise_seed=0, device="cpu"
    ).fit(X, y)
    plain = fit_minimiser(
        X, y, n_classes=10, l2=1e-3, intercept=intercept, device="cpu"
    )
    # of weights up to 4: tolerance over l2
    assert np.abs(model.coef_ - plain.weights[:, :64]).max() < 3e-3
    assert model.score(X, y) > 0.9


def test_repeats_and_estimator(digits):
    X, y = digits
    make = {"n_classes": 10, "l2": 0.05, "seed": secret_seed(5)}
    few, many = (perturbed(X, y, 3.0, n_repeats=r, **make).models for r in (1, 4))
    # tolerance of the sum over its strong convexity, for either fit
    reach = 1e-4 * 2 / (len(X) * 0.05)
    assert np.linalg.norm(many.weights[0] - few.weights[0]) < 2 * reach
    assert np.linalg.norm(many.weights[1] - few.weights[0]) > 100 * reach
    model = LossPerturbation(3.0, l2=0.05, noise_seed=5, device="cpu").fit(X, y)
    assert (model.coef_ == few.weights[0]).all()


def test_published_profile_says_what_is_wrong(digits):
    remarks = {0.0: "rank and trace", 1e-5: "convexity"}
    for delta, remark in remarks.items():
        method = LossPerturbation(
            1.0, delta, l2=0.1, analysis="published", noise_seed=0, device="cpu"
        )
        found = method.fit(*digits).profile_
        assert (found.status, remark in found.remark) == ("assumption", True)
    assert "minimised exactly" in found.assumption
    assert "the divisor of the loss" in found.assumption


def test_a_minimiser_that_the_solver_misses_is_reached(digits):
    few, many = (
        LossPerturbation(
            1.0, l2=1e-2, max_iterations=steps, noise_seed=0, device="cpu"
        ).fit(*digits)
        for steps in (1, 10_000)
    )
    reach = 1e-4 * 2 / (len(digits[0]) * 1e-2)
    assert 0 < np.linalg.norm(few.coef_ - many.coef_) < 2 * reach


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_output_noise_makes_it_a_proof_and_hides_the_tolerance(digits, delta):
    X, y = digits
    model = LossPerturbation(1.0, delta, l2=0.1, device="cpu").fit(X, y)
    assert (model.profile_.status, model.profile_.implementation) == ("proved", "exact")
    assumed = (
        "the divisor of the loss and norm=1 are public",
        _private.PREPARED,
        _private.READ_OFF,
    )
    assert model.profile_.assumption == "; ".join(assumed)
    assert model.profile_.delta(1.0) <= delta
    loss = linear_task(X, y, n_classes=10, gradient_fraction=1e-4).loss
    penalty = 179.7
    noise = objective_perturbation(
        0.99, 0.99 * delta, n_classes=10, regulariser=penalty, bias=True
    )
    assert noise.regulariser == 0
    weights = np.zeros((10, 65))
    drawn = [model._with_output_noise(weights, loss, noise, penalty) for _ in range(20)]
    norms = np.linalg.norm(drawn, axis=(1, 2))
    scale = noise.sigma or 1 / noise.rate
    # the second term: rounding of the linear term
    sensitivity = 2 * (2e-4 + math.sqrt(650) * 2**-24 * scale) / penalty
    expected = (
        650 * sensitivity / 0.01
        if delta == 0
        else gaussian_sigma(0.01, 0.01 * delta) * sensitivity * 650**0.5
    )
    assert norms.mean() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("given", [{"l2": 1e200}, {"norm": 1e150}])
def test_no_size_of_a_parameter_tells_one_record_from_none(given):
    """Also where the first fit, in float32, goes beyond its range."""
    X = np.random.default_rng(0).uniform(-0.1, 0.1, size=(20, 3))
    one = np.where(np.arange(20) == 3, 0, 7)
    for labels in (one, np.full(20, 7)):
        model = LossPerturbation(1.0, 1e-5, classes=[0, 1], **given).fit(X, labels)
        assert np.isfinite(model.coef_).all()


def test_no_error_tells_of_rows_beyond_float32():
    """Their preconditioner cannot be made, and those of empty records can."""
    X = np.full((30, 2), 1e20)
    alternating = np.arange(30) % 2
    unknown = np.full(30, -1)
    method = LossPerturbation(1.0, norm=1e20, classes=[0, 1], device="cpu")
    for labels in (alternating, unknown):
        assert set(method.fit(X, labels).predict(X)) <= {0, 1}
