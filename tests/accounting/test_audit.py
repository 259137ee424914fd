"""Audits: known values, coverage counted exactly, and mechanisms whose guarantee is
known.
"""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, stats

from dpnotes.accounting import (
    audit_delta,
    audit_epsilon,
    audit_mu,
    clopper_pearson,
    one_run_audit,
    one_run_p_value,
)


def counts(true_positives, false_positives, runs=1000):
    return {
        "true_positives": true_positives,
        "positives": runs,
        "false_positives": false_positives,
        "negatives": runs,
    }


@given(
    trials=st.integers(1, 3000),
    share=st.floats(0, 1),
    confidence=st.floats(0.01, 0.999),
)
def test_interval_equals_a_second_library(trials, share, confidence):
    successes = round(share * trials)
    ours = clopper_pearson(successes, trials, confidence=confidence)
    theirs = stats.binomtest(successes, trials).proportion_ci(
        confidence, method="exact"
    )
    assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-8, abs=1e-10)
    mirrored = clopper_pearson(trials - successes, trials, confidence=confidence)
    assert ours == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-12)


@given(data=st.data(), runs=st.integers(1, 500))
def test_audits_agree_with_one_another(data, runs):
    """Epsilon is where delta(epsilon) falls to delta; a test and its mirror image
    prove the same.
    """
    hits, alarms = data.draw(st.integers(0, runs)), data.draw(st.integers(0, runs))
    delta = data.draw(st.floats(0, 1))
    epsilon = audit_epsilon(**counts(hits, alarms, runs), delta=delta)
    if epsilon > 0:
        assert audit_delta(
            **counts(hits, alarms, runs), epsilon=epsilon
        ) == pytest.approx(delta, abs=1e-9)
    else:
        assert audit_delta(**counts(hits, alarms, runs), epsilon=0.0) <= delta + 1e-12
    mirror = counts(runs - alarms, runs - hits, runs)
    assert audit_epsilon(**mirror, delta=delta) == pytest.approx(epsilon, abs=1e-9)
    assert audit_mu(**mirror) == pytest.approx(
        audit_mu(**counts(hits, alarms, runs)), abs=1e-9
    )


@pytest.mark.parametrize(
    ("examples", "guesses", "correct", "delta", "epsilon"),
    [
        (1000, 1000, 700, 1e-5, 0.7317404494),
        (1000, 100, 95, 1e-5, 2.1651758),
        (1000, 1000, 510, 1e-5, 0.0),
        (1000, 50, 50, 1e-3, 0.0),
        # this and the next: 0.702 and 2.675 in the paper
        (100, 100, 75, 0.0, 0.7022139310),
        (100_000, 1510, 1439, 1e-5, 2.675851008),
    ],
)
def test_one_run_known_values(examples, guesses, correct, delta, epsilon):
    found = one_run_audit(
        examples=examples, guesses=guesses, correct=correct, delta=delta
    )
    assert found == pytest.approx(epsilon, rel=5e-10)
    if found > 0:  # the p-value crosses the level there
        run = {
            "examples": examples,
            "guesses": guesses,
            "correct": correct,
            "delta": delta,
        }
        assert (
            one_run_p_value(**run, epsilon=found)
            < 0.05 + 1e-15
            <= one_run_p_value(**run, epsilon=found + 1e-9)
        )


@pytest.mark.parametrize("correct", [1, 600, 9000, 15_000, 20_000])
def test_one_run_p_value_equals_the_sum_over_all_below(correct):
    guesses, q = 20_000, math.exp(0.5) / (1 + math.exp(0.5))  # the mode is at 12,449
    below = stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, q)
    slack = (np.cumsum(below) / np.arange(1, correct + 1)).max()
    plain = min(
        1.0, stats.binom.sf(correct - 1, guesses, q) + 2 * guesses * 1e-3 * slack
    )
    assert (
        one_run_p_value(
            examples=guesses, guesses=guesses, correct=correct, epsilon=0.5, delta=1e-3
        )
        == plain
    )


def test_one_run_without_delta_is_a_binomial_test():
    level = optimize.brentq(lambda q: stats.binom.sf(79, 100, q) - 0.05, 0.5, 0.9)
    found = one_run_audit(examples=100, guesses=100, correct=80, delta=0.0)
    assert found == pytest.approx(math.log(level / (1 - level)), abs=1e-9)
