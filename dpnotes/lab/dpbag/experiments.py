"""Experiments of the chapter on differentially private bagging (Jordon, Yoon and van
der Schaar 2019).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpnotes import accounting
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment, Grid, without
from dpnotes.lab._shared import origin
from dpnotes.lab.dpbag import grids, runs
from dpnotes.lab.dpbag.runs import PAID, Codes, Labelled, Thirds, affordable, thirds


@experiment("dpbag.student")
def student(*, device: str = "auto", **row: Any) -> dict[str, Any]:
    """Label public rows by the private vote of teachers until a budget is spent, and
    score a student of the labels.

    Rows with the same ``dataset``, ``teachers``, ``n_teachers``, ``n_partitions`` and
    ``seed`` share teachers, public rows and noise. The teachers are trained only once
    if these rows follow each other in one process.

    Parameters
    ----------
    dataset : {"adult", "diabetes130", "breast_cancer"}
        Data set. The seed splits it into random thirds: private, public and test rows.
    teachers : {"logistic", "boosting", "liblinear", "xgboost", "lightgbm"}
        Learner of the teachers and of the student; see
        :func:`dpnotes.lab.dpbag.runs.learner`.
    n_teachers, n_partitions : int
        The paper's n and k. With k = 1 the method is subsample-and-aggregate.
    accountant : {"personalised", "naive", "tight", "none"}
        Accountant of :class:`dpnotes.methods.DPBag`. ``"none"`` trains one model on all
        private rows and their labels.
    epsilon, delta : float or None
    seed : int
        Seed of the thirds, the partitions, the noise and the learners.
    device : str

    Returns
    -------
    dict
        labels (their number), label_accuracy (the fraction of correct labels),
        accuracy, auroc, auprc, epsilon_spent, adjacency, status, paid_0 to paid_100
        (quantiles, over the private records, of the epsilon that the personalised
        accountant gives them), data and device.
    """
    return _labelled({}, device=device, **row)


def _labelled(
    settings: Mapping[str, Any],
    *,
    accountant: str,
    epsilon: Any,
    delta: Any,
    device: str,
    **row: Any,
) -> dict[str, Any]:
    """What :func:`student` returns; the settings are those of the student alone."""
    teachers = row["teachers"]
    n_teachers = row["n_teachers"]
    # no vote: the student learns from the private labels
    if accountant == "none":
        records = thirds(row["dataset"], row["seed"])
        model = runs.student(teachers, *records.private, row["seed"], **settings)
        return _scored(model, records.private, records.private.y, records, device) | {
            "status": "none"
        }
    # the same tuple for all budgets of the grid, so that the cached run serves them all
    budgets = tuple(sorted({*grids.BUDGETS, (float(epsilon), float(delta))}))
    done = runs.run(runs.Setting(**row, device=device), budgets)
    public = done.thirds.public
    guarantee: dict[str, Any]
    if accountant == "personalised":
        # the loop stopped where the personalised account was spent
        labels, paid, spent = done.stops[epsilon, delta]
        guarantee = {
            "epsilon_spent": spent,
            "adjacency": "add-remove",
            "status": "per-instance",
        }
        guarantee |= dict(zip(PAID, paid.tolist(), strict=True))
    else:
        analysis = "tight" if accountant == "tight" else "published"
        # data-independent: the budget alone says how many answers
        labels = min(affordable(epsilon, delta, n_teachers, analysis), len(public.y))
        profile = accounting.noisy_vote(
            inverse_scale=2 / n_teachers,
            answers=labels,
            adjacency="replace-one",
            analysis=analysis,
        )
        guarantee = {
            "epsilon_spent": profile.epsilon(delta),
            "adjacency": profile.adjacency,
            "status": profile.status,
        }
    # budgets share the noise of their first labels
    released = done.labels[:labels]
    asked = public.X[:labels]
    model = runs.student(teachers, asked, released, done.student_seed, **settings)
    return _scored(model, public, released, done.thirds, device) | guarantee


@experiment("dpbag.least_labels")
def least_labels(
    *, epsilon: float, delta: float, device: str = "auto", **row: Any
) -> dict[str, Any]:
    """Count the labels if a query costs a record the smaller of Theorem 4 and the bound
    that the supplement conjectures.

    Parameters
    ----------
    dataset, teachers, n_teachers, n_partitions, epsilon, delta, seed, device
        The same as for :func:`student`; epsilon is one of the paper's.

    Returns
    -------
    dict
        labels; accountant, "personalised"; data and device.
    """
    setting = runs.Setting(**row, device=device)
    counts = runs.least_labels(setting, grids.EPSILONS, delta)
    records = thirds(row["dataset"], row["seed"])
    return {
        "labels": counts[epsilon],
        "accountant": "personalised",
        **origin(records, device),
    }


@experiment("dpbag.filtered")
def filtered(
    *,
    epsilon: float,
    delta: float,
    confidence: float,
    vote_fraction: float,
    device: str = "auto",
    **row: Any,
) -> dict[str, Any]:
    """Label public rows by :class:`dpnotes.methods.FilteredVote` under (epsilon,
    delta); score a student of the labels.

    The number of labelled rows is the number of answers that the Laplace vote of
    ``n_teachers`` may give under the same budget by tight accounting, but at most all
    rows. The noise is the smallest that lets a teacher vote on ``vote_fraction`` of
    these rows.

    Parameters
    ----------
    dataset, n_teachers, n_partitions, epsilon, delta, seed, device
        The same as for :func:`student`. Teachers and student are logistic regressions.
    confidence : float
        Probability below which a teacher abstains.
    vote_fraction : float, in (0, 1]
        Votes that each teacher may cast, as a fraction of the queries.

    Returns
    -------
    dict
        labels, votes (budget of each teacher), sigma, label_accuracy, accuracy, auroc,
        auprc, retired (fraction of the teachers that have stopped voting in the end,
        which must not be published), adjacency, status, data and device.
    """
    from dpnotes.methods import FilteredVote

    n = row["n_teachers"]
    k = row["n_partitions"]
    seed = row["seed"]
    records = thirds(row["dataset"], seed)
    # as many as the tight Laplace vote, so that the two are compared at equal labels
    labels = min(affordable(epsilon, delta, n), len(records.public.y))
    votes = max(1, round(vote_fraction * labels))
    # a record changes its own teacher: two counts in each of its votes
    sigma = accounting.gaussian_sigma(epsilon, delta, sensitivity=math.sqrt(2 * votes))
    vote = FilteredVote(
        n_models=n,
        n_partitions=k,
        answers=votes,
        sigma=sigma,
        confidence=confidence,
        adjacency="add-remove",
        device=device,
        noise_seed=seed,
    ).fit(*records.private)
    asked = records.public.X[:labels]
    released = vote.predict(asked)
    model = runs.student("logistic", asked, released, seed)
    return _scored(model, records.public, released, records, device) | {
        "votes": votes,
        "sigma": sigma,
        "retired": vote.ledger_.retired / (n * k),
        "adjacency": vote.profile_.adjacency,
        "status": vote.profile_.status,
    }


@experiment("dpbag.cause")
def cause(*, setting: str, device: str = "auto", **row: Any) -> dict[str, Any]:
    """Compute a row of :func:`student` for boosting, with students of other settings.

    Parameters
    ----------
    dataset, seed, device, row
        The same as for :func:`student`, but without teachers. The row has the same
        thirds, partitions and noise.
    setting : str
        One of :data:`dpnotes.lab.dpbag.grids.SETTINGS`.

    Returns
    -------
    dict
        labels, label_accuracy, accuracy, auroc, auprc, data and device.
    """
    settings = grids.SETTINGS[setting]
    found = _labelled(settings, teachers="boosting", device=device, **row)
    return without(found, "epsilon_spent", "adjacency", "status")


@experiment("dpbag.cost")
def cost(*, device: str = "auto", **row: Any) -> dict[str, Any]:
    """Measure processor time and memory of all rows of :func:`student` that share
    teachers.

    Parameters
    ----------
    dataset, teachers, n_teachers, n_partitions, seed, device
        The same as for :func:`student`. n = k = 1 is one model on all private rows.

    Returns
    -------
    dict
        teachers_seconds (for teachers, votes and accounts), students_seconds,
        peak_memory, data and device. The seconds are processor time of this process,
        without reading the data. The memory is the largest memory of the process in
        MiB, or None if the system does not report it.
    """
    records = thirds(row["dataset"], row["seed"])
    runs.run.cache_clear()
    # one model on all rows has no teachers and no budgets
    alone = row["n_teachers"] == row["n_partitions"] == 1
    rows = (
        [grids.NOTHING]
        if alone
        else grids.of_setting(row["n_teachers"], row["n_partitions"])
    )

    def vote() -> None:
        if not alone:
            setting = runs.Setting(**row, device=device)
            runs.run(setting, tuple(sorted(grids.BUDGETS)))

    def learn() -> None:
        for each in rows:
            shared: dict[str, Any] = {**row, **each}
            student(device=device, **shared)

    teaching, first = seconds_and_memory(vote)
    learning, second = seconds_and_memory(learn)
    # of both or of neither, since the system reports it or does not
    peak = None if first is None or second is None else max(first, second)
    return {
        "teachers_seconds": teaching,
        "students_seconds": learning,
        "peak_memory": peak,
        **origin(records, device),
    }


def seconds_and_memory(call: Callable[[], object]) -> tuple[float, float | None]:
    """Measure a call: processor time in seconds, and the largest memory of the whole
    process in MiB.

    The memory is None if the system does not report it (Linux does).
    """

    def seconds() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    try:
        # the system's own peak starts again from what is held now
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        # macOS and Windows say nothing of it
        return seconds(), None
    taken = seconds()
    status = Path("/proc/self/status").read_text()
    return taken, int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) / 1024


def _scored(
    model: Any, asked: Labelled, released: Codes, records: Thirds, device: str
) -> dict[str, Any]:
    """What a row says of the labels that were released for the first of the rows
    asked, and of their student.
    """
    return {
        "labels": len(released),
        # how often the vote is right, before any student
        "label_accuracy": float(np.mean(released == asked.y[: len(released)])),
        **runs.scores(model, records.test),
        **origin(records, device),
    }


# trees of other releases split elsewhere: a few labels turn, and scores with them
_SCORES = {
    "labels": 5,
    "label_accuracy": 0.02,
    "accuracy": 0.01,
    "auroc": 0.03,
    "auprc": 0.03,
}
_TOLERANCE = {**_SCORES, "epsilon_spent": 1e-2, **dict.fromkeys(PAID, 0.02)}
# of the machine
_TIMES = dict.fromkeys(
    ("teachers_seconds", "students_seconds", "peak_memory"), math.inf
)
Scales = dict[str, Callable[[], Grid]]


def _students(dataset: str, teachers: str, **quick: Callable[[], Grid]) -> Experiment:
    name = f"dpbag_{dataset.removesuffix('130')}_{teachers}"
    paper = partial(grids.student, dataset, teachers)
    return Experiment(
        name,
        student,
        {"paper": paper, **quick},
        tolerance=_TOLERANCE,
        cost=grids.seconds,
    )


def _supposed(teachers: str) -> Experiment:
    return Experiment(
        f"dpbag_adult_{teachers}",
        student,
        {"paper": partial(grids.supposed, teachers)},
        tolerance=_SCORES,
        cost=grids.seconds,
    )


def _quick(grid: Callable[..., Grid], **own: str) -> Scales:
    return {"quick": partial(grid, dataset="breast_cancer", seeds=2, **own)}


_FILTERED = {**_SCORES, "sigma": 1e-6, "retired": 0.05}
_FILTERS: Scales = {"paper": partial(grids.filtered, "adult"), **_quick(grids.filtered)}
_CAUSES: Scales = {"paper": grids.causes, **_quick(grids.causes)}
EXPERIMENTS = [
    _students("adult", "logistic", **_quick(grids.student, teachers="logistic")),
    _students("adult", "boosting"),
    _supposed("liblinear"),
    _supposed("xgboost"),
    _supposed("lightgbm"),
    _students("diabetes130", "logistic"),
    _students("diabetes130", "boosting"),
    Experiment(
        "dpbag_filtered", filtered, _FILTERS, tolerance=_FILTERED, cost=grids.seconds
    ),
    Experiment(
        "dpbag_adult_least",
        least_labels,
        {"paper": grids.least},
        tolerance={"labels": 5},
        cost=grids.seconds,
    ),
    Experiment("dpbag_causes", cause, _CAUSES, tolerance=_SCORES, cost=grids.seconds),
    Experiment(
        "dpbag_cost", cost, {"paper": grids.cost}, tolerance=_TIMES, cost=grids.seconds
    ),
]
