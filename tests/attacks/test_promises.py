"""What holds of every estimator by construction, tried on each one that there is: a new
estimator is covered on the day that it is exported.
"""

from __future__ import annotations

import decimal
import gc
import os
import pickle
import random
import signal
import threading
import warnings
from typing import ClassVar, NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from dpnotes import _gate as gate, methods
from dpnotes.learners import NetworkClassifier
from dpnotes.methods import BudgetExhausted, ClassMeans, PrivateClassifier
from dpnotes.preprocessing import PublicOneHot
from tests.attacks.disclosure import leaves, outcome
from tests.attacks.ours import SETTINGS, answers, estimator, queries, table

X, Y = table(61)
QUERIES = queries(7)
# under add-remove, public constants in place of the number of records
CONSTANTS = {"n": 50, "n_models": 5, "linear_share": 0.5, "n_trees": 2}
EXPORTED = [
    kind
    for kind in map(methods.__getattr__, dir(methods))
    if isinstance(kind, type) and issubclass(kind, PrivateClassifier)
]


def concrete(kind):
    """Whether an estimator can be fitted: it has a method, and is no base of others."""
    return not any(other is not kind and issubclass(other, kind) for other in EXPORTED)


def parameters(name, adjacency):
    """What ``adjacency`` needs besides the settings of an attack."""
    kind = SETTINGS[name][0]
    given = {"adjacency": adjacency}
    if adjacency == "add-remove":
        known = kind.__dataclass_fields__
        given |= {own: value for own, value in CONSTANTS.items() if own in known}
    if name == "DPBag" and adjacency == "replace-one":
        given["partitions"] = "balanced"
    return given


PAIRS = [
    pytest.param(name, parameters(name, adjacency), id=f"{name}-{adjacency}")
    for name, (kind, _) in SETTINGS.items()
    for adjacency in kind._adjacencies
]
RELEASED = [
    pair for pair in PAIRS if not SETTINGS[pair.values[0]][0]._answers_from_records
]
ANSWERING = [pair for pair in PAIRS if pair not in RELEASED]
BOUNDED = [pair for pair in PAIRS if hasattr(SETTINGS[pair.values[0]][0], "norm")]
TAUGHT = [
    pair
    for pair in PAIRS
    if "estimator" in SETTINGS[pair.values[0]][0].__dataclass_fields__
]


def test_every_estimator_is_attacked():
    attacked = {kind for kind, _ in SETTINGS.values()}
    assert attacked == set(filter(concrete, EXPORTED))


# R1: one object for each fit


def spent(budget):
    """Answers that were counted."""
    return budget.released if hasattr(budget, "released") else budget.answered


class RefitsWhenRead:
    """Queries that fit the estimator anew, to other records, while it reads them."""

    def __init__(self, refit):
        self.refit = refit

    def __array__(self, dtype=None, copy=None):
        self.refit()
        return np.asarray(QUERIES, dtype=dtype)


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_an_answer_uses_one_fit(name, given):
    """Another fit in the middle of an answer changes neither it nor who is charged."""
    fit = estimator(name)
    fitted = fit(X, Y, noise_seed=1, **given)
    before = fitted._fitted
    public = {"public": queries()} if hasattr(fitted, "student") else {}
    expected = fit(X, Y, noise_seed=1, **given).predict(QUERIES)
    refits = RefitsWhenRead(lambda: fitted.fit(-X[:-3], 1 - Y[:-3], **public))
    np.testing.assert_array_equal(fitted.predict(refits), expected)
    assert fitted._fitted is not before
    for budget, count in ((before.budget, len(QUERIES)), (fitted._fitted.budget, 0)):
        if budget is not None:
            assert spent(budget) == count


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_a_fit_uses_one_setting_and_sets_one_attribute(name, given):
    fitted = estimator(name)(X, Y, **given)
    assert set(vars(fitted)) - set(fitted.get_params(deep=False)) == {"_fitted"}


