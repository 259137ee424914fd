"""The rule by which the book compares means; no other module compares them.

A *question* is a function of a significance level that returns :data:`HOLDS`,
:data:`REVERSED`, :data:`TIE` or :data:`UNDECIDED`. The simplest questions are whether a
difference of means is above zero (:func:`above`), and whether it is zero within a
margin (:func:`level`). The functions :func:`every`, :func:`most` and :func:`some`
combine questions into sentences about many points. Each test is a one-sided t test with
the Welch-Satterthwaite degrees of freedom, and :data:`LEVEL` is the level of a whole
sentence. Where one error in several tests would be enough for a wrong verdict, each of
these tests gets a fraction of the level (Bonferroni's partial conjunction, Benjamini
and Heller 2008). Therefore the same test, at the same level, serves to confirm a
sentence and to refute it.

The level and the margins were fixed on 2026-11-22, before any verdict of the book was
derived from them. Until then, some places used intervals of two standard errors (normal
distribution), and others compared means without errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from scipy import special

LEVEL = 0.025  # of one side: an interval of 95 per cent
# a tie of accuracies: the papers print no more digits, and repeats of our own rows
# differ by as much
ACCURACY = 0.002
# of a difference that a paper calls negligible in a figure of accuracies: one point,
# from 2026-11-21
NEGLIGIBLE = 0.01

Verdict: TypeAlias = Literal[
    "holds", "reversed", "tie", "undecided", "not testable here"
]
Question: TypeAlias = Callable[[float], Verdict]
HOLDS: Final = "holds"
REVERSED: Final = "reversed"
TIE: Final = "tie"
UNDECIDED: Final = "undecided"
UNTESTED: Final = "not testable here"
OPPOSITE: dict[Verdict, Verdict] = {HOLDS: REVERSED, REVERSED: HOLDS}
ORDER: dict[Verdict, str] = {
    HOLDS: "ahead",
    REVERSED: "behind",
    TIE: "equal",
    UNDECIDED: "undecided",
}


@dataclass(frozen=True)
class Mean:
    """A mean with an estimate of its error, or a sum of such means.

    Parameters
    ----------
    value : float
        The mean.
    variance : float
        Variance of the mean, the square of its standard error; 0 for an exact value,
        infinite if it is not known.
    doubt : float
        Squared variance of a mean, divided by its degrees of freedom; for a sum of
        means, the sum of these quotients.
    """

    value: float
    variance: float = 0.0
    doubt: float = 0.0

    @classmethod
    def of(
        cls, value: float, std: float, runs: float, *, freedom: float | None = None
    ) -> Mean:
        """Build the mean of ``runs`` independent runs whose standard deviation is
        ``std``.

        Parameters
        ----------
        value : float
            The mean of the runs.
        std : float
            Standard deviation of single runs; NaN if it is not known, as after a single
            run. The true mean may then be any number.
        runs : float
            Number of runs.
        freedom : float, optional
            Degrees of freedom of ``std``, if it is borrowed from other runs. Default:
            ``runs - 1``.

        Raises
        ------
        ValueError
            If a single run has a positive standard deviation that is not borrowed.
        """
        if math.isnan(std):
            return cls(value, math.inf)
        # a borrowed deviation has those of its lender
        freedom = runs - 1 if freedom is None else freedom
        if std > 0 and freedom <= 0:
            raise ValueError(
                f"runs must be at least 2 for a standard deviation, got {runs}"
            )
        # of the mean, not of a run
        variance = std**2 / runs
        return cls(value, variance, variance**2 / freedom if variance else 0.0)

    def __add__(self, other: Mean | float) -> Mean:
        other = other if isinstance(other, Mean) else Mean(other)
        return Mean(
            self.value + other.value,
            self.variance + other.variance,
            self.doubt + other.doubt,
        )

    def __sub__(self, other: Mean | float) -> Mean:
        return self + other * -1.0

    def __mul__(self, factor: float) -> Mean:
        return Mean(
            factor * self.value, factor**2 * self.variance, factor**4 * self.doubt
        )

    @property
    def freedom(self) -> float:
        """Degrees of freedom, by Welch and Satterthwaite."""
        return self.variance**2 / self.doubt if self.doubt else math.inf

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Compute two confidence limits, each of which fails with probability at
        most ``level``.
        """
        if not self.variance:
            return self.value, self.value
        if math.isinf(self.variance):
            return -math.inf, math.inf
        # one-sided: each limit has the whole level
        reach = math.sqrt(self.variance) * float(-special.stdtrit(self.freedom, level))
        return self.value - reach, self.value + reach


