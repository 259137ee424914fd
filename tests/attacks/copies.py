"""Copies of an estimator that answers: by pickle, deepcopy, joblib, attributes, threads
and forked processes.

The target is a function (X, y, **parameters) that fits a method with a guarantee of 400
answers. However it is copied, no more than 400 answers may be had in all.
"""

import copy
import copyreg
import io
import os
import pickle
import threading
import warnings
from types import SimpleNamespace

import joblib
import numpy as np

from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import ANSWERS, WITH_BUDGET, ours, queries, table

X, Y = table()
TARGETS = ours(*WITH_BUDGET)
COUNTER = broken.fit(broken.NoisyAnswers)


def _answered(*fitted, times=3):
    """Answers that can be had from some copies in turn, each asked until it refuses."""
    total = 0
    for one in fitted:
        for _ in range(times):
            try:
                total += len(_ask(one, queries()))
            except RuntimeError:
                break
    return total


def _ask(fitted, rows):
    return (
        fitted.predict(rows)
        if hasattr(fitted, "predict")
        else fitted.decision_function(rows)
    )


def _evidence(total):
    return Evidence(total > ANSWERS, f"{total} answers for a guarantee of {ANSWERS}")


@attack(broken=COUNTER, ours=TARGETS)
def deep_copies(target):
    """Ask the estimator, its copy and its deepcopy in turn."""
    fitted = target(X, Y)
    return _evidence(_answered(fitted, copy.copy(fitted), copy.deepcopy(fitted)))


@attack(broken=COUNTER, ours=TARGETS)
def pickled_copies(target):
    """Ask the estimator and two unpickled copies in turn."""
    fitted = target(X, Y)
    return _evidence(
        _answered(fitted, *(pickle.loads(pickle.dumps(fitted)) for _ in range(2)))
    )


@attack(broken=COUNTER, ours=TARGETS)
def joblib_copies(target):
    """Ask the estimator and two copies that joblib has saved and loaded."""
    fitted, file = target(X, Y), io.BytesIO()
    joblib.dump(fitted, file)
    copies = [joblib.load(io.BytesIO(file.getvalue())) for _ in range(2)]
    return _evidence(_answered(fitted, *copies))


@attack(broken=COUNTER, ours=TARGETS)
def instance_dictionary(target):
    """Copy the estimator's __dict__ into a new object, and ask both."""
    fitted = target(X, Y)
    other = type(fitted).__new__(type(fitted))
    other.__dict__.update(vars(fitted))
    return _evidence(_answered(fitted, other))


@attack(broken=COUNTER, ours=TARGETS)
def saved_dictionary(target):
    """After the last answer, put back the __dict__ from before the first. A count
    stored in it would start again.
    """
    fitted = target(X, Y)
    before = dict(vars(fitted))
    total = _answered(fitted)
    fitted.__dict__.update(before)
    return _evidence(total + _answered(fitted))


@attack(broken=COUNTER, ours=TARGETS)
def reduced_by_hand(target):
    """Rebuild copies from the function, the arguments and the state that
    __reduce_ex__ returns.
    """
    fitted = target(X, Y)

    def rebuilt():
        function, arguments, state, *_ = fitted.__reduce_ex__(2)
        other = function(*arguments)
        if hasattr(other, "__setstate__"):
            other.__setstate__(dict(state))
        else:
            other.__dict__.update(state)
        return other

    assert copyreg.__newobj__ is fitted.__reduce_ex__(2)[0]
    return _evidence(_answered(rebuilt(), rebuilt(), fitted))


class _CopiesWhenRead:
    """Queries that make a copy of the estimator at the moment that it reads them."""

    def __init__(self, fitted, by):
        self.fitted, self.by, self.copies = fitted, by, []

    def __array__(self, dtype=None, copy=None):
        self.copies.append(self.by(self.fitted))
        return np.asarray(queries(), dtype=dtype)


def _during(target, by):
    fitted = target(X, Y)
    query = _CopiesWhenRead(fitted, by)
    answered = len(_ask(fitted, query))
    return _evidence(answered + _answered(fitted, *query.copies[:2]))