@pytest.mark.parametrize("same_id", [False, True], ids=["other id", "same id"])
@pytest.mark.parametrize(("name", "given"), ANSWERING)
def test_a_forked_process_refuses_at_once(name, given, same_id, monkeypatch):
    """Also where another thread of the parent holds the lock, and where the child has
    the parent's process id, as in another namespace.
    """
    fitted = estimator(name)(X, Y, **given)
    own = os.getpid()
    fitted._fitted.budget._lock.acquire()
    with warnings.catch_warnings(action="ignore"):  # newer Pythons warn of threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits
        code = 1
        try:
            if same_id:
                os.getpid = lambda: own
            fitted.predict(QUERIES)
        except BudgetExhausted:
            pickle.dumps(fitted)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    fitted._fitted.budget._lock.release()
    assert len(fitted.predict(QUERIES)) == len(QUERIES)


# R2: one gate


class Hostile:
    """A cell whose class raises an error of its own."""

    def __float__(self):
        raise KeyError("patient 4711")

    __hash__ = None

    def __eq__(self, other):
        raise KeyError("patient 4711")


CELLS = {
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "large": 10**400,
    "signalling": decimal.Decimal("sNaN"),
    "infinite": -np.inf,
    "beyond": decimal.Decimal("1e400"),
    "longdouble": np.longdouble("1e4000"),
    "text": "patient 4711",
    "bytes": b"patient",
    "complex": 1j,
    "dictionary": {"patient": 4711},
    "class": Hostile(),
    "date": np.datetime64("2020-01-01"),
}


def with_cell(cell, dtype=object):
    rows = X.astype(dtype)
    rows[5, 3] = cell
    return rows


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())
@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
def test_a_cell_that_is_no_finite_number_is_missing_at_the_gate(cell, frame):
    rows = with_cell(cell)
    given = pd.DataFrame(rows) if frame else rows
    holder = methods.ClassMeans(1.0)
    with warnings.catch_warnings(action="error"), np.errstate(all="raise"):
        found, missing = gate.rows(holder, given, reset=True, may_miss=True)
    assert missing.nonzero()[0].tolist() == [5]
    assert not found[5].any()
    np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(X, 5, 0))


DTYPES = {
    "Float64": lambda: pd.DataFrame(X).astype("Float64"),
    "Int64": lambda: pd.DataFrame(np.rint(9 * X)).astype("Int64"),
    "category": lambda: pd.DataFrame(np.rint(9 * X)).astype(int).astype("category"),
    "float32": lambda: pd.DataFrame(X.astype(np.float32)),
    "object": lambda: pd.DataFrame(X).astype(object),
}


@pytest.mark.parametrize("make", DTYPES.values(), ids=DTYPES.keys())
def test_one_missing_cell_of_any_dtype_changes_one_row(make):
    whole, gap = make(), make()
    gap.iloc[5, 3] = np.nan if "float32" in map(str, gap.dtypes) else None
    with warnings.catch_warnings(action="error"), np.errstate(all="raise"):
        first, second = (
            gate.rows(methods.ClassMeans(1.0), each, reset=True, may_miss=True)
            for each in (whole, gap)
        )
    assert first[0].dtype == second[0].dtype
    np.testing.assert_array_equal(np.delete(first[0], 5, 0), np.delete(second[0], 5, 0))
    assert second[1].sum() == 1 + first[1].sum()


def test_text_is_refused_by_its_dtype_whether_cells_are_missing_or_not():
    text = pd.DataFrame(X).astype(str).astype("string")
    gap = text.copy()
    gap.loc[5, 3] = pd.NA
    said = []
    for rows in (text, gap):
        with pytest.raises(
            ValueError, match="X must hold numbers, got columns"
        ) as told:
            methods.ClassMeans(1.0, classes=[0, 1]).fit(rows, Y)
        said.append(str(told.value))
    assert said[0] == said[1]


