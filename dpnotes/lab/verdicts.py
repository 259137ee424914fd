"""The one rule by which the book compares means; no other module does.

A *question* is a function of a level: asked at a level, it answers :data:`HOLDS`, :data:`REVERSED`, :data:`TIE` or
:data:`UNDECIDED`. The simplest is whether a difference of means is above zero (:func:`above`) or zero (:func:`level`);
sentences about many points are made of such by :func:`every`, :func:`most` and :func:`some`. Each test is one-sided, by
Student's t with the Welch-Satterthwaite degrees of freedom, at :data:`LEVEL` for the sentence as a whole: a part that
may be wrong in several places gets its fraction of the level (Bonferroni's partial conjunction, Benjamini and Heller
2008). So a sentence is confirmed and refuted by the same test at the same level.

The level and the margins were fixed on 2026-11-22, before any verdict of the book had been read off them. Until then
two standard errors of a normal distribution were used in some places, and means without errors in others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from scipy import stats

LEVEL = 0.025  # of one side: an interval of 95 per cent
ACCURACY = 0.002  # a tie of accuracies: the papers print no more digits, and repeats of our own rows differ by as much
NEGLIGIBLE = 0.01  # of a difference that a paper calls negligible in a figure of accuracies: one point, from 2026-11-21

Verdict: TypeAlias = Literal["holds", "reversed", "tie", "undecided", "not testable here"]
Question: TypeAlias = Callable[[float], Verdict]
HOLDS: Final = "holds"
REVERSED: Final = "reversed"
TIE: Final = "tie"
UNDECIDED: Final = "undecided"
UNTESTED: Final = "not testable here"
OPPOSITE: dict[Verdict, Verdict] = {HOLDS: REVERSED, REVERSED: HOLDS}
ORDER: dict[Verdict, str] = {HOLDS: "ahead", REVERSED: "behind", TIE: "equal", UNDECIDED: "undecided"}


@dataclass(frozen=True)
class Mean:
    """A mean with what is known of its error, or a sum of such means.

    Parameters
    ----------
    value : float
    variance : float
        Of the mean, the square of its standard error; 0 for an exact value, infinite for one that is not known.
    doubt : float
        Sum over the means that it is made of: square of the variance over the degrees of freedom.
    """

    value: float
    variance: float = 0.0
    doubt: float = 0.0

    @classmethod
    def of(cls, value: float, std: float, runs: float, *, freedom: float | None = None) -> Mean:
        """Mean of so many independent runs whose standard deviation is ``std``.

        Parameters
        ----------
        value : float
        std : float
            NaN if it is not known, as that of a single run: the mean may be anything then.
        runs : float
        freedom : float, optional
            Degrees of freedom of ``std``, where it is borrowed from other runs. Default: one less than runs.

        Raises
        ------
        ValueError
            If a single run is to have a standard deviation of its own.
        """
        if math.isnan(std):
            return cls(value, math.inf)
        freedom = runs - 1 if freedom is None else freedom
        if std > 0 and freedom <= 0:
            raise ValueError(f"runs must be at least 2 for a standard deviation, got {runs}")
        variance = std**2 / runs
        return cls(value, variance, variance**2 / freedom if variance else 0.0)

    def __add__(self, other: Mean | float) -> Mean:
        other = other if isinstance(other, Mean) else Mean(other)
        return Mean(self.value + other.value, self.variance + other.variance, self.doubt + other.doubt)

    def __sub__(self, other: Mean | float) -> Mean:
        return self + other * -1.0

    def __mul__(self, factor: float) -> Mean:
        return Mean(factor * self.value, factor**2 * self.variance, factor**4 * self.doubt)

    @property
    def freedom(self) -> float:
        """Degrees of freedom, by Welch and Satterthwaite."""
        return self.variance**2 / self.doubt if self.doubt else math.inf

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Limits that the true mean is beyond with probability ``level`` at most, on either side."""
        if not self.variance:
            return self.value, self.value
        if math.isinf(self.variance):
            return -math.inf, math.inf
        reach = math.sqrt(self.variance) * float(stats.t.isf(level, self.freedom))
        return self.value - reach, self.value + reach


class Borrowed(NamedTuple):
    """A standard deviation of single runs that other runs lend, with its degrees of freedom."""

    std: float = math.nan
    freedom: float = 0.0


NOBODY = Borrowed()


def above(difference: Mean, *, margin: float = ACCURACY) -> Question:
    """Whether a difference is above 0; a tie if its interval lies within the margin."""

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        if (-margin < low and high < margin) or low == high == 0:
            return TIE
        return HOLDS if low > 0 else REVERSED if high < 0 else UNDECIDED

    return asked


def not_behind(difference: Mean, *, margin: float = ACCURACY) -> Question:
    """Whether a difference is above 0 or within the margin."""

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        return HOLDS if low > -margin else REVERSED if high < 0 else UNDECIDED

    return asked


def level(difference: Mean, *, margin: float) -> Question:
    """Whether a difference is within the margin; reversed if its interval lies beyond on either side."""

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        if -margin < low and high < margin:
            return HOLDS
        low, high = difference.interval(level / 2)  # two ways to be beyond
        return REVERSED if low >= margin or high <= -margin else UNDECIDED

    return asked


