"""Composition: the exact form of a common kind, sums of Renyi curves, and sums of privacy losses; the least of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dpnotes import _validation as check
from dpnotes.accounting._kinds import LeastRelease, Statement
from dpnotes.accounting._loss_distribution import CurveRelease, LossDistribution, losses_of
from dpnotes.accounting._profile import (
    EXACTNESS,
    IMPLEMENTATIONS,
    IMPLIED,
    STATUSES,
    Floats,
    PrivacyProfile,
    Renyi,
    Terms,
    describe,
)
from dpnotes.accounting._renyi import RenyiRelease, Tabulated, Total

REMARK = "composed: the smallest of the upper bounds by privacy losses on a grid and by Renyi curves"


class ComposedRelease(LeastRelease):
    """Several independent releases: the smallest of the bounds by privacy losses, by Renyi divergence and by levels.

    They are computed at the first query. The sum of losses has the exactness of its grid, the last bound holds where
    the other two cannot reach, at pure levels. Where several releases of one kind are known better by their Renyi
    curve, the losses of what is known of all of them are added up, too: whoever sees several adaptive mechanisms, in
    turns, learns no more than from the pairs that dominate each (Vadhan and Zhang 2023).
    """

    def __init__(self, terms: Terms, interval: float | None = None, **about: Any) -> None:
        words = {**about, "remark": joined([about.get("remark", "").removesuffix(REMARK).rstrip("; "), REMARK])}
        if words.get("exactness") == "exact":
            words["exactness"] = "upper bound"
        PrivacyProfile.__init__(self, **words)
        self._parts, self._interval = terms, interval
        vars(self)["symmetric"] = all(part.symmetric for part, _ in terms)
        self._never_pure = any(part._never_pure for part, _ in terms)

    @cached_property
    def _bounds(self) -> tuple[PrivacyProfile, ...]:  # type: ignore[override]
        about, (level, lost), renyi = self._about(1), self._ceiling(), self._renyi()
        bounds: list[PrivacyProfile] = [LossDistribution(losses_of(self._parts, self._interval), **about)]
        bounds.append(RenyiRelease(renyi.curve, failure=renyi.failure, **about))
        wholes = [self._whole(part, times) for part, times in self._parts]
        if len(wholes) > 1 and wholes != self._parts:
            bounds.append(LossDistribution(losses_of(wholes, self._interval), **about))
        return (*bounds, Statement([(level, lost, 1)], **about)) if math.isfinite(level) else tuple(bounds)

    def _whole(self, part: PrivacyProfile, times: int) -> tuple[PrivacyProfile, int]:
        """Several releases as one that is known by its curve, where their losses do not say all."""
        if times == 1 or not part._beyond_pair:
            return part, times
        return ComposedRelease([(part, times)], self._interval, **part._about(times)), 1

    @property
    def _ready(self) -> bool:  # type: ignore[override]
        return "_bounds" in vars(self)

    def _terms(self) -> Terms:
        return self._parts

    def _renyi(self) -> Renyi:
        """Divergences of the same order add."""
        found = [(times, part._renyi()) for part, times in self._parts]
        curve = Tabulated(Total(tuple((times, each.curve) for times, each in found)))
        return Renyi(curve, together_lost((times, each.failure) for times, each in found))

    def _ceiling(self) -> tuple[float, float]:
        found = [(times, *part._ceiling()) for part, times in self._parts]
        return sum(times * level for times, level, _ in found), together_lost((times, lost) for times, _, lost in found)

    def _group(self, size: int) -> PrivacyProfile:
        return together([(part.group(size), times) for part, times in self._parts], self._grouped(size))


class GroupRelease(CurveRelease):
    """Several records at once: delta(epsilon / size) (1 + e^(epsilon / size) + ...), the general bound."""

    def __init__(self, once: PrivacyProfile, size: int, **about: Any) -> None:
        super().__init__(**about)
        self._once, self._size = once, size

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        return self._raised(self._once._delta, epsilon, direction)

    def _rough(self, epsilon: Floats, direction: str) -> Floats:
        return self._raised(self._once._rough, epsilon, direction)

    def _raised(self, curve: Callable[[Floats, str], Floats], epsilon: Floats, direction: str) -> Floats:
        each = epsilon / self._size
        with np.errstate(over="ignore", invalid="ignore"):
            delta = curve(each, direction)
            factor = np.exp(np.arange(self._size) * each[..., None]).sum(-1)
            found = np.where(delta > 0, delta * factor, 0.0)
        best = np.minimum(found, self._size * curve(np.zeros(()), direction))
        return np.asarray(np.minimum(best, 1.0), dtype=np.float64)

    def _ceiling(self) -> tuple[float, float]:
        level, lost = self._once._ceiling()
        return (self._size * level, 0.0) if lost == 0 else super()._ceiling()


def compose(
    first: PrivacyProfile, second: PrivacyProfile, *others: PrivacyProfile, interval: float | None = None
) -> PrivacyProfile:
    """Guarantee of releasing all of several mechanisms, each with its own randomness, on the same data.

    Exact where the kinds agree (Gaussian noise with Gaussian noise, samples with samples, a few statements). Everything
    else is the smallest of several bounds: the sum of the privacy losses on a grid, rounded to the private side, of the
    single releases and of those of one kind together, and the sum of the Renyi curves. Nothing is computed before the
    first query.

    Parameters
    ----------
    first, second, *others : PrivacyProfile
        All for the same adjacency. For many releases of one mechanism, ``profile.compose(times)``.
    interval : float, > 0, or None
        Distance of the privacy losses on the grid, in units of epsilon; used for unlike kinds only. None: at most a
        fiftieth of the standard deviation of the losses, which costs about 0.1 % of epsilon.

    Returns
    -------
    PrivacyProfile
        Its status is the weakest of the parts'.

    Raises
    ------
    ValueError
        If the adjacencies differ, or, at the first query, the losses need more than 2^21 points of a given interval.
    TypeError
        If an argument is no PrivacyProfile.

    Source
    ------
    Sommer, Meiser and Mohammadi (2019); Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022) for the rounding;
    Zhu, Dong and Wang (2022) for the losses of a mechanism known by its deltas; Vadhan and Zhang (2023) for adaptive
    mechanisms that take turns; Mironov (2017).

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
        ways = ", ".join(f"{one!r} to {other!r}" for one, other in IMPLIED)
        raise ValueError(
            f"adjacency must be the same for all profiles, got {' and '.join(adjacencies)}; the guarantees speak of "
            f"different neighbours, profile.for_adjacency(...) converts {ways}"
        )
    return together([term for part in parts for term in part._terms()], _about(parts, interval), interval)