# values without a number, whose dtypes say so
WITHOUT_NUMBERS = [
    np.zeros(len(Y), dtype="datetime64[s]"),
    np.zeros(len(Y), dtype="timedelta64[s]"),
    np.zeros(len(Y), dtype=complex),
    pd.period_range("2020", periods=len(Y), freq="D"),
    pd.interval_range(0, len(Y)),
    pd.array(["1"] * len(Y), dtype="string"),
]


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("values", WITHOUT_NUMBERS, ids=lambda v: str(v.dtype))
def test_columns_without_numbers_are_named(values, categorical):
    """Otherwise all records would be empty, without a word."""
    column = pd.Series(values, name="since")
    if categorical:
        column = column.astype("category")
    rows = pd.DataFrame(X).assign(since=column).rename(columns=str)
    message = "X must hold numbers, got columns of other dtypes: 'since'; see"
    with pytest.raises(ValueError, match=message):
        methods.ClassMeans(1.0, classes=[0, 1]).fit(rows, Y)


class OfAnotherLibrary:
    """A table whose dtype pandas does not know."""

    dtype = type("dtype", (), {"type": "float"})()
    shape = X.shape

    def __array__(self, *_, **__):
        return X

    def __len__(self):
        return len(X)


def test_a_table_of_another_library_is_read():
    fitted = methods.ClassMeans(1.0, classes=[0, 1], noise_seed=0)
    own = fitted.fit(X, Y).coef_
    np.testing.assert_array_equal(fitted.fit(OfAnotherLibrary(), Y).coef_, own)


ROWS = np.array(
    [
        [np.nan] * 20,
        [np.inf, -np.inf] * 10,
        [1e-200] * 20,
        [5e-324] * 20,
        [1e300] * 20,
        [1e300, 1e-300, -1e300, 0.0] * 5,
        [-0.0] * 20,
    ]
)


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_no_row_is_noticed_under_hostile_settings(name, given):
    """Errors of numpy, warnings as errors, torch's anomaly mode, scikit-learn's
    output: a fit and an answer say nothing of a row.
    """
    rows = X.copy()
    rows[5 : 5 + len(ROWS)] = ROWS
    with (
        warnings.catch_warnings(action="error"),
        np.errstate(all="raise"),
        sklearn.config_context(transform_output="pandas"),
        torch.autograd.set_detect_anomaly(True, check_nan=True),
    ):
        fitted = estimator(name)(rows, Y, **given)
        assert len(fitted.predict(np.vstack([QUERIES, ROWS[:2]]))) == 9
        assert torch.is_anomaly_enabled()


def apart(bytes_between):
    """The table X at addresses that are no multiples of those of its numbers."""
    held = np.zeros(X.nbytes + bytes_between, dtype=np.uint8)[bytes_between:]
    rows = held.view(X.dtype).reshape(X.shape)
    rows[:] = X
    return rows


LAYOUTS = {
    "rows backwards": X[::-1].copy()[::-1],
    "columns backwards": X[:, ::-1].copy()[:, ::-1],
    "column after column": np.asfortranarray(X),
    "with gaps": np.repeat(X, 2, axis=1)[:, ::2],
    "unaligned": apart(1),
    "other bytes": X.astype(X.dtype.newbyteorder()),
}


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_how_a_table_lies_in_memory_decides_nothing(name, given):
    """An empty record has the others copied; no error tells, and no digit."""
    with_empty = np.where(np.arange(len(Y)) == 5, 7, Y)
    for labels in (Y, with_empty):
        found = [
            answers(estimator(name)(rows, labels, noise_seed=1, **given))
            for rows in (X, *LAYOUTS.values())
        ]
        for each in found[1:]:
            np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_what_torch_was_told_before_changes_no_digit(name, given):
    """Under autocast a clipped gradient would be longer than the clipping norm."""
    rows = X.astype(np.float32)
    expected = answers(estimator(name)(rows, Y, noise_seed=1, **given))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        found = answers(estimator(name)(rows, Y, noise_seed=1, **given))
        assert torch.is_autocast_enabled("cpu")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_a_query_that_misses_a_number_is_answered_as_zeros(name, given):
    asked = QUERIES.copy()
    asked[2, 3] = np.nan
    zeros = QUERIES.copy()
    zeros[2] = 0
    first, second = (
        estimator(name)(X, Y, noise_seed=1, **given).predict(rows)
        for rows in (asked, zeros)
    )
    np.testing.assert_array_equal(first, second)
    strict = estimator(name)(X, Y, classes=None, **given)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        strict.predict(asked)


