"""How well pilot runs with a canary are told from those without it, and along which of their numbers."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from dpnotes._validation import Floats
from dpnotes.auditing._training import Runs

MOST_STORED = 20_000_000  # numbers of pilot runs


def apart(members: Runs, others: Runs) -> tuple[float, str]:
    """How well the best score tells two kinds of pilot runs apart, in the units of mu; its name."""
    best = (-math.inf, "")
    for name in members.scores:
        if name in others.scores:
            best = max(best, (distance(*(kind.matrix([name])[:, 0] for kind in (members, others))), name))
    return best


def distance(a: Floats, b: Floats) -> float:
    """The larger of the distance of means and that which the gap of distributions tells, less a standard error."""
    error = math.sqrt(1 / len(a) + 1 / len(b))
    gap = stats.ks_2samp(a, b, method="asymp").statistic if np.isfinite(a).all() and np.isfinite(b).all() else float(
        np.mean(np.isfinite(a)) - np.mean(np.isfinite(b)))  # fmt: skip
    by_gap = 2 * float(special.ndtri((1 + min(max(abs(gap) - error, 0.0), 1 - 1e-9)) / 2))
    finite = [kind[np.isfinite(kind)] for kind in (a, b)]
    if min(map(len, finite)) < 2:
        return by_gap
    scale = math.sqrt(sum(kind.var() for kind in finite) / 2)
    difference = abs(finite[0].mean() - finite[1].mean())
    by_means = difference / scale if scale > 1e-12 * max(difference, 1e-300) else (math.inf if difference > 0 else 0.0)
    return max(by_gap, by_means - error)


def direction(members: Floats | None, others: Floats | None) -> Floats | None:
    """Along which the numbers of two kinds of pilot runs differ, each over its variance; None if it is unknown."""
    if members is None or others is None or members.shape[1:] != others.shape[1:] or members.shape[1] < 2:
        return None
    if members.size + others.size > MOST_STORED:
        return None
    variance = (members.var(axis=0) + others.var(axis=0)) / 2
    if not np.isfinite(variance).all() or not variance.any():
        return None
    found = (members.mean(axis=0) - others.mean(axis=0)) / (variance + 1e-3 * variance.mean())
    length = float(np.linalg.norm(found))
    return found / length if 0 < length < math.inf else None
