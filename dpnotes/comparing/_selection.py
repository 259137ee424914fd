"""Private choice between methods, or between settings of one method, by a noisy vote
of disjoint blocks of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from dpnotes import _validation as check
from dpnotes._validation import Features, Integers
from dpnotes.accounting import (
    PrivacyProfile,
    approximate,
    compose,
    soft_vote,
    soft_vote_beta,
)
from dpnotes.comparing._candidates import Candidate, Task
from dpnotes.comparing._running import scored
from dpnotes.comparing._tables import cut, synthetic
from dpnotes.mechanisms import soft_vote as draw_soft_vote
from dpnotes.methods import PrivateClassifier

COST = 0.2  # of epsilon, for the choice
SHORTLIST = 4  # methods that blocks choose from, besides the majority class
# records of the smallest block that tells methods apart, and most blocks
BLOCK, MOST_BLOCKS = 250, 200
TUNED_BLOCK = 60  # records of the smallest block that chooses a setting of one method
MOST_ROWS = 500  # records of a block that are looked at
LEADS = 3  # blocks that are wanted, in units of the lead that decides
SURE = 0.95  # probability of the method that all blocks vote for
REPEATS = 3  # cuts of each block
ADJACENCIES = ("zero-out", "replace-one")  # under which records keep their places
# parameters that are not tuned
FIXED = {"epsilon", "delta", "adjacency", "classes", "random_state", "noise_seed"}

Entry = tuple[Candidate, Mapping[str, Any]]  # a method with its setting


def blocks_for(
    n: int, least: int, epsilon: float, choices: int = SHORTLIST, *, leads: int = LEADS
) -> int:
    """Number of blocks of at least ``least`` records for a choice that costs
    ``epsilon``; 0 if noise would decide.

    The number is public. An entry for which all blocks vote is chosen with probability
    at least ``SURE``.
    """
    lead = lead_for(epsilon, choices)
    most = min(n // least, MOST_BLOCKS)
    return min(most, math.ceil(leads * lead)) if most >= lead else 0


def lead_for(epsilon: float, choices: int) -> float:
    """Lead in votes that gives the leading entry probability at least ``SURE``, in a
    choice that costs ``epsilon``.
    """
    return math.log(choices * SURE / (1 - SURE)) / soft_vote_beta(
        epsilon, 0.0, answers=1
    )


def private_choice(
    shortlist: Sequence[Entry],
    X: Features,
    codes: Integers,
    task: Task,
    *,
    epsilon: float,
    n_blocks: int,
    random_state: int,
    noise_seed: int | None,
    n_jobs: int,
    repeats: int = REPEATS,
) -> int:
    """Choose an entry of the shortlist privately: disjoint blocks of records vote, and
    the outcome is drawn with noise.

    Guarantees: the choice is epsilon-DP for one record made empty or replaced. Proof:
    the blocks are formed from the places of the records, whatever the records contain,
    and a block votes by a function of its records and of public numbers. A record that
    is made empty or replaced therefore changes the vote of at most one block: one count
    falls by 1 and another rises by 1. Entry c is drawn with probability proportional to
    its weight ``exp(beta votes[c])``. The change multiplies each weight, and the sum of
    the weights, by a factor in ``[exp(-beta), exp(beta)]``. Each probability therefore
    changes by a factor of at most ``exp(2 beta)``, and ``2 beta`` is epsilon. The proof
    does not depend on how a block finds its vote, so training in a block need not be
    private, and trying a method costs nothing. A failure of training affects only the
    vote (no error leaves a block); the total duration is not hidden.

    Parameters
    ----------
    shortlist : sequence of (Candidate, setting)
        Methods with settings, chosen without the records. In a tie, a block votes for
        the first of the tied entries.
    X : ndarray, shape [n, d]
        Rows in [-1, 1], each prepared separately.
    codes : ndarray of int, shape [n]
        Class codes; ``len(task.classes)`` for an empty record, which retains its place.
    task : Task
        The task of the methods, with all n records. In a block, epsilon is chosen so
        that the ratio of the noise to the number of records is the same as it would be
        with all records.
    epsilon : float, > 0
        Epsilon of the choice.
    n_blocks : int, >= 1
        Number of blocks.
    random_state : int
        Public seed of the blocks and of the training in them.
    noise_seed : int or None
        Seed of the draw; None for noise from the operating system.
    n_jobs : int
    repeats : int, >= 1
        Number of splits of each block into training and test records.

    Returns
    -------
    int
        Place of the chosen entry in the shortlist.

    Source
    ------
    McSherry and Talwar (2007), Theorem 6, for the draw; Nissim, Raskhodnikova and Smith
    (2007) for blocks that vote.
    """
    beta = soft_vote_beta(epsilon, 0.0, answers=1)
    order = np.random.default_rng(random_state).permutation(len(X))
    calls = (
        delayed(_vote)(
            shortlist, X[rows], codes[rows], task, random_state + place, repeats
        )
        for place, rows in enumerate(
            part[:MOST_ROWS] for part in np.array_split(order, n_blocks)
        )
    )
    votes = Parallel(n_jobs=n_jobs)(calls)
    counts = np.bincount(
        [vote for vote in votes if vote is not None], minlength=len(shortlist)
    )
    (place,) = draw_soft_vote(counts[None], beta=beta, seed=noise_seed)
    return int(place)


def after_choice(epsilon: float) -> float:
    """Epsilon left for the fit; its sum with the cost of the choice is at most
    ``epsilon``, even after rounding.
    """
    left = (1 - COST) * epsilon
    while left + COST * epsilon > epsilon:
        left = float(np.nextafter(left, 0.0))
    return left


def choice_profile(
    epsilon: float, noise_seed: int | None, adjacency: str = "zero-out"
) -> PrivacyProfile:
    """Guarantee of :func:`private_choice` at this epsilon, with noise from the
    operating system or from a seed.
    """
    profile = soft_vote(
        beta=soft_vote_beta(epsilon, 0.0, answers=1), adjacency=adjacency
    )
    return profile.with_(
        assumption="records keep their places, and bounds and classes are public",
        implementation="exact" if noise_seed is None else "reproducible",
        source=(
            "McSherry and Talwar (2007), Theorem 6; dpnotes.comparing.private_choice"
        ),
    )


def with_choice(
    choice: PrivacyProfile, fit: PrivacyProfile, epsilon: float, delta: float
) -> PrivacyProfile:
    """Guarantee of a choice together with the chosen fit; only the (epsilon, delta) of
    the fit counts.

    Any other choice would have led to a fit that is also (epsilon, delta)-DP, but with
    another privacy curve. The rest of this fit's curve therefore depends on the choice,
    and it says nothing about choice and fit together.
    """
    if fit.delta(epsilon * (1 + 1e-9)) > delta * (1 + 1e-6):
        raise ValueError(
            f"the fit must be (epsilon, delta)-DP at epsilon={epsilon:g},"
            f" delta={delta:g}, and is not"
        )
    about = {
        key: getattr(fit, key)
        for key in ("status", "assumption", "implementation", "source")
    }
    return compose(
        choice, approximate(epsilon, delta, adjacency=fit.adjacency).with_(**about)
    )


def _vote(
    shortlist: Sequence[Entry],
    X: Features,
    codes: Integers,
    task: Task,
    seed: int,
    repeats: int,
) -> int | None:
    """Entry with the highest mean accuracy in a block; None if the block has no
    records.
    """
    kept = codes < len(task.classes)
    if not kept.any():
        return None
    means = []
    splits = [cut(X[kept], codes[kept], [seed, repeat]) for repeat in range(repeats)]
    for candidate, setting in shortlist:
        found = [
            scored(candidate, task.part(len(each.X), seed=seed), setting, each)[0]
            for each in splits
        ]
        means.append(np.nan_to_num(np.mean(found), nan=-1.0))
    return int(np.argmax(means))


def tuned(
    estimator: Any,
    grid: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    random_state: int = 0,
    n_jobs: int = 1,
) -> Any:
    """Choose a setting of a private estimator on private records and fit it, all within
    one budget.

    The choice takes a fifth of epsilon, whatever the number of settings, and the fit
    takes the rest. Use this function instead of ``GridSearchCV``, which spends epsilon
    again in each fit and does not count it.

    Guarantees: the choice and the fitted estimator together are (epsilon, delta)-DP.
    Proof: the choice is epsilon/5-DP by :func:`dpnotes.comparing.private_choice`. This
    holds for replacing one record as well, because a replacement changes only one vote.
    For any choice, the fit is (4 epsilon/5, delta)-DP, so choice and fit together are
    (epsilon, delta)-DP (Dwork and Roth 2014, Theorem B.1). ``profile_`` holds only this
    pair, because the rest of the privacy curve could depend on the setting.

    Parameters
    ----------
    estimator : PrivateClassifier or Pipeline that ends in one
        An estimator with an ``epsilon`` and a ``delta``, which this function sets, and
        adjacency "zero-out" or "replace-one". The other steps of a pipeline must treat
        each row separately (:mod:`dpnotes.preprocessing`); they are not tuned.
    grid : mapping of str to sequence, or sequence of mapping
        Values to try for each parameter, as in ``GridSearchCV``. Each setting is tried
        on blocks of at least 60 records, at an epsilon for which the ratio of the noise
        to the number of records is the same as it would be with all records. A setting
        must mean the same on a block as on all records: this is true of l2, but not of
        a number of models.
    X, y : array_like
        The private records. Their number is public.
    epsilon : float, > 0
    delta : float, in [0, 1)
    random_state : int
        Public seed, which determines the blocks but not the noise.
    n_jobs : int
        Number of joblib workers.

    Returns
    -------
    PrivateClassifier or Pipeline
        Fitted clone with the chosen setting.

    Raises
    ------
    ValueError
        If there are too few records for a choice, a parameter is outside its range, or
        a setting does not give the guarantee or cannot be fitted to synthetic records.
    TypeError
        If the estimator is not private or has no epsilon.

    Source
    ------
    McSherry and Talwar (2007), Theorem 6, and Nissim, Raskhodnikova and Smith (2007)
    for the choice.

    Examples
    --------
    >>> from dpnotes import LossPerturbation
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 5)) / 5**0.5
    >>> model = LossPerturbation(1.0, classes=[False, True], noise_seed=0, device="cpu")
    >>> model = tuned(
    ...     model, {"l2": [0.001, 1.0]}, X, X[:, 0] > 0, epsilon=5.0, delta=1e-5
    ... )
    >>> model.l2, model.profile_.epsilon(1e-5), bool(model.score(X, X[:, 0] > 0) > 0.8)
    (0.001, 5.0, True)
    """
    epsilon, delta = (
        check.positive("epsilon", epsilon),
        check.real("delta", delta, high=1.0),
    )
    model, n_jobs = clone(estimator), check.jobs("n_jobs", n_jobs)
    *before, (name, last) = (
        model.steps if isinstance(model, Pipeline) else [("", model)]
    )
    private = isinstance(last, PrivateClassifier) and hasattr(last, "epsilon")
    if not private:
        raise TypeError(
            f"estimator must be private and have an epsilon, got estimator={last!r}"
        )
    adjacency = check.one_of("adjacency", last.adjacency, ADJACENCIES)
    settings = [
        {key.removeprefix(f"{name}__"): each[key] for key in each}
        for each in ParameterGrid(grid)
    ]
    if unknown := set().union(*settings) - (set(last.get_params(deep=False)) - FIXED):
        raise ValueError(
            f"grid must name tunable parameters of {type(last).__name__}, got"
            f" {sorted(unknown)}"
        )
    records = clone(last)._private_records(
        model[:-1].fit_transform(X) if before else X, y
    )
    (n, d), n_classes, left = (
        records.X.shape,
        len(records.classes),
        after_choice(epsilon),
    )
    kind = Candidate(
        "",
        lambda task, **setting: clone(last).set_params(
            **setting, epsilon=task.epsilon, delta=task.delta, **task.common
        ),
        released="answers" if hasattr(last, "answers") else "model",
        ball=False,
    )
    task = Task(
        n,
        d,
        range(n_classes),
        left,
        delta,
        getattr(last, "answers", None),
        last.noise_seed,
    )
    least = max(TUNED_BLOCK, 10 * n_classes)
    # an error there says nothing about records
    made = synthetic(least, d, n_classes, 0)
    part = task.part(len(made.X), seed=0)
    for setting in settings:
        trial = kind.made(part, setting).fit(made.X, made.codes)
        trial.predict(made.X[:1])
        loss = trial.profile_.delta(part.epsilon * (1 + 1e-9))
        if trial.profile_.status == "refuted" or loss > delta * (1 + 1e-6):
            raise ValueError(
                f"grid must have settings that give the guarantee, got {setting}"
            )
    blocks = blocks_for(n, least, COST * epsilon, len(settings))
    if not blocks:
        few = f"to choose among {len(settings)} settings with {n} records"
        raise ValueError(f"epsilon must be larger {few}, got epsilon={epsilon}")
    place = private_choice(
        [(kind, setting) for setting in settings],
        records.X,
        records.codes,
        task,
        epsilon=COST * epsilon,
        n_blocks=blocks,
        random_state=random_state,
        noise_seed=last.noise_seed,
        n_jobs=n_jobs,
    )
    last.set_params(**settings[place], epsilon=left, delta=delta)
    model.fit(X, y)
    choice = choice_profile(COST * epsilon, last.noise_seed, adjacency)
    last.profile_, paid = (
        with_choice(choice, last.profile_, left, delta),
        f"epsilon {COST * epsilon:g}, counted",
    )
    last.tuning_ = (
        f"One of {len(settings)} settings was chosen by a vote of blocks of the"
        f" records: {paid}."
    )
    return model
