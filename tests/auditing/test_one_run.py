"""Many canaries in few runs, and bets: optima, others' implementations, exact laws,
how soon a false claim falls.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from dpnotes.accounting import (
    approximate,
    bagging,
    dp_sgd,
    gaussian,
    one_run_audit,
    pure,
)
from dpnotes.auditing import Betting, lira, one_run
from dpnotes.auditing._one_run import Guesses, of_curve, of_mu, of_pair, tail_excluded
from dpnotes.auditing._scores import Curve


def evidence(examples, *runs, level=0.05):
    return Guesses(runs, level, np.zeros(examples), np.zeros(examples, dtype=bool))


@pytest.mark.parametrize(
    ("examples", "guesses", "correct", "epsilon"),
    # jax_privacy 2.0.0, CanaryScoreAuditor.epsilon_one_run_fdp's bound for Gaussian
    # noise, delta = 1e-5, to 1e-6
    [
        (1000, 100, 95, 3.3233005),
        (1000, 1000, 700, 1.3719800),
        (1000, 50, 50, 4.0619150),
        (100, 100, 75, 1.5735761),
        (10000, 500, 480, 3.7903606),
    ],
)
def test_mu_equals_another_implementation(examples, guesses, correct, epsilon):
    mu = evidence(examples, (guesses, correct)).mu()
    assert gaussian(sigma=1 / mu).epsilon(1e-5) == pytest.approx(epsilon, abs=2e-6)


@pytest.mark.parametrize("run", [(1000, 700), (100, 95), (50, 50), (100, 75)])
def test_epsilon_is_at_least_that_of_steinke(run):
    """Equal where delta is negligible; above it where 2 delta examples is not."""
    found, given = (
        evidence(1000, run),
        {"examples": 1000, "guesses": run[0], "correct": run[1]},
    )
    for delta in (0.0, 1e-5, 1e-3):
        assert found.epsilon(delta) >= one_run_audit(**given, delta=delta) - 1e-9
    assert found.epsilon(0.0) == pytest.approx(
        one_run_audit(**given, delta=0.0), abs=0.05
    )
    assert found.epsilon(1e-3) > one_run_audit(**given, delta=1e-3) + 0.01


@pytest.mark.parametrize(("guesses", "correct"), [(12, 10), (12, 8), (7, 7)])
@pytest.mark.parametrize("pair", [(1.0, 0.0), (0.5, 0.02), (0.0, 0.1)])
def test_the_recursion_is_the_optimum(guesses, correct, pair):
    """Largest tail of all distributions of correct guesses that meet the
    inequalities, by linear programming.
    """
    examples, (epsilon, delta) = 12, pair
    w = np.arange(guesses + 1)
    right, wrong = w / examples, (guesses - w) / examples
    rows, limits = [], []
    for j in range(1, guesses + 1):
        ours, theirs = np.where(w >= j, right, 0.0), np.where(w >= j - 1, wrong, 0.0)
        for factor, rest in (
            (np.exp(epsilon), delta),
            (np.exp(-epsilon), 1 - np.exp(-epsilon) * (1 - delta)),
        ):
            rows.append(ours - factor * theirs)
            limits.append(rest)
    best = optimize.linprog(
        -(w >= correct).astype(float),
        A_ub=rows,
        b_ub=limits,
        A_eq=[np.ones(len(w))],
        b_eq=[1.0],
    )
    run = {"examples": examples, "guesses": guesses, "correct": correct}
    assert not tail_excluded(-best.fun * (1 - 1e-6), of_pair(epsilon, delta), **run)
    if best.fun > -1 + 1e-9:
        assert tail_excluded(-best.fun * (1 + 1e-6), of_pair(epsilon, delta), **run)


@pytest.mark.parametrize(
    ("claim", "chance"),
    # of each number of correct guesses among 60, of a mechanism for which the claim is
    # true
    [
        (pure(1.0), stats.binom.pmf(np.arange(61), 60, 1 / (1 + np.exp(-1.0)))),
        (gaussian(sigma=1.0), stats.binom.pmf(np.arange(61), 60, stats.norm.cdf(0.5))),
        (
            approximate(0.0, 0.04),
            0.96 * stats.binom.pmf(np.arange(61), 60, 0.5)
            + 0.04 * (np.arange(61) == 60),
        ),
    ],
)
def test_true_claims_are_refuted_as_rarely_as_stated(claim, chance):
    """Randomised response, rounded noise, and a mechanism that reveals all canaries
    with probability delta.
    """
    for level in (0.05, 0.01):
        p_values = np.array([evidence(60, (60, v)).p_value(claim) for v in range(61)])
        assert chance[p_values <= level].sum() <= level
        assert np.diff(p_values).max() <= 1e-12
    limit = claim.delta(20.0)  # what is allowed to reveal all
    assert limit <= p_values[-1] < max(1.25 * limit, 0.005)


@pytest.mark.parametrize(
    "claim", [gaussian(sigma=0.7), pure(1.2), bagging(n=30, subsample=5)]
)
def test_least_of_a_curve_is_that_of_the_profile(claim):
    least = of_curve(Curve.of(claim, symmetric=True))
    rates = np.linspace(0, 1, 41)
    np.testing.assert_allclose(
        [least(x) for x in rates], claim.tradeoff(1 - rates), atol=2e-3
    )
    if claim.mechanism == "gaussian":
        np.testing.assert_allclose(
            [of_mu(claim.mu)(x) for x in rates], claim.tradeoff(1 - rates), atol=1e-9
        )


def canaries(mu, n):
    included = np.arange(n) % 2 == 0
    quantiles = stats.norm.ppf((np.arange(n // 2) + 0.5) / (n // 2))
    scores = np.empty(n)
    scores[included], scores[~included] = quantiles + mu, quantiles
    return scores, included


def test_many_canaries_refute_what_is_false():
    scores, included = canaries(2.0, 2000)
    report = one_run(scores, included, claim=gaussian(sigma=1.0))
    assert report.refuted
    assert 1.1 < report.mu < 2
    assert not one_run(scores, included, claim=gaussian(sigma=0.5)).refuted
    assert list(report.tried["guesses"]) == [100, 400, 1000]
    assert np.isnan(report.tpr(0.1))
    assert "best test" not in str(report)
    assert (
        report.plot().axes[0].get_legend_handles_labels()[1][0]
        == "canaries of this run"
    )
    assert report.delta(0.0) > 0
    alone = one_run(scores, included, claim=gaussian(sigma=1.0), guesses=400)
    # which others cost
    assert alone.mu > one_run(scores, included, guesses=[400, 2, 3]).mu
    assert one_run(-scores, included).mu == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [0.0] * 9}, "must both have shape"),
        ({"scores": [np.nan] * 10}, "scores must hold no NaN, got 10"),
        ({"included": [1] * 10}, "included must be boolean"),
        (
            {"included": [True] * 10},
            "must be drawn with probability 1/2 for each canary, got 10 of 10",
        ),
        ({"guesses": 11}, "guesses must be >= 1 and <= canaries=10"),
        ({"guesses": []}, "guesses must name at least one number"),
        (
            {"claim": pure(1.0), "adjacency": "replace-one"},
            "claim must be for the adjacency of the runs",
        ),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"scores": np.arange(10.0), "included": np.arange(10) % 2 == 0}
    with pytest.raises(ValueError, match=message):
        one_run(**{**given, **arguments})


def test_ratio_equals_the_densities():
    generator = np.random.default_rng(0)
    inside, outside = (
        generator.normal(1.0, 2.0, (8, 3)),
        generator.normal(0.0, 1.0, (9, 3)),
    )
    observed = generator.normal(size=(4, 3))
    mean, std = (lambda each: each.mean(0)), (lambda each: each.std(0, ddof=1))
    expected = stats.norm.logpdf(
        observed, mean(inside), std(inside)
    ) - stats.norm.logpdf(observed, mean(outside), std(outside))
    np.testing.assert_allclose(lira(inside, outside, observed), expected, atol=1e-12)
    np.testing.assert_allclose(
        lira(inside, outside, observed[0]), expected[0], atol=1e-12
    )
    pooled = [
        np.sqrt(((each - mean(each)) ** 2).sum() / (each.size - 3))
        for each in (inside, outside)
    ]
    expected = stats.norm.logpdf(observed, mean(inside), pooled[0]) - stats.norm.logpdf(
        observed, mean(outside), pooled[1]
    )
    np.testing.assert_allclose(
        lira(inside, outside, observed, variance="fixed"), expected, atol=1e-12
    )
    offline = lira(None, outside, observed)
    np.testing.assert_allclose(
        offline, (observed - mean(outside)) / std(outside), atol=1e-12
    )


def test_nan_leaves_out_models_of_one_side():
    """One matrix of shadow models serves both sides."""
    generator = np.random.default_rng(1)
    scores, included = (
        generator.normal(size=(10, 4)),
        np.arange(40).reshape(10, 4) % 3 == 0,
    )
    found = lira(
        np.where(included, scores, np.nan),
        np.where(included, np.nan, scores),
        np.zeros(4),
    )
    alone = lira(scores[included[:, 2], 2:3], scores[~included[:, 2], 2:3], np.zeros(1))
    np.testing.assert_allclose(found[2], alone[0], atol=1e-12)


def test_difficulty_of_an_example_is_taken_out():
    """Examples differ by far more than membership does."""
    generator = np.random.default_rng(2)
    difficulty, n = generator.normal(scale=10.0, size=1000), 1000
    included = generator.random((33, n)) < 0.5
    scores = difficulty + 2.0 * included + generator.normal(size=(33, n))
    shadow, ours = scores[1:], scores[0]
    ratio = lira(
        np.where(included[1:], shadow, np.nan),
        np.where(included[1:], np.nan, shadow),
        ours,
        variance="fixed",
    )
    assert one_run(ratio, included[0]).mu > 0.9
    assert one_run(ours, included[0]).mu < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observed": [np.nan, 0.0]}, "observed must be finite, got 1 bad entries"),
        ({"observed": 1.0}, "observed must have shape"),
        (
            {"scores_out": np.zeros((3, 1))},
            r"scores_out must have shape \[models, 2\], got shape \(3, 1\)",
        ),
        (
            {"scores_in": [[1.0, 2.0], [np.nan, 3.0]]},
            "scores_in must have finite scores that vary",
        ),
        (
            {"scores_in": [[1.0, 2.0]], "variance": "fixed"},
            "scores_in must have finite scores that vary",
        ),
        (
            {"scores_in": [[1.0, 2.0], [1.0, 3.0]]},
            "scores_in must have finite scores that vary",
        ),
        ({"variance": "global"}, "variance must be one of 'per-example', 'fixed'"),
    ],
)
def test_bad_scores_of_shadow_models_are_named(arguments, message):
    given = {
        "scores_in": [[1.0, 2.0], [2.0, 3.0]],
        "scores_out": [[0.0, 0.0], [1.0, 1.0]],
        "observed": [0.0, 0.0],
    }
    with pytest.raises(ValueError, match=message):
        lira(**{**given, **arguments})


ANSWERS = list(product([0.0, 1.0], repeat=2))


@pytest.mark.parametrize(
    ("claim", "tpr", "fpr"),
    [
        (pure(1.0), 1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0))),
        (approximate(0.0, 0.3), 0.3, 0.0),
    ],
)
def test_wealth_against_a_true_claim_has_a_mean_of_at_most_one(claim, tpr, fpr):
    """Over all outcomes of four pairs of a mechanism that uses all that the claim
    allows.
    """
    mean = reached = 0.0
    for outcome in product(ANSWERS, repeat=4):
        audit = Betting(claim, confidence=0.3)
        for pair in outcome:
            audit.update(*pair)
        chance = math.prod(
            (tpr if ours else 1 - tpr) * (fpr if theirs else 1 - fpr)
            for ours, theirs in outcome
        )
        mean += chance * audit.wealth
        reached += chance * audit.refuted
    assert 0.5 < mean <= 1 + 1e-12
    assert 0.005 < reached <= 0.7


@pytest.mark.parametrize(
    "claim",
    [gaussian(sigma=1.0), dp_sgd(noise_multiplier=1.0, sample_rate=0.2, steps=1)],
)
def test_no_bet_has_a_positive_mean_against_a_true_claim(claim):
    """Whatever the past was: the next payoff's mean by the mechanism's own
    distributions.
    """

    def tail(t, rate):
        return (1 - rate) * stats.norm.sf(t) + rate * stats.norm.sf(t - 1)

    rate = 1.0 if claim.mechanism == "gaussian" else 0.2
    for seed in range(20):
        generator, audit = np.random.default_rng(seed), Betting(claim)
        for _ in range(seed):
            # a past that makes one bold
            audit.update(generator.normal(2.0), generator.normal())
        bet = audit._bet
        ours, theirs = tail(bet.threshold, rate), tail(bet.threshold, 0.0)
        p, q = (ours, theirs) if bet.above else (1 - ours, 1 - theirs)
        p, q = (q, p) if bet.swapped else (p, q)
        assert bet.stake * (p - bet.factor * q - bet.delta) <= 1e-12
        assert 0 <= bet.stake * (bet.factor + bet.delta) < 1
        assert seed < 3 or bet.stake > 0


def test_false_claims_fall_soon_and_true_ones_stand():
    refuted, pairs = 0, []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        noise = generator.normal(size=(200, 2))
        true, false = Betting(gaussian(sigma=0.5)), Betting(gaussian(sigma=2.0))
        for member, nonmember in noise + np.array([2.0, 0.0]):
            true.update(member, nonmember)
            if not false.refuted:
                false.update(member, nonmember)
        refuted += true.refuted
        pairs.append(false.pairs)
    assert refuted <= stats.binom.isf(1e-9, 60, 0.05)
    assert np.median(pairs) < 25
    assert max(pairs) < 200


def test_several_scores_and_both_directions():
    generator = np.random.default_rng(1)
    audit = Betting(pure(0.5))
    while not audit.refuted:
        audit.update(
            [generator.normal(), -generator.normal(3.0)],
            [generator.normal(), -generator.normal()],
        )
    assert audit._bet.column == 1
    assert audit.pairs < 40
    assert audit.wealth >= 20


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((np.nan, 1.0), "must hold no NaN"),
        (([1.0, 2.0], [1.0]), "must have shape"),
        (([1.0, 2.0], [1.0, 2.0]), r"must have shape \[1\], got \[\[2\], \[2\]\]"),
    ],
)
def test_bad_bets_are_named(pair, message):
    audit = Betting(pure(1.0))
    audit.update(1.0, 0.0)
    with pytest.raises(ValueError, match=message):
        audit.update(*pair)
    with pytest.raises(ValueError, match="claim must be for the adjacency of the runs"):
        Betting(pure(1.0), adjacency="zero-out")
