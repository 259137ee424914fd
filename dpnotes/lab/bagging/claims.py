"""Claims 1 to 8 and 37 (Liu, Jia and Gong 2021): the intrinsic privacy of bagging, and what it was compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from dpnotes.accounting import PrivacyProfile, bagging, confident_gnmax, dp_sgd, hockey_stick
from dpnotes.lab._claim import Finding, equal, evidence, exceeds, shown
from dpnotes.lab.bagging import cells, grids, orderings
from dpnotes.lab.bagging.means import noisy
from dpnotes.lab.bagging.sampler import Outcome, sample_distribution
from dpnotes.lab.verdicts import HOLDS, Mean, above, compared, every, not_behind, opposite, verdict
from dpnotes.mechanisms import draw_subsets

RECORDS = 50_000  # of CIFAR10
EPOCHS = 100
BATCH = 128  # not stated in the paper: the power of two at which its sigmas give its epsilons
SGD_RUNS = (  # epsilon, delta, sigma, k of bagging: Table 2b
    (0.02, 0.02, 72.0, 1_000),
    (0.1, 0.095, 11.5, 5_000),
    (0.2, 0.181, 4.9, 10_000),
    (0.4, 0.33, 2.18, 20_000),
    (0.6, 0.45, 1.4, 30_000),
)
PUBLIC = 1000  # examples that PATE may ask about
PATE_RUNS = (  # of bagging: epsilon, delta; of PATE: epsilon, queries: Table 3
    (0.008, 0.008, 0.57, 100),
    (0.017, 0.017, 0.66, 150),
    (0.08, 0.08, 0.63, 180),
    (0.02, 0.02, 1.12, 100),
    (0.1, 0.095, 1.02, 130),
    (0.2, 0.18, 1.03, 170),
)
FALSE_POSITIVE_RATE = 0.001
INTERVALS = 20_001  # of the trapezoidal rule


@evidence(1)
def with_replacement() -> list[Finding]:
    """Enumerate N = 2 models with k = 2 of n = 4 records: (0, delta) already holds, the pair adds nothing."""
    n, k, n_models = 4, 2, 2
    present, absent = _distributions(n, k, n_models)
    delta = 1 - Fraction(n - 1, n) ** (n_models * k)
    at_zero, at_log_ten = (
        max(hockey_stick(present, absent, factor), hockey_stick(absent, present, factor)) for factor in (1, 10)
    )
    # The published epsilon counts n for the data set without the record: the one with it has n + 1.
    larger, smaller = _distributions(n + 1, k, n_models)
    ratio = Fraction(n + 1, n) ** (n_models * k)  # e^epsilon, exactly
    ends = hockey_stick(smaller, larger, ratio) == 0 < hockey_stick(smaller, larger, ratio * Fraction(99, 100))
    end = n_models * k * math.log((n + 1) / n)
    return [
        equal("least delta at epsilon = 0", delta, at_zero),
        equal("least delta at epsilon = log 10", delta, at_log_ten),
        equal("epsilon at which the harmless direction ends", end, math.log(ratio), rel_tol=1e-12, also=ends),
    ]


@evidence(2)
def without_replacement() -> list[Finding]:
    """N = 2 models, k = 2 of n = 5 without replacement: exact for the split draw, not for independent ones."""
    n, k, n_models = 5, 2, 2
    claimed = Fraction(n_models * k, n)
    split, independent = (
        hockey_stick(*_distributions(n, k, n_models, replace=False, scheme=scheme), 1)
        for scheme in ("split", "independent")
    )
    exact = 1 - (1 - Fraction(k, n)) ** n_models
    return [
        equal("delta, N k records drawn at once", claimed, split),
        Finding(
            "delta, N independent subsamples", float(claimed), float(independent), 0.64, 0.64, independent == exact
        ),
    ]


@evidence(3)
def factor_in_the_introduction() -> list[Finding]:
    """N = 100, k = 10, N = 5: the introduction's epsilon is N times that of Theorem 4."""
    n, k, n_models = 100, 10, 5
    introduction = n_models * math.log((n + 1) / (n + 1 - n_models * k))
    profile = bagging(n=n, subsample=k, n_models=n_models, replace=False, analysis="published")
    theorem = float(profile.epsilon(n_models * k / n))
    ratio = introduction / theorem if theorem > 0 else math.inf
    threshold = -math.log1p(-n_models * k / (n + 1))  # where the harmless direction of n + 1 records ends
    return [
        Finding("epsilon of Theorem 4", introduction, theorem, threshold - 1e-9, threshold + 1e-9),
        exceeds("introduction divided by Theorem 4", 1.0, ratio, low=n_models - 1e-9, high=n_models + 1e-9),
    ]


