"""DP-SGD on softmax regressions, many at once, with per-example clipping in closed
form.

For an example x of class y with probabilities p, the gradient of weights and intercept
[C, d + 1] is the outer product of the residual p - e_y and (x, 1). Its norm is
therefore |p - e_y| sqrt(|x|^2 + 1). The clipped sum is one matrix product with scaled
residuals, and no per-example gradient is ever formed. Weights are [R, C, d + 1] and
logits [R, C, batch], with the short axis first, which is several times faster than
last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Features, Integers
from dpnotes.learners._chunks import Group, fit_groups, slices
from dpnotes.learners._descent import Rate, checked_momentum
from dpnotes.learners._devices import choose_device, full_float32
from dpnotes.learners._dp_sgd import SAFE, Normal, Settings
from dpnotes.learners._logistic_models import LogisticModels

# row numbers of batches that are drawn ahead and sent to the device at once
PLAN_ROWS = 2**18
# rows of which a copy in float64 is made at once
NORM_ROWS = 2**12


def fit_dp_sgd_linear(
    X: Features,
    y: NDArray[np.integer],
    *,
    n_classes: int,
    noise_multiplier: ArrayLike,
    clipping_norm: float,
    steps: int,
    learning_rate: Rate,
    sample_rate: float,
    n_records: int,
    momentum: float = 0.0,
    n_repeats: int | None = None,
    shared_batches: bool = False,
    seed: int,
    normal: Normal | None = None,
    dtype: str | type | None = None,
    device: str = "auto",
    chunk: int | None = None,
) -> LogisticModels:
    """Fit softmax regressions with intercepts by DP-SGD from zero weights, all on the
    same rows.

    In each step the gradient g of every example of the batch is scaled by exactly
    ``min(1, clipping_norm / |g|)``. The sum gets independent normal noise of standard
    deviation ``noise_multiplier * clipping_norm`` on each coordinate, and is divided by
    the *expected* batch size. With an empty batch a step consists only of noise. The
    momentum sees the data only through the noisy sums. Rows of any size are scaled by
    powers of two, and an example whose logits exceed the range of the dtype counts as
    an example of gradient 0.

    An example moves the sum by at most the clipping norm, whatever numbers it holds: its
    norm is clipped to a bound below, by 2^-18 of it in float32 and 2^-40 in float64,
    which covers the rounding of norms and products (of up to about 10,000 numbers).
    Products keep all digits of float32. What remains is the rounding of the addition:
    with b examples in a batch at most b^2 u clipping norms, for the unit roundoff u of
    the dtype, and independent of what the examples hold.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    noise_multiplier : float or array_like of float, shape [n_models], >= 0
        Ratio of the standard deviation of the noise to the clipping norm, without a
        unit; an array gives one model for each entry.
    clipping_norm : float, > 0
        Largest L2 norm of an example's gradient over weights and intercept together;
        ``inf`` is allowed only without noise.
    steps : int, >= 1
    learning_rate : float > 0, or array_like [steps], or callable of the step 0, 1, ...
    sample_rate : float in (0, 1]
        Probability that a given row is in a batch.
    n_records : int, >= 1
        Public number of records, which scales the steps: a sum is divided by ``sample_rate
        * n_records``, the expected size of a batch. It is a constant of the caller, and
        the number of rows changes nothing but the batches. Where the number of records
        is public, this is that number, with empty records, which have no row and move
        no sum. Where it is protected (add-remove), it must not depend on the data.
    momentum : float in [0, 1)
        Momentum in v <- momentum v + gradient; weights <- weights - learning_rate v.
    n_repeats : int, >= 1, optional
        Number of models with the same noise multiplier; by default 1.
    shared_batches : bool
        Whether all models see the batches of model 0 and differ only in their noise.
        This is much faster, because the models become columns of one product. Only
        their noise is then independent.
    seed : int, >= 0
    normal : callable, optional
        Source of the noise: ``normal(size)`` returns that many standard normal numbers
        in float64, regardless of the seed and the device. By default the noise comes
        from streams of the seed.
    dtype : {float32, float64}, optional
        Precision of the training; by default the dtype of X. Noise is drawn in float64
        and rounded.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU if there is one. Batches are drawn on the CPU and noise on
        the device, so noisy models depend on the kind of device.
    chunk : int, >= 1, optional
        Number of models trained at once; by default chosen from the available memory.
        Results with different chunks agree up to rounding.

    Returns
    -------
    LogisticModels
        Models whose ``iterations`` are the numbers of steps. The function does not test
        whether they have converged, because the test would use the data without noise:
        ``gradient_norm`` is NaN and ``converged`` is false.

    Raises
    ------
    ValueError
        If shapes disagree, an entry is not finite, a setting is out of its range, or
        training diverges: weights after a step, including the noise, exceed the range
        of the dtype.

    Source
    ------
    Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, with Poisson sampling.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> models = fit_dp_sgd_linear(
    ...     X / 64,
    ...     y,
    ...     n_classes=10,
    ...     noise_multiplier=[0.0, 1.0],
    ...     clipping_norm=0.5,
    ...     sample_rate=0.1,
    ...     n_records=len(X),
    ...     steps=200,
    ...     learning_rate=8.0,
    ...     seed=0,
    ... )
    >>> (models.votes(X / 64) == y).mean(axis=1) > 0.8
    array([ True,  True])
    """
    X = check.features(X)
    classes = check.at_least("n_classes", n_classes, 2)
    y = check.class_codes(y, n=len(X), n_classes=classes)
    repeats = None if n_repeats is None else check.at_least("n_repeats", n_repeats, 1)
    kind, where = check.float_dtype(dtype, X), choose_device(device)
    data = torch.tensor(X, dtype=getattr(torch, kind.name), device=where)
    settings = Settings(
        data,
        noise_multiplier,
        clipping_norm,
        learning_rate,
        steps,
        sample_rate,
        n_records,
        seed,
        normal,
        repeats,
    )
    scaled = _scaled(data, settings.clipping_norm)
    job = _Job(
        *scaled,
        torch.tensor(y, device=where),
        classes,
        settings,
        checked_momentum(momentum),
        shared_batches,
    )
    n_models, d, batch = (
        len(settings.noise_multiplier),
        X.shape[1],
        int(settings.expected_batch),
    )
    rows = 0 if shared_batches else batch
    bytes_per_model = (
        kind.itemsize * (rows * d + 5 * classes * (d + 1) + 4 * classes * batch) + 1
    )
    weights, constant = (
        np.empty((n_models, classes, d), kind),
        np.zeros((n_models, classes), kind),
    )
    group = Group(np.arange(n_models), job.train, bytes_per_model, chunk=chunk)
    with full_float32():
        fit_groups([group], [weights, constant], device=where)
    unknown, iterations = np.full(n_models, np.nan, kind), np.full(n_models, steps)
    return LogisticModels(
        weights, constant, unknown, iterations, np.zeros(n_models, np.bool_)
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """What all models share.

    Parameters
    ----------
    X : torch.Tensor, shape [n, d]
        Rows, each times its scale.
    squares : torch.Tensor, shape [n]
        Squared norms of these rows with the constant 1 of the intercept, times the
        scale as well.
    scales : torch.Tensor, shape [n], or None
        None: all are 1.
    y : torch.Tensor of int64, shape [n]
    n_classes : int
    settings : Settings
    momentum : float
    shared_batches : bool
    """

    X: Tensor
    squares: Tensor
    scales: Tensor | None
    y: Tensor
    n_classes: int
    settings: Settings
    momentum: float
    shared_batches: bool

    def train(self, models: Integers) -> list[Tensor]:
        """Weights [len(models), C, d] and intercepts [len(models), C] after the last
        step.
        """
        settings, d, device = self.settings, self.X.shape[1], self.X.device
        # the last column is the intercept
        weights = self.X.new_zeros(len(models), self.n_classes, d + 1)
        velocity = torch.zeros_like(weights) if self.momentum else None
        noise = settings.noise(models, weights[0].numel(), device)
        draws = [
            settings.batches(i)
            for i in ([0] if self.shared_batches else models.tolist())
        ]
        clipped = _ClippedSums(self, weights)
        planned = _planned(draws, len(settings.rates), settings.expected_batch, device)
        for (batch, counts), rate in zip(planned, settings.rates, strict=True):
            gradient = clipped(batch, counts)
            if noise is not None:
                gradient += noise.draw().view(gradient.shape).to(gradient.dtype)
            gradient /= settings.expected_batch
            if velocity is not None:
                gradient = velocity.mul_(self.momentum).add_(gradient)
            weights.sub_(gradient, alpha=float(rate))
        # No sum of clipped gradients is infinite. So this depends on the rows through
        # the noisy sums alone, which the guarantee covers: the error is a function of
        # what is released, like the weights.
        if not weights.isfinite().all():
            raise ValueError(
                "training diverged: weights are not finite; lower"
                f" learning_rate={settings.rates.max():g}"
            )
        return [weights[:, :, :d], weights[:, :, d]]


def _scaled(X: Tensor, clipping_norm: float) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows, their squared norms with the constant 1 and their scales; X is changed.

    A scale is 1, or for a row whose norm is too large to be squared, or to be
    multiplied by a residual whose square is not normal, the power of two that brings
    its largest entry to [1, 2).
    """
    most = torch.finfo(X.dtype).max
    X.clamp_(-most, most)  # entries that are beyond the dtype they were converted to
    norms = _norms(X)
    huge = norms > SAFE[X.dtype][1] * min(1.0, clipping_norm)
    if not huge.any():
        return X, (norms.square() + 1.0).to(X.dtype), None
    exponents = (torch.frexp(X.abs().amax(1)).exponent - 1).clamp(min=0) * huge
    scales = torch.from_numpy(np.ldexp(1.0, -exponents.cpu().numpy())).to(X)
    X *= scales[:, None]
    return X, (_norms(X).square() + scales.square()).to(X.dtype), scales


