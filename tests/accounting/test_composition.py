"""Composition of any kinds: against brute force, other libraries, lower bounds, and
what must hold of every pair.
"""

import inspect
import itertools
import json
import math
import pickle
import re

import numpy as np
import pytest
import scipy
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings, strategies as st
from scipy import special

from dpnotes.accounting import (
    PrivacyProfile,
    _kinds,
    approximate,
    bagging,
    compose,
    confident_gnmax,
    dp_sgd,
    gaussian,
    gnmax,
    laplace,
    noisy_vote,
    pure,
    soft_vote,
    statement,
    subsampled,
    zcdp,
)
from dpnotes.accounting._curves import pair_of
from dpnotes.accounting._kinds import (
    ComposedRelease,
    GaussianRelease,
    LevelsRelease,
    LossDistribution,
    Release,
    losses_of,
)
from dpnotes.accounting._profile import ADJACENCIES, IMPLIED, describe
from dpnotes.accounting._renyi import Response, laplace_rdp, sampled_gaussian_rdp

EPSILONS = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0])
KINDS = {
    "sample": bagging(n=1000, subsample=10),
    "gaussian": gaussian(sigma=2.0),
    "pure": pure(0.3),
    "approximate": approximate(0.2, 1e-6),
    "laplace": laplace(scale=5.0),
    "zcdp": zcdp(0.02),
    "soft vote": soft_vote(beta=0.02, answers=30),
    "soft vote, published": soft_vote(beta=0.02, answers=30, analysis="published"),
    "noisy vote": noisy_vote(inverse_scale=0.04, answers=20),
    "noisy vote of many": noisy_vote(inverse_scale=0.04, answers=20, n_classes=10),
    "gnmax, counts": gnmax(sigma=20.0, answers=3, counts=[[100, 2, 1]]),
    "confident": confident_gnmax(
        sigma_threshold=50.0, sigma_answer=20.0, queries=9, answers=4
    ),
    "dp-sgd": dp_sgd(noise_multiplier=3.0, sample_rate=0.1, steps=50),
    "dp-sgd, rdp": dp_sgd(
        noise_multiplier=4.0, sample_rate=0.1, steps=50, accountant="rdp"
    ),
    "on a sample": subsampled(laplace(scale=1.0), sample_rate=0.05),
    "composed": compose(laplace(scale=8.0), gaussian(sigma=4.0)),
}
# their curves are not convex in e^epsilon
LOOSE = {"zcdp", "soft vote, published", "gnmax, counts", "dp-sgd, rdp"}


BAGGING = bagging(n=100, subsample=10)


class Discrete(Release):
    """Two finite distributions, known to the package by their deltas alone."""

    def __init__(self, p, q):
        self._p, self._q = p, q

    def delta(self, epsilon, direction):
        p, q = (self._p, self._q) if direction == "remove" else (self._q, self._p)
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.where(q > 0, np.exp(epsilon[..., None]) * q, 0.0)
        return np.maximum(0.0, p - lost).sum(-1)


def profile_of(release, **words):
    return PrivacyProfile(
        release, **describe("test", "add-remove"), source="test", **words
    )


def brute(parts, epsilon, direction):
    """Hockey-stick divergence of the product of finite distributions, by
    enumeration.
    """
    p, q = np.ones(1), np.ones(1)
    for one, other in parts:
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    p, q = (p, q) if direction == "remove" else (q, p)
    return np.maximum(0.0, p - np.exp(epsilon) * q).sum()


def test_the_table_says_which_kind_overrides_what():
    known = {
        name
        for name, each in vars(Release).items()
        if inspect.isfunction(each) and name not in ("delta", "worst", "corners")
    }
    rows = re.findall(r"^(?:- )?([A-Z]\w+) *(.*)$", _kinds.__doc__, re.MULTILINE)
    told = {name: {*re.findall(r"\w+", words)} for name, words in rows}
    kinds = [Release]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind is not Release and kind.__module__.startswith("dpnotes"):
            own = {name for name in vars(kind) if name in known}
            family = vars(kind).get("family")
            assert told[kind.__name__] == own | ({family} if family else set())


