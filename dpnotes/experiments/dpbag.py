"""Experiments of the chapter on differentially private bagging (Jordon, Yoon and van der Schaar 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpnotes import accounting
from dpnotes.experiments._dpbag_figures import reproduction, touched_teachers, two_draws, variants, who_pays
from dpnotes.experiments._dpbag_runs import quantile_names, run, scores, thirds
from dpnotes.experiments._dpbag_sound import counterexample, counts, paid, partitions_effect, sound, sound_view
from dpnotes.experiments._dpbag_tables import METRICS, best, cells, cells_view, implied_shares, orderings
from dpnotes.experiments._registry import Experiment, Grid

EPSILONS = (1.0, 3.0, 5.0)
PUBLISHED_DELTA, STATED_DELTA = 1e-3, 1e-5  # what the paper's numbers are of, and what it says they are of
BUDGETS = tuple((epsilon, delta) for epsilon in EPSILONS for delta in (PUBLISHED_DELTA, STATED_DELTA))
ACCOUNTANTS = ("personalised", "naive", "tight", "none")
SIZES: dict[str, dict[str, tuple[int, ...]]] = {  # teachers of a partition, partitions
    "logistic": {"n": (50, 100, 250), "k": (1, 10, 50, 100)},
    "boosting": {"n": (100, 150), "k": (1, 50, 100)},
    "quick": {"n": (10, 20), "k": (1, 10)},
}
FILTERS = ((0.0, 1.0), (0.75, 0.75), (0.9, 0.5), (0.9, 0.25))  # confidence, votes of a teacher as a share of queries


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


def student_grid(dataset: str, teachers: str, *, size: str | None = None, seeds: int = 10) -> Grid:
    """Rows of one data set and learner, those that share teachers in a row.

    For k = 1 the personalised accountant is the naive one and is left out; tight accounting is for the stated delta.
    """
    sizes = SIZES[size or teachers]
    grid: Grid = []
    for seed in range(seeds):
        common = {"dataset": dataset, "teachers": teachers, "seed": seed}
        nothing = {"accountant": "none", "epsilon": None, "delta": None, "n_teachers": 1, "n_partitions": 1}
        grid.append({**common, **nothing})
        for n in sizes["n"]:
            for k in sizes["k"]:
                for accountant in ("personalised", "naive", "tight") if k > 1 else ("naive", "tight"):
                    deltas = (STATED_DELTA,) if accountant == "tight" else (PUBLISHED_DELTA, STATED_DELTA)
                    grid += [
                        {
                            **common,
                            "n_teachers": n,
                            "n_partitions": k,
                            "accountant": accountant,
                            "epsilon": epsilon,
                            "delta": delta,
                        }
                        for delta in deltas
                        for epsilon in EPSILONS
                    ]
    return grid


def filtered_grid(dataset: str, size: str, *, partitions: tuple[int, ...] = (1,), seeds: int = 10) -> Grid:
    """Rows of the filter at the stated delta, for all settings of :data:`FILTERS`."""
    return [
        {
            "dataset": dataset,
            "n_teachers": n,
            "n_partitions": k,
            "epsilon": epsilon,
            "delta": STATED_DELTA,
            "confidence": confidence,
            "share": share,
            "seed": seed,
        }
        for seed in range(seeds)
        for n in SIZES[size]["n"]
        for k in partitions
        for epsilon in EPSILONS
        for confidence, share in FILTERS
    ]


def _student_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: teachers and votes, shared by the rows of a setting, and the student."""
    models = parameters["n_teachers"] * parameters["n_partitions"]
    budgets = 15 if parameters["n_partitions"] > 1 else 9
    each = 0.12 if parameters["teachers"] == "boosting" else 7e-4
    return float(models * each / budgets + 0.3)


def _filtered_seconds(parameters: Mapping[str, Any]) -> float:
    return float(0.5 + parameters["n_teachers"] * parameters["n_partitions"] * 7e-4)


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
        cost=_student_seconds,
    ),
    Experiment(
        "dpbag_adult_boosting",
        student,
        {"paper": lambda: student_grid("adult", "boosting")},
        tolerance=_TOLERANCE,
        cost=_student_seconds,
    ),
    Experiment(
        "dpbag_diabetes_logistic",
        student,
        {"paper": lambda: student_grid("diabetes130", "logistic")},
        tolerance=_TOLERANCE,
        cost=_student_seconds,
    ),
    Experiment(
        "dpbag_diabetes_boosting",
        student,
        {"paper": lambda: student_grid("diabetes130", "boosting")},
        tolerance=_TOLERANCE,
        cost=_student_seconds,
    ),
    Experiment(
        "dpbag_filtered",
        filtered,
        {
            "paper": lambda: filtered_grid("adult", "logistic"),
            "quick": lambda: filtered_grid("breast_cancer", "quick", seeds=2),
        },
        tolerance=_TOLERANCE | {"sigma": 1e-6, "retired": 0.05},
        cost=_filtered_seconds,
    ),
]

__all__ = [
    "EXPERIMENTS",
    "METRICS",
    "best",
    "cells",
    "cells_view",
    "counterexample",
    "counts",
    "filtered",
    "filtered_grid",
    "implied_shares",
    "orderings",
    "paid",
    "partitions_effect",
    "reproduction",
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