class Borrowed(NamedTuple):
    """A standard deviation of single runs, borrowed from other runs, with its
    degrees of freedom.
    """

    std: float = math.nan
    freedom: float = 0.0


NOBODY = Borrowed()


def above(difference: Mean, *, margin: float = ACCURACY) -> Question:
    """Ask whether a difference is above 0; the answer is a tie if its confidence
    interval lies within the margin.
    """

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        # an exact zero is a tie, whatever the margin
        if (-margin < low and high < margin) or low == high == 0:
            return TIE
        if low > 0:
            return HOLDS
        return REVERSED if high < 0 else UNDECIDED

    return asked


def not_behind(difference: Mean) -> Question:
    """Ask whether a difference is above minus the margin of accuracies."""

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        if low > -ACCURACY:
            return HOLDS
        return REVERSED if high < 0 else UNDECIDED

    return asked


def level(difference: Mean, *, margin: float) -> Question:
    """Ask whether a difference is within the margin.

    The answer is reversed if the confidence interval of the difference lies wholly
    above the margin or wholly below minus the margin.
    """

    def asked(level: float) -> Verdict:
        low, high = difference.interval(level)
        if -margin < low and high < margin:
            return HOLDS
        low, high = difference.interval(level / 2)  # two ways to be beyond
        return REVERSED if low >= margin or high <= -margin else UNDECIDED

    return asked


def at_least(count: int, questions: Sequence[Question]) -> Question:
    """Ask whether ``count`` or more of the questions hold.

    The answer is reversed if so many questions are reversed that fewer than ``count``
    remain. Otherwise the answer is a tie if fewer than ``count`` questions remain after
    the tied questions are removed too.
    """
    spare = len(questions) - count + 1  # so many must fail before the sentence does

    def asked(level: float) -> Verdict:
        if sum(question(level / spare) == HOLDS for question in questions) >= count:
            return HOLDS
        # each of so many could hold by chance
        against = [question(level / count) for question in questions]
        if against.count(REVERSED) >= spare:
            return REVERSED
        return (
            TIE if against.count(REVERSED) + against.count(TIE) >= spare else UNDECIDED
        )

    return asked


def every(questions: Iterable[Question]) -> Question:
    """Ask whether all questions hold."""
    found = list(questions)
    return at_least(len(found), found)


def most(
    questions: Sequence[Question], weights: Sequence[float] | None = None
) -> Question:
    """Ask whether the questions that hold have more than half of the total weight.

    If each question is about a point on an axis, its weight can be the length of the
    part that the point represents.
    """
    weighed = [1.0] * len(questions) if weights is None else list(weights)

    def asked(level: float) -> Verdict:
        found = [question(level / len(questions)) for question in questions]

        def half(*answers: Verdict) -> float:
            counted = []
            for weight, answer in zip(weighed, found, strict=True):
                if answer in answers:
                    counted.append(weight)
            return 2 * sum(counted)

        # twice the weight against the whole: more than half
        if half(HOLDS) > sum(weighed):
            return HOLDS
        contrary: dict[Verdict, float] = {
            REVERSED: half(REVERSED),
            TIE: half(REVERSED, TIE),
        }
        return next(
            (answer for answer, weight in contrary.items() if weight >= sum(weighed)),
            UNDECIDED,
        )

    return asked


def some(questions: Iterable[Question]) -> Question:
    """Ask whether at least one question holds."""
    return at_least(1, list(questions))


def opposite(question: Question) -> Question:
    """Ask the opposite question, which holds if the given question is reversed."""

    def asked(level: float) -> Verdict:
        found = question(level)
        return OPPOSITE.get(found, found)

    return asked