@evidence(4)
def tight_with_replacement() -> list[Finding]:
    """A base learner that publishes its subsample: the test "the record is in it" attains delta, at every epsilon."""
    n, k, n_models = 4, 2, 2
    delta = 1 - Fraction(n - 1, n) ** (n_models * k)
    true, false = (
        sum((mass for outcome, mass in drawn.items() if any(n - 1 in subset for subset in outcome)), Fraction(0))
        for drawn in _distributions(n, k, n_models)
    )
    return [
        equal("true-positive rate of the test", delta, true),
        shown("false-positive rate of the test", false, 0),
    ]


@evidence(5)
def tight_without_replacement() -> list[Finding]:
    """N = 100, k = 10, N = 5: for independent subsamples the exact delta lies below the one claimed to be tight."""
    n, k, n_models, runs = 100, 10, 5, 2_000
    claimed = n_models * k / n
    split = bagging(n=n, subsample=k, n_models=n_models, replace=False, scheme="split").advantage
    independent = bagging(n=n, subsample=k, n_models=n_models, replace=False).advantage
    drawn = (draw_subsets(n, subsample=k, n_models=n_models, replace=False, seed=seed) for seed in range(runs))
    fraction = sum(bool((subsets == 0).any()) for subsets in drawn) / runs
    limit = 4 * math.sqrt(independent * (1 - independent) / runs)
    near, exact = independent - limit, 1 - (1 - k / n) ** n_models
    return [
        equal("delta, N k records drawn at once", claimed, split),
        Finding("delta, N independent subsamples", claimed, independent, exact - 1e-12, exact + 1e-12),
        Finding("fraction of draws that hold the record", claimed, fraction, near, min(independent + limit, claimed)),
    ]


@evidence(6)
def name_and_shame() -> list[Finding]:
    """MNIST's size, k = 300: how many records are published whole, and the best test without false positives."""
    n, k = 60_000, 300
    profile = bagging(n=n, subsample=k)
    draws = (draw_subsets(n, subsample=k, n_models=1, replace=True, seed=seed) for seed in range(2000))
    distinct = [len(np.unique(draw)) for draw in draws]
    expected, mean, exact = n * profile.advantage, float(np.mean(distinct)), 1 - profile.tradeoff(0.0)
    error = 4 * float(np.std(distinct) / math.sqrt(len(distinct)))
    missed = math.exp(-k / n)  # a record by all draws, to 1 part in n
    return [
        shown("delta times n (below 1 in a guarantee that protects all)", expected, 299.25, 299.26),
        shown(
            "records published by the learner that publishes its subsample, mean",
            mean,
            expected - error,
            expected + error,
        ),
        shown("true-positive rate at false-positive rate 0", exact, 0.9999 * (1 - missed), 1.0001 * (1 - missed)),
    ]


