"""What the evidence on this paper has in common: the paper, its settings, a divergence."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dpnotes._validation import Floats
from dpnotes.lab import _claim

claim = partial(_claim.claim, paper="vandermaaten2020tradeoffs", section="private-prediction-verdict")
EPSILON, DELTA = 1.0, 1e-5
ANALYSES = ("published", "tight")
N, LAMBDA = 60_000, 1e-4  # MNIST's size; a value of the paper's grid at which the worst case is nearly attained
K = math.sqrt(2)


def divergence(p: Floats, q: Floats, factor: float, *, spacing: float = 1.0) -> float:
    """Hockey-stick divergence of two probability vectors, or of two densities on a grid of that spacing."""
    return float(np.maximum(p - factor * q, 0.0).sum() * spacing)
