"""Exercises of the chapter on DPBag."""

from __future__ import annotations

import math

from dpnotes.exercises._check import Function, exercise, expect


@exercise("dpbag-6")
def wins(function: Function) -> None:
    """``wins(counts, noise)``: probability that class 1 is answered."""
    expect(math.isclose(function((5.0, 5.0), 0.3), 0.5), "equal counts make both classes as likely")
    one, other = function((2.0, 3.5), 0.8), function((3.5, 2.0), 0.8)
    expect(
        math.isclose(one + other, 1), "exchanging the counts exchanges the classes: the two probabilities add up to 1"
    )
    expect(one > 0.5, "the class of more votes is the likelier")
    single, inverse = 1 - math.exp(-1.2) / 2, 1 - (2 + 1.5 / 0.8) / 4 * math.exp(-1.5 / 0.8)
    expect(not math.isclose(one, single), "both counts have noise: the difference of the two is not Laplace")
    expect(not math.isclose(one, inverse), "noise is the inverse of the Laplace distribution's scale")
    expect(math.isclose(one, 1 - (2 + 1.2) / 4 * math.exp(-1.2)), "the probability is not that of the mechanism")
    expect(math.isclose(function((102.0, 103.5), 0.8), one), "only the difference of the counts matters")


@exercise("dpbag-7")
def answers(function: Function) -> None:
    """``answers(epsilon, delta, noise)``: largest number of answers within the budget."""
    found = function(1.0, 1e-3, 2 / 50)
    expect(found != 11, "the last answer takes the budget over epsilon, as in the paper's loop")
    expect(found == 10, f"10 answers fit at epsilon = 1, delta = 0.001 and noise 2/50, got {found}")
    expect(
        function(1.0, 1e-5, 2 / 50) == 6, "a smaller delta leaves room for fewer answers: is it the natural logarithm?"
    )
    expect(function(5.0, 1e-5, 2 / 250) == 3512, "with little noise for each answer another order is the best")
    expect(function(0.1, 1e-5, 0.1) == 0, "where one answer is too many the number is 0")
