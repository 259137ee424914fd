"""Speed of the accounting against opacus, and against the times that were promised.

Thread time on one thread, both sides in one process and by turns (A B A B), medians; the first call of each is left
out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier

from dpnotes.accounting import _dp_sgd_noise, gaussian_sigma, soft_vote

from ._common import Row, timed

RATE, DELTA, TOLERANCE = 0.01, 1e-5, 1e-3
EPSILONS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
STEPS = (500, 1000, 2000, 5000, 10_000)


def calibrations(small: bool) -> Row:
    """Job 7: noise multipliers for a table of (epsilon, steps)."""
    pairs = [(epsilon, steps) for epsilon in EPSILONS for steps in STEPS][:: 10 if small else 1]
    epsilons = np.array([epsilon for epsilon, _ in pairs])
    steps = np.array([steps for _, steps in pairs])
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        _dp_sgd_noise._coarse_rdp.cache_clear()  # as in a fresh process
        run = {"sample_rate": RATE, "steps": steps, "accountant": "rdp"}
        found["ours"] = np.asarray(_dp_sgd_noise.dp_sgd_noise_multiplier(epsilons, DELTA, **run))

    def theirs() -> None:
        found["opacus"] = np.array(
            [
                get_noise_multiplier(
                    target_epsilon=epsilon,
                    target_delta=DELTA,
                    sample_rate=RATE,
                    steps=count,
                    epsilon_tolerance=TOLERANCE,
                )
                for epsilon, count in pairs
            ]
        )

    fast, slow = timed(ours, theirs, repeats=1 if small else 3)
    ones = np.ones(len(pairs))
    same = _dp_sgd_noise.calibrated_rdp(
        epsilons, DELTA * ones, RATE * ones, 1.0 * steps, orders=np.array(RDPAccountant.DEFAULT_ALPHAS)
    )
    accountant = RDPAccountant()
    left = []
    for sigma, epsilon, count in zip(same, epsilons, steps, strict=True):
        accountant.history = [(float(sigma), RATE, int(count))]
        left.append(epsilon - accountant.get_epsilon(delta=DELTA))
    ratios = found["ours"] / found["opacus"]
    return Row(
        f"7. {len(pairs)} calibrations of DP-SGD",
        "no data",
        fast,
        slow,
        "opacus RDP",
        10 if small else 50,  # five of them do not repay what all share
        f"at opacus' own orders epsilon by opacus at our sigma is {min(left):.1e} to {max(left):.1e} below the target "
        f"(its tolerance: {TOLERANCE:g}); our sigma with all real orders is {ratios.min():.5f} to {ratios.max():.5f} "
        "of opacus'",
        gap=-min(left),  # epsilon above the target
        allowed=1e-6,
    )


def promised(job: str, call: Callable[[], np.ndarray | float], bar: float) -> Row:
    """Time of one call beside the time that was promised."""
    (seconds,) = timed(call, repeats=5)
    return Row(job, "no data", seconds, bar, "promised", 1, f"last value {np.ravel(call())[-1]:.6g}")


def rows(small: bool) -> Iterator[Row]:
    warnings.filterwarnings("ignore", message="Optimal order")  # opacus, on its way to sigma
    yield calibrations(small)
    draw = np.random.default_rng(7)
    epsilons, deltas = 10 ** draw.uniform(-3, 2, 10_000), 10 ** draw.uniform(-12, -1, 10_000)
    yield promised("gaussian_sigma of 10,000 pairs", lambda: np.asarray(gaussian_sigma(epsilons, deltas)), 0.05)
    yield promised(
        "soft_vote(...).compose(1000).epsilon(1e-5)",
        lambda: soft_vote(beta=0.05).compose(1000).epsilon(1e-5),
        0.5,
    )
