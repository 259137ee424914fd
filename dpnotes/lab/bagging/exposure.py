"""What bagging draws, how much a release exposes at rare false positives, and the
noise of DP-SGD that exposes as much as bagging does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import scipy
from scipy.special import ndtri

from dpnotes import accounting

FALSE_POSITIVE_RATE = 0.001
STEP = 0.1  # of log sigma
# for each model the records that it was given, in the order drawn
Drawn = tuple[tuple[int, ...], ...]

# seeds of a row have their profile in common
_dp_sgd = functools.lru_cache(maxsize=64)(accounting.dp_sgd)


def profile(row: Mapping[str, Any], n: int) -> accounting.PrivacyProfile | None:
    """Guarantee of a row's release from n records, by its parameters; None for a
    network on all records.

    Exact for bagging, of tight accounting for DP-SGD and PATE, whatever the data. For
    DP-SGD whose noise is yet to be calibrated it is all that the budget implies.
    """
    if "n_teachers" in row:
        # of text or floats, where the table had gaps
        queries = int(row["queries"])
        return accounting.confident_gnmax(
            sigma_threshold=float(row["sigma_threshold"]),
            sigma_answer=float(row["sigma_answer"]),
            queries=queries,
            answers=int(row["answers"] or queries),
        )
    if "clipping_norm" in row:
        # the noise that was used, or that was asked for
        sigma = row.get("sigma") or row["noise_multiplier"]
        if sigma is None:
            return accounting.approximate(float(row["epsilon"]), float(row["delta"]))
        rounds = {
            "sample_rate": row["batch_size"] / n,
            "steps": int(row["epochs"] * n // row["batch_size"]),
        }
        return _dp_sgd(noise_multiplier=float(sigma), **rounds, accountant="pld")
    if row["subsample"] is None:
        return None
    return accounting.bagging(n=n, subsample=int(row["subsample"]))


def tpr_at_fpr_1e3(profile: accounting.PrivacyProfile) -> float:
    """Largest true-positive rate of a membership test with 0.1% false positives."""
    return 1 - float(profile.tradeoff(FALSE_POSITIVE_RATE))


@functools.lru_cache(maxsize=32)  # seeds of a row have their noise in common
def noise_for_tpr(tpr: float, *, sample_rate: float, steps: int) -> float:
    """Noise multiplier of DP-SGD at which the best test with 0.1% false positives has
    that true-positive rate.

    Up to a relative 1e-3 on the private side.
    """
    if not FALSE_POSITIVE_RATE < tpr < 1:
        raise ValueError(
            f"tpr_at_fpr_1e3 must be in ({FALSE_POSITIVE_RATE}, 1), got"
            f" tpr_at_fpr_1e3={tpr}; guessing reaches {FALSE_POSITIVE_RATE}"
        )

    @functools.cache
    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        run = accounting.dp_sgd(
            noise_multiplier=sigma,
            sample_rate=sample_rate,
            steps=steps,
            accountant="pld",
        )
        return tpr_at_fpr_1e3(run) - tpr

    limit = math.log(
        limiting_noise(mu_for_tpr(tpr), sample_rate=sample_rate, steps=steps)
    )
    # the limit is near the root: a few steps bracket it
    low = high = limit
    while excess(high) > 0:
        high += STEP
    # no further down than needed: the losses of very small noise are too far apart for
    # the grid
    while excess(low) < 0:
        low -= STEP
    root = scipy.optimize.brentq(excess, low, high, xtol=5e-4) if low < high else limit
    return math.exp(root + 5e-4)


def mu_for_tpr(tpr: float) -> float:
    """Mu of the Gaussian mechanism at which a test with 0.1% false positives has at
    best that true-positive rate.
    """
    return float(ndtri(tpr) - ndtri(FALSE_POSITIVE_RATE))


def limiting_noise(mu: float, *, sample_rate: float, steps: int) -> float:
    """Noise multiplier at which the central limit of DP-SGD's steps is the Gaussian
    mechanism of that mu.

    From mu = q sqrt(T (exp(1 / sigma^2) - 1)), Bu, Dong, Long and Su (2020): near to
    the least noise, not a guarantee.
    """
    return 1 / math.sqrt(math.log1p((mu / sample_rate) ** 2 / steps))


def sample_distribution(
    *,
    n: int,
    subsample: int,
    n_models: int = 1,
    replace: bool = True,
    scheme: str = "independent",
) -> dict[Drawn, Fraction]:
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
    # one draw without replacement, cut into pieces
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
