"""The rule by which the book compares means: what holds, what is reversed, and that
neither is said too often.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpnotes.lab.verdicts import (
    ACCURACY,
    HOLDS,
    LEVEL,
    REVERSED,
    TIE,
    UNDECIDED,
    UNTESTED,
    Mean,
    above,
    at_least,
    compared,
    crossing,
    every,
    level,
    most,
    not_behind,
    opposite,
    places,
    some,
    trend,
    verdict,
)

AHEAD, BEHIND, LEVEL_WITH = (
    above(Mean.of(value, 0.001, 10)) for value in (0.1, -0.1, 0.0)
)
OPEN = above(Mean.of(0.1, 10.0, 3))


def answer(*answers):
    """A question whose answers do not depend on the level."""
    return [lambda level, found=found: found for found in answers]


def test_intervals_are_those_of_welch():
    rng = np.random.default_rng(1)
    one = rng.normal(0.3, 1.0, 7)
    other = rng.normal(0.0, 3.0, 4)
    difference = Mean.of(one.mean(), one.std(ddof=1), 7) - Mean.of(
        other.mean(), other.std(ddof=1), 4
    )
    # Welch's test by scipy
    expected = stats.ttest_ind(one, other, equal_var=False).confidence_interval(
        1 - 2 * LEVEL
    )
    assert difference.interval() == pytest.approx(
        (expected.low, expected.high), rel=1e-12
    )
    single = Mean.of(one.mean(), one.std(ddof=1), 7).interval()
    assert single == pytest.approx(
        stats.t.interval(0.95, 6, one.mean(), stats.sem(one)), rel=1e-12
    )


def test_sums_and_multiples_keep_their_errors():
    one = Mean.of(0.5, 0.3, 9)
    other = Mean.of(0.2, 0.4, 16)
    assert (one * 2 - other).variance == pytest.approx(4 * 0.01 + 0.01)
    assert (one - 0.1).interval() == pytest.approx(
        tuple(end - 0.1 for end in one.interval())
    )
    assert (one * -3).freedom == pytest.approx(8)
    assert Mean(1.0).freedom == math.inf
    with pytest.raises(ValueError, match="runs must be at least 2"):
        Mean.of(0.5, 0.1, 1)
    assert Mean.of(0.5, 0.0, 1) == Mean(0.5)
    assert Mean.of(0.5, 0.1, 1, freedom=7).freedom == 7
    assert (Mean.of(0.5, math.nan, 1) - one).interval() == (-math.inf, math.inf)


def test_four_answers_to_one_question():
    assert [question(LEVEL) for question in (AHEAD, BEHIND, LEVEL_WITH, OPEN)] == [
        HOLDS,
        REVERSED,
        TIE,
        UNDECIDED,
    ]
    assert above(Mean(0.0), margin=0.0)(LEVEL) == TIE
    assert above(Mean(ACCURACY))(LEVEL) == HOLDS  # at the margin a difference counts
    assert above(Mean(ACCURACY / 2))(LEVEL) == TIE
    assert [opposite(question)(LEVEL) for question in (AHEAD, BEHIND, LEVEL_WITH)] == [
        REVERSED,
        HOLDS,
        TIE,
    ]
    assert verdict(AHEAD) == HOLDS
    assert verdict(None) == UNTESTED
    assert compared(Mean(0.3), Mean(0.2)) == "ahead"
    assert compared(Mean(0.2), Mean(0.3)) == "behind"
    assert compared(Mean(0.3), Mean(0.3)) == "equal"


def test_level_and_not_behind():
    assert level(Mean(0.005), margin=0.01)(LEVEL) == HOLDS
    assert [level(Mean(value), margin=0.01)(LEVEL) for value in (0.01, -0.02)] == [
        REVERSED,
        REVERSED,
    ]
    assert level(Mean.of(0.0, 1.0, 9), margin=0.01)(LEVEL) == UNDECIDED
    # beyond the margin at the level, not at half of it
    # its lower limit is the margin
    just = Mean(0.0, 1.0) + (0.5 + stats.norm.isf(LEVEL))
    assert level(just + 1e-9, margin=0.5)(LEVEL) == UNDECIDED
    assert level(just + 1e-9, margin=0.5)(2 * LEVEL) == REVERSED
    assert [
        not_behind(Mean(value))(LEVEL) for value in (0.1, 0.0, -ACCURACY / 2, -0.1)
    ] == [
        HOLDS,
        HOLDS,
        HOLDS,
        REVERSED,
    ]
    assert not_behind(Mean.of(0.0, 1.0, 9))(LEVEL) == UNDECIDED
    assert (
        not_behind(Mean(-0.0025, 0.0007**2))(LEVEL) == REVERSED
    )  # from -0.0039 to -0.0011: behind, by the margin or not


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((HOLDS, HOLDS, HOLDS), (HOLDS, HOLDS, HOLDS)),
        ((HOLDS, HOLDS, TIE), (TIE, HOLDS, HOLDS)),
        ((HOLDS, HOLDS, REVERSED), (REVERSED, HOLDS, HOLDS)),
        ((HOLDS, HOLDS, UNDECIDED), (UNDECIDED, HOLDS, HOLDS)),
        ((HOLDS, REVERSED, TIE), (REVERSED, TIE, HOLDS)),
        ((REVERSED, REVERSED, HOLDS), (REVERSED, REVERSED, HOLDS)),
        ((REVERSED, REVERSED, REVERSED), (REVERSED, REVERSED, REVERSED)),
        ((UNDECIDED, UNDECIDED, HOLDS), (UNDECIDED, UNDECIDED, HOLDS)),
        ((TIE, TIE, UNDECIDED), (TIE, TIE, UNDECIDED)),
    ],
)
def test_every_most_and_some(answers, expected):
    questions = answer(*answers)
    assert tuple(kind(questions)(LEVEL) for kind in (every, most, some)) == expected


def test_most_goes_by_weight():
    questions = answer(HOLDS, REVERSED, REVERSED)
    assert most(questions, [3.0, 1.0, 1.0])(LEVEL) == HOLDS
    assert most(questions, [2.0, 1.0, 1.0])(LEVEL) == REVERSED  # half is not most


def test_each_part_is_asked_at_its_fraction_of_the_level():
    asked = []

    def question(at):
        asked.append(at)
        return UNDECIDED

    at_least(3, [question] * 4)(0.12)
    # two must fail before three are too few
    assert asked == [0.12 / 2] * 4 + [0.12 / 3] * 4
    asked.clear()
    most([question] * 4)(0.12)
    assert asked == [0.03] * 4


def test_places_are_those_that_the_errors_leave_open():
    sharp = {
        name: Mean.of(value, 0.01, 10)
        for name, value in {"a": 0.9, "b": 0.8, "c": 0.7}.items()
    }
    assert [places(sharp, name) for name in sharp] == [(1, 1), (2, 2), (3, 3)]
    assert places({**sharp, "b": Mean.of(0.8, 2.0, 3)}, "c") == (2, 3)
    assert places({"a": Mean(1.0)}, "a") == (1, 1)
    # 2.1 is beyond the limit for one rival, not for two
    near = {"a": Mean(0.0, 1.0), "b": Mean(2.1), "c": Mean(9.0)}
    assert places(near, "a") == (2, 3)
    assert places({name: near[name] for name in ("a", "b")}, "a") == (2, 2)


def test_trends():
    def series(*values, std=0.01):
        return [Mean.of(value, std, 10) for value in values]

    assert trend(series(0.1, 0.2, 0.3)) == "up"
    assert trend(series(0.3, 0.2, 0.1)) == "down"
    assert trend(series(0.1, 0.3, 0.1)) == "up then down"
    assert trend(series(0.3, 0.1, 0.3)) == "down then up"
    assert trend(series(0.1, 0.3, 0.1, std=1.0)) == "undecided"
    assert trend(series(0.1, 0.1, 0.1, std=1e-4)) == "unchanged"
    assert trend(series(0.1, 0.2)) == "up"
    assert trend([Mean(1.0)] * 3, margin=0.0) == "unchanged"


def test_crossing_lies_between_the_last_lead_and_the_first_loss():
    leads = [Mean.of(value, 0.01, 10) for value in (0.2, 0.1, 0.001, -0.001, -0.1)]
    assert crossing([1, 2, 5, 10, 20], leads) == (2, 20)
    assert crossing([1, 2], leads[:2]) == (2, math.inf)
    assert crossing([5], leads[-1:]) == (-math.inf, 5)
    # a lead that comes back is another
    assert crossing([1, 2, 5], [Mean(1.0), Mean(-1.0), Mean(1.0)]) == (1, 2)
