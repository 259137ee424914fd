"""Privacy by sampling: bagging, where the samples may be published, and
amplification of a private mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Floats, floats
from dpnotes.accounting._curves import LARGEST_EXPONENT
from dpnotes.accounting._kinds import (
    GaussianRelease,
    GroupRelease,
    LevelsRelease,
    Release,
    SampleRelease,
    at_least_once,
    binomial_counts,
)
from dpnotes.accounting._profile import (
    PrivacyProfile,
    a_profile,
    describe,
    joined,
    part_of,
)
from dpnotes.accounting._renyi import Renyi, Tabulated

MOST_GROUPS = 256  # numbers of copies that are told apart
BISECTIONS = 60
LARGEST = 1e300  # epsilon that is computed with
DRAWN = (
    "(0, delta)-DP with delta = probability that the record is drawn; no epsilon"
    " lowers it"
)


@dataclass(frozen=True)
class MixtureRelease(Release):
    """Base mechanism on a sample that holds the record with probability ``rate``, and
    is otherwise as without it.

    Let P1 be the output given that the record is in the sample, and Q the output
    without the record. With the record, the output is ``P = rate P1 + (1 - rate) Q``.
    In one direction ``H_e1(P, Q) = rate H_e0(P1, Q)`` with e^e0 = 1 + (e^e1 - 1) /
    rate. In the other direction ``H_e1(Q, P) = (1 - e^e1 (1 - rate)) H_e2(Q, P1)`` with
    e^e2 = rate e^e1 / (1 - e^e1 (1 - rate)) if e^e1 (1 - rate) < 1; otherwise this
    divergence is 0.
    """

    base: Release
    rate: float

    def __post_init__(self) -> None:
        base = self.base
        # the dataclass is frozen; both facts are those of the base
        vars(self).update(never_pure=base.never_pure, attained=base.attained)

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        rate = self.rate
        if direction == "remove":
            return floats(rate * self.base.delta(unamplified(epsilon, rate), "remove"))
        # 1 - e^epsilon (1 - rate), in [0, rate]
        left = -np.expm1(np.minimum(epsilon + np.log1p(-rate), 0.0))
        with np.errstate(divide="ignore"):
            # e2 of the docstring, in logarithms
            raised = np.maximum(0.0, epsilon + np.log(rate) - np.log(left))
        inner = self.base.delta(np.where(left > 0, raised, 0.0), "add")
        return floats(np.where(left > 0, left * inner, 0.0))

    @cached_property
    def _sampled(self) -> Renyi:
        curve = self.base.sampled_rdp(self.rate)
        return super().renyi() if curve is None else Renyi(Tabulated(curve))

    def renyi(self) -> Renyi:
        return self._sampled

    def ceiling(self) -> tuple[float, float]:
        level, lost = self.base.ceiling()
        return amplified(level, self.rate), self.rate * lost

    def group(self, size: int) -> Release:
        return GroupRelease(self, size, self.base.group(size))


class ExchangeRelease(Release):
    """Base mechanism on a sample of fixed size, for replace-one adjacency.

    In either direction ``H_e1 <= sum_j Pr[j copies of the record are drawn]
    delta_j(e0)`` with e^e0 = 1 + (e^e1 - 1) / Pr[j >= 1], where delta_j is the
    guarantee of the base for j records replaced at once.
    """

    def __init__(
        self, groups: tuple[Release, ...], masses: Floats, lost: float
    ) -> None:
        self._groups = groups
        self._masses = masses
        self._lost = lost
        self._rate = min(1.0, float(masses.sum()) + lost)
        self.never_pure = groups[0].never_pure

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # the same level for all numbers of copies: that of a record drawn at all
        inner = unamplified(epsilon, self._rate)
        total = np.full_like(epsilon, self._lost)
        for mass, group in zip(self._masses, self._groups, strict=True):
            total += mass * group.worst(inner)
        return np.minimum(total, self._rate)


class OverlapRelease(Release):
    """Gaussian noise on a sum over a Poisson sample, for replace-one adjacency, in
    either direction.

    ``H_e1((1-q) P0 + q P1, (1-q) P0 + q Q1) = q H_e0(P1, (1-b) P0 + b Q1)`` with e^e1 =
    1 + q (e^e0 - 1) and b = e^(e1-e0) (Balle, Barthe and Gaboardi 2018, Theorem 2).
    With Gaussian noise around the points p, p + u and p + w the right side is the mean
    of a convex function of a sum of log-normal variables. This mean rises with each of
    their covariances (Kahane 1986), so it is largest where the points lie on a line, at
    u = mu and w = -mu.
    """

    symmetric = never_pure = attained = True

    def __init__(self, rate: float, mu: float) -> None:
        self._rate = rate
        self._mu = mu

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # inf - inf is no number
        finite = np.minimum(epsilon, LARGEST)
        inner = unamplified(finite, self._rate)
        found = self._rate * _against_two(
            inner, np.exp(finite - inner), self._mu, -self._mu
        )
        return np.where(np.isfinite(epsilon), found, 0.0)

    def group(self, size: int) -> Release:
        # two records of a replacement are two clip norms apart
        return GroupRelease(self, size, GaussianRelease(2 * self._mu * size))


def _against_two(epsilon: Floats, weight: Floats, u: float, w: float) -> Floats:
    """H_e(N(u, 1), (1 - weight) N(0, 1) + weight N(w, 1)) for u > max(w, 0)."""
    with np.errstate(divide="ignore"):
        log_weights = np.log1p(-weight), np.log(weight)

    # from the logarithm of the likelihood ratio to epsilon; falls with z
    def missing(z: Floats) -> Floats:
        other = np.logaddexp(log_weights[0], log_weights[1] + w * z - w * w / 2)
        return epsilon + other - (u * z - u * u / 2)

    # with one of the two alone
    # the threshold of the likelihood-ratio test lies between those against either alone
    ends = (epsilon + u * u / 2) / u, (epsilon + u * u / 2 - w * w / 2) / (u - w)
    low = np.minimum(*ends)
    high = np.maximum(*ends)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = missing(middle) > 0
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    # P1 beyond the threshold, less e^epsilon times the mixture there
    own = special.log_ndtr(u - high)
    other = np.logaddexp(
        log_weights[0] + special.log_ndtr(-high),
        log_weights[1] + special.log_ndtr(w - high),
    )
    return floats(np.exp(own) * -np.expm1(np.minimum(epsilon + other - own, 0.0)))


def bagging(
    *,
    n: int,
    subsample: int,
    n_models: int = 1,
    replace: bool = True,
    scheme: str = "independent",
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> PrivacyProfile:
    """Guarantee of releasing ``n_models`` models, each trained on a random subsample of
    the records.

    The guarantee holds for any base learner and is exact for the learner that publishes
    its subsample. Let pi be the probability that a given record is drawn at least once.
    Then ``delta(epsilon) = pi`` for every epsilon >= 0: the release is (0, pi)-DP, and
    a larger epsilon does not lower delta. The randomness of the draw must stay secret.
    For Poisson samples use ``subsampled(approximate(0.0, 1.0), sample_rate=...)``.

    Parameters
    ----------
    n : int, >= 1
        Number of records, in the larger of two neighbouring data sets.
    subsample : int, >= 1
        Number of records drawn for each model; at most ``n`` without replacement.
    n_models : int, >= 1
    replace : bool
        Whether to draw with replacement within a subsample.
    scheme : {"independent", "split"}
        ``"independent"``: each subsample is drawn independently (the definition of
        bagging). ``"split"``: all ``n_models * subsample`` records are drawn at once
        and dealt out to the models (the scheme of the paper's Theorem 4). With
        replacement, both schemes have the same distribution. Without replacement,
        ``"split"`` draws at most ``n`` records in total.
    adjacency : {"add-remove", "zero-out", "replace-one"}
    analysis : {"tight", "published"}
        ``"published"``: only the pair of epsilon and delta in the paper's Theorem 3
        (with replacement) or 4 (without); only for add-remove adjacency.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If a number is out of its range, more records are drawn without replacement than
        there are, or an option is invalid.
    TypeError
        If ``n``, ``subsample`` or ``n_models`` is not an integer.

    Source
    ------
    Liu, Jia and Gong (2021), Theorems 2-6; the exact profile is proved in the bagging
    chapter of the book.

    Examples
    --------
    >>> profile = bagging(n=60_000, subsample=300)
    >>> (
    ...     round(profile.delta(0.0), 12),
    ...     round(profile.delta(3.0), 12),
    ...     profile.epsilon(0.004),
    ... )
    (0.004987562267, 0.004987562267, inf)
    """
    n_models = check.at_least_one("n_models", n_models)
    scheme = check.one_of("scheme", scheme, ("independent", "split"))
    analysis = check.one_of("analysis", analysis, ("tight", "published"))
    n = check.at_least_one("n", n)
    subsample = check.at_least_one("subsample", subsample)
    # draws in all, of which each is of one record
    drawn = n_models * subsample
    if not replace and subsample > n:
        raise ValueError(
            f"subsample must be at most n={n} without replacement, got"
            f" subsample={subsample}"
        )
    if not replace and drawn > n and (scheme == "split" or analysis == "published"):
        who = "scheme='split'" if scheme == "split" else "the published analysis"
        raise ValueError(
            f"{who} draws n_models*subsample={drawn} records without replacement; there"
            f" are only n={n}"
        )

    sample = {"n": n, "subsample": subsample, "n_models": n_models}
    ways = {"replace": bool(replace), "scheme": scheme, "analysis": analysis}
    about = describe("bagging", adjacency, **sample, **ways)
    if analysis == "published":
        if adjacency != "add-remove":
            raise ValueError(
                "analysis='published' needs adjacency='add-remove', got"
                f" adjacency={adjacency!r}"
            )
        return _bagging_as_published(n, drawn, replace, about)
    if replace:
        inclusion = at_least_once([(drawn, 1 / n)])
    elif scheme == "split":
        inclusion = drawn / n
    else:
        inclusion = at_least_once([(n_models, subsample / n)])
    source = "Liu, Jia and Gong (2021), Theorems 2-6, made exact in the bagging chapter"
    return PrivacyProfile(
        SampleRelease(inclusion, adjacency != "add-remove"),
        **about,
        source=source,
        remark=DRAWN,
    )


def _bagging_as_published(
    n: int, drawn: int, replace: bool, about: dict[str, Any]
) -> PrivacyProfile:
    """The pair of Theorem 3 (with replacement) or Theorem 4 (without), as a bare
    (epsilon, delta) statement.
    """
    if replace:
        theorem = "Theorem 3"
        epsilon = drawn * math.log1p(1 / n)
        delta = at_least_once([(drawn, 1 / n)])
    else:
        theorem = "Theorem 4"
        epsilon = -math.log1p(-drawn / (n + 1))
        delta = drawn / n
    remark = "valid but not tight: (0, delta) holds with the same delta"
    source = f"Liu, Jia and Gong (2021), {theorem}"
    release = LevelsRelease(((epsilon, delta, 1),))
    return PrivacyProfile(release, **about, source=source, remark=remark)


def subsampled(
    profile: PrivacyProfile,
    *,
    sample_rate: float | None = None,
    n: int | None = None,
    subsample: int | None = None,
    replace: bool = False,
) -> PrivacyProfile:
    """Guarantee of a mechanism that sees only a random sample of the records, drawn in
    secret.

    The sample is either a Poisson sample (``sample_rate``) or a sample of fixed size
    (``n`` and ``subsample``). Let pi be the probability that a record is in the sample.
    An (epsilon0, delta0)-DP base then gives (log(1 + pi (e^epsilon0 - 1)), pi
    delta0)-DP. With replacement the delta is larger, because a record may be drawn
    several times. The function amplifies the whole profile, not only one pair.

    Parameters
    ----------
    profile : PrivacyProfile
        Guarantee of the base mechanism. Its adjacency must be add-remove for a Poisson
        sample and replace-one for a sample of fixed size. With replacement, the result
        uses ``profile.group(size)`` for a record that is drawn ``size`` times.
    sample_rate : float, in [0, 1], optional
        Probability with which each record is in the sample, independently of all
        others.
    n : int, >= 1, optional
        Number of records, in the larger of two neighbouring data sets.
    subsample : int, >= 1, optional
        Number of records drawn; at most ``n`` without replacement.
    replace : bool
        Whether to draw the ``subsample`` records with replacement.

    Returns
    -------
    PrivacyProfile
        Profile of one release, for the adjacency of the base. ``compose`` assumes a
        fresh sample for each release. For samples of fixed size, the composition is not
        tight: with Gaussian noise its epsilon is 5 to 22 % too large.

    Raises
    ------
    ValueError
        If a number is out of its range, the sample is described twice or not at all, or
        the base profile is for another adjacency.
    TypeError
        If ``profile`` is not a profile, or ``n`` or ``subsample`` is not an integer.

    Source
    ------
    Li, Qardaji and Su (2012), Theorem 1; Balle, Barthe and Gaboardi (2018), Theorems 8
    (Poisson), 9 (without replacement) and 10 (with).

    Examples
    --------
    >>> from dpnotes.accounting import approximate, gaussian
    >>> round(
    ...     subsampled(approximate(1.0, 1e-5), sample_rate=0.1).delta(0.15856507874), 12
    ... )
    1e-06
    >>> round(subsampled(gaussian(sigma=1.0), sample_rate=0.1).delta(0.3), 9)
    0.00563135
    >>> base = approximate(1.0, 1e-5, adjacency="replace-one")
    >>> round(subsampled(base, n=1000, subsample=100).delta(0.15856507874), 12)
    1e-06
    >>> round(subsampled(base, n=1000, subsample=100, replace=True).epsilon(1e-5), 4)
    1.0032
    """
    a_profile("profile", profile)
    if (sample_rate is None) == (n is None and subsample is None):
        raise ValueError(
            "a sample must be described either by sample_rate or by n and subsample,"
            f" got sample_rate={sample_rate!r}, n={n!r}, subsample={subsample!r}"
        )
    if sample_rate is not None:
        if replace:
            raise ValueError(
                "replace=True needs n and subsample; a Poisson sample holds each record"
                " at most once"
            )
        rate = check.real("sample_rate", sample_rate, high=1.0)
        why = "if a record is replaced, the Poisson samples differ in two draws"
        _needs("add-remove", profile, why)
        if rate == 1:
            return profile
        about = _about(profile, "Theorem 8", sample_rate=rate)
        if rate == 0:
            return PrivacyProfile(SampleRelease(0.0, both=False), **about)
        release = MixtureRelease(profile._release, rate)
        return PrivacyProfile(release, **about, exactness=profile.exactness)
    if n is None or subsample is None:
        raise ValueError(
            f"a sample of fixed size needs both n and subsample, got n={n!r},"
            f" subsample={subsample!r}"
        )
    n = check.at_least_one("n", n)
    subsample = check.at_least_one("subsample", subsample)
    if not replace and subsample > n:
        raise ValueError(
            f"subsample must be at most n={n} without replacement, got"
            f" subsample={subsample}"
        )
    return _of_fixed_size(profile, n, subsample, bool(replace))


def unamplified(epsilon: Floats, rate: float) -> Floats:
    """Return log(1 + (e^epsilon - 1) / rate), the level of the base that
    amplification turns into ``epsilon``.
    """
    return floats(epsilon + np.log1p(-np.expm1(-epsilon) * ((1 - rate) / rate)))


def amplified(epsilon: float, rate: float) -> float:
    """Return log(1 + rate (e^epsilon - 1)), the level into which amplification turns
    the base's level ``epsilon``.
    """
    # amplification is at most log(1 / rate), which is lost beside so large a level
    if epsilon > LARGEST_EXPONENT:
        return epsilon
    return math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-15)


def _needs(adjacency: str, profile: PrivacyProfile, why: str) -> None:
    if profile.adjacency != adjacency:
        raise ValueError(
            f"profile must be for {adjacency=}, got adjacency={profile.adjacency!r};"
            f" {why}"
        )


def _of_fixed_size(
    profile: PrivacyProfile, n: int, subsample: int, replace: bool
) -> PrivacyProfile:
    _needs(
        "replace-one",
        profile,
        "samples of one size cannot differ by adding or removing one record",
    )
    sample = {"n": n, "subsample": subsample, "replace": replace}
    if not replace:
        if subsample == n:
            return profile
        rate = np.array([subsample / n])
        release = ExchangeRelease((profile._release,), rate, 0.0)
        return PrivacyProfile(release, **_about(profile, "Theorem 9", **sample))
    copies, masses, lost = _copies(n, subsample)
    groups = tuple(profile.group(int(size))._release for size in copies)
    release = ExchangeRelease(groups, masses, lost)
    return PrivacyProfile(release, **_about(profile, "Theorem 10", **sample))


def _copies(n: int, subsample: int) -> tuple[Floats, Floats, float]:
    """Numbers of times that a record is drawn with replacement, their probabilities,
    and the probability of all larger numbers.
    """
    # with replacement each draw is this record with probability 1 / n
    copies, masses, lost = binomial_counts(subsample, 1 / n, MOST_GROUPS)
    # not to be drawn reveals nothing
    if copies[0] == 0:
        copies = copies[1:]
        masses = masses[1:]
    else:
        # counted together with larger numbers
        masses[0] -= scipy.stats.binom.pmf(0, subsample, 1 / n)
    # as exact as the probability that the record is drawn at all
    drawn = at_least_once([(subsample, 1 / n)])
    return copies, masses * (drawn / masses.sum()), lost


def _about(profile: PrivacyProfile, theorem: str, **sample: object) -> dict[str, Any]:
    source = joined([profile.source, f"Balle, Barthe and Gaboardi (2018), {theorem}"])
    base = part_of(profile)
    about = describe("subsampled", profile.adjacency, base=base, **sample)
    for name in ("status", "assumption", "remark"):
        about[name] = getattr(profile, name)
    about["source"] = source
    return about