class Panic(BaseException):
    """What is no ``Exception``, as the panics of learners that are written in Rust."""


class Teacher(ClassifierMixin, BaseEstimator):
    """Fails at a query in a way that only one of its records decides."""

    def __init__(self, how="raise"):
        self.how = how

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.member_ = bool((X == 4.0).all(axis=1).any())
        if self.member_ and self.how == "panic at the fit":
            raise Panic("patient 4711")
        warnings.warn("a warning at the fit", stacklevel=1)
        return self

    def predict(self, X):
        said = np.full(len(X), self.classes_[0])
        # not at the trial with a row of its own
        if not self.member_ or len(X) < 2:
            return said
        if self.how == "raise":
            raise ZeroDivisionError("patient 4711")
        if self.how == "exit":
            raise SystemExit("patient 4711")
        if self.how == "panic":
            raise Panic("patient 4711")
        if self.how == "warn":
            warnings.warn("patient 4711", stacklevel=1)
        return {
            "warn": said,
            "foreign": np.full(len(X), -1),
            "text": np.full(len(X), "patient"),
            "missing": np.full(len(X), np.nan),
            "short": said[:1],
        }[self.how]


@pytest.mark.parametrize(
    "how",
    [
        "raise",
        "exit",
        "panic",
        "panic at the fit",
        "warn",
        "foreign",
        "text",
        "missing",
        "short",
    ],
)
@pytest.mark.parametrize(("name", "given"), TAUGHT)
def test_a_teacher_that_fails_at_a_query_is_silent_and_counted(name, given, how):
    member = X.copy()
    member[5] = 4.0
    student = (
        {"student": LogisticRegression()}
        if "student" in vars(SETTINGS[name][0])["__dataclass_fields__"]
        else {}
    )

    def ask(rows):
        fitted = estimator(name)(rows, Y, estimator=Teacher(how), **student, **given)
        answers = fitted.predict(QUERIES)
        assert set(answers) <= {0, 1}
        budget = fitted._fitted.budget
        if budget is not None:
            assert spent(budget) == len(QUERIES)
        return fitted

    assert outcome(lambda: ask(X)) == outcome(lambda: ask(member))


class Warns(ClassifierMixin, BaseEstimator):
    """Warns at its fit while other threads fit, too."""

    meeting = None

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if type(self).meeting is not None:
            type(self).meeting.wait(timeout=20)
        warnings.warn("patient 4711", stacklevel=1)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_no_warning_of_a_teacher_comes_out_of_one_thread_of_several():
    """All teachers warn at once, and then the main thread warns."""
    made = methods.SubsampleAggregate(
        0.1, n_models=9, estimator=Warns(), classes=[0, 1]
    )
    work = [
        threading.Thread(
            target=clone(made).fit, args=(X, Y), kwargs={"shards": np.arange(61) % 9}
        )
        for _ in range(3)
    ]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Warns.meeting = threading.Barrier(len(work))
        try:
            for thread in work:
                thread.start()
            for thread in work:
                thread.join()
        finally:
            Warns.meeting = None
        warnings.warn("shown again", stacklevel=1)
    assert [str(each.message) for each in seen] == ["shown again"]


