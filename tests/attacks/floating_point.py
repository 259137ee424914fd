"""Which floating-point numbers a release can be: a lower bound of epsilon, and the
digits that are released.

The target of :func:`reachable_numbers` is a function (X, y) that gives released numbers
and the factors by which a standard normal number was multiplied; that of
:func:`teachers_of_one_batch` one that gives what votes; that of the others a function
(X, y, **parameters) that fits.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from dpnotes.accounting import audit_epsilon
from dpnotes.methods import fit_shards
from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import LINEAR, estimator, ours, table

CONFIDENCE, RUNS, DELTA = 1 - 1e-10, 60, 1e-6
RARE = slice(10, 40)  # features that only one record has


def _neighbours():
    """A table with an empty record, and one where that record is of rare features."""
    X, y = table(d=40)
    X[:, RARE] = 0
    X[5] = 0
    changed = X.copy()
    changed[5, RARE] = 0.15
    return X, changed, y


def _reachable(value, factors):
    """Whether value is the floating-point product of some number and the factors,
    one after the other.
    """
    candidates = {float(value)}
    for factor in reversed(factors):
        near = {number for v in candidates for number in _around(v / factor)}
        candidates = {number for number in near if number * factor in candidates}
    return bool(candidates)


def _around(number):
    return math.nextafter(number, -math.inf), number, math.nextafter(number, math.inf)


def _claims_exact(fitted):
    return getattr(fitted.profile_, "implementation", "exact") == "exact"


def _output_perturbation(name):
    def release(X, y):
        fitted = estimator(name)(X, y, **CALIBRATED.get(name, {}))
        sigma = (
            fitted.profile_.parameters["sigma"]
            if name == "ModelSensitivity"
            else fitted.noise_sigma_
        )
        return fitted.coef_[:, RARE].ravel(), [float(sigma)], _claims_exact(fitted)

    return release


CALIBRATED = {"NoisySGD": {"steps": 1}}


def _logits(X, y):
    # for two classes, only the difference of their logits is released
    y = np.arange(len(y)) % 3
    fitted = estimator("PredictionSensitivity")(X, y, classes=[0, 1, 2])
    sensitivity = fit_three(X, y).sensitivity(adjacency=fitted.profile_.adjacency)
    answers = fitted.decision_function(np.eye(X.shape[1])[RARE]).ravel()
    return (
        answers,
        [fitted.profile_.parameters["sigma"], sensitivity],
        _claims_exact(fitted),
    )


def fit_three(X, y):
    """Minimiser for three classes: its sensitivity is public."""
    return broken.fit_minimiser(
        X, y, n_classes=3, l2=LINEAR["l2"], intercept=False, device="cpu"
    )


def _dp_sgd(X, y):
    # one step: weights are the noisy sum over 64 = 2^6
    fitted = estimator("DPSGD")(X, y, steps=1, sample_rate=1.0)
    return (
        fitted._fitted.model.models.weights[0, :, RARE].ravel(),
        [20.0, 1 / 64],
        _claims_exact(fitted),
    )


def _as_weights(fitted):
    """Answers to unit queries, as if they were released weights."""
    return SimpleNamespace(
        coef_=fitted.decision_function(np.eye(fitted.n_features_in_)),
        profile_=fitted.profile_,
    )


def _broken(X, y):
    fitted = broken.OutputPerturbation().fit(X, y)
    return fitted.coef_[:, RARE].ravel(), [fitted.sigma_], True


@attack(
    broken=_broken,
    ours={
        name: _output_perturbation(name)
        for name in ("ModelSensitivity", "NoisySGD", "AugmentedSGD")
    }
    | {"PredictionSensitivity": _logits, "DPSGD": _dp_sgd},
)
def reachable_numbers(target):
    """Find released numbers that cannot be pure noise, and compute a lower bound on
    epsilon.
    """
    without, with_record, y = _neighbours()

    def called_member(X):
        released = [target(X, y) for _ in range(RUNS)]
        return sum(
            not all(_reachable(v, factors) for v in values if v)
            for values, factors, _ in released
        )

    true_positives, false_positives = called_member(with_record), called_member(without)
    bound = audit_epsilon(
        true_positives=true_positives,
        positives=RUNS,
        false_positives=false_positives,
        negatives=RUNS,
        delta=DELTA,
        confidence=CONFIDENCE,
    )
    claims = target(without, y)[2]
    note = "" if claims else ", and the profile does not claim to be exact"
    counts = (
        f"{true_positives} of {RUNS} releases with it and {false_positives} of {RUNS}"
        " without it"
    )
    return Evidence(
        claims and bound > 2 * LINEAR["epsilon"],
        f"epsilon >= {bound:.2f} for a claim of 0.1: the attack reports the record for"
        f" {counts}{note}",
    )


@attack(
    broken=broken.fit(broken.OutputPerturbation),
    ours=ours("ModelSensitivity", "LossPerturbation", "NoisySGD", "AugmentedSGD")
    | {
        "ModelSensitivity, pure": lambda X, y: estimator("ModelSensitivity")(
            X, y, delta=0.0
        ),
        "PredictionSensitivity": lambda X, y: _as_weights(
            estimator("PredictionSensitivity")(X, y)
        ),
        "PredictionSensitivity, pure": lambda X, y: _as_weights(
            estimator("PredictionSensitivity")(X, y, delta=0.0)
        ),
    },
)
def digits_below_the_public_grid(target):
    """Look for digits far below the noise. An exact release has none below about
    2^-24 of the noise's scale.
    """
    X, _, y = _neighbours()
    fitted = target(X, y)
    mantissa, exponent = np.frexp(fitted.coef_[fitted.coef_ != 0])
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    finest = int((exponent - 53 + np.log2(whole & -whole)).min())
    below = math.log2(np.abs(fitted.coef_).max()) - finest
    claims = (
        getattr(getattr(fitted, "profile_", None), "implementation", "exact") == "exact"
    )
    return Evidence(
        claims and below > 40,
        f"digits down to {below:.0f} binary places below the largest weight",
    )


def _teachers(name):
    return lambda X, y: (
        estimator(name)(X, y, classes=[0, 1, 2], random_state=0)._fitted.model
    )


def _in_one_unit(X, y):
    """Teachers whose weights are rounded in a unit that all of them share. Sums of one
    batch do so on some processors, and not on others.
    """
    teachers = fit_shards(X, y, n_classes=3, n_models=30, seed=0, device="cpu")
    weights = teachers.models.weights
    unit = 1e-12 * np.abs(weights).sum()
    rounded = replace(teachers.models, weights=unit * np.round(weights / unit))
    return replace(teachers, models=rounded)


@attack(
    broken=_in_one_unit,
    ours={
        "SubsampleAggregate": _teachers("SubsampleAggregate"),
        "FilteredVote": _teachers("FilteredVote"),
    },
)
def teachers_of_one_batch(target):
    """Ask teachers at their decision boundaries. Does one record change the votes of
    more than one teacher?
    """
    X, y = table(600)
    y = np.arange(len(y)) % 3
    base, neighbour = target(X, y), target(X, np.where(np.arange(len(y)) == 5, 3, y))
    n, segments = len(base.votes(X[:1])), 10
    generator = np.random.default_rng(0)
    start, end = generator.normal(size=(2, n * segments, X.shape[1]))
    teacher, own = np.repeat(np.arange(n), segments), np.arange(n * segments)
    low, high = np.zeros(len(own)), np.ones(len(own))
    first = base.votes(start)[teacher, own]
    for _ in range(60):  # the place at which a teacher's vote turns
        middle = (low + high) / 2
        same = (
            base.votes(start + middle[:, None] * (end - start))[teacher, own] == first
        )
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    changed = np.zeros(n, dtype=bool)
    for off in (
        0.0,
        *(sign * 10.0**-power for power in range(6, 17) for sign in (-1, 1)),
    ):
        asked = start + (low + off)[:, None] * (end - start)
        changed |= (base.votes(asked) != neighbour.votes(asked)).any(axis=1)
    return Evidence(
        bool(changed.sum() > 1), f"{changed.sum()} of {n} teachers change a vote"
    )
