"""The exact minimiser of a regularised logistic loss on bounded features, from which
private linear methods start.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from dpnotes import learners
from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    at_least_one,
    one_of,
    positive,
)
from dpnotes.accounting import (
    PrivacyProfile,
    gaussian,
    gaussian_sigma,
    logistic_constants,
    minimiser_sensitivity,
    norm_noise_rate,
    pure,
)
from dpnotes.mechanisms import add_gaussian, add_norm_noise, stream

# of K/n, half the gradient that one record can change: the norm at which a fit counts
# as exact
GRADIENT_FRACTION = 1e-3
MAX_ITERATIONS = 10_000
ROW_BLOCK = 2048  # rows whose logits stay in cache while a fit is checked
ROUNDING = 1e-12  # relative error of the norm of a row that was scaled to the bound
# of the tolerance: above what float64 sums of all records are off by
ROUNDING_OF_GRADIENTS = 1e-3
ANALYSES = ("tight", "published")


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearLoss:
    """Public facts about the loss ``(1/n) sum_i CE(W x_i, y_i)`` of a linear
    classifier.

    Attributes
    ----------
    n_classes : int
    n : int
        Number by which the sum of the losses is divided.
    norm : float
        Bound on the Euclidean norm of the features, without the constant feature of a
        bias.
    intercept : bool
        Whether there is a bias, as the weight of a constant feature 1.
    gradient_fraction : float
        Largest norm of the gradient at which a fit counts as exact, as a fraction of
        K/n.
    """

    n_classes: int
    n: int
    norm: float
    intercept: bool = True
    gradient_fraction: float = GRADIENT_FRACTION

    @property
    def lipschitz(self) -> float:
        """Bound K on the norm of the gradient of one loss."""
        return logistic_constants(
            n_classes=self.n_classes, norm=self.norm, bias=self.intercept
        ).lipschitz

    @property
    def gradient_tolerance(self) -> float:
        """Largest norm of the mean objective's gradient at which a fit counts as
        exact.
        """
        return self.gradient_fraction * self.lipschitz / self.n

    def rows(self, X: Features) -> Floats:
        """Features [q, d] as float64, followed by the constant feature 1 if there is
        a bias.
        """
        # the constant feature is the last column
        rows = np.ones((len(X), X.shape[1] + int(self.intercept)))
        rows[:, : X.shape[1]] = X
        return rows

    def models(self, weights: Features) -> learners.LogisticModels:
        """Models from weights [R, C, d], with any bias in the last column and
        without diagnostics of the fit.
        """
        R, C, d = weights.shape
        # the bias is the weight of the last column
        columns = d - int(self.intercept)
        return learners.LogisticModels(
            np.ascontiguousarray(weights[:, :, :columns]),
            weights[:, :, columns] if self.intercept else np.zeros((R, C)),
        )


@dataclass(frozen=True, eq=False)
class LinearTask:
    """Records of a linear loss, checked.

    Attributes
    ----------
    loss : LinearLoss
    X : ndarray of float64, shape [m, d], or [m, d + 1] with the constant feature
    y : ndarray of int64, shape [m]
        Class codes.
    """

    loss: LinearLoss
    X: Floats
    y: Integers

    @property
    def solver_tolerance(self) -> float:
        """The tolerance for the learner, on the max-norm of the gradient of the mean
        over the m records.
        """
        entries = self.loss.n_classes * self.X.shape[1]
        # entries of that size have a Euclidean norm within the tolerance
        return (
            self.loss.gradient_tolerance
            * self.loss.n
            / max(len(self.X), 1)
            / math.sqrt(entries)
        )

    def fit(self, penalty: float, **options: Any) -> Features:
        """Weights [C, d] that minimise the sum of the losses plus ``penalty |W|^2 /
        2``, without a check.
        """
        m = len(self.X)
        n_classes = self.loss.n_classes
        if not m:
            # without records the penalty alone is minimised
            return np.zeros((n_classes, self.X.shape[1]))
        models = learners.fit_multinomial_logistic(
            self.X,
            self.y,
            np.arange(m)[None],
            n_classes=n_classes,
            l2=penalty / m,
            **options,
        )
        return np.asarray(models.weights[0])

    def minimised(
        self, weights: Floats, *, penalty: float, linear: Floats | float = 0.0
    ) -> Floats:
        """Weights [R, C, d] whose gradients are within the tolerance, from a solver's
        weights that may be outside it.

        If a gradient is not within it, accelerated descent starts from zero and takes
        at most as many steps as its theorem requires (Nesterov 2004, Theorem 2.2.2).
        Therefore no data set makes this method fail: the guarantee needs weights within
        the tolerance, and an error would reveal something about the data.

        Parameters
        ----------
        weights : ndarray of float64, shape [R, C, d]
        penalty : float
            Factor of ``|W|^2 / 2`` in the sum of the losses.
        linear : ndarray, shape [R, C, d], optional
            Linear terms of the sum of the losses.
        """
        # for the sum of the losses, with room for the rounding of a sum of records
        needed = (
            self.loss.gradient_tolerance * self.loss.n * (1 - ROUNDING_OF_GRADIENTS)
        )
        gradients = self._gradients(weights, penalty, linear)
        if (_norms(gradients) <= needed).all():
            return weights
        # the curvature of a softmax is at most 1/2, and K^2 is twice the squared norm
        smoothness = len(self.X) * self.loss.lipschitz**2 / 4 + penalty
        root = math.sqrt(penalty / smoothness)
        # for a strongly convex function; ``root`` is that of the inverse condition
        momentum = (1 - root) / (1 + root)
        start = np.zeros_like(weights)
        largest = float(_norms(self._gradients(start, penalty, linear)).max())
        # after so many steps the gap is so small that the gradient is, too
        steps = math.ceil(math.log(max(1.0, 2 * (largest / needed / root) ** 2)) / root)
        last = ahead = start
        for _ in range(steps):
            gradients = self._gradients(ahead, penalty, linear)
            if (_norms(gradients) <= needed).all():
                return ahead
            now = ahead - gradients / smoothness
            ahead = now + momentum * (now - last)
            last = now
        return last

    def _gradients(
        self, weights: Floats, penalty: float, linear: Floats | float
    ) -> Floats:
        """Gradients of the sum of the losses, shape [R, C, d]."""
        gradients = penalty * weights + linear
        flat = weights.reshape(-1, self.X.shape[1])
        for start in range(0, len(self.X), ROW_BLOCK):
            rows = self.X[start : start + ROW_BLOCK]
            labels = self.y[start : start + ROW_BLOCK]
            logits = (flat @ rows.T).reshape(*gradients.shape[:2], -1)
            residual = softmax(logits, axis=1)
            # the gradient of a loss in its logits: probabilities less the one of the label
            residual[:, labels, np.arange(len(rows))] -= 1
            moved = residual.reshape(len(flat), -1) @ rows
            gradients += moved.reshape(gradients.shape)
        return gradients


@dataclass(frozen=True, eq=False, kw_only=True)
class Minimiser(LinearLoss):
    """The exact minimiser of a regularised loss: **not private**, so release it only
    with noise.

    Attributes
    ----------
    weights : ndarray of float64, shape [C, d], or [C, d + 1] with the bias in the last
    column
        The minimiser. The norm of the gradient at these weights was checked to be at
        most ``gradient_tolerance``.
    l2 : float
    n_classes : int
    n : int
        Public number by which the sum of the losses is divided.
    norm : float
        Public bound on the Euclidean norm of the features of the fit.
    intercept : bool
    """

    weights: Floats
    l2: float

    def sensitivity(
        self, *, adjacency: str = "replace-one", analysis: str = "tight"
    ) -> float:
        """L2 sensitivity of ``weights``.

        Parameters
        ----------
        adjacency : {"replace-one", "add-remove"}
            Under add-remove, the sum of the losses is divided by the public ``n`` for
            any number of records.
        analysis : {"tight", "published"}
            ``"published"``: Lemma 1 of the paper, ``2 K / (n l2)``, for replace-one.
            ``"tight"``: the same plus the contribution of the fit's tolerance.

        Returns
        -------
        float
        """
        analysis = one_of("analysis", analysis, ANALYSES)
        if analysis == "published" and adjacency != "replace-one":
            raise ValueError(
                "the published analysis is for adjacency='replace-one', got"
                f" adjacency={adjacency!r}"
            )
        # the paper takes the minimiser for exact
        tolerance = self.gradient_tolerance if analysis == "tight" else 0.0
        return minimiser_sensitivity(
            n=self.n,
            lipschitz=self.lipschitz,
            regulariser=self.l2,
            adjacency=adjacency,
            objective="sum",
            gradient_tolerance=tolerance,
        )

    @property
    def rounding(self) -> float:
        """Bound on the contribution of floating point to the sensitivity of ``W x``,
        for x of norm 1.

        A sum of d products is off by at most ``d 2^-52 |W| |x|``. A sum of the rows of
        W in :meth:`basis` is off by at most ``C^2 2^-52 |W|``. The minimiser has ``l2
        |W| <= K`` up to its tolerance.
        """
        # of either neighbour, and 1 % for the tolerance of the minimiser
        terms: int = self.weights.shape[1] + 2 + self.n_classes**2
        return 2.02 * terms * 2.0**-52 * self.lipschitz / self.l2

    def logits(self, X: Features) -> Floats:
        """Logits [q, C] of features [q, d], which no guarantee covers."""
        return self.rows(X) @ self.weights.T

    def basis(self, delta: float, analysis: str) -> Floats:
        """Orthonormal columns [C, k] that span the noise: all axes or, for pure DP and
        ``"tight"``, vectors of sum 0.

        For any records, the minimiser's weights sum to 0 over the classes, and so do
        the logits. The reason is that the gradient of the loss sums to 0, so at the
        minimum the gradient of the regulariser, ``l2 W``, does too. The noise of pure
        DP becomes smaller if it is drawn in fewer dimensions; Gaussian noise keeps its
        size in each dimension.
        """
        if delta > 0 or analysis == "published":
            return np.eye(self.n_classes)
        return np.asarray(helmert(self.n_classes).T)

    def about(self, theorem: str, *, analysis: str) -> dict[str, str]:
        """Status, assumption, source and remark of a guarantee that rests on the
        sensitivity.
        """
        public = f"the divisor of the loss and norm={self.norm:g} are public"
        source = f"van der Maaten and Hannun (2020), Lemma 1 and {theorem}"
        about = {"status": "proved", "assumption": public, "source": source}
        about["remark"] = ""
        if analysis == "published":
            about["status"] = "assumption"
            about["assumption"] = f"the fit is the exact minimiser; {public}"
            about["remark"] = (
                f"the fit's gradient has norm at most {self.gradient_tolerance:.1e},"
                " which Lemma 1 does not count"
            )
        return about


def linear_task(
    X: Features,
    y: Integers,
    *,
    norm: float = 1.0,
    n: int | None = None,
    **public: Any,
) -> LinearTask:
    """Check that the features satisfy their bound, and append the constant feature of a
    bias.

    Raises
    ------
    ValueError
        If a row of X is longer than ``norm``, or a number is outside its range.
    """
    check_norms(X, norm)
    loss = LinearLoss(
        n=len(X) if n is None else at_least_one("n", n), norm=float(norm), **public
    )
    return LinearTask(loss, loss.rows(X), np.asarray(y, dtype=np.int64))


def fit_minimiser(
    X: Features,
    y: Integers,
    *,
    n_classes: int,
    l2: float,
    intercept: bool = True,
    norm: float = 1.0,
    n: int | None = None,
    max_iterations: int = MAX_ITERATIONS,
    device: str = "auto",
) -> Minimiser:
    """Minimise ``(1/n) sum_i CE(W x_i, y_i) + l2/2 |W|^2``, in float64, until the
    gradient is nearly 0.

    The norm of the gradient at the result, computed again, is at most 0.001 K/n, and
    the sensitivity includes this error. Here K bounds the norm of the gradient of one
    record's loss, so replacing a record changes the gradient by at most 2 K/n. A bias
    is the weight of a constant feature 1. The bias is penalised, and the sensitivity
    accounts for the constant feature.

    Parameters
    ----------
    X : ndarray of float, shape [m, d]
    y : ndarray of int, shape [m]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    l2 : float, > 0
    intercept : bool
    norm : float, > 0
        Bound on the Euclidean norm of each row of X, known beforehand. The bound must
        not be taken from the data.
    n : int, >= 1, optional
        Public number by which the sum is divided. Default: m, which is then public.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"`` for the GPU if there is one.

    Returns
    -------
    Minimiser

    Raises
    ------
    ValueError
        If a row is longer than ``norm`` (:func:`dpnotes.data.to_unit_ball` shortens
        rows), or a setting is out of range.

    Source
    ------
    Van der Maaten and Hannun (2020), Lemma 1, for the sensitivity.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> fit = fit_minimiser(X / 128, y, n_classes=10, l2=0.01, device="cpu")
    >>> fit.weights.shape, round(fit.sensitivity(), 4)
    ((10, 65), 0.2228)
    """
    l2 = positive("l2", l2)
    max_iterations = at_least_one("max_iterations", max_iterations)
    task = linear_task(X, y, n_classes=n_classes, intercept=intercept, norm=norm, n=n)
    penalty = task.loss.n * l2
    # the gradient is checked anew
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        weights = task.fit(
            penalty,
            tolerance=task.solver_tolerance,
            max_iterations=max_iterations,
            device=device,
        )
    exact = task.minimised(
        np.asarray(weights, dtype=np.float64)[None], penalty=penalty
    )[0]
    return Minimiser(**vars(task.loss), weights=exact, l2=l2)


def longest_row(X: Features) -> float:
    """Largest Euclidean norm of a row."""
    # squares of float32 beyond its range are finite in float64
    squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return math.sqrt(float(squares.max(initial=0.0)))


def check_norms(X: Features, norm: float) -> None:
    """Refuse rows that are longer than ``norm`` by more than a rounding error."""
    longest = longest_row(X)
    norm = positive("norm", norm)
    if longest > norm * (1 + ROUNDING):
        raise ValueError(
            f"X must have rows of norm at most norm={norm:g}, got a longer row; shorten"
            " them by dpnotes.data.to_unit_ball, or give a larger norm, which costs"
            " more noise"
        )


def calibrated(
    epsilon: float, delta: float, *, sensitivity: float, adjacency: str
) -> tuple[dict[str, Any], PrivacyProfile]:
    """The noise of :func:`noisy` that a vector of this sensitivity needs, and the
    guarantee of releasing it once.
    """
    if delta == 0:
        rate = norm_noise_rate(epsilon, sensitivity=sensitivity)
        return {"rate": rate}, pure(epsilon, adjacency=adjacency)
    sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    profile = gaussian(sigma=sigma, sensitivity=sensitivity, adjacency=adjacency)
    return {"sigma": sigma}, profile


def noisy(
    values: Floats,
    generator: np.random.Generator | None,
    *,
    rate: float | None = None,
    sigma: float | None = None,
    scales: Floats | None = None,
) -> Floats:
    """Add noise b of density proportional to ``exp(-rate ||b||)`` or, without a rate,
    Gaussian noise; with scales, row by row.
    """
    if rate is not None:
        return add_norm_noise(values, rate=rate, scales=scales, seed=generator)
    # one of the two is given
    assert sigma is not None
    return add_gaussian(values, sigma=sigma, scales=scales, seed=generator)


def rounded(values: Floats, scale: Floats | float) -> Floats:
    """Round values to multiples of 2^-24 of a power of two near the noise's scale,
    to remove all lower digits.
    """
    # 2^24 steps within the scale, so the digits of a record are below the noise
    step = np.frexp(scale)[1] - 25
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, -step)), step))


def streams(seed: int | None, n_repeats: int) -> list[np.random.Generator | None]:
    """Give each repeat a separate stream, the same for any number of repeats; None
    stands for the system's noise.
    """
    return [
        None if seed is None else stream(seed, r)
        for r in range(at_least_one("n_repeats", n_repeats))
    ]


def _norms(gradients: Floats) -> Floats:
    return np.asarray(np.linalg.norm(gradients, axis=(1, 2)))
