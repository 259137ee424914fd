"""Errors, warnings, output and attributes that hold something of private rows.

The target is a function (X, y, **parameters) that fits. What it says on two
neighbouring tables must be the same.
"""

import contextlib
import io
import logging
import pickle
import sys
import warnings
from functools import partial

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from dpnotes._gate import quiet
from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import (
    NETWORK,
    RELEASED,
    SURELY,
    WITH_BUDGET,
    WITH_PUBLIC,
    estimator,
    ours,
    queries,
    table,
)

X, Y = table()
WORDS = (
    "mechanism",
    "parameters",
    "adjacency",
    "status",
    "assumption",
    "source",
    "remark",
)
REFUSES = broken.fit(broken.Refuses)


def outcome(fit):
    """All that a fit says: its error, warnings, log, output, and the words of what
    it gives.
    """
    output, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            warnings.simplefilter("always")
            try:
                fitted = fit()
                profile = getattr(fitted, "profile_", None)
                said = [repr(fitted)] + [
                    str(getattr(profile, name, "")) for name in WORDS
                ]
            except Exception as error:  # any error is an outcome
                said = [f"{type(error).__name__}: {error}"]
            return (
                *said,
                *sorted({str(warning.message) for warning in caught}),
                output.getvalue(),
                log.getvalue(),
            )
    finally:
        logging.getLogger().removeHandler(handler)


def compared(first, second):
    """Evidence from two outcomes: the longest text that only one of them has."""
    differences = [
        text
        for text in (*first, *second)
        if (text in first) != (text in second) and text.strip()
    ]
    shown = max(
        differences,
        key=lambda text: ("Error: " in text, len(text)),
        default="the same outcome",
    )
    return Evidence(first != second, " ".join(shown.split())[:150])


def changed(row=None, label=None):
    """The table with another record 5."""
    rows, labels = X.copy(), Y.copy()
    if row is not None:
        rows[5] = row
    if label is not None:
        labels[5] = label
    return rows, labels


@attack(
    broken=REFUSES,
    ours=ours(
        *RELEASED, "PredictionSensitivity", "DPSGD of a network", "Bagging", "PATE"
    ),
)
def one_long_row(target):
    """Make one record longer than the bound. Does the fit refuse, and show the
    number and length of such rows?
    """
    return compared(
        outcome(lambda: target(X, Y)),
        outcome(lambda: target(*changed(row=1000 * X[5]))),
    )


@attack(broken=REFUSES, ours=ours())
def one_unknown_label(target):
    """Give one record a label that is not among the public classes. Does the fit
    refuse, and name the label?
    """
    return compared(
        outcome(lambda: target(X, Y)), outcome(lambda: target(*changed(label=2)))
    )


@attack(broken=REFUSES, ours=ours())
def only_record_of_use(target):
    """Leave only one record with a known label and all its numbers. Does the fit
    show when none is left?
    """
    unknown, missing = (
        np.full_like(Y, 2),
        np.where(np.arange(X.shape[1]) == 3, np.nan, X),
    )
    pairs = [((X, unknown), (X, np.where(np.arange(len(Y)) == 5, Y, 2)))]
    pairs += [
        ((X, np.array(none).astype(str)), (X, one.astype(str)))
        for (_, none), (_, one) in pairs
    ]
    pairs += [
        ((missing, Y), (np.where(np.arange(len(X))[:, None] == 5, X, missing), Y))
    ]
    found = []
    for none, one in pairs:
        without, with_one = (
            outcome(partial(target, *none)),
            outcome(partial(target, *one)),
        )
        found.append(compared(without, with_one))
    return max(found, key=lambda evidence: evidence.success)


@attack(broken=REFUSES, ours=ours())
def last_record_of_a_class(target):
    """Leave only one record in one of the classes. Does the fit show when none is
    left?
    """
    alone, none = np.zeros_like(Y), np.zeros_like(Y)
    alone[5] = 1
    return compared(outcome(lambda: target(X, alone)), outcome(lambda: target(X, none)))


