"""The inference budget: counting, all or nothing, threads, and the ways around it that are none."""

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpnotes.methods import BudgetExhausted, InferenceBudget


class Answering(ClassifierMixin, BaseEstimator):
    """The least estimator with a budget: it answers with the class of most records."""

    def __init__(self, *, answers=10):
        self.answers = answers

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.budget_ = InferenceBudget(self.answers, guarantee="epsilon=1.0")
        return self

    def predict(self, X):
        check_is_fitted(self)
        self.budget_.spend(len(X))
        return np.full(len(X), self.classes_[0])


@pytest.fixture
def fitted():
    return Answering().fit(np.zeros((4, 1)), [3, 3, 3, 3])


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 40))
def test_calls_are_all_or_nothing(calls, answers):
    budget, spent = InferenceBudget(answers), 0
    for count in calls:
        if spent + count <= answers:
            budget.spend(count)
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


def test_predict_and_score_spend_the_same_budget(fitted):
    fitted.predict(np.zeros((4, 1)))
    fitted.score(np.zeros((5, 1)), [3] * 5)
    assert fitted.budget_.left == 1
    with pytest.raises(BudgetExhausted):
        fitted.score(np.zeros((2, 1)), [3, 3])
    assert fitted.budget_.left == 1


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_in_memory_share_the_count(fitted, duplicate):
    other = duplicate(fitted)
    fitted.predict(np.zeros((6, 1)))
    other.predict(np.zeros((4, 1)))
    for either in (fitted, other):
        with pytest.raises(BudgetExhausted, match="10 of 10"):
            either.predict(np.zeros((1, 1)))


def test_clone_is_unfitted_and_a_refit_starts_anew(fitted):
    fitted.predict(np.zeros((10, 1)))
    with pytest.raises(NotFittedError):
        clone(fitted).predict(np.zeros((1, 1)))
    assert fitted.fit(np.zeros((2, 1)), [3, 3]).budget_.left == 10


def test_pickled_copy_refuses_until_it_is_resumed(fitted):
    fitted.predict(np.zeros((4, 1)))
    stored = pickle.dumps(fitted)
    copies = [pickle.loads(stored), pickle.loads(pickle.dumps(pickle.loads(stored)))]
    for other in copies:
        assert (other.budget_.released, other.budget_.left, other.budget_.answers) == (4, 0, 10)
        with pytest.raises(BudgetExhausted, match=r"copy of a budget of 10 answers .* 4 of them released .* resume"):
            other.predict(np.zeros((1, 1)))
    fitted.predict(np.zeros((3, 1)))
    other = copies[0]
    for released in (3, 11):
        with pytest.raises(ValueError, match=rf"released must be in 4\.\.10, got released={released}"):
            other.budget_.resume(released=released)
    assert other.budget_.left == 0
    other.budget_.resume(released=7)
    other.predict(np.zeros((3, 1)))
    with pytest.raises(BudgetExhausted, match="10 of 10"):
        other.predict(np.zeros((1, 1)))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_is_no_way_around(fitted):
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def answer():
        try:
            fitted.predict(np.zeros((1, 1)))
            send.send("answered")
        except BudgetExhausted as refusal:
            send.send(str(refusal))

    child = context.Process(target=answer)
    child.start()
    child.join(30)
    assert receive.poll(1)
    assert "this is a copy" in receive.recv()


def test_threads_never_overdraw():
    budget = InferenceBudget(1000)

    def work(_):
        try:
            budget.spend(3)
        except BudgetExhausted:
            return 0
        return 3

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(500))) == 999
    assert budget.left == 1


@pytest.mark.parametrize(("answers", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_bad_answers_are_named(answers, error):
    with pytest.raises(error, match="answers must be"):
        InferenceBudget(answers)


def test_bad_counts_are_named():
    budget = InferenceBudget(5)
    with pytest.raises(ValueError, match="count must be >= 0, got count=-1"):
        budget.spend(-1)
    for count in (0.5, True, False):
        with pytest.raises(TypeError, match="count must be an integer"):
            budget.spend(count)
    with pytest.raises(TypeError, match="released must be an integer"):
        budget.resume(released=2.5)
    assert budget.left == 5
