"""Speed of the accounting against opacus, and against the times that were promised.

Thread time on one thread, both sides in one process and by turns (A B A B), medians; the first call of each is left
out. Run as ``python benchmarks/accounting.py [--small]``. Prints each figure beside its bar and always exits with 0.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier

from dpnotes.accounting import _dp_sgd

RATE, DELTA, TOLERANCE = 0.01, 1e-5, 1e-3
EPSILONS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
STEPS = (500, 1000, 2000, 5000, 10_000)


def timed(*sides: Callable[[], object], repeats: int) -> list[float]:
    """Median thread time of each side in seconds, taken by turns after one call that does not count."""
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats + 1):
        for side, times in zip(sides, seconds, strict=True):
            start = time.thread_time()
            side()
            times.append(time.thread_time() - start)
    return [statistics.median(times[1:]) for times in seconds]


def calibrations(small: bool) -> None:
    pairs = [(epsilon, steps) for epsilon in EPSILONS for steps in STEPS][:: 10 if small else 1]
    epsilons = np.array([epsilon for epsilon, _ in pairs])
    steps = np.array([steps for _, steps in pairs])
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        _dp_sgd._coarse_rdp.cache_clear()  # as in a fresh process
        found["ours"] = np.asarray(_dp_sgd.dp_sgd_noise_multiplier(epsilons, DELTA, sample_rate=RATE, steps=steps))

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
    line(
        f"{len(pairs)} DP-SGD calibrations",
        f"{fast:.3f} s",
        f"opacus RDP {slow:.2f} s",
        slow / fast,
        5 if small else 50,
    )
    ones = np.ones(len(pairs))
    same = _dp_sgd.calibrated_rdp(
        epsilons, DELTA * ones, RATE * ones, 1.0 * steps, orders=np.array(RDPAccountant.DEFAULT_ALPHAS)
    )
    accountant = RDPAccountant()
    left = []
    for sigma, epsilon, count in zip(same, epsilons, steps, strict=True):
        accountant.history = [(float(sigma), RATE, int(count))]
        left.append(epsilon - accountant.get_epsilon(delta=DELTA))
    print(
        f"  at opacus' own orders: epsilon by opacus at our sigma is {min(left):.1e} to {max(left):.1e} below the "
        f"target (its tolerance: {TOLERANCE:g});\n  sigma / opacus' sigma: {(same / found['opacus']).min():.5f} to "
        f"{(same / found['opacus']).max():.5f}; with all real orders {(found['ours'] / found['opacus']).min():.5f} to "
        f"{(found['ours'] / found['opacus']).max():.5f}"
    )


def promised(module: str, name: str, label: str, call: Callable[[Callable[..., object]], object], bar: float) -> None:
    """Time of something that may not be there yet, beside its bar in seconds."""
    try:
        function = getattr(importlib.import_module(f"dpnotes.accounting.{module}"), name)
    except (ImportError, AttributeError):
        print(f"{label:42} not there")
        return
    (seconds,) = timed(lambda: call(function), repeats=5)
    line(label, f"{seconds:.4f} s", f"bar {bar:g} s", bar / seconds, 1)


def line(label: str, ours: str, other: str, ratio: float, bar: float) -> None:
    verdict = "met" if ratio >= bar else "MISSED"
    print(f"{label:42} {ours:>10}   {other:>20}   ratio {ratio:7.1f}   bar {bar:g}   {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="5 calibrations in place of 50, and a bar of 5")
    small = parser.parse_args().small
    warnings.filterwarnings("ignore", message="Optimal order")  # opacus, on its way to sigma
    calibrations(small)
    draw = np.random.default_rng(7)
    epsilons, deltas = 10 ** draw.uniform(-3, 2, 10_000), 10 ** draw.uniform(-12, -1, 10_000)
    promised("_calibration", "gaussian_sigma", "gaussian_sigma, 10,000 pairs", lambda f: f(epsilons, deltas), 0.05)
    promised(
        "_soft_vote",
        "soft_vote",
        "soft_vote(...).compose(1000).epsilon(1e-5)",
        lambda f: f(beta=0.05).compose(1000).epsilon(1e-5),  # type: ignore[attr-defined]
        0.5,
    )


if __name__ == "__main__":
    main()
