"""What a claim allows: the largest true-positive rate at each false-positive rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpnotes._validation import Floats

if TYPE_CHECKING:
    from dpnotes.accounting import PrivacyProfile

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 200.0, 400)])  # where a claim gets a supporting line
CLOSE = 40  # more of them where delta comes down to its limit, as that of a pure level does at once


@dataclass(frozen=True)
class Curve:
    """Lines above all (FPR, TPR) of tests against a mechanism of some guarantee, steepest first.

    A line comes from one (epsilon, delta): ``TPR <= delta + e^epsilon FPR``, or, of the rates of errors the other way
    round, ``1 - FPR <= delta + e^epsilon (1 - TPR)``. Fewer lines allow more, which is the side of the claim.
    """

    intercepts: Floats  # [lines]
    gradients: Floats  # [lines]
    corners: Floats  # false-positive rates [lines - 1] where one line takes over from the one before

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, claim: PrivacyProfile, *, symmetric: bool = False) -> Curve:
        """Of a claim; ``symmetric``: whichever of the two data sets the event is more likely on.

        Otherwise it is taken at its word in each direction, except where the adjacency has none.
        """
        ways = (None,) if symmetric or claim.adjacency == "replace-one" else ("remove", "add")
        found = [claim.delta(EPSILONS, direction=way) for way in ways]
        worst = np.max(found, axis=0)
        end = int(np.argmax(worst <= worst[-1]))
        closer = np.linspace(EPSILONS[max(end - 1, 0)], EPSILONS[max(end, 1)], CLOSE + 2)[1:-1]
        order = np.argsort(np.concatenate([EPSILONS, closer]), kind="stable")
        epsilon = np.concatenate([EPSILONS, closer])[order]
        deltas = [
            np.concatenate([delta, claim.delta(closer, direction=way)])[order]
            for delta, way in zip(found, ways, strict=True)
        ]
        remove, add = deltas[0], deltas[-1]
        gradients = np.concatenate([np.exp(epsilon)[::-1], np.exp(-epsilon)])
        intercepts = np.concatenate([remove[::-1], 1 - np.exp(-epsilon) * (1 - add)])
        return cls(*_envelope(intercepts, gradients))

    def most(self, fpr: Floats) -> Floats:
        """Largest true-positive rates that the claim allows, [...]."""
        line = np.searchsorted(self.corners, fpr)
        return np.asarray(np.clip(self.intercepts[line] + self.gradients[line] * fpr, fpr, 1.0), dtype=np.float64)

    def least(self, tpr: Floats) -> Floats:
        """Smallest false-positive rates with which the claim allows these true-positive rates, [...]."""
        line = np.searchsorted(self.intercepts[:-1] + self.gradients[:-1] * self.corners, tpr)
        return np.asarray(np.clip((tpr - self.intercepts[line]) / self.gradients[line], 0.0, tpr), dtype=np.float64)


def _envelope(intercepts: Floats, gradients: Floats) -> tuple[Floats, Floats, Floats]:
    """The lines, of falling gradients, that are lowest at some rate >= 0, and the corners between them."""
    kept: list[int] = []
    corners: list[float] = []
    heights, falls = intercepts.tolist(), gradients.tolist()
    for line, (height, fall) in enumerate(zip(heights, falls, strict=True)):
        while kept:
            rise = height - heights[kept[-1]]
            corner = rise / max(falls[kept[-1]] - fall, 1e-300)  # both directions have a line of epsilon = 0
            if rise > 0 and not (corners and corner <= corners[-1]):
                corners.append(corner)
                break
            kept.pop()
            del corners[len(kept) - 1 :]
        kept.append(line)
    return intercepts[kept], gradients[kept], np.array(corners)