def at_least(count: int, questions: Sequence[Question]) -> Question:
    """Whether so many of the questions hold.

    It is reversed if so many are reversed that the others are too few, a tie if so many are reversed or tied.
    """
    spare = len(questions) - count + 1  # so many must fail before the sentence does

    def asked(level: float) -> Verdict:
        if sum(question(level / spare) == HOLDS for question in questions) >= count:
            return HOLDS
        against = [question(level / count) for question in questions]
        if against.count(REVERSED) >= spare:
            return REVERSED
        return TIE if against.count(REVERSED) + against.count(TIE) >= spare else UNDECIDED

    return asked


def every(questions: Iterable[Question]) -> Question:
    """Whether all hold."""
    found = list(questions)
    return at_least(len(found), found)


def most(questions: Sequence[Question], weights: Sequence[float] | None = None) -> Question:
    """Whether more than half hold, by weight: the length of an axis, say, that each point stands for."""
    weighed = [1.0] * len(questions) if weights is None else list(weights)

    def asked(level: float) -> Verdict:
        found = [question(level / len(questions)) for question in questions]

        def half(*answers: Verdict) -> float:
            return 2 * sum(weight for weight, answer in zip(weighed, found, strict=True) if answer in answers)

        if half(HOLDS) > sum(weighed):
            return HOLDS
        contrary: dict[Verdict, float] = {REVERSED: half(REVERSED), TIE: half(REVERSED, TIE)}
        return next((answer for answer, weight in contrary.items() if weight >= sum(weighed)), UNDECIDED)

    return asked


def some(questions: Iterable[Question]) -> Question:
    """Whether at least one holds."""
    return at_least(1, list(questions))


def opposite(question: Question) -> Question:
    """The contrary: holds where the question is reversed."""

    def asked(level: float) -> Verdict:
        found = question(level)
        return OPPOSITE.get(found, found)

    return asked


def verdict(question: Question | None) -> Verdict:
    """Verdict on a sentence, at :data:`LEVEL`; ``None`` is one whose rows are not there."""
    return UNTESTED if question is None else question(LEVEL)


def compared(one: Mean, other: Mean, *, margin: float = ACCURACY) -> str:
    """How one mean stands to another: ahead, behind, equal (within the margin) or undecided.

    Examples
    --------
    >>> compared(Mean.of(0.91, 0.01, 10), Mean.of(0.89, 0.01, 10))
    'ahead'
    >>> compared(Mean.of(0.91, 0.01, 3), Mean.of(0.89, 0.01, 3))
    'undecided'
    """
    return ORDER[above(one - other, margin=margin)(LEVEL)]


def agrees(ours: Mean, printed: Mean, *, unit: float) -> Verdict:
    """Whether a printed mean is one that our rows leave possible; undecided if an error is not known.

    Parameters
    ----------
    ours : Mean
    printed : Mean
        With the paper's standard deviation of single runs; where it prints none, with that of ours.
    unit : float
        Of the last digit that is printed.
    """
    difference = ours - printed
    low, high = difference.interval()
    if math.isinf(difference.variance):
        return UNDECIDED
    return HOLDS if low <= unit / 2 and high >= -unit / 2 else REVERSED


def places(means: Mapping[str, Mean], name: str, level: float = LEVEL) -> tuple[int, int]:
    """Best and worst place that one of several means can have: 1 is first; each is wrong with probability ``level``."""
    part = level / max(len(means) - 1, 1)
    found = [above(mean - means[name], margin=0.0)(part) for other, mean in means.items() if other != name]
    return 1 + found.count(HOLDS), len(means) - found.count(REVERSED)


def inside(points: Sequence[Mean], *, margin: float = ACCURACY) -> Question:
    """Whether some inner point of a series is above both of its ends."""
    first, *inner, last = points
    return some(every(above(point - end, margin=margin) for end in (first, last)) for point in inner)


def trend(points: Sequence[Mean], *, margin: float = ACCURACY) -> str:
    """Direction of a series: up, down, up then down, down then up, unchanged or undecided.

    It turns if some inner point is beyond both ends; else its ends decide. Unchanged are ends that tie.

    Examples
    --------
    >>> trend([Mean(1.0), Mean(2.0), Mean(4.0)]), trend([Mean(1.0), Mean(4.0), Mean(2.0)])
    ('up', 'up then down')
    """
    for sign, turned in ((1.0, "up then down"), (-1.0, "down then up")):
        if inside([point * sign for point in points], margin=margin)(LEVEL) == HOLDS:
            return turned
    rise = above(points[-1] - points[0], margin=margin)(LEVEL)
    return {HOLDS: "up", REVERSED: "down", TIE: "unchanged"}.get(rise, UNDECIDED)


def crossing(x: Sequence[float], leads: Sequence[Mean]) -> tuple[float, float]:
    """Between which points a lead is lost: the last one before at which it is there, and the first at which it is gone.

    Parameters
    ----------
    x : sequence of float, rising
    leads : sequence of Mean
        The lead at each.

    Returns
    -------
    tuple of float
        The first is ``-inf`` if the lead is nowhere shown before the second, the second ``inf`` if it is nowhere gone.
    """
    found = [above(lead, margin=0.0)(LEVEL) for lead in leads]
    gone = found.index(REVERSED) if REVERSED in found else len(found)
    there = [value for value, answer in zip(x, found[:gone], strict=False) if answer == HOLDS]
    return there[-1] if there else -math.inf, x[gone] if gone < len(found) else math.inf
