"""Distinguishing experiments for delta > 0: what an attacker proves stays below epsilon, and exceeds it at less noise.

Claimed is (2, 1e-5), but for loss perturbation. Of a Gaussian mechanism, 40,000 releases with the record and as many
without prove about 0.9 at 99.9 %, and 2.2 at half the noise; the rules follow from the exact distributions.
"""

import math

import numpy as np
import pytest

from dpnotes.accounting import audit_epsilon, dp_sgd_noise_multiplier, soft_vote_beta
from dpnotes.learners import fit_dp_sgd_linear
from dpnotes.mechanisms import soft_vote
from dpnotes.methods import LossPerturbation, fit_minimiser, noisy_minimisers
from dpnotes.methods._prediction_sensitivity import PredictionNoise

EPSILON, DELTA, TRIALS = 2.0, 1e-5, 40_000


def proved(member, outsider):
    """Lower bound on epsilon from decisions for "member" with and without the record."""
    return audit_epsilon(
        true_positives=int(np.sum(member)),
        positives=len(member),
        false_positives=int(np.sum(outsider)),
        negatives=len(outsider),
        delta=DELTA,
        confidence=0.999,
    )


@pytest.fixture(scope="module")
def neighbours():
    """Exact minimisers of two data sets that differ in one record, nearly as far apart as any two can be."""
    cosine, sine, m = math.sqrt(0.99), 0.1, 30_000
    half = (m - 1) // 2
    others = np.concatenate([np.tile([0.0, 0.03], (m - 1 - half, 1)), np.tile([0.0, -0.03], (half, 1))])
    y = np.concatenate([np.zeros(m - 1 - half, dtype=np.int64), np.ones(half + 1, dtype=np.int64)])
    fits = [
        fit_minimiser(np.vstack([others, row]), y, n_classes=2, l2=1e-4, intercept=False, device="cpu")
        for row in ([cosine, sine], [-cosine, sine])
    ]
    assert np.linalg.norm(fits[0].weights - fits[1].weights) > 0.98 * fits[0].sensitivity()
    return fits


def test_model_sensitivity(neighbours):
    here, there = neighbours
    shift = here.weights - there.weights
    found = []
    for noise_fraction in (1.0, 0.5):
        calls = []
        for seed, fit in enumerate(neighbours):
            models, profile = noisy_minimisers(fit, EPSILON, DELTA, n_repeats=TRIALS, seed=seed)
            released = fit.weights + noise_fraction * (models.weights - fit.weights)
            along = ((released - there.weights) * shift).sum(axis=(1, 2)) / np.linalg.norm(shift)
            calls.append(along > 2.9 * noise_fraction * profile.parameters["sigma"])
        found.append(proved(*calls))
    assert 0.7 < found[0] <= EPSILON < found[1]


def test_prediction_sensitivity(neighbours):
    """The answers to ten queries for the record itself, together (2, 1e-5)."""
    here, _ = neighbours
    answers, X = 10, np.array([[1.0, 0.0]])
    noise = PredictionNoise.of(here, EPSILON, DELTA, answers=answers, adjacency="replace-one", analysis="tight")
    clean = [(X @ fit.weights.T)[0] for fit in neighbours]
    shift = (clean[0] - clean[1]) / np.linalg.norm(clean[0] - clean[1])
    found = []
    for noise_fraction in (1.0, 0.5):
        calls = []
        for seed, logits in enumerate(clean):
            queries = np.repeat(X, answers * TRIALS, axis=0)
            drawn = noise.seeded(queries, np.random.default_rng(seed)) - clean[0]
            released = logits + noise_fraction * drawn.reshape(TRIALS, answers, 2).mean(axis=1)
            sigma = noise_fraction * noise.sigma * noise.sensitivity / math.sqrt(answers)
            calls.append((released - clean[1]) @ shift > 2.9 * sigma)
        found.append(proved(*calls))
    assert 0.7 < found[0] <= EPSILON < found[1]


def test_subsample_aggregate():
    """One record turns one of two votes; the attacker counts the answers among twenty that follow it."""
    answers, beta = 20, soft_vote_beta(EPSILON, DELTA, answers=20)
    found = []
    for noise_fraction in (1.0, 0.5):
        calls = []
        for seed, votes in enumerate(([1, 1], [2, 0])):
            drawn = soft_vote(np.tile(votes, (answers, 1)), beta=beta / noise_fraction, seed=seed, n_repeats=TRIALS)
            calls.append(drawn.sum(axis=1) > 14)
        found.append(proved(*calls))
    assert 0.7 < found[0] <= EPSILON < found[1]


def test_dp_sgd():
    """A record whose gradient is always clipped, among records of zeros: its steps on weights add up along a line.

    The thresholds, in standard deviations of the noise, are those that the exact distributions make best at these
    numbers of runs: at them 99 of 100 seeds prove more than 0.7, and more than 2.05 at half the noise.
    """
    sampling = {"sample_rate": 0.5, "steps": 2}
    multiplier = dp_sgd_noise_multiplier(EPSILON, DELTA, accountant="pld", **sampling)
    found = []
    for noise_fraction, threshold in ((1.0, 2.3), (0.5, 2.9)):
        calls = []
        for seed, X in enumerate((np.array([[0.0], [0.0], [100.0]]), np.array([[0.0], [0.0]]))):
            models = fit_dp_sgd_linear(
                X,
                np.array([0, 1, 1])[: len(X)],
                n_classes=2,
                noise_multiplier=noise_fraction * multiplier,
                clipping_norm=1e-3,
                learning_rate=1.0,
                n_repeats=TRIALS,
                seed=seed,
                normal=np.random.default_rng(seed).standard_normal,
                device="cpu",
                **sampling,
            )
            batch = sampling["sample_rate"] * len(X)  # the learner divides by it; here the attacker knows n
            along = (models.weights[:, 1, 0] - models.weights[:, 0, 0]) / math.sqrt(2) * batch / 1e-3
            calls.append(along > threshold * noise_fraction * multiplier * math.sqrt(sampling["steps"]))
        found.append(proved(*calls))
    assert 0.6 < found[0] <= EPSILON < found[1]


def test_loss_perturbation():
    """As without delta, the releases near zero tell by the volume and by the tail of the noise at once.

    Of epsilon, one half pays for the tail of the noise and the other for the volume, and no event has all of both: the
    attack proves a sixth of the claim, and exceeds it at the noise and the regulariser of four times the budget.
    """
    X, y = np.append(np.full(100, 0.045), 1.0)[:, None], np.append(np.zeros(100, dtype=np.int64), 1)
    make = {"l2": 1e-2 / 101, "intercept": False, "n": 101, "device": "cpu"}
    claimed, found = 1.0, []
    for used in (claimed, 4 * claimed):
        calls = []
        for seed, kept in enumerate((slice(101), slice(100))):
            method = LossPerturbation(used, DELTA, **make)
            models, _ = method.fit_many(X[kept], y[kept], n_classes=2, n_repeats=12_000, seed=seed)
            difference = (models.weights[:, 1, 0] - models.weights[:, 0, 0]) / math.sqrt(2)
            calls.append((difference > -1) & (difference < 0.5))
        found.append(proved(*calls))
    assert 0.1 < found[0] <= claimed < found[1]
