"""Composition of unlike mechanisms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from dpnotes import _validation as check
from dpnotes.accounting._kinds import GaussianRelease, SampleRelease
from dpnotes.accounting._loss_distribution import INTERVAL, LossDistribution, distribution_of
from dpnotes.accounting._profile import EXACTNESS, IMPLEMENTATIONS, STATUSES, PrivacyProfile, describe
from dpnotes.accounting._renyi import Line, RenyiRelease, Total


def compose(
    first: PrivacyProfile, second: PrivacyProfile, *others: PrivacyProfile, interval: float | None = None
) -> PrivacyProfile:
    """Guarantee of releasing all of several mechanisms, each with its own randomness, on the same data.

    Exact where the kinds agree (Gaussian noise with Gaussian noise, samples with samples); Renyi curves add, also
    with Gaussian noise; everything else goes by privacy loss distributions, rounded to the private side.

    Parameters
    ----------
    first, second, *others : PrivacyProfile
        All for the same adjacency. For many releases of one mechanism, ``profile.compose(times)``.
    interval : float, > 0, or None
        Distance of the privacy losses on the grid, in units of epsilon; used for unlike kinds only. None: that of the
        parts that already are loss distributions (it must be the same for all), else 1e-4.

    Returns
    -------
    PrivacyProfile
        Its status is the weakest of the parts'.

    Raises
    ------
    ValueError
        If the adjacencies differ, a Renyi curve meets a kind that has none, the intervals differ, or the losses need
        more than 2^21 points.
    TypeError
        If an argument is no PrivacyProfile.

    Source
    ------
    Sommer, Meiser and Mohammadi (2019); Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022) for the rounding.

    Examples
    --------
    >>> from dpnotes.accounting import approximate, gaussian
    >>> round(compose(gaussian(sigma=3.0), gaussian(sigma=4.0)).delta(1.0), 12)  # as gaussian(sigma=2.4)
    0.001835742776
    >>> compose(gaussian(sigma=3.0), approximate(0.2, 1e-6)).epsilon(1e-5) < gaussian(sigma=3.0).epsilon(9e-6) + 0.2
    True
    """
    parts = [first, second, *others]
    for index, part in enumerate(parts):
        a_profile(f"profile {index + 1}", part)
    if interval is not None:
        interval = check.positive("interval", interval)
    adjacencies = sorted({part.adjacency for part in parts})
    if len(adjacencies) > 1:
        raise ValueError(
            f"adjacency must be the same for all profiles, got {' and '.join(adjacencies)}; "
            "the guarantees speak of different neighbours, so nothing follows for either"
        )
    about = _about(parts)
    gaussians = [part for part in parts if isinstance(part, GaussianRelease)]
    samples = [part for part in parts if isinstance(part, SampleRelease)]
    if len(gaussians) == len(parts):
        return GaussianRelease(math.hypot(*(part._mu for part in gaussians)), **about)
    if len(samples) == len(parts):
        with np.errstate(divide="ignore"):
            missed = sum(float(np.log1p(-part._inclusion)) for part in samples)
        return SampleRelease(-math.expm1(missed), both=any(part._both for part in samples), **about)
    if any(isinstance(part, RenyiRelease) for part in parts):
        halves = sum(part._mu**2 for part in gaussians) / 2
        return RenyiRelease(Total(((1, Line(halves)), *((1, curve) for curve in _curves(parts)))), **about)
    return LossDistribution(_convolved(parts, interval), **about)


def _about(parts: list[PrivacyProfile]) -> dict[str, Any]:
    """Keyword arguments that describe the composition of the parts."""
    words = {name: joined([getattr(part, name) for part in parts]) for name in ("assumption", "source", "remark")}
    words["status"] = max((part.status for part in parts), key=STATUSES.index)
    words["implementation"] = max((part.implementation for part in parts), key=IMPLEMENTATIONS.index)
    words["exactness"] = max((part.exactness for part in parts), key=EXACTNESS.index)
    return describe("compose", parts[0].adjacency, parts=[part_of(part) for part in parts]) | words


def _curves(parts: list[PrivacyProfile]) -> list[Any]:
    """Renyi curves of the parts that are known by them; all others must be Gaussian noise."""
    renyis = [part for part in parts if isinstance(part, RenyiRelease)]
    for index, part in enumerate(parts):
        if not isinstance(part, RenyiRelease | GaussianRelease):
            raise ValueError(
                f"profile {index + 1} ({part.mechanism}) has no Renyi curve, so that it cannot be composed with "
                f"{renyis[0].mechanism}, which is known by its Renyi curve only; use loss distributions for all"
            )
    return [part._curve for part in renyis]


def _convolved(parts: list[PrivacyProfile], interval: float | None) -> Any:
    """Distribution of the sum of the parts' losses, on the grid of the parts that have one."""
    from dpnotes.accounting import _pld

    own = [_pld.interval_of(part._distribution) for part in parts if isinstance(part, LossDistribution)]
    intervals = sorted({*own, *([] if interval is None else [interval])}) or [INTERVAL]
    if len(intervals) > 1:
        given = " and ".join(f"{each:g}" for each in intervals)
        raise ValueError(f"interval must be that of the loss distributions given, got {given}")
    return reduce(_pld.composed, (distribution_of(part, intervals[0]) for part in parts))


def a_profile(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is a profile."""
    if not isinstance(value, PrivacyProfile):
        raise TypeError(f"{name} must be a PrivacyProfile, got {value!r}")


def part_of(profile: PrivacyProfile) -> dict[str, Any]:
    """How a profile appears among the parameters of another."""
    return {"mechanism": profile.mechanism, **profile.parameters}


def joined(words: Sequence[str]) -> str:
    """The different ones of several remarks, in order."""
    return "; ".join(dict.fromkeys(word for word in words if word))
