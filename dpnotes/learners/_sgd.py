"""Plain mini-batch SGD on a binary classifier, from many seeds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes import _validation as _checks
from dpnotes.learners import _sgd_batches as plan
from dpnotes.learners._devices import choose_device
from dpnotes.learners._sgd_architecture import Architecture, architecture, initial_weights
from dpnotes.learners._sgd_engine import Job, train
from dpnotes.learners._sgd_models import arrays


@dataclass(frozen=True, eq=False)
class SGDRuns:
    """Runs of SGD that differ in their seeds.

    Parameters
    ----------
    architecture : Architecture
        Says how the p parameters lie, and computes logits.
    weights : ndarray, shape [R, p]
        After the last step.
    checkpoints : tuple of int
        Numbers of steps done at which the trajectory was recorded.
    trajectory : ndarray, shape [R, len(checkpoints), p]
    order_seeds, init_seeds : ndarrays of int64, shape [R]
        Seeds of the runs' orders and initial weights.
    """

    architecture: Architecture
    weights: NDArray[np.floating]
    checkpoints: tuple[int, ...]
    trajectory: NDArray[np.floating]
    order_seeds: NDArray[np.int64]
    init_seeds: NDArray[np.int64]

    def logits(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Log odds of class 1 after the last step: X [n, d] in, [R, n] out, in nats and the weights' dtype."""
        return self.architecture.logits(self.weights, X)


def fit_sgd(
    X: NDArray[np.floating],
    y: ArrayLike,
    *,
    n_runs: int,
    random_state: int = 0,
    order_seeds: ArrayLike | None = None,
    init_seeds: ArrayLike | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int,
    learning_rate: plan.Rate,
    last_batch: str = "keep",
    hidden: int | None = None,
    output: str = "sigmoid",
    intercept: bool = True,
    initial: str | NDArray[np.floating] = "glorot",
    initial_scale: float = 1.0,
    l2: float = 0.0,
    checkpoints: Sequence[int] = (),
    dtype: DTypeLike | None = None,
    device: str = "auto",
    chunk: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SGDRuns:
    """Train one binary classifier from each of many seeds by plain mini-batch SGD on the cross-entropy.

    Every epoch goes through the records in a fresh random order, in consecutive batches; no batch spans two epochs. A
    step is ``w -= learning_rate * (mean gradient over the batch + l2 * w)``. Run i draws its orders and its initial
    weights from two streams of its own, on the CPU: up to rounding the result depends neither on the other runs, nor
    on ``chunk``, nor on the device; more runs leave the first ones as they are.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : array of int, shape [n]
        Class codes 0 and 1.
    n_runs : int, >= 1
        R.
    random_state : int, >= 0
        Seed i of a run is spawned from it and i.
    order_seeds, init_seeds : int >= 0, or array of R of them, optional
        Seeds in place of the spawned ones; one number is the same for all runs. ``init_seeds=0`` varies the order
        under a fixed initialisation, ``order_seeds=0`` the initialisation under a fixed order.
    epochs, steps : int, >= 1
        Exactly one of them.
    batch_size : int in 1..n
        Records.
    learning_rate : float > 0, or callable, or array [steps]
        Step length, in the same at every step, as a function of the step 0, 1, ..., or one for each step.
    last_batch : {"keep", "drop"}
        Whether the rest of an epoch, less than a batch, is a batch of its own (divided by its own size) or left out.
    hidden : int, >= 1, optional
        Units of a hidden layer with ReLU; None is logistic regression.
    output : {"sigmoid", "softmax"}
        Of a network: one output unit, or one for each class.
    intercept : bool
        Of every unit.
    initial : {"glorot", "normal", "zeros"}, or array [p] or [R, p]
        ``"glorot"``: uniform on +-sqrt(6 / (fan in + fan out)), intercepts 0; ``"normal"``: every parameter, intercepts
        included, normal with standard deviation ``initial_scale``.
    initial_scale : float, > 0
    l2 : float, >= 0
        Penalty ``l2/2 |w|^2`` on all parameters, intercepts included.
    checkpoints : sequence of int in 0..steps, increasing
        Numbers of steps done after which the weights are recorded.
    dtype : float32 or float64, optional
        To train in. Default: that of X.
    device : {"auto", "cpu", "cuda", ...}
    chunk : int, >= 1, optional
        Runs trained together. Default: chosen from the memory at hand.
    progress : callable, optional
        ``progress(done, n_runs)`` after each chunk.

    Returns
    -------
    SGDRuns

    Raises
    ------
    ValueError, TypeError
        If an input is not as above, or training diverges (weights that are not finite).
    MemoryError
        If ``chunk`` runs do not fit.

    Source
    ------
    Hyland and Tople (2019), arXiv:1912.02919, Section VI-A (the setting); Glorot and Bengio (2010), Equation 16.

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> runs = fit_sgd(X, [0, 0, 1, 1], n_runs=3, epochs=20, batch_size=1, learning_rate=1.0)
    >>> (runs.logits(X) > 0).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    X = _checks.features(X)
    codes = _checks.class_codes(y, n=len(X), n_classes=2)
    model = architecture(X.shape[1], hidden=hidden, output=output, intercept=intercept)
    order, init = plan.run_seeds(n_runs, random_state, order_seeds=order_seeds, init_seeds=init_seeds)
    start = initial_weights(model, initial, init, scale=_checks.real("initial_scale", initial_scale, open_low=True))
    batches = plan.batches(len(X), batch_size=batch_size, epochs=epochs, steps=steps, last_batch=last_batch)
    job = Job(
        model,
        arrays(X, codes, (X[0], 0), model, dtype=_checks.float_dtype(dtype, X), device=choose_device(device)),
        batches,
        plan.rates(learning_rate, batches.steps),
        _checks.real("l2", l2),
        plan.recorded_steps(checkpoints, batches.steps),
        np.zeros(0, dtype=np.int64),
    )
    parts = list(train(job, start, order, chunk=chunk, progress=progress))
    return SGDRuns(
        model,
        np.concatenate([part.weights[:, 0] for part in parts]),
        job.checkpoints,
        np.concatenate([part.trajectory for part in parts]),
        order,
        init,
    )