@attack(broken=REFUSES, ours={name: estimator(name) for name in WITH_PUBLIC})
def candidate_among_the_public_rows(target):
    """Put a copy of a record among the public rows. A refusal would be a membership
    test without noise.
    """
    public = np.vstack([queries(19), X[5]])
    return compared(
        outcome(lambda: target(X, Y, public=public)),
        outcome(lambda: target(*changed(row=-X[5]), public=public)),
    )


@attack(
    broken=REFUSES,
    ours={
        name: lambda X, y, name=name: estimator(name)(X, y, l2=1e-3, max_iterations=2)
        for name in ("ModelSensitivity", "LossPerturbation", "PredictionSensitivity")
    },
)
def minimiser_not_reached(target):
    """Allow few iterations. Do data that are hard to fit give an error or a warning,
    unlike easy data?
    """
    easy = np.zeros_like(X)
    return compared(
        outcome(lambda: target(easy, Y)),
        outcome(lambda: target(X, (X[:, 0] > 0).astype(int))),
    )


def _with_teachers(name):
    learner = LogisticRegression(max_iter=6)
    student = (
        {"student": LogisticRegression(max_iter=1000)} if name in WITH_PUBLIC else {}
    )
    return lambda X, y: estimator(name)(
        X, y, estimator=learner, **student, **SURELY[name]
    )


@attack(
    broken=REFUSES,
    ours={
        name: _with_teachers(name)
        for name in ("Bagging", "SubsampleAggregate", "FilteredVote", "PATE", "DPBag")
    },
)
def warnings_of_private_models(target):
    """Train teachers with too few iterations. A warning would disclose something
    about a teacher's records.
    """
    return compared(
        outcome(lambda: target(np.zeros_like(X), Y)),
        outcome(lambda: target(3 * X, (X[:, 0] > 0) * 1)),
    )


def leaves(value, path="", seen=None):
    """Numbers and arrays that are reached from an object: by attribute, item or
    pickle state, with their paths.
    """
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, bool | int | float | np.ndarray | np.generic):
        if np.asarray(value).dtype.kind in "biuf":
            yield path, np.asarray(value)
        return
    if isinstance(value, str | bytes | type) or (
        callable(value) and not hasattr(value, "__dict__")
    ):
        return
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple | set):
        items = enumerate(value)
    else:
        items = [*getattr(value, "__dict__", {}).items()]
        items += [
            (slot, getattr(value, slot))
            for slot in getattr(type(value), "__slots__", ())
            if hasattr(value, slot)
        ]
    for name, item in items:
        yield from leaves(item, f"{path}.{name}", seen)


def exact_statistics(fits, others):
    """Paths of what all releases of one table agree in, whatever their noise, and all
    of a neighbour in another value.

    A number with noise that hides a record does so with probability below 2^-40 for 20
    releases of each.
    """
    fits, others = (
        [dict(leaves(pickle.loads(pickle.dumps(fitted)))) for fitted in side]
        for side in (fits, others)
    )

    def same(a, b):
        return (
            b is not None
            and a.shape == b.shape
            and np.allclose(a, b, rtol=1e-5, atol=0, equal_nan=True)
        )

    def constant(side, path):
        return path in side[0] and all(
            same(side[0][path], fitted.get(path)) for fitted in side
        )

    paths = [
        path for path in fits[0] if constant(fits, path) and constant(others, path)
    ]
    return [path for path in paths if not same(fits[0][path], others[0][path])]


def _evidence(target, given=lambda fitted: fitted):
    """Evidence from 20 fits to a table, and 20 to its neighbour."""
    fits = [
        [given(target(*data)) for _ in range(20)]
        for data in ((X, Y), changed(row=np.eye(20)[3]))
    ]
    paths = exact_statistics(*fits)
    return Evidence(
        bool(paths),
        "exact statistics:"
        f" {', '.join(path.lstrip('.') for path in paths[:4]) or 'none'}",
    )


