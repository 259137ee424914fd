"""Audits from the scores of many independent runs, with the record and without it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting import ADJACENCIES, PrivacyProfile
from dpnotes.auditing._region import (
    FINE,
    Counts,
    Curve,
    ExpectedCounts,
    least_delta,
    least_epsilon,
    least_mu,
)
from dpnotes.auditing._report import AuditReport, Event

# fraction of what may fail that goes to the event chosen for the claim, or for mu
# without one
MAIN = 0.7
THRESHOLDS = 48  # of each score, from which an event is chosen
# runs of each kind; and as many of them are in the first split, or half of all
FEWEST = 4
DELTA = 1e-5  # where the bound of epsilon should be largest
LARGEST_SCORE = 1e150  # squares of larger numbers are no doubles
COARSE = 32  # points of a region's frontier where bounds are compared to choose
Pair = tuple[Floats, Floats]  # of runs with the record and without it, [runs, scores]


def audit_scores(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    claim: PrivacyProfile | None = None,
    confidence: float = 0.95,
    adjacency: str | None = None,
    holdout: float = 0.15,
    names: Sequence[str] | None = None,
    random_state: int = 0,
) -> AuditReport:
    """Test whether scores of independent runs refute a claim, and bound the privacy
    loss from below.

    Guarantees: if the runs are independent, then with probability at least
    ``confidence`` every bound of the report holds and a true claim is not refuted, for
    any number of runs and any scores. The argument:

    1. The runs of each kind are divided at random into two splits. Events ("the score
       is at least t", or "below t") are chosen only on the first split: one for the
       claim (or for mu, if there is no claim), one for epsilon at delta = 1e-5, and one
       for the advantage. Given the first split the events are fixed, and the runs of
       the second split are still independent.
    2. On the second split, an event's counts with and without the record are two
       independent binomial numbers. Their rates lie in a joint region at a stated
       confidence; the region follows from Clopper and Pearson's one-sided p-values,
       combined by Fisher's method.
    3. The events divide the allowed failure probability: the first receives 0.7 of it
       and the others share the rest; a single event receives all of it. By the union
       bound all regions hold jointly.
    4. A claim is refuted, or a bound is given, only if this follows for *every* pair of
       rates in a region. This is computed on the region's frontier, in steps that are
       rounded to the side that proves less.

    A run may have many scores, and they may depend on one another. More scores only
    make the choice on the first split harder.

    Parameters
    ----------
    members, nonmembers : array_like of float, shape [runs] or [runs, scores]
        Scores of independent runs with the record and without it. A higher score should
        mean that a run looks more like one with the record, but both directions are
        tried. Give a failed run a score such as ``-inf``; leaving it out is not sound.
    claim : PrivacyProfile, optional
        The guarantee that the training procedure claims.
    confidence : float, in (0, 1)
        Smallest probability with which the bounds hold and a true claim is not refuted.
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        How the data sets of the two kinds of runs differ. Default: the adjacency of the
        claim; without a claim, add-remove.
    holdout : float, in (0, 1)
        Fraction of the runs on which events are chosen.
    names : sequence of str, optional
        Names of the scores.
    random_state : int, >= 0
        Seed of the random division of the runs. Trying several seeds and reporting the
        best result is not sound.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError
        If a score is NaN, there are fewer than four runs of a kind, the adjacency of
        the claim differs from the adjacency of the runs, or a parameter is outside its
        range.

    Source
    ------
    Kairouz, Oh and Viswanath (2015) and Dong, Roth and Su (2022) for what a guarantee
    allows; Clopper and Pearson (1934) and Fisher (1932) for the region; Nasr et al.
    (2023) for bounds of mu.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotes.accounting import gaussian
    >>> generator = np.random.default_rng(0)
    >>> with_it, without = (
    ...     generator.normal(2.0, size=500),
    ...     generator.normal(size=500),
    ... )  # noise of sigma = 1/2
    >>> audit_scores(with_it, without, claim=gaussian(sigma=1.0)).refuted
    True
    >>> audit_scores(with_it, without, claim=gaussian(sigma=0.5)).refuted
    False
    """
    given = _matrix("members", members), _matrix("nonmembers", nonmembers)
    width = given[0].shape[1]
    if given[1].shape[1] != width:
        raise ValueError(
            f"members and nonmembers must have the same scores, got {width} and"
            f" {given[1].shape[1]}"
        )
    level = 1 - check.level("confidence", confidence)
    holdout = check.real(
        "holdout",
        holdout,
        high=1.0,
        open_low=True,
        below="some runs must be left for counting",
    )
    adjacency = runs_adjacency(claim, adjacency)
    if names is None:
        names = [f"score {i}" for i in range(width)]
    titles = [str(name) for name in names]
    if len(titles) != width:
        raise ValueError(f"names must name {width} scores, got names={titles}")
    generator = np.random.default_rng(check.at_least("random_state", random_state, 0))
    # at random, whatever the order in which runs were made
    divided = [_divided(kind, holdout, generator) for kind in given]
    first = divided[0][0], divided[1][0]
    second = divided[0][1], divided[1][1]
    if width > 1:
        first, second, titles = _with_combined(first, second, titles)
    curve = None if claim is None else Curve.of(claim)
    sizes = len(second[0]), len(second[1])
    tried = []
    for column, name in enumerate(titles):
        kinds = first[0][:, column], first[1][:, column]
        for row in _best_events(kinds, sizes, curve, level):
            tried.append({"score": name, "column": column} | row)
    events = _counted(tried, second, level)
    return AuditReport(
        events=events,
        claim=claim,
        confidence=confidence,
        adjacency=adjacency,
        strategy=(
            f"many runs: event {events[0].words}, chosen on {len(first[0])} +"
            f" {len(first[1])} runs, counted on {sizes[0]} + {sizes[1]}"
        ),
        runs=len(given[0]) + len(given[1]),
        seconds=math.nan,
        tried=pd.DataFrame(tried),
        remarks=_remarks(given, claim, confidence, holdout),
    )


def runs_needed(
    claim: PrivacyProfile, *, confidence: float = 0.95, holdout: float = 0.15
) -> float:
    """Compute the fewest runs of each kind with which :func:`audit_scores` can refute a
    claim by a test without errors.

    Parameters
    ----------
    claim : PrivacyProfile
        The guarantee to refute.
    confidence : float, in (0, 1)
        Smallest probability with which a true claim is not refuted.
    holdout : float, in (0, 1)
        Fraction of the runs on which events are chosen.

    Returns
    -------
    float
        Number of runs of each kind, a whole number; infinite if the claim allows a test
        without errors.

    Examples
    --------
    >>> from dpnotes.accounting import pure
    >>> [runs_needed(pure(epsilon)) for epsilon in (0.1, 1.0, 5.0)]
    [7.0, 12.0, 418.0]
    """
    level = 1 - check.level("confidence", confidence)
    enough = partial(_can_refute, Curve.of(claim), level, holdout)
    # doubled until enough, then halved
    high = FEWEST
    while not enough(high):
        high *= 2
        if high > 2**40:
            return math.inf
    low = max(FEWEST, high // 2)
    return float(bisect_left(range(high), True, lo=low, key=enough))


def _can_refute(curve: Curve, level: float, holdout: float, runs: int) -> bool:
    """Whether a test without errors refutes a claim with so many runs of each kind."""
    left = runs - _chosen_on(runs, holdout)
    perfect = Counts(*np.array([left, left, 0, left], dtype=np.float64))
    return bool(perfect.log_p_value(curve, 2 * FINE) <= math.log(level))


def runs_adjacency(claim: PrivacyProfile | None, adjacency: str | None) -> str:
    """Adjacency of the runs, which must equal the adjacency of the claim."""
    if adjacency is None:
        return "add-remove" if claim is None else claim.adjacency
    check.one_of("adjacency", adjacency, ADJACENCIES)
    if claim is not None and claim.adjacency != adjacency:
        raise ValueError(
            f"claim must be for the adjacency of the runs, {adjacency!r}, got a claim"
            f" for {claim.adjacency!r}; claim.for_adjacency(...) converts a claim if it"
            " implies the other guarantee"
        )
    return adjacency


def _matrix(name: str, values: ArrayLike) -> Floats:
    """Scores as [runs, scores]."""
    scores = np.asarray(values, dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(
            f"{name} must have shape [runs] or [runs, scores], got shape"
            f" {np.shape(values)}"
        )
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must hold no NaN, got {int(np.isnan(scores).any(1).sum())} runs"
            " with one; give a failed run a score such as -inf: leaving runs out is"
            " not sound"
        )
    if len(scores) < FEWEST:
        raise ValueError(
            f"{name} must hold at least {FEWEST} runs, got {len(scores)}; see"
            " runs_needed(claim)"
        )
    return scores


def _chosen_on(runs: int, holdout: float) -> int:
    """Number of runs of a kind on which events are chosen."""
    if holdout * runs <= FEWEST:
        return min(FEWEST, runs // 2)
    return min(round(holdout * runs), runs - 1)


def _divided(scores: Floats, holdout: float, generator: np.random.Generator) -> Pair:
    order = generator.permutation(len(scores))
    first = _chosen_on(len(scores), holdout)
    return scores[order[:first]], scores[order[first:]]


def _with_combined(
    first: Pair, second: Pair, names: list[str]
) -> tuple[Pair, Pair, list[str]]:
    """Add one score, the linear discriminant of the scores that are finite and not
    huge, learned only on the first split.
    """
    pooled = np.vstack(first)
    kept = np.flatnonzero((np.abs(pooled) < LARGEST_SCORE).all(axis=0))
    kept = kept[np.ptp(pooled[:, kept], axis=0) > 0]
    if len(kept) < 2:
        return first, second, names
    pooled = pooled[:, kept]
    low = pooled.min(axis=0)
    high = pooled.max(axis=0)
    scale = pooled.std(axis=0)
    members, others = (kind[:, kept] / scale for kind in first)
    apart = members.mean(axis=0) - others.mean(axis=0)
    centred = np.vstack([members - members.mean(axis=0), others - others.mean(axis=0)])
    # more where there are few runs for the scores
    ridge = len(kept) / len(centred) * np.eye(len(kept))
    # of both kinds about their own means
    covariance = centred.T @ centred / len(centred)
    weights = np.linalg.solve(covariance + ridge, apart) / scale

    def joined(kind: Floats) -> Floats:
        return np.column_stack([kind, np.clip(kind[:, kept], low, high) @ weights])

    first = joined(first[0]), joined(first[1])
    second = joined(second[0]), joined(second[1])
    return first, second, [*names, "combined"]


def _best_events(
    kinds: Pair, sizes: tuple[int, int], curve: Curve | None, level: float
) -> list[dict[str, Any]]:
    """Find the event of one score with the best bound for each target, if the second
    split, of these sizes, has the same rates as the first split.

    The targets are the claim (or mu if there is no claim), epsilon and the advantage.
    """
    cuts = thresholds_between(np.unique(np.concatenate(kinds)))
    tpr, fpr = (event_rates(kind, cuts) for kind in kinds)
    runs, other_runs = np.array(sizes, dtype=np.float64)
    expected = ExpectedCounts(tpr * runs, runs, fpr * other_runs, other_runs)
    frontier = expected.frontier(level, COARSE)
    bounds = {}
    if curve is None:
        bounds["mu"] = least_mu(frontier)
    else:
        bounds["claim"] = -expected.log_p_value(curve, 2 * COARSE)
    bounds["epsilon"] = least_epsilon(frontier, DELTA)
    bounds["advantage"] = least_delta(frontier, 0.0)
    rows = []
    for target, bound in bounds.items():
        # of equal bounds, the one with the larger gap between rates
        best = int(np.lexsort((tpr - fpr, bound))[-1])
        row = {
            "target": target,
            "threshold": cuts[best % len(cuts)],
            "above": best < len(cuts),
            "expected": bound[best],
            "gap": tpr[best] - fpr[best],
        }
        rows.append(row)
    return rows


def event_rates(scores: Floats, cuts: Floats) -> Floats:
    """Rates of the events "at least the cut", then of "below the cut", [2 cuts]; half
    a run is added on either side of a cut.
    """
    # scores in order: how many are at least each cut
    above = len(scores) - np.searchsorted(np.sort(scores), cuts)
    hits = np.concatenate([above, len(scores) - above])
    return np.asarray((hits + 0.5) / (len(scores) + 1))


def thresholds_between(values: Floats) -> Floats:
    """Cuts between the ascending ``values``; if they are many, a selection that is
    denser at the ends.
    """
    if len(values) == 1:
        return values
    where = np.arange(1, len(values))
    if len(where) > THRESHOLDS:
        # events that hardly ever happen tell most of a pure level
        ends = np.unique(np.geomspace(1, len(values) / 2, THRESHOLDS // 2).astype(int))
        where = np.unique(np.concatenate([ends, len(values) - ends]))
    low = values[where - 1]
    high = values[where]
    with np.errstate(invalid="ignore", over="ignore"):
        middle = low + (high - low) / 2
    return np.where(np.isfinite(middle) & (middle > low), middle, high)


def _counted(
    tried: list[dict[str, Any]], second: Pair, level: float
) -> tuple[Event, ...]:
    """Best event for each target, without repeats, with its share of the level and
    its counts; noted in ``tried``.
    """
    best: dict[str, dict[str, Any]] = {}
    for row in tried:
        other = best.setdefault(row["target"], row)
        if (row["expected"], row["gap"]) > (other["expected"], other["gap"]):
            best[row["target"]] = row
    # two targets may choose the same event, which is then counted once
    rows: dict[Any, dict[str, Any]] = {}
    for row in best.values():
        rows.setdefault((row["column"], row["threshold"], row["above"]), row)
    shares = [1.0]
    if len(rows) > 1:
        shares = [MAIN] + [(1 - MAIN) / (len(rows) - 1)] * (len(rows) - 1)
    events = []
    for row, share in zip(rows.values(), shares, strict=True):
        members, others = (kind[:, row["column"]] for kind in second)
        hits = int(((members >= row["threshold"]) == row["above"]).sum())
        false_hits = int(((others >= row["threshold"]) == row["above"]).sum())
        numbers = [hits, len(members), false_hits, len(others)]
        side = ">=" if row["above"] else "<"
        turn = 1 if row["above"] else -1
        event = Event(
            row["score"],
            f"{row['score']} {side} {row['threshold']:.6g}",
            share * level,
            Counts(*np.array(numbers, dtype=np.float64)),
            turn * members,
            turn * others,
        )
        events.append(event)
        row["level"] = share * level
        row["tpr"] = hits / len(members)
        row["fpr"] = false_hits / len(others)
    return tuple(events)


def _remarks(
    given: Pair, claim: PrivacyProfile | None, confidence: float, holdout: float
) -> tuple[str, ...]:
    """Remarks on these scores for the reader of the report."""
    members, others = given
    found = []
    if (members == members[0]).all() and (others == others[0]).all():
        alike = "all runs"
        if (members[0] != others[0]).any():
            alike += " of a kind"
        found.append(
            f"{alike} have the same scores: do the runs use their seeds, and does the"
            " score use the results?"
        )
    if claim is not None:
        runs = min(len(members), len(others))
        if not _can_refute(Curve.of(claim), 1 - confidence, holdout, runs):
            needed = runs_needed(claim, confidence=confidence, holdout=holdout)
            found.append(
                f"{runs} runs of each kind cannot refute this claim; at least"
                f" {needed:.0f} are needed"
            )
    return tuple(found)