def together(terms: Terms, about: dict[str, Any], interval: float | None = None) -> PrivacyProfile:
    """Composition of profiles, each released so many times: parts of one family merge, all others stay."""
    families = _groups(terms, lambda part: part._family or ("", part._key()))
    merged: Terms = []
    for group in families:
        first: PrivacyProfile = group[0][0]
        whole = len(families) == 1
        found = first._merged(group, about if whole else first._about(1)) if first._family else None
        if found is not None and whole:
            return found
        if found is not None:
            merged.append((found, 1))
            continue
        for same in _groups(group, lambda part: part._key()):
            merged.append((same[0][0], sum(times for _, times in same)))
    return ComposedRelease(merged, interval, **about)


def _groups(terms: Terms, key: Callable[[Any], Hashable]) -> list[Terms]:
    """Terms of equal key together, in order."""
    found: dict[Hashable, Terms] = {}
    for part, times in terms:
        found.setdefault(key(part), []).append((part, times))
    return list(found.values())


def together_lost(parts: Any) -> float:
    """Probability that at least one of several independent failures, (times, probability) each, happens."""
    kept = 0.0
    for times, probability in parts:
        if probability >= 1:
            return 1.0
        kept += times * math.log1p(-probability)
    return -math.expm1(kept) + 0.0


def _about(parts: list[PrivacyProfile], interval: float | None) -> dict[str, Any]:
    """Keyword arguments that describe the composition of the parts."""
    words = {name: joined([getattr(part, name) for part in parts]) for name in ("assumption", "source", "remark")}
    words["status"] = max((part.status for part in parts), key=STATUSES.index)
    words["implementation"] = max((part.implementation for part in parts), key=IMPLEMENTATIONS.index)
    words["exactness"] = max((part.exactness for part in parts), key=EXACTNESS.index)
    given = {} if interval is None else {"interval": interval}
    return describe("compose", parts[0].adjacency, parts=[part_of(part) for part in parts], **given) | words


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
