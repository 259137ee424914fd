"""Rows as large or as small as a dtype allows: what one of them does to a sum, and to
whether a fit succeeds.

The target of the first attacks is a function (X, y, **parameters) that fits; that of
the others clips and sums, either a small broken copy or one step of DP-SGD with noise
of 1e-9.
"""

from types import SimpleNamespace

import numpy as np

from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.disclosure import changed, compared, outcome
from tests.attacks.ours import estimator, ours, table, weights, with_certainty

X, Y = table()
CLIP = 0.5
NAIVE, OVERFLOWING = (
    broken.fit(broken.NaiveDescent),
    broken.fit(broken.OverflowingDescent),
)


def _huge(target, dtype, *sizes):
    """Evidence from outcomes with a record of ones, and of each of these sizes
    instead.
    """
    rows, labels = changed(row=np.ones(X.shape[1]) / X.shape[1])
    first = outcome(lambda: target(rows.astype(dtype), labels))
    for size in sizes:
        large = rows.astype(dtype)
        large[5] = dtype(size)
        evidence = compared(first, outcome(lambda large=large: target(large, labels)))
        if evidence.success:
            break
    return evidence


@attack(broken=OVERFLOWING, ours=with_certainty())
def huge_float32_record(target):
    """Fill one float32 record with numbers of 1e20 to 1e38. An error would be a
    membership test.
    """
    return _huge(target, np.float32, 1e20, -1e20, 1e25, -1e38)


@attack(broken=OVERFLOWING, ours=with_certainty())
def huge_float64_record(target):
    """Fill one float64 record with numbers of 1e155 to 1.7e308. Squares overflow,
    then logits and sums.
    """
    return _huge(target, np.float64, 1e155, -1e155, 1e250, -1.7e308)


@attack(broken=NAIVE, ours=ours())
def tiny_record(target):
    """Fill one record with tiny numbers, or with 0.0 or -0.0. Does the fit divide by
    a norm of 0?
    """
    first = outcome(lambda: target(X, Y))
    rows = (
        np.zeros(X.shape[1]),
        np.full(X.shape[1], 5e-324),
        np.full(X.shape[1], -0.0),
        np.full(X.shape[1], 1e-170),
    )
    found = [
        compared(first, outcome(lambda row=row: target(*changed(row=row))))
        for row in rows
    ]
    return max(found, key=lambda evidence: evidence.success)


def _clipped_sum(X, y, **parameters):
    """Sum of clipped gradients that one step of DP-SGD takes from zero weights, as
    differences of two classes.
    """
    noise = {
        "noise_multiplier": 1e-9,
        "clipping_norm": CLIP,
        "sample_rate": 1.0,
        "steps": 1,
        "learning_rate": 1.0,
    }
    return weights(estimator("DPSGD")(X, y, **noise | parameters)) * len(X) / np.sqrt(2)


def _naive_sum(X, y):
    return broken.clipped((X.T * (2 * y - 1).astype(X.dtype)).T, CLIP).sum(
        axis=0, dtype=np.float64
    )


def _largest_move(target, dtype, sizes):
    """Largest norm by which one record of any of these sizes moves the sum, in
    clipping norms.
    """
    moves, direction = [], np.ones(X.shape[1]) / np.sqrt(X.shape[1])
    empty = changed(row=np.zeros(X.shape[1]))
    base = np.asarray(target(empty[0].astype(dtype), empty[1]), dtype=np.float64)
    for size in sizes:
        rows, labels = empty[0].astype(dtype), empty[1]
        rows[5] = (direction * size).astype(dtype)
        moves.append(
            np.linalg.norm(np.asarray(target(rows, labels), dtype=np.float64) - base)
            / CLIP
        )
    moved = float(np.max(np.nan_to_num(moves, nan=np.inf)))
    return Evidence(moved > 1.05, f"the sum moves by up to {moved:.3f} clipping norms")


@attack(broken=_naive_sum, ours={"DPSGD": _clipped_sum})
def contribution_of_any_size(target):
    """Vary the size of one record from 1e-320 to 1e308. How far does the sum of
    clipped gradients move?
    """
    return _largest_move(
        target,
        np.float64,
        [10.0**power for power in (-320, -308, -160, -20, 0, 20, 153, 155, 308)],
    )


@attack(broken=_naive_sum, ours={"DPSGD": _clipped_sum})
def contribution_in_float32(target):
    """Vary the size of one float32 record from 1e-44 to 1e38. How far does the sum
    of clipped gradients move?
    """
    return _largest_move(
        target,
        np.float32,
        [10.0**power for power in (-44, -38, -22, -10, 0, 10, 18, 20, 38)],
    )


