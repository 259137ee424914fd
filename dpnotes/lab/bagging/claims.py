"""Claims 1 to 6: the intrinsic differential privacy of bagging (Liu, Jia and Gong 2021)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotes.accounting import bagging, hockey_stick
from dpnotes.accounting.papers import Outcome, sample_distribution
from dpnotes.lab._claim import Claim, Evidence, Finding
from dpnotes.mechanisms import draw_subsets

PAPER = "liu2021intrinsic"


def _with_replacement() -> Evidence:
    """Enumerate N = 2 models with k = 2 of n = 4 records: (0, delta) already holds, the pair adds nothing."""
    n, k, n_models = 4, 2, 2
    present, absent = _laws(n, k, n_models)
    delta = 1 - Fraction(n - 1, n) ** (n_models * k)
    at_zero, at_log_ten = (
        max(hockey_stick(present, absent, factor), hockey_stick(absent, present, factor)) for factor in (1, 10)
    )
    # The published epsilon counts n for the data set without the record: the one with it has n + 1.
    larger, smaller = _laws(n + 1, k, n_models)
    ratio = Fraction(n + 1, n) ** (n_models * k)  # e^epsilon, exactly
    ends = hockey_stick(smaller, larger, ratio) == 0 < hockey_stick(smaller, larger, ratio * Fraction(99, 100))
    return Evidence(
        f"All {len(present)} outcomes of drawing N = {n_models} subsamples of k = {k} of {n} records, in fractions.",
        (
            Finding("least delta at epsilon = 0", float(delta), float(at_zero), at_zero == delta),
            Finding("least delta at epsilon = log 10", float(delta), float(at_log_ten), at_log_ten == delta),
            Finding(
                "epsilon at which the harmless direction ends",
                n_models * k * math.log((n + 1) / n),
                math.log(ratio),
                ends,
            ),
        ),
    )


def _without_replacement() -> Evidence:
    """N = 2 models, k = 2 of n = 5 without replacement: exact for the split draw, not for independent ones."""
    n, k, n_models = 5, 2, 2
    claimed = Fraction(n_models * k, n)
    split, independent = (
        hockey_stick(*_laws(n, k, n_models, replace=False, scheme=scheme), 1) for scheme in ("split", "independent")
    )
    less = 1 - (1 - Fraction(k, n)) ** n_models
    return Evidence(
        f"All outcomes of drawing N = {n_models} subsamples of k = {k} of {n} records without replacement.",
        (
            Finding("delta, N k records drawn at once", float(claimed), float(split), split == claimed),
            Finding(
                "delta, N independent subsamples",
                float(claimed),
                float(independent),
                independent == less < claimed,
            ),
        ),
    )


def _factor_in_the_introduction() -> Evidence:
    """N = 100, k = 10, N = 5: the introduction's epsilon is N times that of Theorem 4."""
    n, k, n_models = 100, 10, 5
    introduction = n_models * math.log((n + 1) / (n + 1 - n_models * k))
    profile = bagging(n=n, subsample=k, n_models=n_models, replace=False, analysis="published")
    theorem = float(profile.epsilon(n_models * k / n))
    ratio = introduction / theorem if theorem > 0 else math.inf
    threshold = -math.log1p(-n_models * k / (n + 1))  # where the harmless direction of n + 1 records ends
    return Evidence(
        f"Both formulas at n = {n}, k = {k}, N = {n_models}, against the exact end of the harmless direction.",
        (
            Finding("epsilon of Theorem 4", introduction, theorem, abs(theorem - threshold) < 1e-9),
            Finding("introduction divided by Theorem 4", 1.0, ratio, math.isclose(ratio, n_models)),
        ),
    )


def _tight_with_replacement() -> Evidence:
    """A base learner that publishes its subsample: the test "the record is in it" attains delta, at every epsilon."""
    n, k, n_models = 4, 2, 2
    delta = 1 - Fraction(n - 1, n) ** (n_models * k)
    shown, false_alarm = (
        sum((mass for outcome, mass in law.items() if any(n - 1 in part for part in outcome)), Fraction(0))
        for law in _laws(n, k, n_models)
    )
    return Evidence(
        "The learner that publishes its subsample, the test that looks for the record in it; all outcomes counted.",
        (
            Finding("true-positive rate of the test", float(delta), float(shown), shown == delta),
            Finding("false-positive rate of the test", "–", float(false_alarm), false_alarm == 0),
        ),
    )


