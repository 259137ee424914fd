"""DP-SGD, the last iterate and SGD's own noise: other libraries, inversion, brute
force, a paper's table.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special, stats

from dpnotes.accounting import (
    _descent,
    compose,
    dp_sgd,
    dp_sgd_noise_multiplier,
    gaussian,
    gaussian_sigma,
    last_iterate,
    last_iterate_mu,
    step_contraction,
)
from dpnotes.accounting._renyi import sampled_gaussian_rdp
from dpnotes.accounting.papers import augmenting_sigma, sgd_sensitivity
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon

MNIST = 256 / 60000
EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


def binomial(rate, sigma, alpha):
    k = np.arange(alpha + 1)
    log_terms = (
        special.gammaln(alpha + 1)
        - special.gammaln(k + 1)
        - special.gammaln(alpha - k + 1)
        + (alpha - k) * np.log1p(-rate)
        + k * np.log(rate)
        + (k * k - k) / (2 * sigma**2)
    )
    return special.logsumexp(log_terms) / (alpha - 1)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 4.0, 50.0])
def test_renyi_equals_the_binomial_sum(rate, sigma):
    orders = np.array([2, 3, 5, 12, 64, 256])
    expected = [binomial(rate, sigma, int(alpha)) for alpha in orders]
    # absolute: the binomial sum is 1 + the moment, so that its logarithm carries the
    # rounding of lgamma
    np.testing.assert_allclose(
        sampled_gaussian_rdp(sigma, rate, orders), expected, rtol=1e-11, atol=3e-13
    )


@pytest.mark.parametrize("alpha", [1e4, 1e5])
def test_renyi_of_an_order_beyond_the_grid_is_a_close_upper_bound(alpha):
    """At high orders the moment is that of the noise alone, times rate^alpha: a
    lower bound to hold against.
    """
    rate, sigma = 0.01, 0.5
    least = (alpha * np.log(rate) + alpha * (alpha - 1) / (2 * sigma**2)) / (alpha - 1)
    assert least <= sampled_gaussian_rdp(sigma, rate, alpha) <= least * (1 + 1e-9)


def test_small_moments_keep_their_digits():
    """q^2 (e^(1/sigma^2) - 1) at order 2, far below the rounding of 1 + moment."""
    sigma, rate = np.array([1.0, 10.0, 1000.0, 1e6]), 1e-6
    exact = np.log1p(rate**2 * np.expm1(1 / sigma**2))
    np.testing.assert_allclose(sampled_gaussian_rdp(sigma, rate, 2.0), exact, rtol=1e-8)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "rdp", "pld"),
    [(1.0, 0.01, 1000, 2.1077531, 1.82824), (1.1, MNIST, 14100, 2.6007181, 2.38521)],
)
def test_epsilon_known_values(sigma, rate, steps, rdp, pld):
    ours = dp_sgd(
        noise_multiplier=sigma, sample_rate=rate, steps=steps, accountant="rdp"
    ).epsilon(1e-5)
    # the published one was found on a grid of orders; ours searches them all
    assert rdp * 0.995 < ours <= rdp
    ours = dp_sgd(noise_multiplier=sigma, sample_rate=rate, steps=steps).epsilon(1e-5)
    # the finest grid; ours is coarser
    assert pld - 1e-5 <= ours == pytest.approx(pld, rel=3e-4)


def test_agrees_with_the_accountants_of_two_libraries():
    import dp_accounting
    from opacus.accountants import PRVAccountant

    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.3)),
        500,
    )
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64))
    theirs = dp_accounting.rdp.RdpAccountant(orders).compose(event).get_epsilon(1e-5)
    rdp = dp_sgd(noise_multiplier=1.3, sample_rate=0.02, steps=500, accountant="rdp")
    assert theirs * 0.999 < rdp.epsilon(1e-5) <= theirs
    accountant = PRVAccountant()
    accountant.history = [(1.3, 0.02, 500)]
    pld = dp_sgd(noise_multiplier=1.3, sample_rate=0.02, steps=500)
    # its error bound is 0.01
    assert pld.epsilon(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), abs=0.011)
    assert pld.epsilon(1e-5) < rdp.epsilon(1e-5)
    assert (pld.delta([0.0, 0.5, 1.0]) < rdp.delta([0.0, 0.5, 1.0])).all()


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_composition_is_more_steps(accountant):
    def steps(count):
        return dp_sgd(
            noise_multiplier=2.0, sample_rate=0.1, steps=count, accountant=accountant
        )

    one = steps(120).epsilon(1e-6)
    for same in (steps(40).compose(3), compose(steps(20), steps(100))):
        assert same.epsilon(1e-6) == pytest.approx(one, rel=1e-6)


def assert_least(sigma, epsilon, delta, *, off, **run):
    """The noise is enough, and noise that is smaller by the part ``off`` is not."""
    assert dp_sgd(noise_multiplier=sigma, **run).delta(epsilon) <= delta
    assert dp_sgd(noise_multiplier=sigma * (1 - off), **run).delta(epsilon) > delta


@given(
    epsilon=st.floats(0.01, 50),
    delta=st.floats(1e-12, 0.5),
    rate=st.sampled_from([1e-5, 0.003, 0.1, 0.8, 1.0]),
    steps=st.sampled_from([1, 77, 5000, 10**6]),
)
@settings(max_examples=25)
def test_calibration_inverts_the_profile_from_the_private_side(
    epsilon, delta, rate, steps
):
    run = {"sample_rate": rate, "steps": steps, "accountant": "rdp"}
    sigma = dp_sgd_noise_multiplier(epsilon, delta, **run)
    assert_least(sigma, epsilon, delta, off=1e-3, **run)


@pytest.mark.parametrize("epsilon", [54524.0, 1e20])
def test_calibration_for_a_huge_epsilon_is_on_the_private_side(epsilon):
    run = {"sample_rate": 1e-5, "steps": 1, "accountant": "rdp"}
    sigma = dp_sgd_noise_multiplier(epsilon, 1e-18, **run)
    assert dp_sgd(noise_multiplier=sigma, **run).delta(epsilon) <= 1e-18


def test_calibration_of_arrays_is_that_of_each():
    epsilons, rates, steps = [[0.5], [4.0]], [0.01, 0.1, 1.0], [100, 1000, 10]
    by_rdp = partial(dp_sgd_noise_multiplier, accountant="rdp")
    together = by_rdp(epsilons, 1e-6, sample_rate=rates, steps=steps)
    assert together.shape == (2, 3)
    for (row, column), found in np.ndenumerate(together):
        run = {"sample_rate": rates[column], "steps": steps[column]}
        alone = by_rdp(epsilons[row][0], 1e-6, **run)
        assert isinstance(alone, float)
        assert found == pytest.approx(alone, rel=1e-7)


@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_calibration_by_loss_distribution(rate):
    run = {"sample_rate": rate, "steps": 100}
    sigma = dp_sgd_noise_multiplier(1.0, 1e-5, **run, accountant="pld")
    assert_least(sigma, 1.0, 1e-5, off=1e-4, **run)
    best = dp_sgd_noise_multiplier(1.0, 1e-5, **run)
    assert best == pytest.approx(sigma, rel=1e-9)
    assert sigma <= dp_sgd_noise_multiplier(1.0, 1e-5, **run, accountant="rdp")


def test_the_smaller_of_two_accountants_is_the_default(monkeypatch):
    """Losses where the delta is one of use, Renyi curves where it is below what a
    grid certifies.
    """
    made = []
    monkeypatch.setattr(
        _descent, "dp_sgd", lambda **run: made.append(run) or dp_sgd(**run)
    )
    run = {"sample_rate": 0.01, "steps": 1000}
    by_rdp = partial(dp_sgd_noise_multiplier, accountant="rdp", **run)
    assert dp_sgd_noise_multiplier(1.5, 1e-5, **run) < 0.95 * by_rdp(1.5, 1e-5)
    assert len(made) <= 5  # loss distributions for one pair
    assert dp_sgd_noise_multiplier(1.5, 1e-30, **run) == by_rdp(1.5, 1e-30)
    by = {
        accountant: dp_sgd(noise_multiplier=2.0, accountant=accountant, **run)
        for accountant in ("best", "pld", "rdp")
    }
    for epsilon in (0.0, 0.5, 20.0):
        least = min(by["pld"].delta(epsilon), by["rdp"].delta(epsilon))
        assert by["best"].delta(epsilon) == least


def densities(gradients, present, rate, sigma, y):
    """Density at ``y`` of the noisy sum over a Poisson sample of the records that
    are present.
    """
    total = np.zeros_like(y)
    for size in range(len(present) + 1):
        for chosen in itertools.combinations(present, size):
            weight = rate**size * (1 - rate) ** (len(present) - size)
            total += weight * stats.norm.pdf(
                y, sum(gradients[index] for index in chosen), sigma
            )
    return total


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_the_worst_data_set_of_four_records_attains_the_bound(adjacency, sigma):
    rate, y = 0.4, np.linspace(-4 - 10 * sigma, 4 + 10 * sigma, 4001)
    worst = {"remove": np.zeros(len(EPSILONS)), "add": np.zeros(len(EPSILONS))}
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), 3):
        for own, other in itertools.permutations((-1.0, 0.0, 1.0), 2):
            if adjacency != "replace-one" and other != 0.0:
                continue
            left = (1, 2, 3) if adjacency == "add-remove" else (0, 1, 2, 3)
            p = densities((own, *others), (0, 1, 2, 3), rate, sigma, y)
            q = densities((other, *others), left, rate, sigma, y)
            for direction, (one, two) in {"remove": (p, q), "add": (q, p)}.items():
                found = np.maximum(one - np.exp(EPSILONS)[:, None] * two, 0.0).sum(
                    -1
                ) * (y[1] - y[0])
                worst[direction] = np.maximum(worst[direction], found)
    profile = dp_sgd(
        noise_multiplier=sigma, sample_rate=rate, steps=1, adjacency=adjacency
    )
    for direction, found in worst.items():
        bound = profile.delta(EPSILONS, direction=direction)
        # the sum over the kinks of the integrand errs by less
        assert (found <= bound + 1e-6).all()
        np.testing.assert_allclose(bound, found, rtol=3e-2, atol=1e-4)


@given(contraction=st.floats(0, 1), steps=st.integers(1, 300))
def test_a_quadratic_attains_the_strongly_convex_bound(contraction, steps):
    """In one dimension, means differ by shift * sum c^j, with variance sigma^2 sum
    c^(2 j).
    """
    powers = contraction ** np.arange(steps)
    attained = powers.sum() / math.sqrt((powers**2).sum())
    assert last_iterate_mu(
        sigma=2.0, shift=2.0, steps=steps, contraction=contraction
    ) == pytest.approx(attained, rel=1e-9)


@given(diameter=st.floats(1e-3, 1e3), steps=st.integers(1, 2000))
def test_convex_bound_equals_brute_force(diameter, steps):
    t = np.arange(1, steps + 1)
    brute = min(math.sqrt(steps), ((diameter + 0.5 * t) / np.sqrt(t)).min() / 0.5)
    found = last_iterate_mu(sigma=0.5, shift=0.5, steps=steps, diameter=diameter)
    assert found == pytest.approx(brute, rel=1e-12)


@given(low=st.floats(0, 1), high=st.floats(1, 5), rate=st.floats(0.01, 1))
def test_contraction_of_quadratics(low, high, rate):
    slopes = np.linspace(low, high, 101)
    found = step_contraction(learning_rate=rate, smoothness=high, convexity=low)
    assert found == pytest.approx(np.abs(1 - rate * slopes).max())


def test_last_iterate_is_as_gaussian_noise():
    profile = last_iterate(sigma=0.05, shift=0.01, steps=400, diameter=2.0)
    expected = gaussian(sigma=1 / 4.0)
    found = profile.delta(EPSILONS)
    np.testing.assert_allclose(found, expected.delta(EPSILONS), rtol=1e-12)
    assert profile.adjacency == "replace-one"
    twice = gaussian(sigma=1 / 8.0)
    assert profile.compose(4).advantage == pytest.approx(twice.advantage)


# intrinsic privacy of SGD: Table III of Hyland and Tople from its own inputs


@given(
    epsilon=st.floats(0.01, 20), delta=st.floats(1e-10, 0.5), share=st.floats(0, 1.5)
)
def test_noise_adds_to_what_is_assumed(epsilon, delta, share):
    total = gaussian_sigma(epsilon, delta, sensitivity=0.3)
    added = augmenting_sigma(
        epsilon, delta, sensitivity=0.3, intrinsic_sigma=share * total
    )
    assert math.hypot(added, share * total) == pytest.approx(
        max(1.0, share) * total, rel=1e-9
    )
    assert (
        intrinsic_epsilon(
            sigma=math.hypot(added, share * total), sensitivity=0.3, delta=delta
        )
        <= epsilon + 1e-8
    )


@pytest.mark.parametrize("epochs", [0.5, 1.0, 1.25, 3.0])
def test_sensitivity_bounds_two_runs_and_the_fraction_does_not(epochs):
    """Linear losses attain the bound: gradients of the exchanged record point apart,
    and nothing contracts.
    """
    # the record is in the first batch of every pass
    n, batch, rate, record = 8, 2, 0.1, 0
    steps = round(epochs * n / batch)
    slopes = np.zeros(n)
    weights = np.zeros(2)
    for step in range(steps):
        start = step * batch % n
        for run, sign in enumerate([1.0, -1.0]):
            data = slopes.copy()
            data[record] = sign  # gradient of norm L = 1
            weights[run] -= rate * data[start : start + batch].sum() / batch
    setting = {
        "lipschitz": 1.0,
        "smoothness": 1e-9,
        "learning_rate": rate,
        "batch_size": batch,
        "epochs": epochs,
    }
    distance = abs(weights[0] - weights[1])
    assert distance == pytest.approx(sgd_sensitivity(**setting))
    fraction = sgd_sensitivity(**setting, analysis="published")
    assert (fraction < distance * (1 - 1e-12)) == (epochs % 1 != 0)