def _network(X, y, **parameters):
    initial = NETWORK.untrained(
        (1, 4, 5), 2, torch.Generator().manual_seed(0)
    ).state_dict()
    network = type(NETWORK)(**NETWORK.get_params() | {"initial": initial})
    # the weights stay
    settings = {
        "network": network,
        "learning_rate": 1e-30,
        "sample_rate": 1.0,
        "steps": 1,
    }
    return estimator("DPSGD of a network")(X, y, **settings | parameters)


@attack(broken=REFUSES, ours=ours(*RELEASED) | {"DPSGD of a network": _network})
def attributes_without_noise(target):
    """Search a released estimator and its pickle for values that a record changes,
    but the noise does not.
    """
    return _evidence(target)


@attack(broken=REFUSES, ours=ours(*RELEASED, *WITH_PUBLIC))
def published_release(target):
    """Search the result of ``publish()`` for values without noise, such as vote
    counts, agreement and teachers.
    """
    return _evidence(target, lambda fitted: fitted.publish())


def _calls(target, count, **parameters):
    """Evidence from the number of calls that so many queries take, for three tables."""

    def calls(X, y):
        fitted = target(X, y, **parameters)
        made = 0

        def counted(frame, event, argument):
            nonlocal made
            made += event in ("call", "c_call")

        with quiet():  # its first use in a test is longer
            pass
        sys.setprofile(counted)
        try:
            fitted.predict(queries(count))
        except RuntimeError:
            pass
        finally:
            sys.setprofile(None)
        return made

    made = [calls(X, Y), calls(*changed(row=0.01 * X[5])), calls(0.001 * X, 1 - Y)]
    return Evidence(
        len(set(made)) > 1, f"{made[0]}, {made[1]} and {made[2]} calls for three tables"
    )


@attack(broken=REFUSES, ours=ours(*WITH_BUDGET))
def work_of_a_refusal(target):
    """Count the function calls before a refusal. Their number must not depend on
    private rows.
    """
    return _calls(target, 500)


@attack(
    broken=lambda X, y, noise_seed: broken.Refuses().fit(X, y),
    ours=ours("PredictionSensitivity", "FilteredVote", "SubsampleAggregate"),
)
def work_of_an_answer(target):
    """Count the function calls for an answer, at equal noise. Their number must not
    depend on private rows.
    """
    return _calls(target, 50, noise_seed=1)


@attack(broken=REFUSES, ours=ours())
def one_label_of_another_kind(target):
    """Make one label 0.5 or missing. Does the fit refuse the table?"""
    first = outcome(lambda: target(X, Y.astype(float)))
    rows, labels = changed()
    found = []
    for label in (0.5, np.nan):
        other = labels.astype(float)
        other[5] = label
        found.append(compared(first, outcome(lambda other=other: target(rows, other))))
    return max(found, key=lambda evidence: evidence.success)


@attack(broken=REFUSES, ours=ours())
def number_that_is_not_finite(target):
    """Make one number missing or infinite. Is there an error that the neighbouring
    table does not give?
    """
    first, found = outcome(lambda: target(X, Y)), []
    for value in (np.nan, np.inf, -np.inf):
        rows, _ = changed()
        rows[5, 3] = value
        found.append(compared(first, outcome(lambda rows=rows: target(rows, Y))))
    return max(found, key=lambda evidence: evidence.success)


@attack(broken=REFUSES, ours=ours())
def cell_that_is_no_number(target):
    """Put a name into a cell. An error may say that a cell is not a number, but it
    must not show the name.
    """
    rows = X.astype(object)
    rows[5, 3] = "patient 4711"
    said = " ".join(outcome(lambda: target(rows, Y)))
    return Evidence("4711" in said, " ".join(said.split())[:100])