def _tight_without_replacement() -> Evidence:
    """N = 100, k = 10, N = 5: for independent subsamples the exact delta lies below the one claimed to be tight."""
    n, k, n_models = 100, 10, 5
    claimed = n_models * k / n
    split = bagging(n=n, subsample=k, n_models=n_models, replace=False, scheme="split").advantage
    independent = bagging(n=n, subsample=k, n_models=n_models, replace=False).advantage
    runs = 5_000
    hits = sum(
        bool((draw_subsets(n, subsample=k, n_models=n_models, replace=False, seed=seed) == 0).any())
        for seed in range(runs)
    )
    error = math.sqrt(independent * (1 - independent) / runs)
    return Evidence(
        f"Exact profiles at n = {n}, k = {k}, N = {n_models}, and {runs:,} draws of the sampler that bagging uses.",
        (
            Finding("delta, N k records drawn at once", claimed, split, split == claimed),
            Finding("delta, N independent subsamples", claimed, independent, independent < claimed - 0.09),
            Finding(
                "share of draws that hold the record",
                claimed,
                hits / runs,
                abs(hits / runs - independent) < 4 * error and abs(hits / runs - claimed) > 4 * error,
            ),
        ),
    )


def _name_and_shame() -> Evidence:
    """MNIST's size, k = 300: how many records are published whole, and what the best test finds at no false alarm."""
    n, k = 60_000, 300
    profile = bagging(n=n, subsample=k)
    draws = (draw_subsets(n, subsample=k, n_models=1, replace=True, seed=seed) for seed in range(2000))
    distinct = [len(np.unique(draw)) for draw in draws]
    expected = n * profile.advantage
    error = float(np.std(distinct) / math.sqrt(len(distinct)))
    return Evidence(
        f"The exact profile at n = {n:,}, k = {k}, and 2,000 draws of the sampler.",
        (
            Finding("delta times n (below 1 in a guarantee that protects all)", "–", expected, expected >= 1),
            Finding(
                "records published by the learner that publishes its subsample, mean",
                "–",
                float(np.mean(distinct)),
                abs(float(np.mean(distinct)) - expected) < 4 * error,
            ),
            Finding(
                "true-positive rate at false-positive rate 0",
                "–",
                1 - profile.tradeoff(0.0),
                math.isclose(1 - profile.tradeoff(0.0), profile.advantage),
            ),
        ),
    )


def _laws(n: int, k: int, n_models: int, **how: Any) -> tuple[dict[Outcome, Fraction], dict[Outcome, Fraction]]:
    """What is drawn with the last of n records there, and without it."""
    present, absent = (sample_distribution(n=size, subsample=k, n_models=n_models, **how) for size in (n, n - 1))
    return present, absent


CLAIMS = (
    Claim(
        1,
        PAPER,
        "Theorems 2 and 3",
        "Bagging with replacement is (N k log((n+1)/n), 1 - (1 - 1/n)^(N k))-DP.",
        "weaker than it looks",
        "(0, delta) holds with the same delta; epsilon is the pure level of the harmless direction only.",
        "bagging-theorem",
        _with_replacement,
    ),
    Claim(
        2,
        PAPER,
        "Theorem 4",
        "Bagging without replacement is (log((n+1)/(n+1-N k)), N k/n)-DP.",
        "weaker than it looks",
        "Exact for N k records drawn at once and dealt out; independent subsamples, which the paper's definition "
        "draws, have the smaller delta 1 - (1 - k/n)^N. Again epsilon buys nothing.",
        "bagging-theorem",
        _without_replacement,
    ),
    Claim(
        3,
        PAPER,
        "Introduction",
        "Without replacement epsilon is N log((n+1)/(n+1-N k)).",
        "wrong",
        "Theorem 4 and Table 1 have no factor N, and they are right.",
        "bagging-verdict",
        _factor_in_the_introduction,
    ),
    Claim(
        4,
        PAPER,
        "Theorem 5",
        "With replacement no smaller delta holds for every base learner, whatever epsilon.",
        "proved",
        "The learner that publishes its subsample attains it.",
        "bagging-theorem",
        _tight_with_replacement,
    ),
    Claim(
        5,
        PAPER,
        "Theorem 6",
        "Without replacement no delta smaller than N k/n holds for every base learner.",
        "under a condition",
        "True when N k records are drawn at once, or N = 1; N > 1 independent subsamples satisfy less.",
        "bagging-theorem",
        _tight_without_replacement,
    ),
    Claim(
        6,
        PAPER,
        "Abstract",
        "The randomness of subsampling alone makes bagging differentially private.",
        "vacuous",
        "delta is at least 1/n: about k records may be published whole, each seen without a false alarm. The paper "
        "itself says that such a delta protects most records by giving up a few.",
        "bagging-leak",
        _name_and_shame,
    ),
)
