"""Bagging and amplification by sampling: enumeration, quadrature, second libraries,
the theory notes' numbers.
"""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from dpnotes.accounting import (
    approximate,
    bagging,
    dp_sgd,
    gaussian,
    hockey_stick,
    pure,
    subsampled,
)
from dpnotes.lab.bagging.exposure import sample_distribution
from dpnotes.mechanisms import draw_subsets

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
FACTORS = [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(10)]


VECTORS = [
    ({"n": 60_000, "subsample": 300}, 0.004987562267, 0.004999958334),
    ({"n": 50_000, "subsample": 10_000, "replace": False}, 0.2, 0.2231385514),
    (
        {"n": 100, "subsample": 10, "n_models": 5, "replace": False},
        0.40951,
        0.6832948841,
    ),
    (
        {"n": 100, "subsample": 10, "n_models": 5, "replace": False, "scheme": "split"},
        0.5,
        0.6832948841,
    ),
    ({"n": 100, "subsample": 10, "n_models": 5}, 0.3949939329, None),
]


@pytest.mark.parametrize(("arguments", "delta", "published_epsilon"), VECTORS)
def test_known_values(arguments, delta, published_epsilon):
    assert bagging(**arguments).advantage == pytest.approx(delta, rel=1e-9)
    if published_epsilon is not None:
        published = bagging(**arguments, analysis="published")
        assert published.epsilon(published.delta(50.0)) == pytest.approx(
            published_epsilon, rel=1e-9
        )


def test_published_analysis_is_never_tighter():
    for arguments, _, _ in VECTORS:
        epsilons = np.linspace(0, 1, 11)
        published = bagging(**arguments, analysis="published").delta(epsilons)
        assert (published >= bagging(**arguments).delta(epsilons) - 1e-12).all()


def test_profile_equals_enumeration():
    """Every outcome of the sampler is counted, in rational arithmetic. A record that is
    replaced, here record 0 by 9, keeps its place.
    """
    for case in CASES:
        n, k, n_models, replace, scheme = case
        first = law(n, *case[1:])
        replaced = {
            tuple(tuple(9 if row == 0 else row for row in one) for one in draw): mass
            for draw, mass in first.items()
        }
        others = {"add-remove": law(n - 1, *case[1:]), "replace-one": replaced}
        for adjacency, second in others.items():
            profile = bagging(
                n=n,
                subsample=k,
                n_models=n_models,
                replace=replace,
                scheme=scheme,
                adjacency=adjacency,
            )
            for factor in FACTORS:
                epsilon = float(np.log(float(factor)))
                pairs = {"remove": (first, second), "add": (second, first)}
                for direction, pair in pairs.items():
                    exact = float(hockey_stick(*pair, factor))
                    # 1e-12: e^epsilon is rounded before it meets the fraction
                    ours = profile.delta(epsilon, direction=direction)
                    assert ours == pytest.approx(exact, abs=1e-12)


def test_composition_of_published_samples_is_exact():
    publish = approximate(0.0, 1.0, adjacency="replace-one")
    for replace in (False, True):
        sample = {"n": 40, "subsample": 4, "replace": replace}
        ours = subsampled(publish, **sample).compose(7)
        exact = bagging(**sample, n_models=7, adjacency="replace-one")
        np.testing.assert_allclose(
            ours.delta(EPSILONS), exact.delta(EPSILONS), rtol=1e-9
        )


def law(n, subsample, n_models, replace, scheme):
    return sample_distribution(
        n=n, subsample=subsample, n_models=n_models, replace=replace, scheme=scheme
    )


CASES = [
    (n, k, n_models, replace, scheme)
    for n in (2, 3, 4, 5)
    for k in (1, 2, 3)
    for n_models in (1, 2)
    for replace, scheme in (
        (True, "independent"),
        (False, "independent"),
        (False, "split"),
    )
    if (n - 1) ** (k * n_models) <= 5000
    and (replace or k <= n - 1)
    and (scheme != "split" or k * n_models <= n - 1)
]


def test_law_is_that_of_the_sampler():
    """The enumerated law against the sampler that bagging uses: chi-square at 1e-3,
    with power against a shift.
    """
    for replace, scheme in (
        (True, "independent"),
        (False, "independent"),
        (False, "split"),
    ):
        expected = law(4, 2, 2, replace, scheme)
        seeds = range(20_000)
        draws = [
            draw_subsets(
                4, subsample=2, n_models=2, replace=replace, scheme=scheme, seed=s
            )
            for s in seeds
        ]
        observed = Counter(tuple(tuple(row) for row in draw.tolist()) for draw in draws)
        assert set(observed) <= set(expected)
        counts = [observed[outcome] for outcome in expected]
        assert stats.chisquare(counts).pvalue > 1e-3
        # a sampler that favours one outcome by two percent is noticed
        counts[0] += 20_000 // 50
        assert stats.chisquare(counts).pvalue < 1e-3