@pytest.mark.parametrize("offset", [0, 1, 5])
@pytest.mark.parametrize("name", KINDS)
def test_kinds_compose(name, offset):
    """At least either part; at most the sum of both, where all epsilon is spent on one
    of them; the same both ways.

    Each kind with itself and four others; ``make campaign`` has all pairs, between two
    sharper bounds.
    """
    kinds = list(KINDS)
    names = name, kinds[(kinds.index(name) + offset) % len(kinds)]
    one, other = (KINDS[each] for each in names)
    both = compose(one, other)
    deltas = both.delta(EPSILONS)
    assert not np.isnan(deltas).any()
    assert (np.diff(deltas) <= 1e-15).all()
    # such a part is known better by the pair that composition makes of its curve
    if not LOOSE & set(names):
        least = np.maximum(one.delta(EPSILONS), other.delta(EPSILONS))
        assert (deltas >= least * (1 - 1e-9) - 1e-18).all()
    for part, rest in ((0.5, 0.5), (0.2, 0.8)):
        simple = one.delta(part * EPSILONS) + other.delta(rest * EPSILONS)
        assert (deltas <= simple * 1.002 + 1e-12).all()
    epsilon = both.epsilon(1e-5)
    if math.isfinite(epsilon):
        assert both.delta(epsilon) <= 1e-5
        assert epsilon <= one.epsilon(5e-6) + other.epsilon(5e-6) + 1e-3
    np.testing.assert_allclose(
        compose(other, one).delta(EPSILONS), deltas, rtol=1e-9, atol=1e-18
    )


def test_nothing_is_computed_before_the_first_query():
    for one, other in itertools.product(KINDS.values(), repeat=2):
        both = compose(one, other)
        if isinstance(both._release, ComposedRelease):
            assert "first query" in repr(both)
            assert not both._release.ready
    both.delta(1.0)
    assert "recognised at 0.1 % false alarms" in repr(both)
    again = pickle.loads(pickle.dumps(both))
    assert again.delta(0.5) == both.delta(0.5)
    assert "advantage at most" in str(compose(laplace(scale=1.0), gaussian(sigma=1.0)))


@pytest.mark.parametrize("name", KINDS)
def test_repeated_composition_is_composition(name):
    """Two roads to the same thing give the same numbers."""
    one = KINDS[name]
    three, by_hand = one.compose(3), compose(one, one, one)
    np.testing.assert_allclose(
        by_hand.delta(EPSILONS), three.delta(EPSILONS), rtol=1e-9, atol=1e-18
    )
    np.testing.assert_allclose(
        compose(one.compose(2), one).delta(EPSILONS),
        three.delta(EPSILONS),
        rtol=1e-9,
        atol=1e-18,
    )


def adaptive_delta(widths, epsilons):
    """Delta of answers of these ranges in this order, each the worst coin given the
    answers before, by recursion.

    A coin of range w has log-ratios t and t - w, with the chances under which both
    distributions add up to 1.
    """
    grid = np.linspace(-6, 6, 4001)
    value = np.maximum(0.0, -np.expm1(grid))
    for width in reversed(widths):
        best = np.zeros_like(grid)
        for high in np.linspace(0, width, 42)[1:-1]:
            low = high - width
            # of the larger loss, under P
            chance = np.expm1(-low) / (np.exp(-low) - np.exp(-high))
            both = [
                np.interp(grid - loss, grid, value, left=1.0, right=0.0)
                for loss in (high, low)
            ]
            best = np.maximum(best, chance * both[0] + (1 - chance) * both[1])
        value = best
    return np.interp(epsilons, grid, value)