@attack(broken=COUNTER, ours=TARGETS)
def deepcopy_during_an_answer(target):
    """Copy the estimator by deepcopy while it reads a query, before the answer is
    counted.
    """
    return _during(target, copy.deepcopy)


@attack(broken=COUNTER, ours=TARGETS)
def pickle_during_an_answer(target):
    """Copy the estimator by pickle while it reads a query, before the answer is
    counted.
    """
    return _during(target, lambda fitted: pickle.loads(pickle.dumps(fitted)))


@attack(broken=lambda X, y: _Races().fit(X, y), ours=TARGETS)
def threads_that_race(target):
    """Ask from eight threads at once. Each asks more than once, each time for half
    of the budget.
    """
    fitted, answered = target(X, Y), []
    start = threading.Barrier(8)

    def ask():
        start.wait()
        answered.append(_answered(fitted))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _evidence(sum(answered))


class _Races(broken.NoisyAnswers):
    """All threads look at the count before the first has changed it."""

    def fit(self, X, y):
        self.meeting = threading.Barrier(8)
        return super().fit(X, y)

    def decision_function(self, X):
        left = self.left
        if left >= len(X):
            self.meeting.wait(timeout=5)
        self.left = ANSWERS
        answered = super().decision_function(X) if left >= len(X) else self._refuse()
        self.left = left - len(X)
        return answered

    def _refuse(self):
        raise RuntimeError("no answers left")


@attack(broken=COUNTER, ours=TARGETS)
def forked_copies(target):
    """Fork the process. The child answers from its copy of the count, and the parent
    from its own.
    """
    fitted = target(X, Y)
    reader, writer = os.pipe()
    with warnings.catch_warnings(action="ignore"):  # newer Pythons warn of threads
        process = os.fork()
    if process == 0:
        total = -1
        try:
            total = _answered(fitted)
        finally:
            os.write(writer, str(total).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = int(pipe.read())
    os.waitpid(process, 0)
    assert theirs >= 0, "the forked process failed"
    return _evidence(theirs + _answered(fitted))


@attack(
    broken=lambda X, y: _CountsLabels().fit(X, y), ours=TARGETS | ours("FilteredVote")
)
def methods_that_do_not_count(target):
    """Call every public method that takes queries. Each method that answers must
    spend budget.
    """
    free, asked = [], queries(20)
    for name in dir(target(X, Y)):
        fitted = target(X, Y)
        if name.startswith("_") or name in ("fit", "set_params", "fit_predict"):
            continue
        before = _spent(fitted)
        try:
            method = getattr(fitted, name)
            method(asked, np.zeros(20, int)) if name == "score" else method(asked)
        except (TypeError, ValueError, AttributeError, RuntimeError):
            continue
        free += [name] * (_spent(fitted) - before < 20)
    return Evidence(bool(free), f"free answers: {', '.join(free) or 'none'}")


def _spent(fitted):
    if hasattr(fitted, "ledger_"):
        return fitted.ledger_.answered
    return (
        fitted.budget_.released if hasattr(fitted, "budget_") else ANSWERS - fitted.left
    )


class _CountsLabels(broken.NoisyAnswers):
    def predict_proba(self, X):
        return 1 / (1 + np.exp(-X @ self.exact_))


@attack(broken=lambda X, y: _TeachersVote().fit(X, y), ours=ours("FilteredVote"))
def votes_of_copies(target):
    """Copy a vote whose teachers may each vote ten times, and add up a teacher's
    votes in all copies.
    """
    fitted = target(X, Y)
    copies = [
        fitted,
        copy.deepcopy(fitted),
        copy.copy(fitted),
        pickle.loads(pickle.dumps(fitted)),
    ]
    _answered(*copies, times=1)
    ledgers = {id(one.ledger_): one.ledger_ for one in copies}
    cast = int(sum(ledger.spent.max() for ledger in ledgers.values()))
    return Evidence(cast > 10, f"{cast} votes of a teacher for a guarantee of 10")


class _TeachersVote(broken.NoisyAnswers):
    def fit(self, X, y):
        self.ledger_ = SimpleNamespace(spent=np.zeros(1))
        return super().fit(X, y)

    def predict(self, X):
        self.ledger_.spent += np.minimum(10 - self.ledger_.spent, len(X))
        return X[:, 0] > 0