def test_no_warning_of_a_teacher_comes_out_of_threads_of_its_own():
    learner = BaggingClassifier(Warns(), n_estimators=2, n_jobs=2)
    made = methods.SubsampleAggregate(
        0.1, n_models=2, estimator=learner, classes=[0, 1]
    )
    with (
        joblib.parallel_config(backend="threading"),
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        made.fit(X, Y).predict(QUERIES)
    assert not seen


# R3: one door


SEED, STATE = 718281828, 314159265


@pytest.mark.parametrize(("name", "given"), RELEASED)
def test_a_release_reaches_nothing_private(name, given):
    """Walked by attributes, by items, by the garbage collector and as a pickle."""
    kept = {"keep_votes": True} if "student" in dir(SETTINGS[name][0]) else {}
    learner = {"estimator": LogisticRegression()} if "Bagging" in name else {}
    classes = pd.Series([0, 1], index=["patient 4711", "patient 4712"])
    fitted = estimator(name)(
        X,
        Y,
        classes=classes,
        noise_seed=SEED,
        random_state=STATE,
        **kept,
        **learner,
        **given,
    )
    release = fitted.publish()
    stored = pickle.dumps(release)
    assert b"4711" not in stored
    for rows in (X, X.astype(np.float32)):
        assert not any(row.tobytes() in stored for row in rows)
    # by attribute and item
    for other in (release, pickle.loads(stored)):
        for path, value in leaves(other):
            assert not np.isin(value, (SEED, STATE)).any(), path
            assert value.shape[:1] != (len(X),), path
            if given["adjacency"] == "add-remove":
                assert not (value == len(X)).any(), path
    # by reference
    known = {id(each) for each in (X, Y, classes, fitted, fitted._fitted)}
    known |= {
        id(each)
        for each in fitted.get_params(deep=False).values()
        if each is not None and not isinstance(each, int | float | str | bool | tuple)
    }
    met, todo = set(), [vars(release)]
    while todo:
        each = todo.pop()
        if id(each) in met or isinstance(each, type) or callable(each):
            continue
        met.add(id(each))
        assert id(each) not in known, type(each)
        if type(each).__module__.partition(".")[0] in ("builtins", "dpnotes", "numpy"):
            todo += gc.get_referents(each)
    # parameters are plain
    assert release.classes == [0, 1]
    for parameter, value in release.get_params(deep=False).items():
        plain = value is None or isinstance(value, int | float | str | list | tuple)
        assert plain or isinstance(value, np.ndarray), parameter
    np.testing.assert_array_equal(release.predict(QUERIES), fitted.predict(QUERIES))


def test_what_an_earlier_fit_left_on_a_network_is_not_released():
    network = NetworkClassifier(None, architecture="mlp", hidden=(8,), device="cpu")
    network.set_params(epochs=1).fit(X, Y)
    model = methods.DPSGD(
        0.1, 1e-6, network=network, classes=[0, 1], steps=1, device="cpu"
    ).fit(X, Y)
    left = [value.numpy().tobytes() for value in network.models_.parameters.values()]
    for each in (model, model.publish()):
        stored = pickle.dumps(each._fitted)
        assert not any(weights in stored for weights in left if len(weights) > 32)
    assert model.publish().network is None


def test_a_subsample_of_empty_records_is_trained_on_nothing():
    """With the same draws, models that did not draw the only usable record are those
    of a table without it.
    """
    labels = np.where(np.arange(len(Y)) == 5, 1, 7)
    nobody = np.full(len(Y), 7)
    for learner in (None, LogisticRegression()):
        fits = [
            estimator("Bagging")(
                X, y, subsample=2, n_models=40, noise_seed=3, estimator=learner
            )
            for y in (labels, nobody)
        ]
        models, others = (fit.publish()._fitted.model for fit in fits)
        drawn = models.present
        assert 0 < drawn.sum() < 10
        assert not others.present.any()
        for model, other, own in zip(models.models, others.models, drawn, strict=True):
            assert own or pickle.dumps(model) == pickle.dumps(other)


def test_classes_are_each_label_once():
    for classes in (Y, [0, 1, 1], [0.0, np.nan]):
        with pytest.raises(ValueError, match="classes must hold each label"):
            methods.ClassMeans(1.0, classes=classes).fit(X, Y)


# R4: the number of records


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_follows_from_a_protected_number_of_records(name):
    """Either a public constant is asked for by name, or a fit to one more record, where
    all are empty, gives the same release.
    """
    kind, _ = SETTINGS[name]
    if "add-remove" not in kind._adjacencies:
        with pytest.raises(ValueError, match="adjacency must be one of"):
            estimator(name)(X, Y, adjacency="add-remove")
        return
    own = kind.__dataclass_fields__
    for constant in ("n", "n_models", "linear_share"):
        if constant not in own or own[constant].default is not None:
            continue
        with pytest.raises(
            ValueError, match=f"{constant} must be given, and be public"
        ) as told:
            estimator(name)(X, Y, **parameters(name, "add-remove") | {constant: None})
        assert str(len(X)) not in str(told.value)
    given = parameters(name, "add-remove")
    found = []
    for n in (60, 61):
        fitted = estimator(name)(X[:n], Y[:n] + 7, noise_seed=1, **given)
        held = fitted._fitted
        if not kind._answers_from_records:
            held = fitted.publish()._fitted
            found.append([(path, repr(value)) for path, value in leaves(held)])
        found.append([fitted.profile_.to_dict(), held.parameters.keys()])
        found.append(fitted.predict(QUERIES).tolist())
    half = len(found) // 2
    assert found[:half] == found[half:]


# R5: what is shortened


@pytest.mark.parametrize(("name", "given"), BOUNDED)
def test_queries_are_shortened_as_records_are(name, given):
    """An answer to a long query is that to its shortened one; also of records."""
    stretched = [
        estimator(name)(length * X, Y, noise_seed=1, **given) for length in (5, 500)
    ]
    first, second = (
        fitted.decision_function(length * QUERIES)
        for fitted, length in zip(stretched, (5, 500), strict=True)
    )
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-12)
    counts = stretched[0].unusable_records(5 * X, Y)
    assert counts["longer than the norm"] == len(X)
    assert stretched[0].unusable_records(X, Y)["longer than the norm"] == 0