@pytest.mark.parametrize("seed", range(3))
def test_votes_are_known_better_together(seed):
    """Many answers by their Renyi curve, then its losses with those of another one: no
    other bound has both.

    What adaptive votes reveal whose answers take turns, found by recursion, is below.
    """
    draw = np.random.default_rng(seed)
    small, large = (float(draw.uniform(*ends)) for ends in ((0.03, 0.07), (0.15, 0.4)))
    some, one = soft_vote(beta=small, answers=20), soft_vote(beta=large)
    both = compose(some, one)
    bounds = [profile_of(bound) for bound in both._release.bounds]
    *others, together = (
        bound.epsilon(1e-5) for bound in (*bounds[:-2], bounds[-1], bounds[-2])
    )
    assert together < 0.99 * min(others)
    assert both.epsilon(1e-5) == together
    for same in (compose(one, some), compose(*[soft_vote(beta=small)] * 20, one)):
        assert same.epsilon(1e-5) == pytest.approx(together, rel=1e-12)
    epsilons = np.array([0.0, 0.2, 0.7])
    for place in (0, 10, 20):
        widths = [2 * small] * 20
        widths.insert(place, 2 * large)
        assert (adaptive_delta(widths, epsilons) <= both.delta(epsilons) + 1e-6).all()


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(2, 5),
    times=st.integers(1, 4),
    gap=st.floats(0.05, 4),
)
def test_never_below_brute_force_and_hardly_above(seed, size, times, gap):
    """Random finite distributions, some with outcomes of one data set alone; the
    package knows their deltas only.
    """
    draw = np.random.default_rng(seed)
    pairs = []
    for _ in range(2):
        p, q = draw.dirichlet(np.ones(size)), draw.dirichlet(np.ones(size))
        q = (p * np.exp(gap * np.tanh(q - q.mean()))) * (draw.random(size) > 0.05)
        p = p * (draw.random(size) > 0.05)
        if not p.sum() or not q.sum():
            p = q = np.ones(size)
        pairs.append((p / p.sum(), q / q.sum()))
    one, other = (profile_of(Discrete(*pair)) for pair in pairs)
    profile = compose(other, *[one] * times)
    parts = [pairs[1]] + [pairs[0]] * times
    for direction in ("remove", "add"):
        for epsilon in (0.0, 0.1 * gap, gap):
            truth = brute(parts, epsilon, direction)
            ours = profile.delta(epsilon, direction=direction)
            assert truth * (1 - 1e-9) - 1e-14 <= ours
            assert (
                ours
                <= max(
                    truth * 1.02, brute(parts, epsilon * 0.98 - 0.02 * gap, direction)
                )
                + 1e-9
            )


def of_library(make, pessimistic):
    total = None
    for kind, scale, times in make:
        interval = 1e-3 if pessimistic else 4e-4
        about = {
            "pessimistic_estimate": pessimistic,
            "value_discretization_interval": interval,
        }
        about["use_connect_dots"] = pessimistic
        if kind == "laplace":
            one = pld.from_laplace_mechanism(scale, **about)
        else:
            one = pld.from_gaussian_mechanism(
                scale, sampling_prob=0.05 if kind == "sampled" else 1.0, **about
            )
        one = one.self_compose(times) if times > 1 else one
        total = one if total is None else total.compose(one)
    return total


OURS = {
    "laplace": lambda scale: laplace(scale=scale),
    "gaussian": lambda scale: gaussian(sigma=scale),
    "sampled": lambda scale: subsampled(gaussian(sigma=scale), sample_rate=0.05),
}


@pytest.mark.parametrize(
    "make",
    [
        [("laplace", 3.0, 4), ("gaussian", 2.0, 1)],
        [("laplace", 30.0, 300)],
        [("sampled", 0.7, 40)],
        [("sampled", 2.0, 500), ("laplace", 2.0, 1)],
    ],
)
def test_between_the_optimistic_and_the_pessimistic_library(make):
    parts = [OURS[kind](scale).compose(times) for kind, scale, times in make]
    profile = compose(*parts) if len(parts) > 1 else parts[0]
    low, high = of_library(make, False), of_library(make, True)
    for delta in (1e-2, 1e-5, 1e-8):
        found = profile.epsilon(delta)
        assert (
            low.get_epsilon_for_delta(delta) * (1 - 1e-9)
            <= found
            <= high.get_epsilon_for_delta(delta) * 1.003
        )


