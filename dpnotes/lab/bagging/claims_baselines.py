"""Claims 7 and 8: what bagging was compared with (Liu, Jia and Gong 2021)."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from dpnotes.accounting import PrivacyProfile, bagging, confident_gnmax, dp_sgd
from dpnotes.lab._claim import Claim, Evidence, Finding

PAPER = "liu2021intrinsic"

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
FALSE_ALARMS = 0.001
INTERVALS = 20_001  # of the trapezoidal rule


def _same_budget() -> Evidence:
    """The CIFAR10 runs of DP-SGD: which batch they had, and what they satisfy by tight accounting."""
    inferred = {
        batch: max(abs(_classical_epsilon(sigma, delta, batch) / epsilon - 1) for epsilon, delta, sigma, _ in SGD_RUNS)
        for batch in (64, 128, 256)
    }
    gaps = []
    for _, delta, sigma, _ in SGD_RUNS:
        mu = _rate(BATCH) * math.sqrt(_steps(BATCH) * math.expm1(sigma**-2))
        gaps.append(delta / math.erf(mu / math.sqrt(8)))
    epsilon, delta, sigma, k = SGD_RUNS[2]
    run, quieter, drawn = _sgd(sigma), _sgd(sigma / 4), bagging(n=RECORDS, subsample=k)
    found, missed = (1 - profile.tradeoff(FALSE_ALARMS) for profile in (drawn, run))
    limit = math.erf(_rate(BATCH) * math.sqrt(_steps(BATCH) * math.expm1(sigma**-2)) / math.sqrt(8))
    return Evidence(
        f"The five runs on CIFAR10, {EPOCHS} epochs, batch {BATCH} inferred from their epsilons by moments of integer "
        "order; total variation by the limit of many small steps, and by the loss distribution for the run at 0.2.",
        (
            Finding(
                f"batch {BATCH}: worst relative gap of epsilon by moments",
                0.0,
                inferred[BATCH],
                inferred[BATCH] < 0.05 < 0.2 < min(inferred[64], inferred[256]),
            ),
            Finding("delta over total variation of the run, least of five", 1.0, min(gaps), min(gaps) > 2.5),
            Finding("delta over total variation of the run, largest of five", 1.0, max(gaps), max(gaps) < 7.5),
            Finding("sigma = 4.9: total variation", delta, run.advantage, _near(run.advantage, limit) < 0.01),
            Finding(
                "sigma = 4.9: delta at epsilon = 0.2", delta, run.delta(epsilon), 0 < run.delta(epsilon) < delta / 50
            ),
            Finding(
                "a quarter of that sigma: delta at epsilon = 0.2",
                delta,
                quieter.delta(epsilon),
                0.1 < quieter.delta(epsilon) < delta,
            ),
            Finding(
                "bagging, k = 10,000: total variation", delta, drawn.advantage, _near(drawn.advantage, delta) < 0.01
            ),
            Finding(
                "true positives at 0.1% false alarms, bagging over DP-SGD", 1.0, found / missed, found / missed > 100
            ),
        ),
    )


def _small_epsilon() -> Evidence:
    """The PATE runs of Table 3, all queries answered, by the exact composition of Gaussian noise."""
    profiles = [_pate(queries, queries) for _, _, _, queries in PATE_RUNS]
    epsilons = [profile.epsilon(delta) for profile, (_, delta, _, _) in zip(profiles, PATE_RUNS, strict=True)]
    published = [
        _pate(queries, queries, "published").epsilon(delta) / epsilon for _, delta, epsilon, queries in PATE_RUNS[3:]
    ]
    allowed = [_queries_within(epsilon, delta) for epsilon, delta, _, _ in PATE_RUNS]
    target, delta, claimed, queries = PATE_RUNS[5]
    worst = _pate(PUBLIC, queries).epsilon(delta)
    direct = _delta_by_loss(math.sqrt(queries * (1 / 150**2 + 2 / 40**2)), epsilons[5])
    return Evidence(
        "250 teachers, sigma_1 = 150, sigma_2 = 40, the worst case over data sets: every query answered, or only those "
        f"that were, out of all {PUBLIC:,} public examples.",
        (
            Finding("epsilon at delta = 0.18, 170 queries", claimed, epsilons[5], 0 < epsilons[5] < target),
            Finding("delta at that epsilon, by the law of the loss", delta, direct, _near(direct, delta) < 1e-6),
            Finding(
                "epsilon at delta = 0.18, 170 of 1,000 queries answered", claimed, worst, epsilons[5] < worst < target
            ),
            Finding(
                "paper's epsilon on CIFAR10 over the loose bound that needs no data, least",
                "–",
                1 / max(published),
                max(published) < 1,
            ),
            *(
                Finding(
                    f"queries that fit bagging's ({epsilon:g}, {delta:g})",
                    "–",
                    number,
                    number < 5 if delta < 0.05 else number > 50,
                )
                for (epsilon, delta, _, _), number in sorted(zip(PATE_RUNS, allowed, strict=True))
            ),
        ),
    )


def _sgd(sigma: float) -> PrivacyProfile:
    return dp_sgd(noise_multiplier=sigma, sample_rate=_rate(BATCH), steps=_steps(BATCH))


def _rate(batch: int) -> float:
    return batch / RECORDS


def _steps(batch: int) -> int:
    return EPOCHS * RECORDS // batch


def _classical_epsilon(sigma: float, delta: float, batch: int) -> float:
    """Epsilon of the Poisson-sampled Gaussian mechanism, by moments of integer order and the classical conversion."""
    rate, best = _rate(batch), math.inf
    for alpha in (*range(2, 64), *range(64, 513, 8)):
        drawn = np.arange(alpha + 1)
        terms = (
            special.gammaln(alpha + 1)
            - special.gammaln(drawn + 1)
            - special.gammaln(alpha - drawn + 1)
            + (alpha - drawn) * math.log1p(-rate)
            + drawn * math.log(rate)
            + (drawn**2 - drawn) / (2 * sigma**2)
        )
        divergence = float(special.logsumexp(terms)) / (alpha - 1)
        best = min(best, _steps(batch) * divergence - math.log(delta) / (alpha - 1))
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


def _near(found: float, expected: float) -> float:
    return abs(found / expected - 1)


CLAIMS = (
    Claim(
        7,
        PAPER,
        "Introduction; Section 4.2; Tables 2 and 3",
        "At the same (epsilon, delta) bagging is far more accurate than DP-SGD: on CIFAR10 65.25% against 27.86% at "
        "(0.2, 0.181).",
        "wrong",
        "The runs have these accuracies, but not the same budget. The noise of DP-SGD was set by a conversion that is "
        "loose at such a delta: by tight accounting (batch 128, which the paper does not state but its epsilons "
        "imply) its total variation is 2.8 to 7.1 times smaller than the stated delta, which bagging spends whole, "
        "and a quarter of the noise meets (0.2, 0.181). At 0.1% false alarms bagging gives away over a hundred times "
        "more members. Trained on MNIST with the least noise of the same pairs, DP-SGD is still below bagging, by less "
        "than a third of the published distance (measured in the chapter). CIFAR10 at that noise is yet to be trained.",
        "bagging-verdict",
        _same_budget,
    ),
    Claim(
        8,
        PAPER,
        "Section 4.1",
        "PATE (250 teachers, T = 200, sigma_1 = 150, sigma_2 = 40) cannot reach the small epsilon set for bagging and "
        "DP-SGD, so that its own is relaxed to about 1.",
        "under a condition",
        "True where delta is at most 0.02: no more than 3 queries fit in the worst case over data. Where it is 0.08 "
        "and more, 61, 88 and 313 queries fit bagging's own (epsilon, delta), and the run given as (1.03, 0.18) is "
        "(0.0135, 0.18)-DP, whatever the data, against 0.2 of bagging: its epsilon of about 1 came of the accounting.",
        "bagging-verdict",
        _small_epsilon,
    ),
)