class InPlace(ClassifierMixin, BaseEstimator):
    """A learner that standardises its queries in place, as StandardScaler(copy=False)
    does, and that draws as many numbers as it has records.
    """

    def fit(self, X, y):
        self.classes_, self.mean_ = np.unique(y), X.mean(axis=0)
        self.size_ = len(X)
        self.draws_ = self.drawn()
        return self

    def drawn(self):
        """Numbers of the global generators, which no random_state seeds."""
        return (
            np.random.random(self.size_)[-1],  # noqa: NPY002
            [random.random() for _ in range(self.size_)][-1],
            float(torch.rand(self.size_)[-1]),
        )

    def predict(self, X):
        self.told_ = self.drawn()
        X -= self.mean_
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        self.predict(X)
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_a_teacher_changes_neither_another_one_nor_the_queries():
    rows = QUERIES.copy()
    for name in ("SubsampleAggregate", "FilteredVote", "PATE", "DPBag", "Bagging"):
        given = {"estimator": InPlace()}
        if name in ("PATE", "DPBag"):
            given |= {"student": LogisticRegression(), "public": rows}
        estimator(name)(X, Y, **given).predict(rows)
        assert (rows == QUERIES).all(), name


def test_a_teacher_draws_nothing_that_another_one_decides():
    """The first shard has more records in one fit than in the other."""
    shards = np.where(np.arange(len(X)) < 9, 0, 1)
    many, few = (
        methods.fit_shards(
            X[start:],
            Y[start:],
            n_classes=2,
            n_models=2,
            estimator=InPlace(),
            shards=shards[start:],
            together=False,
            seed=5,
        )
        for start in (0, 6)
    )
    for fitted in (many, few):
        fitted.votes(QUERIES)
    own = [(model.draws_, model.told_) for model in (many.models[0], few.models[0])]
    assert not set(sum(own[0], ())) & set(sum(own[1], ()))
    others = [(model.draws_, model.told_) for model in (many.models[1], few.models[1])]
    assert others[0] == others[1]