def test_many_steps_keep_their_accuracy():
    """A million Gaussian releases through the grid alone, against the closed form."""
    one = subsampled(gaussian(sigma=100.0), sample_rate=1 - 1e-12)
    for times in (10, 10**6):
        exact = gaussian(sigma=100.0).compose(times)
        for delta in (1e-3, 1e-6, 1e-12):
            assert (
                exact.epsilon(delta)
                <= one.compose(times).epsilon(delta)
                <= exact.epsilon(delta) * 1.003
            )


def test_unlike_statements_are_the_optimal_composition():
    levels = [(0.3, 1e-3), (0.7, 0.0), (0.3, 1e-2), (0.0, 1e-4)]
    profile = compose(*(approximate(*level) for level in levels))
    assert isinstance(profile._release, LevelsRelease)
    parts = []
    for epsilon, delta in levels:
        true = (1 - delta) / (1 + math.exp(-epsilon))
        p = np.array([delta, true, 1 - delta - true, 0.0])
        parts.append((p, p[[3, 2, 1, 0]]))
    for epsilon in EPSILONS[:6]:
        assert profile.delta(epsilon) == pytest.approx(
            brute(parts, epsilon, "remove"), rel=1e-10
        )
    # too many sums to list
    many = compose(*(pure(0.01 + 1e-4 * index) for index in range(60)))
    assert isinstance(many._release, ComposedRelease)
    assert (
        pure(0.01).compose(60).epsilon(1e-6)
        < many.epsilon(1e-6)
        < pure(0.016).compose(60).epsilon(1e-6)
    )


@pytest.mark.parametrize(
    ("profile", "exact"),
    [
        (subsampled(gaussian(sigma=1.0), sample_rate=0.999999999), lambda a: a / 2),
        (laplace(scale=0.5), lambda a: laplace_rdp(a, 2.0)),
        (pure(1.3), Response(1.3)),
        (
            subsampled(gaussian(sigma=1.5), sample_rate=0.02),
            lambda a: sampled_gaussian_rdp(1.5, 0.02, a),
        ),
    ],
    ids=["gaussian", "laplace", "response", "sampled"],
)
def test_renyi_divergence_of_a_curve(profile, exact):
    orders = np.array([1.001, 1.5, 2.0, 5.0, 12.0])
    found, truth = (
        pair_of(profile._release.delta, profile._release.symmetric).rdp(orders),
        exact(orders),
    )
    assert (found >= truth * (1 - 1e-7)).all()
    np.testing.assert_allclose(found, truth, rtol=2e-3)


@pytest.mark.parametrize("name", sorted(KINDS.keys() - LOOSE))
def test_dominating_distribution_is_never_below_the_curve(name):
    profile = KINDS[name]
    halves = losses_of(profile._release.terms())
    deltas = LossDistribution(halves).delta(EPSILONS, "remove")
    if isinstance(profile._release, ComposedRelease):
        profile = profile_of(profile._release.bounds[0])  # the sum of losses alone
    assert (
        deltas >= profile.delta(EPSILONS, direction="remove") * (1 - 1e-9) - 1e-15
    ).all()


def test_groups_of_records():
    assert laplace(scale=4.0).group(2).delta(0.3) == laplace(scale=2.0).delta(0.3)
    assert zcdp(0.1).group(3).epsilon(1e-5) == pytest.approx(zcdp(0.9).epsilon(1e-5))
    several = bagging(n=100, subsample=1).group(5)
    assert (several.advantage, several.exactness) == (
        pytest.approx(0.05),
        "upper bound",
    )
    assert approximate(0.5, 1e-6).group(2).delta(1.0) == pytest.approx(
        1e-6 * (1 + math.exp(0.5))
    )
    with pytest.raises(ValueError, match="size must be >= 1"):
        gaussian(sigma=1.0).group(0)


