"""Budgets and seeds: counting, all or nothing, threads, and the ways around it that are none."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.methods import BudgetExhausted, InferenceBudget, secret_seed


def test_seed_takes_fresh_entropy_unless_told():
    np.random.seed(0)  # noqa: NPY002 - the global state must not matter
    first = secret_seed(None)
    np.random.seed(0)  # noqa: NPY002
    assert secret_seed(None) != first
    assert secret_seed(3) == secret_seed(3) == secret_seed(np.random.RandomState(3))
    assert max(secret_seed(s) for s in range(40)) > 2**120
    state = np.random.RandomState(3)
    assert secret_seed(state) != secret_seed(state)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 40))
def test_calls_are_all_or_nothing(calls, answers):
    budget, spent = InferenceBudget(answers), 0
    for count in calls:
        if spent + count <= answers:
            assert budget.spend(count) == spent
            spent += count
        else:
            with pytest.raises(BudgetExhausted):
                budget.spend(count)
        assert (budget.released, budget.left) == (spent, answers - spent)


def test_refusal_says_what_is_left():
    budget = InferenceBudget(10, guarantee="epsilon=1.0")
    budget.spend(8)
    with pytest.raises(BudgetExhausted, match=r"3 answers were asked for, 2 of 10 are left at epsilon=1\.0; ask for"):
        budget.spend(3)
    budget.spend(2)
    with pytest.raises(BudgetExhausted, match=r"10 of 10 answers released at epsilon=1\.0; refit with a larger"):
        budget.spend(1)
    budget.spend(0)
    assert repr(budget) == "InferenceBudget(10, guarantee='epsilon=1.0'): 10 released"


def test_pickled_copy_refuses_until_it_is_resumed():
    budget = InferenceBudget(10)
    budget.spend(4)
    stored = pickle.dumps(budget)
    copies = [pickle.loads(stored), pickle.loads(pickle.dumps(pickle.loads(stored)))]
    for other in copies:
        assert (other.released, other.left, other.answers) == (4, 0, 10)
        with pytest.raises(BudgetExhausted, match=r"copy of a budget of 10 answers .* 4 of them released .* resume"):
            other.spend(1)
    budget.spend(3)
    other = copies[0]
    for released in (3, 11):
        with pytest.raises(ValueError, match=rf"released must be in 4\.\.10, got released={released}"):
            other.resume(released=released)
    assert other.left == 0
    other.resume(released=7)
    assert other.spend(3) == 7
    with pytest.raises(BudgetExhausted, match="10 of 10"):
        other.spend(1)


def test_bad_numbers_are_named():
    budget = InferenceBudget(5)
    for use, name, value, error in (
        (InferenceBudget, "answers", 0, ValueError), (InferenceBudget, "answers", 1.5, TypeError),
        (InferenceBudget, "answers", True, TypeError), (budget.spend, "count", -1, ValueError),
        (budget.spend, "count", 0.5, TypeError), (budget.spend, "count", False, TypeError),
        (lambda value: budget.resume(released=value), "released", 2.5, TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match=f"{name} must be .*got {name}={value}"):
            use(value)
    assert budget.left == 5
