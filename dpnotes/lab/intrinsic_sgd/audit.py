"""Membership tests on the last weights of SGD, to check the epsilon that the paper
derives from its randomness.

These are the parts of :func:`dpnotes.lab.intrinsic_sgd.experiments.audit`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from dpnotes import learners
from dpnotes._validation import Features, Integers
from dpnotes.accounting import audit_delta, audit_epsilon, audit_mu, clopper_pearson
from dpnotes.lab.intrinsic_sgd.runs import Setting
from dpnotes.learners import one_thread

REAL = ("typical", "only holder")  # other records are constructed
CONFIDENCE = 0.95
RIDGE = 1e-9  # of the mean variance, for directions in which fitted runs hardly differ
SCOUTS = 4  # runs for each weight, to find the direction in which the noise is small
HELD_OUT = 4  # one in so many fitted runs sets the threshold, the others the direction


class Pair(NamedTuple):
    """A data set, the place that the record takes in it, the record, its label, and
    the feature that only it has.
    """

    X: Features
    y: Integers
    place: int
    record: Features
    label: int
    feature: int | None = None

    @one_thread()
    def ends(self, setting: Setting, *, runs: int, seed: int, device: str) -> Features:
        """Train without and with the record, and return the last weights, [runs, 2,
        p].
        """
        fitted = learners.fit_sgd(
            self.X,
            self.y,
            neighbours=[self.place],
            replacement=(self.record, self.label),
            n_runs=runs,
            random_state=seed,
            device=device,
            **setting.sgd,
        )
        return fitted.all_weights

    def initial_range(self, setting: Setting) -> tuple[float, float]:
        """Return the least and the largest value that the initial weight of the
        feature can have.
        """
        # Glorot's uniform distribution for one output
        limit = math.sqrt(6 / (self.X.shape[1] + 1))
        if setting.initial == "varied":
            return -limit, limit
        # one step, before which the weights are looked at
        start = learners.fit_sgd(
            self.X,
            self.y,
            n_runs=1,
            init_seeds=0,
            steps=1,
            batch_size=1,
            learning_rate=1.0,
            checkpoints=[0],
            dtype=np.float64,
            device="cpu",
        )
        # the start of the only run that there is
        own = float(start.trajectory[0, 0, self.feature])
        return own, own


def pair(setting: Setting, record: str, device: str) -> Pair:
    """Make a pair without record 0, which takes the place of the exchanged record in
    the data set without it.
    """
    X = setting.records.X
    y = setting.records.y
    # record 0 is in neither data set unless it takes the place
    absent = X[1:].copy()
    labels = y[1:].copy()
    place = 0
    own = (X[1], int(y[1]))
    feature = None
    if record == "quiet direction":
        own = _quiet(setting, device)
    if record in ("only holder", "own feature"):
        # the rarest feature
        feature = int((absent != 0).sum(axis=0).argmin())
        holders = np.flatnonzero(absent[:, feature])
        # its first holder; any place if nobody has it
        place = int(holders[0]) if len(holders) else 0
    if record == "only holder":
        own = (absent[place].copy(), int(labels[place]))
    if record == "own feature":
        # no other record has it
        absent[holders] = X[0]
        labels[holders] = y[0]
        absent[:, feature] = 0.0
        # the rarer class has the larger gradients
        own = (np.eye(X.shape[1])[feature], int(y.mean() < 0.5))
    absent[place] = np.where(np.arange(X.shape[1]) == feature, 0.0, X[0])
    labels[place] = y[0]
    return Pair(absent, labels, place, *own, feature)


def _quiet(setting: Setting, device: str) -> tuple[Features, int]:
    """Record along the direction in which runs differ least, as long as any, with
    the label that runs find unlikely.
    """
    X = setting.records.X
    y = setting.records.y
    seed = int(
        np.random.SeedSequence(setting.seed, spawn_key=(1,)).generate_state(1)[0]
    )
    # runs of their own, so that the test's stay fresh
    scout = Pair(X[1:].copy(), y[1:], 0, X[0], int(y[0]))
    ends = scout.ends(
        setting, runs=SCOUTS * (X.shape[1] + 1), seed=seed, device=device
    )[:, 0]
    # ascending: the quietest first
    variances, directions = np.linalg.eigh(np.cov(ends.T))
    # where nothing moves, no record has the feature
    moving = int(np.argmax(variances > RIDGE * variances.mean()))
    features = directions[:-1, moving] / np.linalg.norm(directions[:-1, moving])
    # as long as the longest record: no longer than the bound allows
    features *= setting.records.longest
    return features, int(np.append(features, 1.0) @ ends.mean(axis=0) < 0)


def likelihood_ratio(
    ends: Features, *, test_runs: int
) -> tuple[Features, float, float]:
    """Fit the test to ends [runs, 2, p]: its direction and threshold, and the distance
    in standard deviations.

    The threshold is the point at which this number of test runs should give the largest
    epsilon. If no epsilon above 0 is expected, the threshold is in the middle.
    """
    held_out = ends[: len(ends) // HELD_OUT]
    fitted = ends[len(ends) // HELD_OUT :]
    shift = (fitted[:, 1] - fitted[:, 0]).mean(axis=0)
    pooled = (np.cov(fitted[:, 0].T) + np.cov(fitted[:, 1].T)) / 2
    # directions without any variance would make it singular
    pooled += RIDGE * np.trace(pooled) / len(shift) * np.eye(len(shift))
    direction = np.linalg.solve(pooled, shift)
    along = held_out @ direction  # [held out, 2]
    scale = math.sqrt(along.var(axis=0, ddof=1).mean())
    # held-out runs: on fitted ones it would be too large
    mu = max(0.0, float((along[:, 1] - along[:, 0]).mean()) / scale)
    # in standard deviations from the mean without the record
    thresholds = np.linspace(-3, mu + 3, 181)
    true, false = (
        np.round(test_runs * special.ndtr(mean - thresholds)).astype(int).tolist()
        for mean in (mu, 0.0)
    )
    pairs = [counts(*errors, test_runs) for errors in zip(true, false, strict=True)]
    expected = [
        audit_epsilon(**counted, delta=0.0, confidence=CONFIDENCE) for counted in pairs
    ]
    threshold = (
        float(thresholds[int(np.argmax(expected))]) if max(expected) > 0 else mu / 2
    )
    return direction, float(along[:, 0].mean()) + scale * threshold, mu


def counts(true_positives: int, false_positives: int, runs: int) -> dict[str, int]:
    """Collect the counts of a test on ``runs`` with the record and as many without
    it, for the bounds.
    """
    return {
        "true_positives": true_positives,
        "positives": runs,
        "false_positives": false_positives,
        "negatives": runs,
    }


def proved(counted: dict[str, int], *, delta: float, certain: bool) -> dict[str, float]:
    """Compute what the counts prove with confidence; ``certain`` says that false
    positives are impossible.
    """
    if certain:
        tail = 2 * CONFIDENCE - 1  # all that may fail is spent on one side of one rate
        low = clopper_pearson(
            counted["true_positives"], counted["positives"], confidence=tail
        ).low
        if low > delta:
            return {"epsilon_low": math.inf, "mu_low": math.inf, "delta_low": low}
    return {
        "epsilon_low": audit_epsilon(**counted, delta=delta, confidence=CONFIDENCE),
        "mu_low": audit_mu(**counted, confidence=CONFIDENCE),
        "delta_low": float(audit_delta(**counted, epsilon=0.0, confidence=CONFIDENCE)),
    }