def sampled_group(size, rate, mu, epsilon, *, exchanged):
    """Deltas of a group that shifts a sum by mu for each of its records in a Poisson
    sample (exchanged: by -mu in the other data set), by integration.
    """
    z = np.linspace(-size * mu - 10, size * mu + 10, 10_001)
    counts = np.arange(size + 1)
    log_weights = scipy.stats.binom.logpmf(counts, size, rate)[:, None]
    # common factors of both densities are left out until the end
    log_densities = []
    for shifts in (mu * counts, -mu * counts if exchanged else 0 * counts):
        parts = log_weights - (z - shifts[:, None]) ** 2 / 2
        log_densities.append(special.logsumexp(parts, axis=0))
    density = np.exp(log_densities[0]) / math.sqrt(2 * math.pi)
    losses = log_densities[0] - log_densities[1]
    above = np.maximum(losses - epsilon[:, None], 0.0)
    return np.trapezoid(density * -np.expm1(-above), z)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("size", "rate", "mu"),
    [(2, 0.3, 1.0), (5, 0.1, 2.0), (9, 0.5, 10.0), (20, 0.9, 3.0), (80, 0.9, 1.0)],
)
def test_a_group_in_a_sample_is_bounded_where_one_record_has_no_delta_left(
    size, rate, mu, adjacency
):
    """The doubles round the delta of one record to 0 before it is multiplied by the
    factor of a group, which may be as large.
    """
    once = dp_sgd(
        noise_multiplier=1 / mu, sample_rate=rate, steps=1, adjacency=adjacency
    )
    group = once.group(size)
    most = (size * mu) ** 2 + 10 * size * mu
    epsilon = np.linspace(0.0, most, 40)
    found = group.delta(epsilon)
    assert (np.diff(found) <= 0).all()
    exchanged = adjacency == "replace-one"
    truth = sampled_group(size, rate, mu, epsilon, exchanged=exchanged)
    assert (found >= truth * (1 - 1e-6) - 1e-12).all()


@pytest.mark.parametrize(
    "once", [approximate(800.0, 1e-310), approximate(390.0, 5e-324).group(2)]
)
def test_a_group_may_grow_any_delta_to_one(once):
    assert once.group(3).delta(2400.0) == 1.0
    assert pure(800.0).group(3).delta(2400.0) == 0.0


@pytest.mark.parametrize(("given", "to"), list(itertools.permutations(ADJACENCIES, 2)))
def test_implications_between_adjacencies(given, to):
    profile = gaussian(sigma=2.0, adjacency=given)
    if (given, to) not in IMPLIED:
        with pytest.raises(ValueError, match="adjacency must be one that"):
            profile.for_adjacency(to, assumed=True)
        return
    size, condition = IMPLIED[given, to]
    if condition:
        with pytest.raises(ValueError, match=condition):
            profile.for_adjacency(to)
    found = profile.for_adjacency(to, assumed=bool(condition))
    assert found.adjacency == to
    assert found.assumption == condition
    assert found.delta(1.0) == gaussian(sigma=2.0 / size).delta(1.0)
    assert profile.adjacency == given
    assert profile.assumption == ""
    assert profile.for_adjacency(given) is profile


def test_unsafe_edges():
    assert soft_vote(beta=20.0).tradeoff(1e-17) == pytest.approx(0.298164558, rel=1e-8)
    assert 0 < gaussian(sigma=1000.0).delta(1e5) < 1e-300
    huge = pure(1e300).compose(10**9)
    np.testing.assert_array_equal(huge.delta([0.0, 1e300, np.inf]), [1.0, 1.0, 0.0])
    assert huge.epsilon(0.5) > 1e300
    small = pure(1e-4).compose(10**9)
    assert small.epsilon(1e-5) == pytest.approx(
        gaussian(sigma=1 / (1e-4 * math.sqrt(1e9))).epsilon(1e-5), rel=1e-3
    )


