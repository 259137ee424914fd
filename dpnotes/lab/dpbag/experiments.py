"""Experiments of the chapter on differentially private bagging (Jordon, Yoon and van der Schaar 2019)."""

from __future__ import annotations

import math
from typing import Any

from dpnotes import accounting
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment
from dpnotes.lab.dpbag.cost import costs, run_seconds, seconds_and_memory
from dpnotes.lab.dpbag.figures import reproduction, touched_teachers, two_draws, variants, who_pays
from dpnotes.lab.dpbag.grids import (
    BUDGETS,
    NOTHING,
    cost_grid,
    filtered_grid,
    filtered_seconds,
    of_setting,
    student_grid,
    student_seconds,
)
from dpnotes.lab.dpbag.runs import quantile_names, run, scores, thirds
from dpnotes.lab.dpbag.sound import counterexample, counts, paid, partitions_effect, sound, sound_view
from dpnotes.lab.dpbag.tables import METRICS, best, cells, cells_view, implied_shares, orderings

ACCOUNTANTS = ("personalised", "naive", "tight", "none")


@experiment("dpbag.student")
def student(
    *,
    dataset: str,
    teachers: str,
    n_teachers: int,
    n_partitions: int,
    accountant: str,
    epsilon: float | None,
    delta: float | None,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Label public rows by the private vote of teachers for as long as a budget lasts; score a student of the labels.

    Rows that share ``dataset``, ``teachers``, ``n_teachers``, ``n_partitions`` and ``seed`` share teachers, public rows
    and noise. They are trained once if the rows follow each other in one process.

    Parameters
    ----------
    dataset : {"adult", "diabetes130", "breast_cancer"}
        Cut into random thirds by the seed: private, public and test rows.
    teachers : {"logistic", "boosting"}
        Learner of the teachers and of the student, with scikit-learn's defaults.
    n_teachers, n_partitions : int
        n and k; k = 1 is subsample-and-aggregate.
    accountant : {"personalised", "naive", "tight", "none"}
        See :class:`dpnotes.methods.DPBag`; ``"none"``: one model on all private rows and their labels.
    epsilon, delta : float or None
    seed : int
        Of the thirds, the partitions, the noise and the learners.
    device : str

    Returns
    -------
    dict
        labels (how many), label_accuracy (share that is right), accuracy, auroc, auprc; epsilon_spent, adjacency,
        status; paid_0 to paid_100 (quantiles over the private records of the epsilon that the personalised accountant
        gives them); data, device.
    """
    from dpnotes.learners import device_name

    if accountant not in ACCOUNTANTS:
        raise ValueError(
            f"accountant must be one of {', '.join(map(repr, ACCOUNTANTS))}, got accountant={accountant!r}"
        )
    if accountant == "none":
        parts = thirds(dataset, seed)
        found = {"labels": len(parts.y), "label_accuracy": 1.0, **scores(teachers, parts.X, parts.y, parts, seed)}
        return found | {"status": "none", "data": parts.digest, "device": device_name(device)}
    if epsilon is None or delta is None:
        raise ValueError(f"epsilon and delta must be numbers for accountant={accountant!r}, got {epsilon}, {delta}")
    budgets = tuple(sorted({*BUDGETS, (float(epsilon), float(delta))}))
    done = run(dataset, teachers, n_teachers, n_partitions, seed, device, budgets)
    guarantee: dict[str, Any]
    if accountant == "personalised":
        stop = done.stops[epsilon, delta]
        labels = stop.labels
        guarantee = {"epsilon_spent": stop.spent, "adjacency": "add-remove", "status": "per-instance"}
        guarantee |= dict(zip(quantile_names(), map(float, stop.paid), strict=True))
    else:
        how: dict[str, Any] = {"noise": 2 / n_teachers, "analysis": "tight" if accountant == "tight" else "published"}
        labels = min(accounting.noisy_vote_answers(epsilon, delta, **how), len(done.parts.y_public))
        profile = accounting.noisy_vote(answers=labels, adjacency="replace-one", **how)
        guarantee = {"epsilon_spent": profile.epsilon(delta), "adjacency": "replace-one", "status": profile.status}
    released = done.labels[:labels]
    return {
        "labels": labels,
        "label_accuracy": float((released == done.parts.y_public[:labels]).mean()),
        **scores(teachers, done.parts.X_public[:labels], released, done.parts, done.student_seed),
        **guarantee,
        "data": done.parts.digest,
        "device": device_name(device),
    }


@experiment("dpbag.filtered")
def filtered(
    *,
    dataset: str,
    n_teachers: int,
    n_partitions: int,
    epsilon: float,
    delta: float,
    confidence: float,
    share: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Label public rows by :class:`dpnotes.methods.FilteredVote` under (epsilon, delta); score a student of the labels.

    As many rows are labelled as the Laplace vote of ``n_teachers`` may answer under the same budget by tight accounting
    (at most all); the noise is the least with which a teacher may vote on ``share`` of them.

    Parameters
    ----------
    dataset, n_teachers, n_partitions, epsilon, delta, seed, device
        As :func:`student`; teachers and student are logistic regressions.
    confidence : float
        Probability below which a teacher abstains.
    share : float, in (0, 1]
        Votes that each teacher may cast, as a share of the queries.

    Returns
    -------
    dict
        labels, votes (budget of each teacher), sigma, label_accuracy, accuracy, auroc, auprc, retired (share of the
        teachers that are silent in the end; not to be published), adjacency, status, data, device.
    """
    from dpnotes.learners import device_name
    from dpnotes.methods import FilteredVote

    parts = thirds(dataset, seed)
    labels = min(accounting.noisy_vote_answers(epsilon, delta, noise=2 / n_teachers), len(parts.y_public))
    votes = max(1, round(share * labels))
    sigma = accounting.gaussian_sigma(epsilon, delta, sensitivity=math.sqrt(2 * votes))
    vote = FilteredVote(
        n_teachers=n_teachers,
        n_partitions=n_partitions,
        budget=votes,
        sigma=sigma,
        confidence=confidence,
        device=device,
        random_state=seed,
    ).fit(parts.X, parts.y)
    asked = parts.X_public[:labels]
    released = vote.predict(asked)
    return {
        "labels": labels,
        "votes": votes,
        "sigma": sigma,
        "label_accuracy": float((released == parts.y_public[:labels]).mean()),
        **scores("logistic", asked, released, parts, seed),
        "retired": vote.ledger_.retired / (n_teachers * n_partitions),
        "adjacency": vote.profile_.adjacency,
        "status": vote.profile_.status,
        "data": parts.digest,
        "device": device_name(device),
    }


@experiment("dpbag.cost")
def cost(
    *, dataset: str, teachers: str, n_teachers: int, n_partitions: int, seed: int, device: str = "auto"
) -> dict[str, Any]:
    """Processor time and memory of all rows of :func:`student` that share teachers.

    Parameters
    ----------
    dataset, teachers, n_teachers, n_partitions, seed, device
        As :func:`student`; n = k = 1 is one model on all private rows.

    Returns
    -------
    dict
        teachers_seconds (teachers, votes, accounts) and students_seconds, of this process, without reading the data;
        peak_memory, the most that the process holds meanwhile, in MiB, None where the system does not tell; data,
        device.
    """
    from dpnotes.learners import device_name

    parts = thirds(dataset, seed)
    run.cache_clear()
    alone = n_teachers == n_partitions == 1
    common: dict[str, Any] = {"dataset": dataset, "teachers": teachers, "seed": seed, "device": device}
    asked = [NOTHING] if alone else of_setting(n_teachers, n_partitions)

    def vote() -> None:
        if not alone:
            run(dataset, teachers, n_teachers, n_partitions, seed, device, tuple(sorted(BUDGETS)))

    teaching, first = seconds_and_memory(vote)
    learning, second = seconds_and_memory(lambda: [student(**common, **row) for row in asked])
    return {
        "teachers_seconds": teaching,
        "students_seconds": learning,
        "peak_memory": None if first is None or second is None else max(first, second),
        "data": parts.digest,
        "device": device_name(device),
    }


_TOLERANCE = {"labels": 5, "label_accuracy": 0.02, "accuracy": 0.02, "auroc": 0.03, "auprc": 0.03}
_TOLERANCE |= {"epsilon_spent": 1e-2, **dict.fromkeys(quantile_names(), 0.02)}

EXPERIMENTS = [
    Experiment(
        "dpbag_adult_logistic",
        student,
        {
            "paper": lambda: student_grid("adult", "logistic"),
            "quick": lambda: student_grid("breast_cancer", "logistic", size="quick", seeds=2),
        },
        tolerance=_TOLERANCE,
        cost=student_seconds,
    ),
    Experiment(
        "dpbag_adult_boosting",
        student,
        {"paper": lambda: student_grid("adult", "boosting")},
        tolerance=_TOLERANCE,
        cost=student_seconds,
    ),
    Experiment(
        "dpbag_diabetes_logistic",
        student,
        {"paper": lambda: student_grid("diabetes130", "logistic")},
        tolerance=_TOLERANCE,
        cost=student_seconds,
    ),
    Experiment(
        "dpbag_diabetes_boosting",
        student,
        {"paper": lambda: student_grid("diabetes130", "boosting")},
        tolerance=_TOLERANCE,
        cost=student_seconds,
    ),
    Experiment(
        "dpbag_filtered",
        filtered,
        {
            "paper": lambda: filtered_grid("adult", "logistic"),
            "quick": lambda: filtered_grid("breast_cancer", "quick", seeds=2),
        },
        tolerance=_TOLERANCE | {"sigma": 1e-6, "retired": 0.05},
        cost=filtered_seconds,
    ),
    Experiment(
        "dpbag_cost",
        cost,
        {"paper": cost_grid},
        tolerance=dict.fromkeys(("teachers_seconds", "students_seconds", "peak_memory"), math.inf),  # of the machine
        cost=lambda parameters: 15 * student_seconds(parameters),
    ),
]

__all__ = [
    "EXPERIMENTS",
    "METRICS",
    "best",
    "cells",
    "cells_view",
    "cost",
    "costs",
    "counterexample",
    "counts",
    "filtered",
    "filtered_grid",
    "implied_shares",
    "orderings",
    "paid",
    "partitions_effect",
    "reproduction",
    "run_seconds",
    "sound",
    "sound_view",
    "student",
    "student_grid",
    "thirds",
    "touched_teachers",
    "two_draws",
    "variants",
    "who_pays",
]
