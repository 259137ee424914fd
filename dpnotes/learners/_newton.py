"""Binary logistic regression on many subsets of one data set at once, by Newton's
method in dual or primal form.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor
from torch.nn.functional import softplus

from dpnotes._validation import Features, Integers, array
from dpnotes.learners._devices import Group, RowSubsets
from dpnotes.learners._lbfgs import Active, gram_matrices
from dpnotes.learners._logistic import Fits, LogisticModels

HALVINGS = 30


class Newton:
    """State of k binary logistic regressions with m rows each; their objectives are
    sums over the rows.

    The coordinates are the weights [k, d]; an intercept is one more coordinate, which
    is not penalised.

    Parameters
    ----------
    rows : torch.Tensor, shape [k, m, d]
    labels : torch.Tensor, shape [k, m], 0 or 1 in the dtype of rows
    penalty : torch.Tensor, shape [k], > 0
    counts : torch.Tensor, shape [k, m], optional
        1 for a row, 0 for padding.
    intercept : bool

    Attributes
    ----------
    v : torch.Tensor, shape [k, coordinates]
    b : torch.Tensor, shape [k]
        Intercepts; 0 where they are coordinates.
    f : torch.Tensor, shape [k, m]
        Logits at (v, b).
    """

    v: Tensor

    def __init__(
        self,
        rows: Tensor,
        labels: Tensor,
        *,
        penalty: Tensor,
        counts: Tensor | None,
        intercept: bool,
    ) -> None:
        self.labels = labels
        self.penalty = penalty
        self.counts = counts
        self.intercept = intercept
        # at zero
        self.f = torch.zeros_like(labels)
        self.b = torch.zeros_like(penalty)
        self.prepare(rows)

    @staticmethod
    def memory(m: int, d: int, itemsize: int) -> tuple[int, int]:
        """Bytes of one model, and the number of them that the cache of a CPU should
        hold.
        """
        held = 2 * m * d + 2 * d * d + 20 * m
        return itemsize * held, itemsize * (2 * m * d + d * d)

    def prepare(self, rows: Tensor) -> None:
        """Set the first coordinates ``v``, and compute the values of the rows that
        the steps need.
        """
        if self.intercept:
            rows = torch.cat([rows, rows.new_ones((*rows.shape[:2], 1))], 2)
        self.rows = rows
        self.v = rows.new_zeros((len(rows), rows.shape[2]))
        self.diagonal = self.penalty[:, None].repeat(1, rows.shape[2])
        if self.intercept:
            self.diagonal[:, -1] = 0

    def residual(self) -> tuple[Tensor, Tensor]:
        """Labels minus probabilities, and the variances p (1 - p), both [k, m] and 0
        at padding.
        """
        p = self.f.sigmoid()
        r = self.labels - p
        variance = p * (1 - p)
        if self.counts is None:
            return r, variance
        return r * self.counts, variance * self.counts

    def objective(self, f: Tensor, v: Tensor, b: Tensor) -> Tensor:
        """Objective [k] at coordinates v and intercepts b, where the logits are f."""
        # not softplus(f) - labels f, whose rounding is that of f
        loss = softplus((1 - 2 * self.labels) * f)
        if self.counts is not None:
            loss = loss * self.counts
        return loss.sum(1) + self.penalised(v, v, f, b) / 2

    def penalised(self, u: Tensor, v: Tensor, f: Tensor, b: Tensor) -> Tensor:
        """Penalty times the inner product [k] of the weights at coordinates u and v;
        f are the logits at (v, b).
        """
        return (self.diagonal * u * v).sum(1)

    def gradient(self, r: Tensor) -> Tensor:
        """Compute the max-norm [k] of the gradient, or an upper bound, and save what
        the step needs.
        """
        # minus the gradient, of rows and penalty
        down = torch.bmm(r[:, None], self.rows)[:, 0]
        self._down = down.addcmul_(self.diagonal, self.v, value=-1)
        return self._down.abs().amax(1)

    def step(self, r: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute a Newton step: the changes of v, b and f."""
        scaled = self.rows * variance.sqrt()[:, :, None]
        H = torch.bmm(scaled.mT, scaled)
        H.diagonal(dim1=1, dim2=2).add_(self.diagonal)
        factor = torch.linalg.cholesky_ex(H)[0]
        dv = torch.cholesky_solve(self._down[:, :, None], factor)[:, :, 0]
        return dv, torch.zeros_like(self.b), torch.bmm(dv[:, None], self.rows.mT)[:, 0]

    def solution(self, v: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Convert coordinates of all models, in the original numbering, to weights
        [k, d] and intercepts [k].
        """
        return (v[:, :-1], v[:, -1]) if self.intercept else (v, b)

    def keep(self, models: Tensor) -> None:
        """Drop all models except these; attributes whose names start with ``all_``
        do not change.
        """
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor) and not name.startswith("all_"):
                setattr(self, name, value[models])


class DualNewton(Newton):
    """Newton's method for a [k, m], where w = X' a / penalty; at the minimum, a is
    labels minus probabilities.
    """

    @staticmethod
    def memory(m: int, d: int, itemsize: int) -> tuple[int, int]:
        held = m * d + 3 * m * m + 20 * m
        return itemsize * held, itemsize * (m * d + 2 * m * m)

    def prepare(self, rows: Tensor) -> None:
        self.kernel = gram_matrices(rows) / self.penalty[:, None, None]
        self.v = torch.zeros_like(self.labels)
        # of all models, also of those that are finished
        self.all_rows = rows
        self.all_penalties = self.penalty

    def penalised(self, u: Tensor, v: Tensor, f: Tensor, b: Tensor) -> Tensor:
        return (u * (f - b[:, None])).sum(1)

    def gradient(self, r: Tensor) -> Tensor:
        # the gradient in w is -X' off
        self._off = r - self.v
        self._image = torch.bmm(self._off[:, None], self.kernel)[:, 0]
        # 2-norm
        size = (self.penalty * (self._off * self._image).sum(1)).clamp_(min=0).sqrt_()
        return torch.maximum(size, r.sum(1).abs()) if self.intercept else size

    def step(self, r: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = variance.sqrt()
        B = (self.kernel * h[:, :, None]).mul_(h[:, None])
        # eigenvalues >= 1: no factorisation fails
        B.diagonal(dim1=1, dim2=2).add_(1)
        factor = torch.linalg.cholesky_ex(B)[0]
        right = (h * self._image)[:, :, None]
        if self.intercept:
            right = torch.cat([right, h[:, :, None]], 2)
        solved = torch.cholesky_solve(right, factor)
        # (I + variance K) (dv) = off - variance db, and v + dv sums to 0
        dv = self._off - h * solved[:, :, 0]
        db = torch.zeros_like(self.b)
        if self.intercept:
            along = h * solved[:, :, 1]
            db = (dv.sum(1) + self.v.sum(1)) / along.sum(1)
            dv = dv.addcmul_(along, db[:, None], value=-1)
        return dv, db, torch.bmm(dv[:, None], self.kernel)[:, 0] + db[:, None]

    def solution(self, v: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        w = torch.bmm(v[:, None], self.all_rows)[:, 0] / self.all_penalties[:, None]
        return w, b


def minimise(
    problems: Newton, tolerance: Tensor, *, max_iterations: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Minimise all problems; a model is finished as soon as its gradient is within its
    tolerance.

    Parameters
    ----------
    problems : Newton
    tolerance, max_iterations
        See :func:`dpnotes.learners._lbfgs.minimise`.

    Returns
    -------
    weights : torch.Tensor, shape [k, d]
    intercept : torch.Tensor, shape [k]
    gradient_norm : torch.Tensor, shape [k]
        Max-norm of the gradient at the result, or an upper bound of it.
    iterations : torch.Tensor of int64, shape [k]
    """
    active = Active(tolerance, max_iterations, problems.v, problems.b)
    for iteration in range(max_iterations + 1):
        r, variance = problems.residual()
        # before a step: a start at the minimum takes no iteration
        if active.finish(iteration, problems.gradient(r), problems.v, problems.b):
            break
        if (left := active.left()) is not None:
            problems.keep(left)
            r = r[left]
            variance = variance[left]
            # of the models that are left, for their step
            problems.gradient(r)
        _damped(problems, *problems.step(r, variance), r)
    v, b, norms = active.results
    return *problems.solution(v, b), norms, active.iterations


def _damped(problems: Newton, dv: Tensor, db: Tensor, df: Tensor, r: Tensor) -> None:
    """Go along the step, halved until the objective falls by a fraction of what its
    derivative promises.
    """
    # where the step starts
    before = problems.objective(problems.f, problems.v, problems.b)
    # of two nearly equal objectives
    rounding = 4 * torch.finfo(before.dtype).eps * before.abs()
    derivative = problems.penalised(problems.v, dv, df, db) - (r * df).sum(1)
    t = torch.ones_like(before)
    for _ in range(HALVINGS):
        f = torch.addcmul(problems.f, df, t[:, None])
        v = torch.addcmul(problems.v, dv, t[:, None])
        b = torch.addcmul(problems.b, db, t)
        enough = before + 1e-4 * t * derivative + rounding
        # NaN is too high as well
        high = ~(problems.objective(f, v, b) <= enough)
        if not bool(high.any()):
            break
        # each model has its own length
        t = torch.where(high, t / 2, t)
    problems.f = f
    problems.v = v
    problems.b = b


def fit_binary_logistic(
    X: Features,
    y: NDArray[np.integer],
    subsets: RowSubsets,
    *,
    l2: ArrayLike,
    intercept: bool = True,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    dtype: DTypeLike | None = np.float64,
    device: str = "auto",
    chunk: int | None = None,
) -> LogisticModels:
    """Fit one binary logistic regression to each subset of the rows.

    Model k minimises F(w, b) = 1/m sum_i log(1 + exp(-s_i (w'x_i + b))) + l2/2 |w|^2,
    with s_i = 2 y_i - 1, over the m rows of its subset. Damped Newton steps continue
    until the max-norm of the gradient is within ``tolerance``. scikit-learn's C is 1/(m
    l2). The linear system of a step is m x m (dual) for m <= d; otherwise it has the
    size of the weights. The result depends neither on the other models nor, up to
    rounding, on ``chunk``.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n], 0 or 1
    subsets : ndarray of int, shape [M, m], or a sequence of M arrays of row indices
        Row indices of each model, of any lengths >= 1. Repeats are allowed and count as
        often as they occur.
    l2 : float or array [M], > 0
        Weight of the L2 term, for all models or for each.
    intercept : bool
        Whether to fit an intercept b, which is not penalised. For a penalised
        intercept, append a constant feature to X.
    tolerance : float, > 0
    max_iterations : int, >= 0
        Largest number of iterations; 5 are usual at l2 = 1/m, 13 at l2 = 1e-4/m.
    dtype : float32 or float64, optional
        Precision of the computation and the result; None means the dtype of X. float32
        changes votes at weak regularisation (l2 m <= 1e-2).
    device, chunk
        See :func:`fit_multinomial_logistic`.

    Returns
    -------
    LogisticModels
        Models with ``weights`` [M, d] and ``intercept`` [M]. With an unpenalised
        intercept, there is no finite minimiser for a subset of one class. The weights
        of its model are 0, and the intercept is -inf (class 0) or +inf (class 1), which
        gives a constant vote.

    Raises
    ------
    ValueError, MemoryError
        As for :func:`fit_multinomial_logistic`, which also describes the warnings.

    Source
    ------
    Rasmussen and Williams (2006), Algorithm 3.1 (the well-conditioned dual system,
    without intercept).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> subsets = np.random.default_rng(0).permutation(569)[:560].reshape(28, 20)
    >>> models = fit_binary_logistic(X, y, subsets, l2=1 / 20, device="cpu")
    >>> models.weights.shape, bool(models.converged.all())
    ((28, 30), True)
    """
    array("l2", l2, open_low=True)
    fits = Fits(X, y, subsets, 2, l2, tolerance, max_iterations, dtype, device, chunk)
    d = fits.X.shape[1]
    rows = fits.subsets
    sizes = rows.sizes
    order = rows.by_size()
    # records of class 1
    second = np.add.reduceat(fits.y[rows.indices], np.cumsum(sizes) - sizes)
    groups = []
    # of one class alone, an intercept has no finite minimum
    constant = (second == 0) | (second == sizes)
    if intercept and constant.any():
        fit = partial(_constant, second=second == sizes, fits=fits)
        # nothing is held while they are made
        groups.append(Group(np.flatnonzero(constant), fit, 1))
        order = order[~constant[order]]
    # the smaller of both linear systems
    few = sizes[order] <= d
    for engine, models in ((DualNewton, order[few]), (Newton, order[~few])):
        if len(models):
            most = int(sizes[models].max())
            held, touched = engine.memory(most, d, fits.dtype.itemsize)
            fit = partial(_fitted, fits, engine=engine, intercept=intercept)
            groups.append(Group(models, fit, held, touched, fits.chunk))
    return fits.run(groups, (len(sizes), d))


def _constant(
    some: Integers, second: NDArray[np.bool_], fits: Fits
) -> tuple[Tensor, ...]:
    """Models whose subset holds one class alone, the second or the first: the limit
    of the intercept, no iterations.
    """
    # weights, gradient norm and iterations
    zeros = torch.zeros(len(some), dtype=fits.kind)
    intercept = torch.where(torch.from_numpy(second[some]), torch.inf, -torch.inf)
    return zeros[:, None].expand(-1, fits.X.shape[1]), intercept, zeros, zeros


def _fitted(
    fits: Fits,
    models: Integers,
    *,
    engine: type[Newton],
    intercept: bool,
) -> tuple[Tensor, ...]:
    """Weights, intercepts, gradient norms and iterations of some models."""
    indices, inside = fits.subsets.padded(models)
    A = fits.rows(indices)
    labels = fits.labels(indices).to(A.dtype)
    # objectives are sums over rows, tolerances are of means
    sizes = torch.from_numpy(fits.subsets.sizes[models]).to(A)
    counts = None if inside.all() else torch.from_numpy(inside).to(A)
    penalty = torch.from_numpy(fits.l2[models]).to(A) * sizes
    problems = engine(A, labels, penalty=penalty, counts=counts, intercept=intercept)
    w, b, norm, count = minimise(
        problems, fits.tolerance * sizes, max_iterations=fits.max_iterations
    )
    return w, b if intercept else torch.zeros_like(b), norm / sizes, count
