"""Experiments of the head-to-head: all private learners on one task, and the one
that is chosen without its data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from scipy import stats

from dpnotes._extras import MissingExtra
from dpnotes._validation import Features, Integers
from dpnotes.comparing import OTHERS, OURS, Candidate, Comparison, Task, compare
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment, Grid, Tolerance
from dpnotes.lab.head_to_head import grids
from dpnotes.lab.head_to_head.tasks import Chosen, Table, table
from dpnotes.lab.needed_noise import recommend
from dpnotes.methods import DPSGD
from dpnotes.preprocessing import ClipNorm

# synthetic tables of a choice without the data; the budget of five minutes has time for
# more
BLIND_TABLES = 40
# so many parts of a table, of which one is tested on: methods with a budget answer all
# of it
QUARTER = 4
FPR = 0.001  # false positives at which exposure is the true-positive rate
EPSILONS_SEARCHED, PRECISION = (1e-3, 100.0), 1e-3
LEVEL = 0.05  # of the intervals that standard errors are taken from
MAJORITY, NO_PRIVACY = "majority class", "no privacy"
BLIND, ALWAYS, RECOMMENDED = "chosen without the data", "always DP-SGD", "recommended"
DEFAULTS = "DP-SGD by default"
# later than the rows
_OWN = {
    candidate.name: candidate for candidate in OURS if candidate.name != "NoisyBoosting"
}
NAMES = {  # of `recommend`
    "model_sensitivity": "ModelSensitivity",
    "loss_perturbation": "LossPerturbation",
    "prediction_sensitivity": "PredictionSensitivity",
    "dp_sgd": "DPSGD",
    "subsample_aggregate": "SubsampleAggregate",
}


@experiment("head_to_head.methods")
def methods(
    *, epsilon: float, delta: float, repeats: int, seed: int, **task: Unpack[Chosen]
) -> dict[str, Any]:
    """Accuracies of all methods on one task, on the same cuts of it; those with a
    budget answer a quarter of its rows.

    Parameters
    ----------
    dataset, target, rows, columns, margin
        As :func:`dpnotes.lab.head_to_head.tasks.table`.
    epsilon, delta : float
    repeats : int, >= 2
        Cuts that are shown; each method's setting was chosen on others, of the same
        table.
    seed : int
        Of the cuts, and of a synthetic table.

    Returns
    -------
    dict
        best (the highest mean of the private methods); for each method
        ``accuracy_NAME``, ``behind_NAME`` (mean of the paired difference from the
        best), ``error_NAME`` (its standard error, by Nadeau and Bengio's correction)
        and ``exposure_NAME`` (bound on the true-positive rate at 0.1 % false
        positives); n, d, classes, data.
    """
    found = table(seed=seed, **task)
    result = _compare(found, epsilon, delta, repeats, seed)
    exposures = {
        f"exposure_{column(name)}": float(
            estimator.fit(found.X, found.y)[-1].profile_.tpr(FPR)
        )
        for name, estimator in result.estimators.items()
        if name != NO_PRIVACY
    }
    return _cells(result, repeats) | exposures | _about(found)


@experiment("head_to_head.regret")
def regret(
    *, epsilon: float, delta: float, repeats: int, seed: int, **task: Unpack[Chosen]
) -> dict[str, Any]:
    """Beside all methods on one task: that which ``compare`` gives without its data,
    DP-SGD, and recommended ones.

    DP-SGD comes with its default settings, too. The other three come with settings that
    were chosen on synthetic tables of the shape; the methods that they are measured by,
    with settings that were chosen on cuts of the table itself. Of what ``recommend``
    does not rule out the first is taken. Which method is the best in hindsight is
    decided on the cuts of the next seed: the highest of several means is above the
    truth, and all choices would seem to give up as much.

    Parameters
    ----------
    dataset, target, rows, columns, margin, epsilon, delta, repeats, seed
        As :func:`methods`.

    Returns
    -------
    dict
        As :func:`methods` without exposures, and chosen and advised, the names of two
        of them, and hindsight.
    """
    found = table(**task)
    # which has no part in the choice
    limit = replace(_OWN[NO_PRIVACY], settings=_OWN[NO_PRIVACY].settings[:1])
    others = [name for name in _OWN if name != NO_PRIVACY]
    blind = _compare(
        found, epsilon, delta, BLIND_TABLES, seed, [limit], ours=others, data="shape"
    )
    n, d = found.X.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = {
            "n": n,
            "d": d,
            "n_classes": len(np.unique(found.y)),
            "n_models": min(256, n),
        }
        advice = recommend(**shape, epsilon=epsilon, delta=delta, answers=n // QUARTER)
    advised = next(
        (NAMES[name] for name in advice.candidates if NAMES[name] in blind.settings),
        MAJORITY,
    )
    named = {BLIND: blind.chosen, RECOMMENDED: advised, ALWAYS: "DPSGD"}
    fixed = [
        replace(_OWN[name], name=role, settings=(blind.settings[name],))
        for role, name in named.items()
        if name in blind.settings
    ]
    fixed += [Candidate(DEFAULTS, _by_default)]
    result = _compare(found, epsilon, delta, repeats, seed, fixed)
    again = _compare(found, epsilon, delta, repeats, seed + 1)
    hindsight = max(
        [*again.private, MAJORITY], key=lambda name: again.accuracy(name).mean
    )
    told = {"chosen": blind.chosen, "advised": advised, "hindsight": hindsight}
    return _cells(result, repeats, roles=(*named, DEFAULTS)) | told | _about(found)


def _by_default(task: Task) -> Any:
    task.needs("delta")
    # defaults of the version whose rows are published
    given = {"device": "cpu", "learning_rate": 0.5, **task.common}
    return DPSGD(task.epsilon, task.delta, sample_rate=0.1, steps=100, **given)


@experiment("head_to_head.exposed")
def exposed(
    *, rate: float, repeats: int, seed: int, **task: Unpack[Chosen]
) -> dict[str, Any]:
    """Accuracies of all methods on one task, each with as little noise as lets at most
    a rate of members be named.

    Each is tried without a delta and with one of 1e-5, where it can be used so, with
    the setting that was chosen for the epsilon of a pure guarantee of this exposure;
    the better of the two is chosen on cuts that are not shown.

    Parameters
    ----------
    rate : float, in (0.001, 1)
        Bound on the true-positive rate at 0.1 % false positives.
    dataset, target, rows, columns, margin, repeats, seed
        As :func:`methods`; at most so many records that settings are chosen on all of
        them.

    Returns
    -------
    dict
        As :func:`methods`, and for each method ``epsilon_NAME`` and ``delta_NAME``.
    """
    found = table(seed=seed, **task)
    nominal = float(np.log(rate / FPR))
    labels, codes, counts = np.unique(found.y, return_inverse=True, return_counts=True)
    n = len(codes) - int(np.sum(counts // QUARTER))  # of a cut that are fitted to
    noise: dict[str, list[dict[str, Any]]] = {}
    for delta in grids.DELTAS:
        result = _compare(found, nominal, delta, 1, seed)
        task_of_cut = replace(result.task, n=n, classes=range(len(labels)), seed=seed)
        for name in [*result.private, MAJORITY]:
            setting = {"delta": delta, **result.settings[name]}
            most = _most_epsilon(
                _OWN[name], task_of_cut, setting, found.X[:n], codes[:n], rate
            )
            noise.setdefault(name, []).append({"epsilon": most, **setting})
    own = [
        replace(_OWN[name], make=partial(_with_noise, _OWN[name]), settings=each)
        for name, each in noise.items()
    ]
    result = _compare(found, nominal, max(grids.DELTAS), repeats, seed, own, ours=[])
    told = {
        f"{what}_{column(name)}": setting[what]
        for name, setting in result.settings.items()
        for what in ("epsilon", "delta")
        if name in noise
    }
    return _cells(result, repeats) | told | _about(found)


def _with_noise(
    candidate: Candidate, task: Task, *, epsilon: float, delta: float, **setting: Any
) -> Any:
    return candidate.made(replace(task, epsilon=epsilon, delta=delta), setting)


def _most_epsilon(
    candidate: Candidate,
    task: Task,
    setting: Mapping[str, Any],
    X: Features,
    codes: Integers,
    rate: float,
) -> float:
    """The largest epsilon of which the bound on the true-positive rate is at most
    this, to a thousandth of it.
    """
    X = ClipNorm().fit_transform(2 * X - 1) if candidate.ball else 2 * X - 1

    def within(epsilon: float) -> bool:
        model = _with_noise(candidate, task, epsilon=epsilon, **setting)
        return bool(model.fit(X, codes).profile_.tpr(FPR) <= rate)

    low, high = EPSILONS_SEARCHED
    if within(high):
        return high
    while high / low > 1 + PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


@experiment("head_to_head.others")
def others(
    *, epsilon: float, delta: float, repeats: int, seed: int, **task: Unpack[Chosen]
) -> dict[str, Any]:
    """The best model of ours beside the best of other libraries', at the guarantees
    that these claim.

    Which is the best of a side is decided on the cuts of ``seed``; it is measured on
    those of the next seed.

    Parameters
    ----------
    dataset, target, rows, columns, margin, epsilon, delta, repeats, seed
        As :func:`methods`.

    Returns
    -------
    dict
        ours, theirs (names); accuracy_ours, accuracy_theirs; ahead (mean of the paired
        difference) and error (its standard error, by Nadeau and Bengio's correction);
        ``accuracy_NAME`` of each method; n, d, classes, data.

    Raises
    ------
    MissingExtra
        Without any of the other libraries.
    """
    found = table(**task)
    released = [
        candidate.name for candidate in _OWN.values() if candidate.released == "model"
    ]
    known, result = (
        _compare(found, epsilon, delta, repeats, seed + k, OTHERS, ours=released)
        for k in (0, 1)
    )
    sides = [
        [name for name in known.private if name in names]
        for names in (released, [candidate.name for candidate in OTHERS])
    ]
    if not sides[1]:
        raise MissingExtra(f"no other library can be used: {dict(known.left_out)}")
    ours, theirs = (
        max(side, key=lambda name: known.accuracy(name).mean) for side in sides
    )
    ahead = result.difference(ours, theirs)
    shown = {
        f"accuracy_{column(name)}": result.accuracy(name).mean
        for name in (*result.private, MAJORITY, NO_PRIVACY)
    }
    told = {
        "ours": ours,
        "theirs": theirs,
        "ahead": ahead.mean,
        "error": _error(ahead, repeats),
    }
    told |= {
        "accuracy_ours": result.accuracy(ours).mean,
        "accuracy_theirs": result.accuracy(theirs).mean,
    }
    return told | shown | _about(found)


def _compare(
    found: Table,
    epsilon: float,
    delta: float,
    repeats: int,
    seed: int,
    more: Sequence[Candidate] = (),
    *,
    ours: Sequence[str] | None = None,
    data: str = "public",
) -> Comparison:
    methods = [*(_OWN if ours is None else ours), *more]
    given: dict[str, Any] = {
        "combinations": 0.0,
        "answers": len(found.X) // QUARTER,
        "bounds": (0.0, 1.0),
        "data": data,
        "methods": methods,
    }
    return compare(
        found.X,
        found.y,
        epsilon=epsilon,
        delta=delta,
        repeats=repeats,
        random_state=seed,
        **given,
    )


def _cells(
    result: Comparison, repeats: int, *, roles: Sequence[str] = ()
) -> dict[str, Any]:
    names = [*result.private, MAJORITY, NO_PRIVACY]
    best = max(
        (name for name in names[:-1] if name not in roles),
        key=lambda name: result.accuracy(name).mean,
    )
    cells: dict[str, Any] = {"best": best}
    for name in names:
        gap = result.difference(best, name)
        cells[f"accuracy_{column(name)}"] = float(result.accuracy(name).mean)
        cells[f"behind_{column(name)}"] = float(gap.mean)
        cells[f"error_{column(name)}"] = _error(gap, repeats)
    return cells


def _error(gap: Any, repeats: int) -> float:
    """Standard error, from the mean and the limit of an interval."""
    return float(gap.mean - gap.low) / float(stats.t.isf(LEVEL / 2, repeats - 1))


def column(name: str) -> str:
    """A method's name as part of the name of a column."""
    return name.replace(" ", "_").replace("-", "_")


def _about(found: Table) -> dict[str, Any]:
    n, d = found.X.shape
    return {"n": n, "d": d, "classes": len(np.unique(found.y)), "data": found.digest}


_TOLERANCE: Tolerance = {
    "accuracy_ClassMeans": 0.02,
    "accuracy_RandomTrees": 0.02,
    "accuracy_LossPerturbation": 0.02,
}
_RUNS: tuple[
    tuple[str, Callable[..., dict[str, Any]], Callable[[], Grid], Tolerance, int], ...
] = (
    ("tasks", methods, grids.development, _TOLERANCE, 1),
    ("synthetic", methods, grids.synthetic, _TOLERANCE, 1),
    ("exposed", exposed, grids.exposed, _TOLERANCE, 4),
    ("sealed", regret, grids.sealed, _TOLERANCE, 6),
    ("seen", regret, grids.seen, _TOLERANCE, 6),
    (
        "others",
        others,
        grids.others,
        {"accuracy_ours": 0.02, "accuracy_theirs": 0.05},
        4,
    ),
)
EXPERIMENTS = [
    Experiment(
        f"head_to_head_{name}",
        function,
        {"paper": grid},
        tolerance,
        cost,
        data=grids.needed,
    )
    for name, function, grid, tolerance, count in _RUNS
    for cost in [partial(grids.seconds, comparisons=count)]
]
