"""A setting of one estimator, chosen on private records: the choice and the fit share one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from dpnotes import _validation as check
from dpnotes.accounting import PrivacyProfile, approximate, compose, pure
from dpnotes.comparing._candidates import Candidate, Task
from dpnotes.comparing._selection import BLOCK, COST, blocks_for, choice_profile, private_choice
from dpnotes.comparing._tables import synthetic
from dpnotes.methods import PrivateClassifier

ADJACENCIES = ("zero-out", "replace-one")  # whose records keep their places


def tuned(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    random_state: int = 0,
    n_jobs: int = 1,
) -> Any:
    """Choose a setting of a private estimator on private records and fit it, all within one budget.

    A fifth of epsilon pays for the choice, whatever the number of settings, and the rest for the fit. Do this instead
    of ``GridSearchCV``, which spends epsilon again for each fit and counts none of them.

    Guarantees: the choice and the fitted estimator together are (epsilon, delta)-DP. Proof: the choice is epsilon/5-DP
    by :func:`dpnotes.comparing.private_choice`, also for one record exchanged, which moves one vote as well. Whatever
    is chosen, the fit is (4 epsilon/5, delta)-DP, and so both together are (epsilon, delta)-DP (Dwork and Roth 2014,
    Theorem B.1). ``profile_`` is that pair: the rest of a curve could depend on the setting.

    Parameters
    ----------
    estimator : PrivateClassifier or Pipeline that ends in one
        With an ``epsilon`` and a ``delta``, which are set here, and an adjacency "zero-out" or "replace-one". Other
        steps treat each row separately (:mod:`dpnotes.preprocessing`), and are not tuned.
    grid : mapping or sequence of mapping
        As in ``GridSearchCV``: for each parameter the values that are tried. The choice tries a setting on blocks of at
        least 60 records, at an epsilon at which noise is as large relative to them. So the setting must mean the same
        there: l2 does, and a number of models does not.
    X, y : array_like
        The private records. Their number is public.
    epsilon : float, > 0
    delta : float, in [0, 1)
    random_state : int
        Public: it decides about blocks, not about noise.
    n_jobs : int

    Returns
    -------
    PrivateClassifier or Pipeline
        Fitted clone, of the setting that was chosen.

    Raises
    ------
    ValueError
        If there are too few records for a choice, or a parameter is outside its range, or a setting cannot be fitted to
        made-up records or does not give the guarantee.
    TypeError
        If the estimator is not private or has no epsilon.

    Source
    ------
    McSherry and Talwar (2007), Theorem 6, and Nissim, Raskhodnikova and Smith (2007) for the choice.

    Examples
    --------
    >>> from dpnotes import LossPerturbation
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 5)) / 5**0.5
    >>> model = LossPerturbation(1.0, classes=[False, True], noise_seed=0, device="cpu")
    >>> model = tuned(model, {"l2": [0.001, 1.0]}, X, X[:, 0] > 0, epsilon=5.0, delta=1e-5)
    >>> model.l2, model.profile_.epsilon(1e-5), bool(model.score(X, X[:, 0] > 0) > 0.8)
    (0.001, 5.0, True)
    """
    epsilon, delta = check.positive("epsilon", epsilon), check.real("delta", delta, high=1.0)
    model = clone(estimator)
    last: Any = model[-1] if isinstance(model, Pipeline) else model
    private = isinstance(last, PrivateClassifier) and hasattr(last, "epsilon")
    if not private:
        raise TypeError(f"estimator must be private and have an epsilon, got estimator={last!r}")
    adjacency = check.one_of("adjacency", last.adjacency, ADJACENCIES)
    prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    settings = [{name.removeprefix(prefix): each[name] for name in each} for each in ParameterGrid(grid)]
    fixed = {"epsilon", "delta", "adjacency", "classes", "random_state", "noise_seed"}
    if unknown := set().union(*settings) - (set(last.get_params(deep=False)) - fixed):
        raise ValueError(f"grid must be about parameters of {type(last).__name__}, got {sorted(unknown)}")
    rows = model[:-1].fit_transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X
    records = clone(last)._private_records(rows, y)
    kind = Candidate("", lambda task, **setting: clone(last).set_params(
        **setting, epsilon=task.epsilon, delta=task.delta, **task.common
    ), released="answers" if hasattr(last, "answers") else "model", ball=False)  # fmt: skip
    left = epsilon - COST * epsilon
    while left + COST * epsilon > epsilon:  # by rounding
        left = float(np.nextafter(left, 0.0))
    n, d = records.X.shape
    task = Task(n, d, range(len(records.classes)), left, delta, getattr(last, "answers", None), last.noise_seed)
    for setting in settings:
        _try(kind, setting, task)
    blocks = blocks_for(n, len(records.classes), COST * epsilon, len(settings))
    if not blocks:
        raise ValueError(
            f"epsilon must be larger to choose among {len(settings)} settings by {n} records, got {epsilon=}"
        )
    place = private_choice(
        [(kind, setting) for setting in settings], records.X, records.codes, task, epsilon=COST * epsilon,
        n_blocks=blocks, random_state=random_state, noise_seed=last.noise_seed, n_jobs=n_jobs,
    )  # fmt: skip
    last.set_params(**settings[place], epsilon=left, delta=delta)
    model.fit(X, y)
    pair: PrivacyProfile = approximate(left, delta, adjacency=adjacency) if delta else pure(left, adjacency=adjacency)
    about = {name: getattr(last.profile_, name) for name in ("status", "assumption", "implementation", "source")}
    last.tuning_ = (
        f"One of {len(settings)} settings, by a vote of blocks of the records: epsilon {COST * epsilon:g}, counted."
    )
    last.profile_ = compose(choice_profile(COST * epsilon, last.noise_seed, adjacency), pair.with_(**about))
    return model


def _try(kind: Candidate, setting: Mapping[str, Any], task: Task) -> None:
    """Fit a setting to a made-up block, where an error says nothing about records; in a block it would be a vote."""
    made = synthetic(max(BLOCK, 10 * len(task.classes)), task.d, len(task.classes), 0)
    part = task.part(len(made.X), seed=0)
    trial = kind.made(part, setting).fit(made.X, made.codes)
    trial.predict(made.X[:1])
    if trial.profile_.status == "refuted" or trial.profile_.delta(part.epsilon * (1 + 1e-9)) > task.delta * (1 + 1e-6):
        raise ValueError(f"grid must have settings that give the guarantee, got {dict(setting)}")