@evidence(7)
def same_budget() -> list[Finding]:
    """The CIFAR10 runs of DP-SGD: which batch they had, and what they satisfy by tight accounting."""
    off = {
        batch: max(abs(_classical_epsilon(sigma, delta, batch) / epsilon - 1) for epsilon, delta, sigma, _ in SGD_RUNS)
        for batch in (64, 128, 256)
    }
    inferred = off[BATCH] < 0.05 < 0.2 < min(off[64], off[256])
    ratios = [delta / _limiting_advantage(sigma) for _, delta, sigma, _ in SGD_RUNS]
    least, largest = min(ratios), max(ratios)
    epsilon, delta, sigma, k = SGD_RUNS[2]
    run, drawn = _sgd(sigma), bagging(n=RECORDS, subsample=k)
    own, quarter = run.delta(epsilon), _sgd(sigma / 4).delta(epsilon)
    near = math.isclose(run.advantage, _limiting_advantage(sigma), rel_tol=0.01)
    exposed, hidden = (1 - profile.tradeoff(FALSE_POSITIVE_RATE) for profile in (drawn, run))
    rare = "true-positive rate at 0.1% false positives, bagging over DP-SGD"
    return [
        Finding(f"batch {BATCH}: worst relative gap of epsilon by moments", 0.0, off[BATCH], 0.033, 0.034, inferred),
        exceeds("delta over total variation of the run, least of five", 1.0, least, low=2.74, high=2.77),
        exceeds("delta over total variation of the run, largest of five", 1.0, largest, low=7.1, high=7.15),
        Finding("sigma = 4.9: total variation", delta, run.advantage, 0.0415, 0.0417, near),
        Finding("sigma = 4.9: delta at epsilon = 0.2", delta, own, 0.00121, 0.00124),
        Finding("a quarter of that sigma: delta at epsilon = 0.2", delta, quarter, 0.1215, 0.123),
        equal("bagging, k = 10,000: total variation", delta, drawn.advantage, rel_tol=0.01),
        exceeds(rare, 1.0, exposed / hidden, low=128, high=130),
    ]


@evidence(8)
def small_epsilon() -> list[Finding]:
    """The PATE runs of Table 3, all queries answered, by the exact composition of Gaussian noise."""
    epsilons = [_pate(queries, queries).epsilon(delta) for _, delta, _, queries in PATE_RUNS]
    loose = [
        _pate(queries, queries, "published").epsilon(delta) / epsilon for _, delta, epsilon, queries in PATE_RUNS[3:]
    ]
    target, delta, claimed, queries = PATE_RUNS[5]
    best, worst = epsilons[5], _pate(PUBLIC, queries).epsilon(delta)
    direct = _delta_by_loss(math.sqrt(queries * (1 / 150**2 + 2 / 40**2)), best)
    fitting = sorted((epsilon, delta, _queries_within(epsilon, delta)) for epsilon, delta, _, _ in PATE_RUNS)
    bound = "paper's epsilon on CIFAR10 over the loose bound that needs no data, least"
    return [
        Finding("epsilon at delta = 0.18, 170 queries", claimed, best, 0.0134, 0.0135),
        equal("delta at that epsilon, by the loss distribution", delta, direct, rel_tol=1e-6),
        Finding(
            "epsilon at delta = 0.18, 170 of 1,000 queries answered", claimed, worst, 0.0513, 0.0516, worst < target
        ),
        shown(bound, 1 / max(loose), 1.045, 1.047),
        *(
            shown(f"queries that fit bagging's ({e:g}, {d:g})", count, most)
            for (e, d, count), most in zip(fitting, (0, 2, 3, 61, 88, 313), strict=True)
        ),
    ]


@evidence(37)
def more_accurate() -> list[Finding]:
    """Accuracies of bagging and of DP-SGD with the least noise of the same pair: trained networks, by the one rule."""
    tables, lender = cells.printed_tables(), noisy(cells.rows("bagging_equal"))
    ahead = {name: orderings.leads(table, "dp_sgd", "least_noise", to=lender) for name, table in tables.items()}
    points = [100 * gap.value for gap in ahead["2a"]]
    ordered = verdict(every(map(above, ahead["2a"]))) == HOLDS
    far = [opposite(not_behind(gap)) for gap in orderings.further_than_published(tables["2a"], lender)]
    nearer = sum(verdict(question) == HOLDS for question in far)
    tuned = [compared(gap, Mean(0.0)) for gap in ahead["3a"]]
    runs = cells.rows("bagging_dp_sgd", grids.dp_sgd("paper")).dropna(subset=["epsilon"])
    spent = [_spent(run) for run in runs.to_dict("records")]
    noise, distance = "delta of the run with the least noise over the pair's", "points that bagging is ahead on MNIST"
    return [
        shown(f"{noise}, least of five", min(spent), 0.999, 1.001),
        shown(f"{noise}, largest of five", max(spent), 0.999, 1.001),
        shown(f"{distance}, least of five", min(points), 1.58, 1.6, also=ordered and len(points) == 5),
        shown(f"{distance}, largest of five", max(points), 9.63, 9.65),
        Finding("pairs at which that is not less than printed", 5, 5 - nearer, 0, 0, verdict(every(far)) == HOLDS),
        shown("pairs from a public model, of three, at which it is ahead", tuned.count("ahead"), 1),
        shown("pairs compared on CIFAR10", len(ahead["2b"]), 0),
    ]