@pytest.mark.parametrize("name", sorted(LOOSE))
def test_both_directions_meet_in_one_convex_curve(name):
    """So that the masses of the pair add up to 1, and stay there when a million of
    them compose.
    """
    pair = KINDS[name]._release._pair
    for losses, masses, infinite in pair.atoms():
        assert masses.sum() + infinite == pytest.approx(1.0, abs=1e-9)
        assert (masses * np.exp(-losses)).sum() <= 1 + 1e-9


def test_losses_of_every_size_compose():
    parts = [zcdp(1e4), zcdp(1e-12), approximate(0.0, 1.0), soft_vote(beta=100.0)]
    for size in (1e-3, 1e8):
        parts += [gaussian(sigma=size), laplace(scale=size), pure(1 / size)]
    parts += [pure(1e300), pure(0.0)]
    for one, other in itertools.pairwise(parts):
        both = compose(one, other)
        deltas = both.delta([0.0, 1.0, 1e3, 1e7, np.inf])
        assert not np.isnan(deltas).any()
        assert (np.diff(deltas) <= 1e-15).all()
        assert deltas[0] >= max(one.advantage, other.advantage) * (1 - 1e-6)
        assert not np.isnan(both.epsilon(1e-5))
        json.dumps(both.to_dict(), allow_nan=False)


def test_composition_of_thousands_is_grouped():
    """Work is counted: a thousand equal parts are one part a thousand times, whether
    written out or not.
    """
    for make in (
        lambda: laplace(scale=100.0),
        lambda: subsampled(gaussian(sigma=2.0), sample_rate=0.1),
    ):
        written = compose(*(make() for _ in range(1000)))
        assert [times for _, times in written._release.terms()] == [1000]
        assert written.delta(1.0) == make().compose(1000).delta(1.0)
    assert isinstance(
        compose(*(gaussian(sigma=100.0) for _ in range(1000)))._release, GaussianRelease
    )


def test_exactness_of_what_is_composed():
    assert compose(gaussian(sigma=1.0), gaussian(sigma=2.0)).exactness == "exact"
    mixed = compose(gaussian(sigma=1.0), laplace(scale=1.0))
    assert mixed.exactness == "upper bound"
    assert "by privacy losses on a grid" in mixed.remark
    assert (
        laplace(scale=1.0).compose(2).compose(3).remark
        == laplace(scale=1.0).compose(6).remark
    )
    claimed = compose(KINDS["soft vote, published"], gaussian(sigma=1.0))
    assert (claimed.exactness, claimed.status) == ("claimed", "refuted")
    assert "  claimed: epsilon " in str(claimed)
    assert "claimed" not in str(gaussian(sigma=1.0))


def test_composition_refuses_with_the_reason():
    with pytest.raises(
        ValueError, match=r"adjacency must be the same.*add-remove and replace-one"
    ):
        compose(gaussian(sigma=1.0), gaussian(sigma=1.0, adjacency="replace-one"))
    with pytest.raises(TypeError, match="profile 2 must be a PrivacyProfile, got 3"):
        compose(BAGGING, 3)
    with pytest.raises(TypeError, match="times must be an integer"):
        BAGGING.compose(1.5)
    with pytest.raises(ValueError, match="times must be >= 1"):
        BAGGING.compose(0)


def test_the_description_of_the_parts_is_a_copy():
    both = compose(gaussian(sigma=2.0), pure(1.0))
    both.parameters["parts"][0]["sigma"] = 100.0
    assert both.parameters["parts"][0]["sigma"] == 2.0
    statement(both).verify()


@pytest.mark.parametrize("sigma", np.linspace(0.5, 8.0, 16))
def test_a_printed_level_is_not_below_the_level(sigma):
    """Half of all numbers are above their nearest one of four digits."""
    profile = gaussian(sigma=float(sigma))
    told = re.findall(
        r"epsilon ([\d.]+) at|alarms: ([\d.]+) %|advantage ([\d.]+)", str(profile)
    )
    shown = [float("".join(groups)) for groups in told]
    exact = [profile.epsilon(1e-5), 100 * profile.tpr(0.001), profile.advantage]
    for each, level in zip(shown, exact, strict=True):
        assert level <= each <= level * 1.01
