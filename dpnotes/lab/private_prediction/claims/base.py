"""What the evidence on this paper has in common: a claim that stands beside its evidence, settings, a divergence."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpnotes.lab._claim import Claim, Evidence, Finding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PAPER = "vandermaaten2020tradeoffs"
SECTION = "private-prediction-verdict"
EPSILON, DELTA = 1.0, 1e-5
ANALYSES = ("published", "tight")
N, LAMBDA = 60_000, 1e-4  # MNIST's size; a value of the paper's grid at which the worst case is nearly attained
K = math.sqrt(2)


def claim(number: int, place: str, statement: str, status: str, reason: str) -> Callable[..., Claim]:
    """Decorator that makes a claim of a function that computes its evidence."""

    def made(evidence: Callable[[], Evidence]) -> Claim:
        return Claim(number, PAPER, place, statement, status, reason, SECTION, evidence)

    return made


def evidence(method: str, *findings: Finding) -> Evidence:
    """Evidence of these findings."""
    return Evidence(method, findings)


def divergence(p: Floats, q: Floats, factor: float, *, spacing: float = 1.0) -> float:
    """Hockey-stick divergence of two probability vectors, or of two densities on a grid of that spacing."""
    return float(np.maximum(p - factor * q, 0.0).sum() * spacing)