def verdict(question: Question | None) -> Verdict:
    """Give the verdict on a sentence, at :data:`LEVEL`; pass ``None`` if the rows of
    the sentence are missing.
    """
    return UNTESTED if question is None else question(LEVEL)


def compared(one: Mean, other: Mean) -> str:
    """Say whether a mean is ahead of another, behind it, equal (within the margin of
    accuracies) or undecided.

    Examples
    --------
    >>> compared(Mean.of(0.91, 0.01, 10), Mean.of(0.89, 0.01, 10))
    'ahead'
    >>> compared(Mean.of(0.91, 0.01, 3), Mean.of(0.89, 0.01, 3))
    'undecided'
    """
    return ORDER[verdict(above(one - other))]


def agrees(ours: Mean, printed: Mean, *, unit: float) -> Verdict:
    """Test whether a printed mean is compatible with our rows; the answer is undecided
    if an error is not known.

    Parameters
    ----------
    ours : Mean
        Our mean.
    printed : Mean
        The printed mean, with the standard deviation of single runs that the paper
        prints or, if it prints none, with the standard deviation of our runs.
    unit : float
        Unit of the last printed digit.
    """
    difference = ours - printed
    low, high = difference.interval()
    if math.isinf(difference.variance):
        return UNDECIDED
    return HOLDS if low <= unit / 2 and high >= -unit / 2 else REVERSED


def places(
    means: Mapping[str, Mean], name: str, level: float = LEVEL
) -> tuple[int, int]:
    """Find the best and the worst rank that a mean can have among several; 1 is first.

    Each of the two ranks is wrong with probability at most ``level``.
    """
    # any of the others could pass it by chance
    part = level / max(len(means) - 1, 1)
    found = []
    for other, mean in means.items():
        if other != name:
            lead = mean - means[name]
            found.append(above(lead, margin=0.0)(part))
    return 1 + found.count(HOLDS), len(means) - found.count(REVERSED)


def inside(points: Sequence[Mean], *, margin: float = ACCURACY) -> Question:
    """Ask whether some inner point of a series is above both ends of the series."""
    # the ends are what an inner point must beat
    first, *inner, last = points
    found = []
    for point in inner:
        higher = [above(point - end, margin=margin) for end in (first, last)]
        found.append(every(higher))
    return some(found)


def trend(points: Sequence[Mean], *, margin: float = ACCURACY) -> str:
    """Name the direction of a series: up, down, up then down, down then up, unchanged
    or undecided.

    The series turns if some inner point is above both ends or below both ends.
    Otherwise the difference of the two ends decides, and the series is unchanged if
    this difference is a tie.

    Examples
    --------
    >>> (
    ...     trend([Mean(1.0), Mean(2.0), Mean(4.0)]),
    ...     trend([Mean(1.0), Mean(4.0), Mean(2.0)]),
    ... )
    ('up', 'up then down')
    """
    for sign, turned in ((1.0, "up then down"), (-1.0, "down then up")):
        if inside([point * sign for point in points], margin=margin)(LEVEL) == HOLDS:
            return turned
    rise = above(points[-1] - points[0], margin=margin)(LEVEL)
    return {HOLDS: "up", REVERSED: "down", TIE: "unchanged"}.get(rise, UNDECIDED)


def crossing(x: Sequence[float], leads: Sequence[Mean]) -> tuple[float, float]:
    """Find the two points between which a lead is lost.

    Parameters
    ----------
    x : sequence of float, rising
        The points.
    leads : sequence of Mean
        The lead at each point.

    Returns
    -------
    tuple of float
        The last point, before the loss, at which the lead is shown (``-inf`` if there
        is no such point), and the first point at which the lead is lost (``inf`` if it
        is never lost).
    """
    found = [above(lead, margin=0.0)(LEVEL) for lead in leads]
    # a lead that comes back later is another one
    gone = found.index(REVERSED) if REVERSED in found else len(found)
    shown = -math.inf
    for value, answer in zip(x, found[:gone], strict=False):
        if answer == HOLDS:
            shown = value
    return shown, x[gone] if gone < len(found) else math.inf