class Witness(ClassifierMixin, BaseEstimator):
    """A learner that notes which records each of its fits sees."""

    seen: ClassVar[list[frozenset[float]]] = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen.append(frozenset(X[:, 0].tolist()))
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize(("name", "given"), TAUGHT)
def test_a_seed_tells_no_shards_of_a_table_whose_size_is_protected(
    name, given, monkeypatch
):
    """A record that leaves moves all later ones to other places of the draw: with a
    draw that is known, all teachers would change.
    """
    known = set(X[:, 0].tolist())
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(Witness, "seen", [])
        estimator(name)(X, Y, estimator=Witness(), random_state=STATE, **given)
        drawn.append({shard for shard in Witness.seen if shard <= known})
    # the draws of bagging are its guarantee, under every adjacency
    hidden = given["adjacency"] == "add-remove" or name == "Bagging"
    assert drawn[0]
    assert (drawn[0] != drawn[1]) == hidden


class Remembers:
    """A learner of many models at once that remembers how many records it has seen."""

    seen = 0

    def __init__(self):
        self.notes = []

    def fit_many(self, X, y, subsets, *, n_classes, seed):
        self.seen += len(X)
        self.notes.append(len(X))
        return Says(self.seen % n_classes)


class Says(NamedTuple):
    code: int

    def votes(self, X):
        return np.full((1, len(X)), self.code)

    def confidence(self, X):
        return np.ones((1, len(X)))


@pytest.mark.parametrize(("name", "given"), TAUGHT)
def test_a_learner_carries_nothing_from_one_teacher_to_another(name, given):
    student = (
        {"student": LogisticRegression()}
        if "student" in vars(SETTINGS[name][0])["__dataclass_fields__"]
        else {}
    )
    learner = Remembers()
    estimator(name)(X, Y, estimator=learner, **student, **given)
    assert learner.seen == 0
    assert not learner.notes


LEARNERS = {
    "forest": RandomForestClassifier(2),
    "histograms": HistGradientBoostingClassifier(max_iter=2),
    "process": GaussianProcessClassifier(),
    "bagging": BaggingClassifier(n_estimators=2),
    "boosting": GradientBoostingClassifier(n_estimators=2),
    "perceptron": MLPClassifier((3,), max_iter=2),
    "calibrated": CalibratedClassifierCV(SGDClassifier(), cv=2),
}


def seeds(thing, met):
    """Seeds and generators that are reached from an object."""
    if id(thing) in met or isinstance(thing, type):
        return
    met.add(id(thing))
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        yield thing
    held = getattr(thing, "__dict__", {})
    for name, value in held.items():
        if ("seed" in name or "random_state" in name) and value is not None:
            yield name
    parts = [*held.values()]
    if isinstance(thing, dict):
        parts += thing.values()
    elif isinstance(thing, list | tuple):
        parts += thing
    elif isinstance(thing, np.ndarray) and thing.dtype == object:
        parts += thing.ravel().tolist()
    for part in parts:
        yield from seeds(part, met)


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize("name", ["PATE", "DPBag", "Bagging"])
def test_a_release_remembers_no_seed(name, learner):
    given = {"random_state": 77}
    if name == "Bagging":
        given["estimator"] = learner
    else:
        # with labels of both classes
        noiseless = {
            "PATE": {"sigma_answer": 0.01},
            "DPBag": {"epsilon": 1e3, "inverse_scale": 9.0},
        }
        given |= {"student": learner, "public": X.copy(), **noiseless[name]}
        given["estimator"] = LogisticRegression(C=1e4)
    fitted = estimator(name)(X, Y, **given)
    assert list(seeds(fitted._fitted.model, set()))
    released = fitted.publish()
    assert not list(seeds(released._fitted, set()))
    np.testing.assert_array_equal(released.predict(QUERIES), fitted.predict(QUERIES))