def _distributions(
    n: int, k: int, n_models: int, **scheme: Any
) -> tuple[dict[Outcome, Fraction], dict[Outcome, Fraction]]:
    """What is drawn with the last of n records there, and without it."""
    present, absent = (sample_distribution(n=size, subsample=k, n_models=n_models, **scheme) for size in (n, n - 1))
    return present, absent


def _sgd(sigma: float) -> PrivacyProfile:
    return dp_sgd(noise_multiplier=sigma, sample_rate=BATCH / RECORDS, steps=_steps(BATCH))


def _spent(run: Mapping[Any, Any]) -> float:
    """Delta of a run of DP-SGD at the epsilon of its pair, over the delta of the pair."""
    rate = run["batch_size"] / run["n"]
    accounted = dp_sgd(noise_multiplier=run["sigma"], sample_rate=rate, steps=int(run["epochs"] / rate))
    return float(accounted.delta(run["epsilon"]) / run["delta"])


def _steps(batch: int) -> int:
    return EPOCHS * RECORDS // batch


def _limiting_advantage(sigma: float) -> float:
    """Total variation of a run in the limit of many small steps."""
    return math.erf(BATCH / RECORDS * math.sqrt(_steps(BATCH) * math.expm1(sigma**-2)) / math.sqrt(8))


def _classical_epsilon(sigma: float, delta: float, batch: int) -> float:
    """Epsilon of the Poisson-sampled Gaussian mechanism, by moments of integer order and the classical conversion."""
    rate, best = batch / RECORDS, math.inf
    for alpha in (*range(2, 64), *range(64, 513, 8)):
        drawn = np.arange(alpha + 1)
        choices = special.gammaln(alpha + 1) - special.gammaln(drawn + 1) - special.gammaln(alpha - drawn + 1)
        weights = (alpha - drawn) * math.log1p(-rate) + drawn * math.log(rate)
        divergence = special.logsumexp(choices + weights + (drawn**2 - drawn) / (2 * sigma**2)) / (alpha - 1)
        best = min(best, _steps(batch) * float(divergence) - math.log(delta) / (alpha - 1))
    return best


def _pate(queries: int, answers: int, analysis: str = "tight") -> PrivacyProfile:
    return confident_gnmax(
        sigma_threshold=150.0, sigma_answer=40.0, queries=queries, answers=answers, analysis=analysis
    )


def _queries_within(epsilon: float, delta: float) -> int:
    """Largest number of queries, all answered, that is (epsilon, delta)-DP."""
    number = 0
    while number < PUBLIC and _pate(number + 1, number + 1).delta(epsilon) <= delta:
        number += 1
    return number


def _delta_by_loss(mu: float, epsilon: float) -> float:
    """Expectation of (1 - e^(epsilon - loss))_+ for the loss of Gaussian noise, by the trapezoidal rule."""
    loss = np.linspace(epsilon, mu**2 / 2 + 12 * mu, INTERVALS)
    density = np.exp(-((loss - mu**2 / 2) ** 2) / (2 * mu**2)) / (mu * math.sqrt(2 * math.pi))
    return float(np.trapezoid(-np.expm1(epsilon - loss) * density, loss))
