"""Choosing between methods on private records: disjoint blocks vote, and the vote is released with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from dpnotes._validation import Features, Integers
from dpnotes.accounting import PrivacyProfile, soft_vote, soft_vote_beta
from dpnotes.comparing._candidates import Candidate, Task
from dpnotes.comparing._running import scored
from dpnotes.comparing._tables import cut
from dpnotes.mechanisms import soft_vote as draw_soft_vote

COST = 0.2  # of epsilon, for the choice
SHORTLIST = 4  # methods that blocks choose from, besides the majority class
BLOCK, MOST_BLOCKS = 60, 200  # records of the smallest block
SURE = 0.95  # probability of the method that all blocks vote for
REPEATS = 3  # cuts of each block

Entry = tuple[Candidate, Mapping[str, Any]]  # a method with its setting


def blocks_for(n: int, n_classes: int, epsilon: float, choices: int = SHORTLIST) -> int:
    """Blocks to cut ``n`` records into for one of ``choices`` that costs ``epsilon``; 0 where it would be noise.

    A public number: as many as are wanted for twice the lead that is answered with probability ``SURE``.
    """
    lead = math.log(choices * SURE / (1 - SURE)) / soft_vote_beta(epsilon, 0.0, answers=1)
    most = min(n // max(BLOCK, 10 * n_classes), MOST_BLOCKS)
    return most if most >= lead else 0


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
) -> int:
    """Place in the shortlist that most blocks vote for, drawn with noise.

    Guarantees: the choice is epsilon-DP for one record made empty or exchanged. Proof: the blocks are cut by the places
    of the records, which no record moves, and a block votes by a function of its own records and of public numbers. One
    such record therefore changes the vote of one block at most: one count falls by 1 and another rises by 1. Entry c is
    drawn with probability proportional to ``exp(beta votes[c])``; such a change multiplies each weight, and their sum,
    by a factor in ``[exp(-beta), exp(beta)]``, hence each probability by at most ``exp(2 beta)``, and ``2 beta`` is
    epsilon. It does not matter how a block finds its vote, which is therefore not private in itself: no method is
    charged for having been tried. That training fails, or takes long, is part of the vote (no error leaves a block);
    the time that all of it takes is not hidden.

    Parameters
    ----------
    shortlist : sequence of (Candidate, setting)
        Chosen without looking at the records; the first is voted for where several are equal.
    X : ndarray, shape [n, d]
        Rows in [-1, 1], each prepared by itself.
    codes : ndarray of int, shape [n]
        ``len(task.classes)`` for a record that is none, which keeps its place.
    task : Task
        What the methods are wanted for, with all n records; in a block at an epsilon at which noise is as large
        relative to its records.
    epsilon : float, > 0
    n_blocks : int, >= 1
    random_state : int
        Of the blocks and of what is trained in them: public.
    noise_seed : int or None
        Of the draw; None: the operating system's.
    n_jobs : int

    Returns
    -------
    int

    Source
    ------
    McSherry and Talwar (2007), Theorem 6, for the draw; Nissim, Raskhodnikova and Smith (2007) for blocks that vote.
    """
    beta = soft_vote_beta(epsilon, 0.0, answers=1)
    order = np.random.default_rng(random_state).permutation(len(X))
    calls = (
        delayed(_vote)(shortlist, X[rows], codes[rows], task, seed=random_state + place)
        for place, rows in enumerate(np.array_split(order, n_blocks))
    )
    votes = Parallel(n_jobs=n_jobs)(calls)
    counts = np.bincount([vote for vote in votes if vote is not None], minlength=len(shortlist))
    (place,) = draw_soft_vote(counts[None], beta=beta, seed=noise_seed)
    return int(place)


def choice_profile(epsilon: float, noise_seed: int | None, adjacency: str = "zero-out") -> PrivacyProfile:
    """Guarantee of :func:`private_choice` at this epsilon, by noise of the operating system or of a seed."""
    profile = soft_vote(beta=soft_vote_beta(epsilon, 0.0, answers=1), adjacency=adjacency)
    return profile.with_(
        assumption="records keep their places, and bounds and classes are public",
        implementation="exact" if noise_seed is None else "reproducible",
        source="McSherry and Talwar (2007), Theorem 6; dpnotes.comparing.private_choice",
    )


def _vote(shortlist: Sequence[Entry], X: Features, codes: Integers, task: Task, *, seed: int) -> int | None:
    """The entry of the highest mean accuracy in a block; None if it has no records."""
    kept = codes < len(task.classes)
    if not kept.any():
        return None
    means = []
    splits = [cut(X[kept], codes[kept], [seed, repeat]) for repeat in range(REPEATS)]
    for candidate, setting in shortlist:
        found = [scored(candidate, task.part(len(each.X), seed=seed), setting, each)[0] for each in splits]
        means.append(np.nan_to_num(np.mean(found), nan=-1.0))
    return int(np.argmax(means))