@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_what_a_fit_found_cannot_be_set(name, given):
    fitted = estimator(name)(X, Y, **given)
    found = [each for each in dir(fitted) if each.endswith("_") and each[0] != "_"]
    found = [each for each in found if not callable(getattr(fitted, each))]
    assert {"profile_", "classes_"} <= set(found)
    for each in set(found) - {"n_features_in_"}:
        with pytest.raises(AttributeError, match=f"{each} follows from a fit"):
            setattr(fitted, each, None)


@pytest.mark.parametrize("classes", [[0, 1], None], ids=["classes", "read off"])
@pytest.mark.parametrize("n_public", [False, True], ids=["", "n public"])
@pytest.mark.parametrize(("name", "given"), PAIRS)
def test_no_statement_calls_the_number_of_records_protected_and_public(
    name, given, n_public, classes
):
    fitted = estimator(name)(X, Y, **given | {"classes": classes})
    if name == "Bagging" and given["adjacency"] == "add-remove" and not n_public:
        with pytest.raises(ValueError, match="shows the number of records"):
            fitted.statement_()
        return
    stated = fitted.statement_(n_public=n_public)
    stated.verify()
    protection = stated.content["protection"]
    protected = given["adjacency"] == "add-remove" and not n_public
    assert protection["records"].startswith("protected" if protected else "public")
    assert ("the number of records" in protection["unprotected"]) != protected
    said = f"{stated}\n{fitted.profile_}"
    said = " ".join(said.split())
    for words in ("number of records is public", "number of records: public"):
        assert not (protected and words in said.lower())
    if not protected:
        assert "protected; a size" not in said
        assert str(protection["records"]) == "public"


BIG = [2**53, 2**53 + 1]


@pytest.mark.parametrize(
    "made",
    [
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(pd.Categorical(y, categories=BIG)),
        lambda y: pd.Index(y, dtype="Int64"),
        lambda y: pd.DataFrame({"y": pd.array(y, dtype="Int64")}),
    ],
)
def test_a_missing_cell_changes_no_other_one(made):
    labels = [BIG[1], BIG[0], BIG[1]]
    with_gap = [None, *labels[1:]]
    assert gate.looked_up(made(labels), np.array(BIG)).tolist() == [1, 0, 1]
    assert gate.looked_up(made(with_gap), np.array(BIG)).tolist() == [2, 0, 1]
    frame = pd.DataFrame({"a": pd.Series(pd.Categorical(with_gap, categories=BIG))})
    assert gate.cells(frame["a"])[1:] == labels[1:]


class Raises:
    def __array__(self, *_, **__):
        raise RuntimeError("4711")


@pytest.mark.parametrize("cell", [(1, 2), [3.0], Raises(), "x", None, np.ones(3)])
def test_a_cell_of_a_list_decides_about_no_error(cell):
    rows = [[cell, 1.0], [cell, 2.0]]
    model = ClassMeans(1.0, 1e-5, classes=[0, 1], noise_seed=0)
    assert model.fit(rows, [0, 1]).predict(rows).shape == (2,)
    hidden = PublicOneHot([1.0, 2.0]).fit(rows).transform(rows)
    assert len(hidden) == 2


def test_masked_arrays_are_refused_by_their_type():
    masked = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    for arguments in ((masked, Y), (X, np.ma.masked_array(Y))):
        with pytest.raises(TypeError, match="must not be a masked array"):
            ClassMeans(1.0, classes=np.unique(Y).tolist()).fit(*arguments)
        with pytest.raises(TypeError, match="must not be a masked array"):
            ClassMeans(1.0).fit(*arguments)