def _norms(X: Tensor) -> Tensor:
    """L2 norms [n] of rows, in float64: in float32 equal entries of a long row add up
    to an error of 1e-5.
    """
    parts = [
        torch.linalg.vector_norm(X[part], dim=1, dtype=torch.float64)
        for part in slices(len(X), NORM_ROWS)
    ]
    return torch.cat(parts)


def _planned(
    draws: list[Iterator[Integers]], steps: int, expected: float, device: torch.device
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Each step's rows [len(draws), largest batch] on the device; which of them
    count, None if all do.
    """
    ahead = max(1, int(PLAN_ROWS / (len(draws) * max(expected, 1))))
    for start in range(0, steps, ahead):
        blocks, counts = [], []
        for _ in range(min(ahead, steps - start)):
            drawn = [next(draw) for draw in draws]
            sizes = np.array([len(rows) for rows in drawn])
            # [len(draws), largest batch]
            counts.append(np.arange(sizes.max()) < sizes[:, None])
            blocks.append(np.zeros(counts[-1].shape, np.int64))
            blocks[-1][counts[-1]] = np.concatenate(drawn)
        held = torch.from_numpy(np.concatenate([block.ravel() for block in blocks])).to(
            device
        )
        for batch, count in zip(
            torch.split(held, [count.size for count in counts]), counts, strict=True
        ):
            yield (
                batch.view(count.shape),
                None if count.all() else torch.from_numpy(count).to(device),
            )


class _ClippedSums:
    """Sums of clipped gradients of some models at their weights [R, C, d + 1], in
    memory that each call uses again.
    """

    def __init__(self, job: _Job, weights: Tensor) -> None:
        self._job, self._weights = job, weights
        self._sums, self._rows = (
            torch.zeros_like(weights),
            job.X.new_empty(0, job.X.shape[1]),
        )

    def __call__(self, batch: Tensor, counts: Tensor | None) -> Tensor:
        """Sums [R, C, d + 1] over the rows ``batch`` [1 or R, B], of which those in
        ``counts`` are in the batch.
        """
        job, (groups, size), (models, classes, columns) = (
            self._job,
            batch.shape,
            self._weights.shape,
        )
        if size == 0:
            return self._sums.zero_()
        d, flat = columns - 1, batch.flatten()
        if len(self._rows) < len(flat):
            self._rows = job.X.new_empty(len(flat), d)
        x = torch.index_select(job.X, 0, flat, out=self._rows[: len(flat)]).view(
            groups, size, d
        )
        target = job.y[batch].view(groups, 1, size).expand(models, 1, size)
        # with shared batches (one group) all models' classes are rows of one product
        residual = torch.bmm(self._weights[:, :, :d].reshape(groups, -1, d), x.mT).view(
            models, classes, size
        )
        scales = None if job.scales is None else job.scales[batch]
        if scales is not None:
            residual /= scales[:, None]
        residual += self._weights[:, :, d:]
        residual = torch.softmax(residual, dim=1)
        residual.scatter_add_(1, target, residual.new_full((), -1).expand(target.shape))
        residual.nan_to_num_()  # all classes of an example are NaN, or none
        squares = residual.square().sum(1).view(models, size)
        factor = job.settings.bound / (squares * job.squares[batch]).sqrt_()
        if scales is None:
            factor.clamp_(max=1)
        # a residual whose square is not normal counts as 0 where the row is large
        else:
            lost = (squares < SAFE[x.dtype][1] ** -2) & (scales < 1)
            factor = torch.minimum(factor, 1 / scales).masked_fill(lost, 0)
        if counts is not None:
            factor = factor * counts
        residual *= factor[:, None]
        self._sums[:, :, :d] = torch.bmm(residual.view(groups, -1, size), x).view(
            models, classes, d
        )
        self._sums[:, :, d] = (
            residual.sum(2) if scales is None else (residual * scales[:, None]).sum(2)
        )
        return self._sums