@given(
    n=st.integers(1, 10**6),
    subsample=st.integers(1, 10**5),
    n_models=st.integers(1, 100),
    replace=st.booleans(),
)
def test_samples_reveal_all_or_nothing(n, subsample, n_models, replace):
    subsample = subsample if replace else min(subsample, n)
    profile = bagging(n=n, subsample=subsample, n_models=n_models, replace=replace)
    pi, epsilons = profile.advantage, np.array([0.0, 1e-6, 0.1, 1.0, 30.0, 800.0])
    assert (profile.delta(epsilons) == pi).all()
    assert profile.epsilon(pi) == 0.0
    assert profile.epsilon(np.nextafter(pi, 0)) == np.inf
    # as to release once more
    more = bagging(n=n, subsample=subsample, n_models=2 * n_models, replace=replace)
    assert profile.compose(2).advantage == pytest.approx(more.advantage, rel=1e-12)


def outputs(law, ratio, levels):
    """Exact output law of geometric noise on the sum of a sample, truncated to
    0..levels - 1, a ratio of ``ratio``.
    """
    found = Counter()
    for sample, mass in law.items():
        weights = [ratio ** -abs(level - sum(sample)) for level in range(levels)]
        total = sum(weights)
        for level, weight in enumerate(weights):
            found[level] += mass * weight / total
    return found


def fixed_size(records, size, replace):
    """Law of the sampled values, in rational numbers."""
    drawn = (
        list(product(records, repeat=size))
        if replace
        else list(combinations(records, size))
    )
    return {
        sample: Fraction(count, len(drawn)) for sample, count in Counter(drawn).items()
    }


def worst_ratio(size, ratio, levels, step):
    """e^epsilon of the mechanism above when the sum moves by ``step``."""
    laws = [outputs({(s,): Fraction(1)}, ratio, levels) for s in range(size + 1)]
    pairs = [(laws[s], laws[s + step]) for s in range(size + 1 - step)]
    return max(max(p[o] / q[o], q[o] / p[o]) for p, q in pairs for o in p)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("n", "size"), [(3, 2), (4, 2), (4, 3), (5, 1)])
def test_no_mechanism_leaks_more_than_the_amplified_pure_level(n, size, replace):
    """Every outcome of sampling, then noise on the sum, both ways round, at the
    levels where the bound is decided.
    """
    ratio, levels = Fraction(2), size + 1
    epsilon = float(np.log(float(worst_ratio(size, ratio, levels, 1))))
    profile = subsampled(
        pure(epsilon, adjacency="replace-one"), n=n, subsample=size, replace=replace
    )
    largest = 0.0
    for others in product((0, 1), repeat=n - 1):
        one, other = (
            outputs(fixed_size((*others, bit), size, replace), ratio, levels)
            for bit in (0, 1)
        )
        for factor in FACTORS:
            bound = profile.delta(float(np.log(float(factor))))
            exact = float(
                max(hockey_stick(one, other, factor), hockey_stick(other, one, factor))
            )
            assert exact <= bound + 1e-12
            largest = max(largest, exact / bound if bound else 0.0)
    assert largest > 0.3  # the bound is of the right size


def test_gaussian_noise_on_a_sample_with_replacement():
    """The worst data set: one record of value 1 among zeros, the sum of the draws
    released with noise.
    """
    n, size, sigma = 20, 5, 1.5
    profile = subsampled(
        gaussian(sigma=sigma, adjacency="replace-one"),
        n=n,
        subsample=size,
        replace=True,
    )
    copies = stats.binom(size, 1 / n)
    for epsilon in (0.0, 0.1, 0.5):

        def excess(x, factor):
            one = sum(
                copies.pmf(j) * stats.norm.pdf(x, j, sigma) for j in range(size + 1)
            )
            return max(0.0, one - factor * stats.norm.pdf(x, 0, sigma))

        exact = integrate.quad(
            excess, -20, 30, args=(np.exp(epsilon),), limit=400, epsabs=1e-12
        )[0]
        # not attained: each number of copies has a best test of its own
        bound = profile.delta(epsilon)
        assert 0.8 * bound < exact <= bound


