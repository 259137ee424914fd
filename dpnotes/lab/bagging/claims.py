"""Evidence on claims 1 to 8 and 37 (Liu, Jia and Gong 2021): bagging by itself, and
what it was compared with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
from scipy import special

from dpnotes.accounting import (
    PrivacyProfile,
    bagging,
    confident_gnmax,
    dp_sgd,
    hockey_stick,
)
from dpnotes.lab import _claim
from dpnotes.lab._claim import Finding, evidence
from dpnotes.lab.bagging import cells, grids
from dpnotes.lab.verdicts import (
    HOLDS,
    Mean,
    above,
    compared,
    every,
    not_behind,
    opposite,
    verdict,
)
from dpnotes.mechanisms import draw_subsets

judged = partial(_claim.judged, "bagging")
RECORDS = 50_000  # of CIFAR10
EPOCHS = 100
# not stated in the paper: the power of two at which its sigmas give its epsilons
BATCH = 128
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


# for each model the records that it was given, in the order drawn
Outcome = tuple[tuple[int, ...], ...]


@evidence(1)
def with_replacement() -> list[Finding]:
    """Enumerate N = 2 models with k = 2 of n = 4 records: (0, delta) already holds,
    the pair adds nothing.
    """
    n, k, n_models = 4, 2, 2
    present, absent = _distributions(n, k, n_models)
    at_zero, at_log_ten = (
        max(
            hockey_stick(present, absent, factor), hockey_stick(absent, present, factor)
        )
        for factor in (1, 10)
    )
    # The published epsilon counts n for the data set without the record: the one with
    # it has n + 1.
    larger, smaller = _distributions(n + 1, k, n_models)
    ratio = Fraction(n + 1, n) ** (n_models * k)  # e^epsilon, exactly
    ends = (
        hockey_stick(smaller, larger, ratio)
        == 0
        < hockey_stick(smaller, larger, ratio * Fraction(99, 100))
    )
    return judged(1, at_zero, at_log_ten, (math.log(ratio), ends))


@evidence(2)
def without_replacement() -> list[Finding]:
    """N = 2 models, k = 2 of n = 5 without replacement: exact for the split draw,
    not for independent ones.
    """
    n, k, n_models = 5, 2, 2
    split, independent = (
        hockey_stick(*_distributions(n, k, n_models, replace=False, scheme=scheme), 1)
        for scheme in ("split", "independent")
    )
    exact = 1 - (1 - Fraction(k, n)) ** n_models
    return judged(2, split, (float(independent), independent == exact))


@evidence(3)
def factor_in_the_introduction() -> list[Finding]:
    """N = 100, k = 10, N = 5: the introduction's epsilon is N times that of Theorem
    4.
    """
    n, k, n_models = 100, 10, 5
    introduction = n_models * math.log((n + 1) / (n + 1 - n_models * k))
    profile = bagging(
        n=n, subsample=k, n_models=n_models, replace=False, analysis="published"
    )
    theorem = float(profile.epsilon(n_models * k / n))
    ratio = introduction / theorem if theorem > 0 else math.inf
    return judged(3, theorem, ratio)


@evidence(4)
def tight_with_replacement() -> list[Finding]:
    """A base learner that publishes its subsample: the test "the record is in it"
    attains delta, at every epsilon.
    """
    n, k, n_models = 4, 2, 2
    true, false = (
        sum(
            (
                mass
                for outcome, mass in drawn.items()
                if any(n - 1 in subset for subset in outcome)
            ),
            Fraction(0),
        )
        for drawn in _distributions(n, k, n_models)
    )
    return judged(4, true, false)


@evidence(5)
def tight_without_replacement() -> list[Finding]:
    """N = 100, k = 10, N = 5: for independent subsamples the exact delta lies below
    the one claimed to be tight.
    """
    n, k, n_models, runs = 100, 10, 5, 2_000
    split = bagging(
        n=n, subsample=k, n_models=n_models, replace=False, scheme="split"
    ).advantage
    independent = bagging(n=n, subsample=k, n_models=n_models, replace=False).advantage
    drawn = (
        draw_subsets(n, subsample=k, n_models=n_models, replace=False, seed=seed)
        for seed in range(runs)
    )
    fraction = sum(bool((subsets == 0).any()) for subsets in drawn) / runs
    return judged(5, split, independent, fraction)


@evidence(6)
def name_and_shame() -> list[Finding]:
    """MNIST's size, k = 300: how many records are published whole, and the best test
    without false positives.
    """
    n, k = 60_000, 300
    profile = bagging(n=n, subsample=k)
    draws = (
        draw_subsets(n, subsample=k, n_models=1, replace=True, seed=seed)
        for seed in range(2000)
    )
    distinct = [len(np.unique(draw)) for draw in draws]
    return judged(
        6, n * profile.advantage, float(np.mean(distinct)), 1 - profile.tradeoff(0.0)
    )


@evidence(7)
def same_budget() -> list[Finding]:
    """The CIFAR10 runs of DP-SGD: which batch they had, and what they satisfy by
    tight accounting.
    """
    off = {
        batch: max(
            abs(_classical_epsilon(sigma, delta, batch) / epsilon - 1)
            for epsilon, delta, sigma, _ in SGD_RUNS
        )
        for batch in (64, 128, 256)
    }
    inferred = off[BATCH] < 0.05 < 0.2 < min(off[64], off[256])
    ratios = [delta / _limiting_advantage(sigma) for _, delta, sigma, _ in SGD_RUNS]
    epsilon, _, sigma, k = SGD_RUNS[2]
    run, drawn = _sgd(sigma), bagging(n=RECORDS, subsample=k)
    advantage = (
        run.advantage,
        math.isclose(run.advantage, _limiting_advantage(sigma), rel_tol=0.01),
    )
    noises = run.delta(epsilon), _sgd(sigma / 4).delta(epsilon)
    exposed, hidden = (
        1 - profile.tradeoff(FALSE_POSITIVE_RATE) for profile in (drawn, run)
    )
    batch = off[BATCH], inferred
    return judged(
        7,
        batch,
        min(ratios),
        max(ratios),
        advantage,
        *noises,
        drawn.advantage,
        exposed / hidden,
    )


@evidence(8)
def small_epsilon() -> list[Finding]:
    """The PATE runs of Table 3, all queries answered, by the exact composition of
    Gaussian noise.
    """
    epsilons = [
        _pate(queries, queries).epsilon(delta) for _, delta, _, queries in PATE_RUNS
    ]
    loose = [
        _pate(queries, queries, "published").epsilon(delta) / epsilon
        for _, delta, epsilon, queries in PATE_RUNS[3:]
    ]
    target, delta, _, queries = PATE_RUNS[5]
    best, worst = epsilons[5], _pate(PUBLIC, queries).epsilon(delta)
    direct = _delta_by_loss(math.sqrt(queries * (1 / 150**2 + 2 / 40**2)), best)
    fitting = [
        _queries_within(epsilon, delta) for epsilon, delta, *_ in sorted(PATE_RUNS)
    ]
    return judged(8, best, direct, (worst, worst < target), 1 / max(loose), *fitting)


@evidence(37)
def more_accurate() -> list[Finding]:
    """Accuracies of bagging and of DP-SGD with the least noise of the same pair:
    trained networks, by the one rule.
    """
    tables, lender = cells.printed_tables(), cells.noisy(cells.rows("bagging_equal"))
    ahead = {
        name: cells.leads(table, "dp_sgd", "least_noise", to=lender)
        for name, table in tables.items()
    }
    points = [100 * gap.value for gap in ahead["2a"]]
    ordered = verdict(every(map(above, ahead["2a"]))) == HOLDS
    far = [
        opposite(not_behind(gap))
        for gap in cells.further_than_published(tables["2a"], lender)
    ]
    nearer = sum(verdict(question) == HOLDS for question in far)
    tuned = [compared(gap, Mean(0.0)) for gap in ahead["3a"]]
    runs = cells.rows("bagging_dp_sgd", grids.dp_sgd("paper")).dropna(
        subset=["epsilon"]
    )
    spent = [_spent(run) for run in runs.to_dict("records")]
    least = min(points), ordered and len(points) == 5
    larger = 5 - nearer, verdict(every(far)) == HOLDS
    return judged(
        37,
        min(spent),
        max(spent),
        least,
        max(points),
        larger,
        tuned.count("ahead"),
    )


def sample_distribution(
    *,
    n: int,
    subsample: int,
    n_models: int = 1,
    replace: bool = True,
    scheme: str = "independent",
) -> dict[Outcome, Fraction]:
    """Probability of every outcome of bagging's sampler on the records 0 to ``n - 1``,
    by enumeration.

    Parameters are those of :func:`dpnotes.accounting.bagging`; the number of outcomes
    grows as ``n^(n_models * subsample)``, so this is for tiny cases.

    Returns
    -------
    dict
        From outcomes (for each model the tuple of its records, in the order drawn) to
        probabilities (Fraction), which sum to 1.

    Raises
    ------
    ValueError
        If no outcome is possible, because more records are drawn without replacement
        than there are.

    Examples
    --------
    Whether a record is there shows with probability 5/9 in two draws of three, however
    large the factor:

    >>> from dpnotes.accounting import hockey_stick
    >>> with_record, without = (
    ...     sample_distribution(n=3, subsample=2),
    ...     sample_distribution(n=2, subsample=2),
    ... )
    >>> hockey_stick(with_record, without, 1), hockey_stick(with_record, without, 10)
    (Fraction(5, 9), Fraction(5, 9))
    >>> distribution = sample_distribution(n=2, subsample=2, replace=False)
    >>> {outcome: str(mass) for outcome, mass in distribution.items()}
    {((0, 1),): '1/2', ((1, 0),): '1/2'}
    """
    if scheme == "split" and not replace:
        drawn = permutations(range(n), n_models * subsample)
        outcomes = [
            tuple(zip(*[iter(draw)] * subsample, strict=True)) for draw in drawn
        ]
    else:
        one = list(
            product(range(n), repeat=subsample)
            if replace
            else permutations(range(n), subsample)
        )
        outcomes = list(product(one, repeat=n_models))
    if not outcomes:
        raise ValueError(
            f"no outcome: subsample={subsample} of n={n} records without replacement,"
            f" n_models={n_models}"
        )
    return dict.fromkeys(outcomes, Fraction(1, len(outcomes)))


def _distributions(
    n: int, k: int, n_models: int, **scheme: Any
) -> tuple[dict[Outcome, Fraction], dict[Outcome, Fraction]]:
    """What is drawn with the last of n records there, and without it."""
    present, absent = (
        sample_distribution(n=size, subsample=k, n_models=n_models, **scheme)
        for size in (n, n - 1)
    )
    return present, absent


def _sgd(sigma: float) -> PrivacyProfile:
    return dp_sgd(
        noise_multiplier=sigma, sample_rate=BATCH / RECORDS, steps=_steps(BATCH)
    )


def _spent(run: Mapping[Any, Any]) -> float:
    """Delta of a run of DP-SGD at the epsilon of its pair, over the delta of the
    pair.
    """
    rate = run["batch_size"] / run["n"]
    accounted = dp_sgd(
        noise_multiplier=run["sigma"], sample_rate=rate, steps=int(run["epochs"] / rate)
    )
    return float(accounted.delta(run["epsilon"]) / run["delta"])


def _steps(batch: int) -> int:
    return EPOCHS * RECORDS // batch


def _limiting_advantage(sigma: float) -> float:
    """Total variation of a run in the limit of many small steps."""
    return math.erf(
        BATCH
        / RECORDS
        * math.sqrt(_steps(BATCH) * math.expm1(sigma**-2))
        / math.sqrt(8)
    )


def _classical_epsilon(sigma: float, delta: float, batch: int) -> float:
    """Epsilon of the Poisson-sampled Gaussian mechanism, by moments of integer order
    and the classical conversion.
    """
    rate, best = batch / RECORDS, math.inf
    for alpha in (*range(2, 64), *range(64, 513, 8)):
        drawn = np.arange(alpha + 1)
        choices = (
            special.gammaln(alpha + 1)
            - special.gammaln(drawn + 1)
            - special.gammaln(alpha - drawn + 1)
        )
        weights = (alpha - drawn) * math.log1p(-rate) + drawn * math.log(rate)
        divergence = special.logsumexp(
            choices + weights + (drawn**2 - drawn) / (2 * sigma**2)
        ) / (alpha - 1)
        best = min(
            best, _steps(batch) * float(divergence) - math.log(delta) / (alpha - 1)
        )
    return best


def _pate(queries: int, answers: int, analysis: str = "tight") -> PrivacyProfile:
    return confident_gnmax(
        sigma_threshold=150.0,
        sigma_answer=40.0,
        queries=queries,
        answers=answers,
        analysis=analysis,
    )


def _queries_within(epsilon: float, delta: float) -> int:
    """Largest number of queries, all answered, that is (epsilon, delta)-DP."""
    number = 0
    while number < PUBLIC and _pate(number + 1, number + 1).delta(epsilon) <= delta:
        number += 1
    return number


def _delta_by_loss(mu: float, epsilon: float) -> float:
    """Expectation of (1 - e^(epsilon - loss))_+ for the loss of Gaussian noise, by
    the trapezoidal rule.
    """
    loss = np.linspace(epsilon, mu**2 / 2 + 12 * mu, INTERVALS)
    density = np.exp(-((loss - mu**2 / 2) ** 2) / (2 * mu**2)) / (
        mu * math.sqrt(2 * math.pi)
    )
    return float(np.trapezoid(-np.expm1(epsilon - loss) * density, loss))
