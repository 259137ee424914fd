"""From sums of squares to epsilon and labels: all moments searched plainly, the accounting, the published counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.accounting import noisy_vote
from dpnotes.accounting.papers import personalised_answers, personalised_moments
from dpnotes.methods import personalised_epsilon, squares_of_budget

PUBLISHED = {50: (11, 85, 211), 100: (43, 338, 843), 150: (95, 759, 1897), 250: (264, 2108, 5269)}  # n: labels

noises = st.floats(1e-3, 3.0)
deltas = st.floats(1e-12, 0.5)
epsilons = st.floats(0.05, 30.0)


def labels_of(largest, epsilon, delta, **setting):
    """Labels that a budget pays for, one more than it covers, from the largest sum of squares after each query."""
    limit = squares_of_budget(epsilon, delta, **setting)
    return min(len(largest), int(np.searchsorted(largest, limit)) + 1)


@given(squares=st.integers(1, 10**9), k=st.integers(1, 500), noise=noises, delta=deltas)
def test_epsilon_is_the_least_of_all_moments(squares, k, noise, delta):
    orders = np.arange(1.0, 101.0)
    plain = ((squares / k**2 * personalised_moments(orders, noise=noise) - np.log(delta)) / orders).min()
    assert personalised_epsilon(squares, n_partitions=k, noise=noise, delta=delta) == pytest.approx(plain, rel=1e-12)


@given(epsilon=epsilons, delta=deltas, noise=noises, k=st.integers(1, 200), own=st.integers(0, 200))
def test_labels_of_a_constant_share_are_those_of_the_accounting(epsilon, delta, noise, k, own):
    against = max(own % (k + 1), k - own % (k + 1))  # of k models that vote between two classes
    labels = personalised_answers(epsilon, delta, noise=noise, m=against / k)
    sums = np.arange(1, 40) * against**2
    assert labels_of(sums, epsilon, delta, n_partitions=k, noise=noise) == min(labels, 39)


@given(epsilon=epsilons, delta=deltas, noise=noises, k=st.integers(1, 200))
def test_the_budget_is_reached_at_its_sum_and_not_before(epsilon, delta, noise, k):
    limit = squares_of_budget(epsilon, delta, n_partitions=k, noise=noise)
    before, at = personalised_epsilon([limit - 1, limit], n_partitions=k, noise=noise, delta=delta)
    assert before < epsilon * (1 + 1e-9)
    assert at > epsilon * (1 - 1e-9) or limit == 1


@pytest.mark.parametrize(("n", "labels"), PUBLISHED.items())
def test_published_counts_of_one_partition(n, labels):
    """Table 2 and the supplement's: all of delta = 1e-3 (claim 25), one label more than the budget pays for."""
    sums = np.arange(1, 6001)
    for epsilon, count in zip((1, 3, 5), labels, strict=True):
        assert labels_of(sums, epsilon, 1e-3, n_partitions=1, noise=2 / n) == count
        spent = personalised_epsilon([count - 1, count], n_partitions=1, noise=2 / n, delta=1e-3)
        assert spent[0] < epsilon <= spent[1]
        stated = noisy_vote(noise=2 / n, answers=count, analysis="published").epsilon(1e-3)
        assert spent[1] == pytest.approx(stated, rel=1e-12)


def test_no_query_costs_nothing_and_shapes_are_kept():
    found = personalised_epsilon([[0, 1], [2, 3]], n_partitions=1, noise=0.1, delta=1e-5)
    assert found.shape == (2, 2)
    assert found[0, 0] == 0
    assert (np.diff(found.ravel()) > 0).all()
    assert labels_of([], 1.0, 1e-5, n_partitions=1, noise=0.1) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be > 0, got epsilon=0.0"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got delta=1.0"),
        ({"delta": 0.0}, "delta must be > 0"),
        ({"noise": 0.0}, "noise must be > 0"),
        ({"n_partitions": 0}, "n_partitions must be >= 1"),
    ],
)
def test_bad_parameters_are_named(change, message):
    given = {"epsilon": 1.0, "delta": 1e-5, "n_partitions": 1, "noise": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        squares_of_budget(given.pop("epsilon"), given.pop("delta"), **given)
    with pytest.raises(ValueError, match="squares must be >= 0, got squares="):
        personalised_epsilon([-1], n_partitions=1, noise=0.1, delta=1e-5)