@pytest.mark.parametrize(
    ("n", "subsample", "most"),
    [(60_000, 2000, 120), (60_000, 5000, 120), (10**12, 10**12, 200), (10, 10**7, 260)],
)
def test_copies_that_hardly_ever_occur_are_not_computed(n, subsample, most):
    """Work is counted; what is left out or counted together errs to the private
    side.
    """
    base = gaussian(sigma=max(1.0, subsample / n), adjacency="replace-one")
    profile = subsampled(base, n=n, subsample=subsample, replace=True)
    release = profile._release
    assert len(release._groups) <= most
    assert 0 < release._lost < 1e-299
    drawn = stats.binom(subsample, 1 / n)
    if subsample <= 5000:
        every = np.arange(1, subsample + 1)
        groups = [base.group(int(size)).delta(0.0) for size in every]
        whole = (drawn.pmf(every) * groups).sum()
        assert profile.advantage == pytest.approx(whole, rel=1e-12)
    # Gaussian noise at the mean number of copies is a lower bound of the right size
    mean = base.group(max(1, round(subsample / n))).advantage
    least = mean * drawn.sf(max(0, round(subsample / n) - 1)) * 0.99
    assert least <= profile.advantage <= drawn.sf(0)


def test_the_least_and_the_largest_sample():
    base = gaussian(sigma=1.0)
    exchanged = gaussian(sigma=1.0, adjacency="replace-one")
    assert subsampled(base, sample_rate=1.0) is base
    assert subsampled(exchanged, n=1, subsample=1) is exchanged
    assert subsampled(base, sample_rate=0.0).epsilon(0.0) == 0
    one = subsampled(exchanged, n=7, subsample=1)
    alike = [
        (subsampled(base, sample_rate=1 - 1e-12), base),
        (subsampled(exchanged, n=7, subsample=1, replace=True), one),
        (subsampled(exchanged, n=1, subsample=1, replace=True), exchanged),
        # the record three times, for certain
        (subsampled(exchanged, n=1, subsample=3, replace=True), gaussian(sigma=1 / 3)),
    ]
    for profile, expected in alike:
        found = profile.delta(EPSILONS)
        np.testing.assert_allclose(found, expected.delta(EPSILONS), rtol=1e-9)


def test_batches_of_fixed_size_need_twice_the_sensitivity():
    """With sensitivity 1 the account claims 0.302; some records attain three times
    that.
    """

    def epsilon(sensitivity):
        base = gaussian(sigma=2.0, sensitivity=sensitivity, adjacency="replace-one")
        profile = subsampled(base, n=10_000, subsample=100).compose(200)
        return profile.epsilon(1e-5)

    # all others pull one way: the sum moves by two norms, or not at all
    attained = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=200).epsilon(1e-5)
    assert epsilon(1.0) == pytest.approx(0.302, abs=5e-4)
    assert epsilon(2.0) == pytest.approx(1.010, abs=5e-4)
    assert 3 * epsilon(1.0) < attained < epsilon(2.0)


@pytest.mark.parametrize("sigma", [0.7, 1.0])
def test_shuffled_batches_are_not_poisson_batches(sigma):
    """One pass of two batches, by quadrature: the record pulls against all others, or
    is empty.
    """
    y = np.linspace(-8 * sigma, 2 + 8 * sigma, 1201)
    with_record, others, emptied = (
        stats.norm.pdf(y, mean, sigma) for mean in (2, 0, 1)
    )
    joint = [
        (np.outer(own, others) + np.outer(others, own)) / 2 * (y[1] - y[0]) ** 2
        for own in (with_record, emptied)
    ]
    account = {"sample_rate": 0.5, "steps": 2, "adjacency": "zero-out"}
    poisson = dp_sgd(noise_multiplier=sigma, **account).delta(1.0)
    exact = np.maximum(0.0, joint[0] - np.e * joint[1]).sum()
    exact = max(exact, np.maximum(0.0, joint[1] - np.e * joint[0]).sum())
    assert 1.4 * poisson < exact <= gaussian(sigma=sigma).delta(1.0)


OTHER = pure(1.0, adjacency="replace-one")


@pytest.mark.parametrize(
    ("base", "arguments", "message"),
    [
        (
            pure(1.0),
            {"sample_rate": 1.1},
            "sample_rate must be >= 0 and <= 1, got sample_rate=",
        ),
        (OTHER, {"sample_rate": 0.5}, "must be for adjacency='add-remove'"),
        (pure(1.0), {"n": 10, "subsample": 2}, "must be for adjacency='replace-one'"),
        (OTHER, {}, "either by sample_rate or by n and subsample"),
        (
            pure(1.0),
            {"sample_rate": 0.1, "replace": True},
            "replace=True needs n and subsample",
        ),
        (OTHER, {"n": 10}, "both n and subsample, got n=10, subsample=None"),
        (OTHER, {"n": 10, "subsample": 11}, "at most n=10 without replacement"),
        (OTHER, {"n": 0, "subsample": 1}, "n must be >= 1, got n=0"),
    ],
)
def test_sampling_refuses_with_the_reason(base, arguments, message):
    with pytest.raises(ValueError, match=message):
        subsampled(base, **arguments)