@attack(broken=_naive_sum, ours={"DPSGD": _clipped_sum})
def contribution_in_float16(target):
    """Vary the size of one float16 record. The square of a norm of 300 already
    exceeds the limit of 65504.
    """
    return _largest_move(target, np.float16, [6e-8, 1e-4, 1.0, 300.0, 60000.0])


def _sequential(X, y):
    return np.add.accumulate(X, axis=0, dtype=X.dtype)[-1]


@attack(broken=_sequential, ours={"DPSGD": _clipped_sum})
def rounding_of_long_sums(target):
    """Put one record before many small ones that float16 sums then round up. How far
    does the sum move?
    """
    without = np.full((1800, X.shape[1]), 0.0, np.float16)
    without[1:, 0] = 0.5005 * CLIP / 1024
    with_record = without.copy()
    with_record[0, 0] = CLIP
    labels = np.ones(len(without), int)
    first, second = (
        np.asarray(target(rows, labels), dtype=np.float64)
        for rows in (with_record, without)
    )
    moved = np.linalg.norm(first - second) / CLIP
    return Evidence(
        bool(moved > 1.05), f"one record moves the sum by {moved:.3f} clipping norms"
    )


@attack(
    # the default teachers of SubsampleAggregate warn here as well, but not always
    broken=OVERFLOWING,
    ours={
        name: target
        for name, target in with_certainty().items()
        if name != "SubsampleAggregate"
    },
)
def huge_float16_record(target):
    """Fill one float16 record with 60000. The largest float16 number is 65504."""
    return _huge(target, np.float16, 300.0, -300.0, 6e4, -6e4)


def _sensitivity(X, y, norm):
    return estimator("ModelSensitivity")(X, y, norm=norm).profile_.parameters[
        "sensitivity"
    ]


@attack(
    broken=lambda X, y, norm: 0.1 * np.sqrt(norm**2),
    ours={"ModelSensitivity": _sensitivity},
)
def bound_whose_square_underflows(target):
    """Set the public norm to 2.7e-162. Its square keeps one binary digit: is the
    sensitivity too small?
    """
    try:
        ratio = target(0 * X, Y, norm=2.7e-162) / 2.7e-162 / target(0 * X, Y, norm=1.0)
    except ValueError:
        return Evidence(False, "refused")
    return Evidence(
        bool(ratio < 0.99), f"the sensitivity is {ratio:.2f} of its right value"
    )


@attack(
    broken=lambda X, y, clip, multiplier: (
        clip * np.sign(X[:, 0]).sum()
        + multiplier * clip * np.random.default_rng().normal()
    ),
    ours={
        "DPSGD": (
            lambda X, y, clip, multiplier: estimator("DPSGD")(
                X,
                y,
                clipping_norm=clip,
                noise_multiplier=multiplier,
                sample_rate=1.0,
                steps=1,
                learning_rate=1e300,
            ).predict_proba(np.eye(X.shape[1]) * 1e22)
        )
    },
)
def noise_that_underflows(target):
    """Set the clipping norm to three times the smallest number. Noise of a tenth of
    this norm is rounded to 0.
    """
    rows, labels = np.zeros_like(X), np.ones_like(Y)
    rows[:, 0] = 0.9
    try:
        first, second = (
            np.asarray(target(rows, labels, 1.5e-323, 0.1)) for _ in range(2)
        )
    except ValueError:
        return Evidence(False, "refused")
    moved = np.any(first != np.asarray(target(-rows, labels, 1.5e-323, 0.1)))
    success = bool(moved and np.array_equal(first, second))
    return Evidence(success, f"two equal releases that depend on the data: {success}")


def _tolerant(X, y, noise_seed):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return SimpleNamespace(
        coef_=((2 * y - 1) @ (X / np.where(norms > 1 + 1e-6, norms, 1)))[None]
    )


@attack(
    broken=_tolerant,
    ours=ours("ModelSensitivity", "LossPerturbation", "NoisySGD", "AugmentedSGD"),
)
def rows_just_above_the_bound(target):
    """Make rows longer than the bound by 9e-7, as float32 rounding does. Do they
    count more than the bound allows?
    """
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    try:
        longer = weights(target(rows * (1 + 9e-7), Y, noise_seed=2))
    except ValueError:
        return Evidence(False, "refused")
    bounded = weights(target(rows * (1 - 1e-15), Y, noise_seed=2))
    apart = np.linalg.norm(longer - bounded)
    empty = weights(target(0 * rows, Y, noise_seed=2))
    more = apart / np.linalg.norm(bounded - empty)
    return Evidence(
        bool(more > 1e-8),
        f"relative growth of their contribution to the weights: {more:.1g}",
    )
