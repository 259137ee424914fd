"""Regularised empirical risk: how far one record moves the minimiser, and noise on the
minimiser or on the loss.

Loss perturbation. The minimiser W of ``sum_i loss_i(W) + <b, W> + regulariser |W|^2 /
2`` determines b, so the density of W is the density of b times the determinant of the
Jacobian. A record (x, y) adds ``g = (p - e_y) x^T`` to the gradient, where p are the
class probabilities and e_y is the label as a one-hot vector. The Hessian of the
record's loss is added to the Jacobian.

Volume. This Hessian has rank at most C - 1 and trace at most (1 - 1/C) |x|^2. So adding
a record multiplies the determinant by at most ``exp(c)``, ``c = (C - 1) log(1 + R^2 /
(C regulariser))``, and removing a record does not increase it.

Noise of density proportional to ``exp(-rate sum_c |b_c|)``. The exponent changes by at
most ``2 R rate``, because the norms of the rows of g sum to ``|p - e_y|_1 |x| <= 2 R``.

Gaussian noise. The change of the exponent, ``(2 <b, g> + |g|^2) / (2 sigma^2)``, is
convex in g, which lies in the polytope with the vertices 0 and ``v_c = (e_c - e_y)
x^T`` for the C - 1 other classes. So the change is at most the largest of 0 and the
losses L_c of the fixed shifts v_c. It no longer matters that g depends on b. The L_c
are jointly normal, and the largest of them grows with |x|. If one record is replaced, g
is a difference of points of two such polytopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting._calibrate import gaussian_sigma
from dpnotes.accounting._curves import LARGEST_DELTA, largest_mu
from dpnotes.accounting._kinds import LevelsRelease, Release
from dpnotes.accounting._profile import ADJACENCIES, PrivacyProfile, describe

GRID = 65  # values of delta' in each round of the published search; its minimum is flat
ROUNDS = 8
LIMIT = math.sqrt(2)  # of the norm of softmax(a) - e_y
SOURCE = (
    "the private-prediction chapter: convexity of the loss in the gradient, after"
    " Chaudhuri et al. (2011)"
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
MARGIN = 1e-9  # relative, above the error of quadrature and interpolation
FAR = 9.0  # standard deviations: beyond, a tail has fallen by another factor of 1e-17
# of the table of a maximum, in standard deviations
STEP = 0.05
LOWEST = -9.0
HIGHEST = 38.0
BISECTIONS = 60


@dataclass(frozen=True)
class LogisticConstants:
    """Bounds on the derivatives of the multi-class logistic loss as a function of the
    weights.

    Attributes
    ----------
    lipschitz : float
        Bound K on the norm of the gradient.
    smoothness : float
        Largest eigenvalue L of the Hessian.
    rank : int
        Largest rank of the Hessian.
    trace : float
        Largest trace of the Hessian.
    """

    lipschitz: float
    smoothness: float
    rank: int
    trace: float


def logistic_constants(
    *, n_classes: int, norm: float = 1.0, bias: bool = False
) -> LogisticConstants:
    """Lipschitz and Hessian constants of the cross-entropy of softmax(theta^T x).

    Parameters
    ----------
    n_classes : int, >= 2
    norm : float, > 0
        Bound on the Euclidean norm of the features x.
    bias : bool
        Whether a constant feature 1 is appended to x, which adds 1 to the squared norm.

    Returns
    -------
    LogisticConstants
        At norm 1 and without bias, the constants are ``sqrt(2)``, ``1/2``, ``n_classes
        - 1`` and ``1 - 1/n_classes``. None of these bounds can be improved.

    Raises
    ------
    ValueError
        If there are fewer than two classes or the norm is not positive and finite.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorems 9 and 10; rank and trace are shown in the
    private-prediction chapter.

    Examples
    --------
    >>> constants = logistic_constants(n_classes=10)
    >>> (
    ...     round(constants.lipschitz, 6),
    ...     constants.smoothness,
    ...     constants.rank,
    ...     constants.trace,
    ... )
    (1.414214, 0.5, 9, 0.9)
    """
    n_classes = check.at_least("n_classes", n_classes, 2)
    square = squared_norm(norm, bias)
    return LogisticConstants(
        LIMIT * math.sqrt(square),
        square / 2,
        n_classes - 1,
        (1 - 1 / n_classes) * square,
    )


def minimiser_sensitivity(
    *,
    lipschitz: float,
    n: int,
    regulariser: float,
    adjacency: str = "replace-one",
    objective: str = "mean",
    gradient_tolerance: float = 0.0,
) -> float:
    """L2 sensitivity of the minimiser of ``(1/n) sum_i loss_i(theta) + regulariser *
    R(theta)``.

    The losses must be convex and R must be 1-strongly convex, for example ``||theta||^2
    / 2``.

    Parameters
    ----------
    lipschitz : float, > 0
        Bound K on the norm of one loss's gradient in theta.
    n : int, >= 1
        Number of records, in the larger of two neighbouring data sets.
    regulariser : float, > 0
        Factor lambda of R in the *mean* objective.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Relation between neighbouring data sets; under zero-out an empty record has no
        loss.
    objective : {"mean", "sum"}
        Divisor of the sum of the losses; the choice matters only for add-remove.
        ``"mean"`` divides by the number of records, which differs between neighbours.
        ``"sum"`` divides by a fixed public ``n``.
    gradient_tolerance : float, >= 0
        Norm of the objective's gradient at the point that is released; 0 for the exact
        minimiser. The norm should be far below ``lipschitz / n``.

    Returns
    -------
    float
        L2 sensitivity in the units of theta.

    Raises
    ------
    ValueError
        If a parameter is outside its range or an option is invalid.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Corollary 8; van der Maaten and Hannun
    (2020), Lemma 1.

    Examples
    --------
    >>> round(minimiser_sensitivity(lipschitz=2**0.5, n=60_000, regulariser=1e-2), 9)
    0.004714045
    """
    lipschitz = check.positive("lipschitz", lipschitz)
    n = check.at_least_one("n", n)
    regulariser = check.positive("regulariser", regulariser)
    tolerance = check.real("gradient_tolerance", gradient_tolerance)
    adjacency = check.one_of("adjacency", adjacency, ADJACENCIES)
    objective = check.one_of("objective", objective, ("mean", "sum"))
    # a replaced record takes its gradient away and brings another
    records = 2
    if adjacency == "zero-out" or (adjacency, objective) == ("add-remove", "sum"):
        records = 1
    return (records * lipschitz / n + 2 * tolerance) / regulariser


def norm_noise_rate(epsilon: float, *, sensitivity: float, answers: int = 1) -> float:
    """Rate at which noise with density proportional to ``exp(-rate ||b||_2)`` makes all
    answers together epsilon-DP.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy level of all the answers together.
    sensitivity : float, > 0
        L2 distance between one answer's values on adjacent data sets.
    answers : int, >= 1
        Number of releases, each with independent noise.

    Returns
    -------
    float
        ``epsilon / (answers * sensitivity)``, in inverse units of the answer. In d
        dimensions the norm of the noise is Gamma distributed with shape d and this
        rate, and each coordinate has variance ``(d + 1) / rate^2``.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011); van der Maaten and Hannun (2020), Theorems
    1 and 5.

    Examples
    --------
    >>> norm_noise_rate(1.0, sensitivity=0.5, answers=4)
    0.5
    """
    epsilon = check.positive("epsilon", epsilon)
    sensitivity = check.positive("sensitivity", sensitivity)
    return epsilon / (check.at_least_one("answers", answers) * sensitivity)


def prediction_sensitivity_sigma(
    epsilon: float,
    delta: float,
    *,
    answers: int,
    sensitivity: float = 1.0,
    analysis: str = "tight",
) -> float:
    """Sigma of Gaussian noise at which ``answers`` predictions, adaptively chosen, are
    (epsilon, delta)-DP together.

    Parameters
    ----------
    epsilon : float, >= 0
    delta : float, in (0, 1)
    answers : int, >= 1
        Number of predictions.
    sensitivity : float, > 0
        L2 distance between one answer's values on adjacent data sets, in the units of
        the answer.
    analysis : {"tight", "published"}
        ``"tight"``: Gaussian releases compose exactly to one Gaussian release, so the
        noise is ``sqrt(answers)`` times the noise for one answer. ``"published"``: the
        smaller of the noise by basic composition and the noise by advanced composition.
        Advanced composition splits delta into a part delta' and equal parts for the
        answers; the best delta' is used.

    Returns
    -------
    float
        Standard deviation of the noise on each coordinate, in the units of the answer.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Dong, Roth and Su (2022), Corollary 3.3; van der Maaten and Hannun (2020), Theorem 6
    for the published search. The proof of Theorem 6 is repaired with Kairouz, Oh and
    Viswanath (2015), Theorem 3.4.

    Examples
    --------
    >>> round(prediction_sensitivity_sigma(1.0, 1e-5, answers=100), 4)
    37.3063
    >>> round(
    ...     prediction_sensitivity_sigma(1.0, 1e-5, answers=100, analysis="published"),
    ...     4,
    ... )
    197.602
    """
    answers = check.at_least_one("answers", answers)
    sensitivity = check.positive("sensitivity", sensitivity)
    analysis = check.one_of("analysis", analysis, ("tight", "published"))
    once = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    if analysis == "tight":
        return math.sqrt(answers) * once
    # an answer at a time, each with an equal part of epsilon and delta
    basic = gaussian_sigma(epsilon / answers, delta / answers)
    return sensitivity * min(basic, advanced_sigma(epsilon, delta, answers))


def advanced_sigma(epsilon: float, delta: float, answers: int) -> float:
    """Least sigma / sensitivity that advanced composition allows, with the best
    fraction of delta as delta'.
    """
    low = 1e-9
    high = 1 - 1e-9
    least = math.inf
    # a grid of fractions, then finer ones around its best
    for _ in range(ROUNDS):
        fractions = np.linspace(low, high, GRID)
        slack = np.log(1 / (fractions * delta))
        roots = np.sqrt(slack + epsilon) + np.sqrt(slack)
        # the epsilon of one answer, sqrt(2 / B) (sqrt(slack + epsilon) - sqrt(slack))
        each = np.sqrt(2 / answers) * epsilon / roots
        sigmas = np.asarray(gaussian_sigma(each, (1 - fractions) * delta / answers))
        best = int(sigmas.argmin())
        least = min(least, float(sigmas[best]))
        low = fractions[max(best - 1, 0)]
        high = fractions[min(best + 1, GRID - 1)]
    return least


def squared_norm(norm: float, bias: bool) -> float:
    """Largest squared norm of the features, including the constant feature of a
    bias.
    """
    return check.positive("norm", norm) ** 2 + float(bool(bias))


@dataclass(frozen=True)
class Shifts:
    """Largest privacy loss of several shifts of Gaussian noise, each at most ``mu``
    standard deviations long.

    Attributes
    ----------
    mu : float
        Length of the longest shift: ``sqrt(2) R / sigma`` for one record, and twice
        this length for a replacement.
    n_classes : int
    exchanged : bool
        Whether a record is replaced. If not, the shifts are the C - 1 vertices of one
        record. Otherwise, they are the differences between the vertices of two records.
    """

    mu: float
    n_classes: int
    exchanged: bool

    def tail(self, z: Floats) -> Floats:
        """Bound on the probability that a loss exceeds ``mu^2 / 2 + mu z``; for one
        record it is exact.
        """
        # a vertex for each class other than the label
        others = self.n_classes - 1
        if not self.exchanged:
            return _tail_of_largest(z, others)
        # by length over mu: pairs of the same class, of unlike ones, and the vertices
        # of either record alone
        counts = np.array([others, others * (others - 1.0), 2 * others])
        lengths = np.array([1.0, math.sqrt(0.75), 0.5])
        # a union bound over the differences of vertices, by their lengths
        low = (self.mu / 2 + z[..., None]) / lengths - self.mu * lengths / 2
        return np.asarray(np.minimum(1.0, special.ndtr(-low) @ counts))

    def delta(self, epsilon: Floats) -> Floats:
        """Bound on ``E[(1 - exp(epsilon - loss))_+]`` for epsilon >= 0, as the
        integral of ``exp(-s) tail(s)``.
        """
        mu = self.mu
        with np.errstate(over="ignore"):
            z = np.minimum(epsilon / mu - mu / 2, 1e100)
        # beyond it the integrand is below rounding: e^-40, or a normal tail
        width = np.minimum(40 / mu, FAR + np.maximum(-z, 0.0))
        width = np.minimum(width, 40 / np.maximum(z, 1.0))
        s = width[..., None] * (1 + NODES) / 2
        values = np.exp(-mu * s) * self.tail(z[..., None] + s)
        integral = values @ WEIGHTS * mu * width / 2
        return np.asarray(np.minimum(1.0, integral * (1 + MARGIN)))


@dataclass(frozen=True, eq=False)
class PerturbedLoss(Release):
    """Loss perturbation by Gaussian noise: the privacy loss is at most ``volume`` plus
    the largest loss of ``shifts``.

    If a record is replaced, the volume counts in both directions. Otherwise it counts
    only in the direction "remove". At epsilons below the volume, the curve of this
    direction is constant: it is the delta of the direction "add" at 0.
    """

    shifts: Shifts
    volume: float
    never_pure = True

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # the volume is paid first, the noise has the rest
        left = epsilon - self._spent(direction)
        above = self.shifts.delta(np.maximum(left, 0.0))
        if not self.shifts.exchanged:
            return above
        # if the volume alone is more than epsilon
        below = 1 - np.exp(np.minimum(left, 0.0)) * (1 - above)
        return np.where(left < 0, below, above)

    def _spent(self, direction: str) -> float:
        return self.volume if direction == "remove" or self.shifts.exchanged else 0.0


def loss_perturbation(
    *,
    n_classes: int,
    regulariser: float,
    sigma: float | None = None,
    rate: float | None = None,
    norm: float = 1.0,
    adjacency: str = "zero-out",
) -> PrivacyProfile:
    """Guarantee of the exact minimiser of a perturbed multi-class logistic loss.

    The release is the W that minimises ``sum_i CE(W x_i, y_i) + <b, W> + regulariser
    ||W||^2 / 2`` with random b.

    Parameters
    ----------
    n_classes : int, >= 2
    regulariser : float, > 0
        Total regulariser, n times the regulariser of the mean objective. Under
        add-remove, this n is public.
    sigma : float, > 0
        Standard deviation of each coordinate of b, if b is Gaussian. Give either sigma
        or rate.
    rate : float, > 0
        Rate of the random b whose density is proportional to ``exp(-rate sum_c
        ||b_c||)``, where b_c is the row of class c. This b may be restricted to
        matrices whose sum over the classes is 0.
    norm : float, > 0
        Bound on the Euclidean norm of a record's features x_i, *including* the constant
        feature of a bias. With a bias and the other features in the unit ball, the
        bound is ``sqrt(2)``.
    adjacency : {"zero-out", "add-remove", "replace-one"}
        Relation between neighbouring data sets; under zero-out an empty record has no
        loss.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If a parameter is outside its range, or not exactly one of sigma and rate is
        given.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2, for the volume and the pure
    guarantee of two classes; the private-prediction chapter for any number of classes
    and for Gaussian noise.

    Examples
    --------
    >>> profile = loss_perturbation(n_classes=10, regulariser=600.0, sigma=6.0)
    >>> round(profile.epsilon(1e-5), 4), profile.exactness
    (0.9895, 'upper bound')
    >>> round(
    ...     loss_perturbation(n_classes=10, regulariser=600.0, rate=0.5).epsilon(0.0), 4
    ... )
    1.0015
    """
    n_classes = check.at_least("n_classes", n_classes, 2)
    regulariser = check.positive("regulariser", regulariser)
    norm = check.positive("norm", norm)
    exchanged = check.one_of("adjacency", adjacency, ADJACENCIES) == "replace-one"
    if (rate is None) == (sigma is None):
        raise ValueError(
            f"exactly one of sigma and rate must be given, got sigma={sigma!r},"
            f" rate={rate!r}"
        )
    given = {"n_classes": n_classes, "regulariser": regulariser, "norm": norm}
    volume = volume_loss(regulariser, n_classes, norm)
    reach = (1 + exchanged) * norm
    release: Release
    if rate is not None:
        given["rate"] = check.positive("rate", rate)
        release = LevelsRelease(((volume + 2 * reach * given["rate"], 0.0, 1),))
    if sigma is not None:
        given["sigma"] = check.positive("sigma", sigma)
        shifts = Shifts(LIMIT * reach / given["sigma"], n_classes, exchanged)
        release = PerturbedLoss(shifts, volume)
    about = describe("loss_perturbation", adjacency, **given)
    return PrivacyProfile(release, **about, source=SOURCE)


@dataclass(frozen=True)
class ObjectiveNoise:
    """Term to add to the *sum* of the losses: ``<b, theta> + (regulariser / 2)
    ||theta||^2`` with random b.

    Attributes
    ----------
    regulariser : float
        Regulariser to add to the problem's own regulariser; divide it by n for the mean
        objective.
    rate : float or None
        Rate for pure DP: b has density proportional to ``exp(-rate ||b||_F)``, or the
        density that ``per_class`` describes.
    sigma : float or None
        Standard deviation of each coordinate of the Gaussian vector b that gives
        (epsilon, delta)-DP.
    status : {"proved", "conjecture"}
        ``"proved"`` if a proof is known that this term gives the guarantee;
        ``"conjecture"`` otherwise.
    per_class : bool
        Whether the density is proportional to ``exp(-rate sum_c ||b_c||)``, where b_c
        is the row of class c. For two classes the rows are ``b_1`` and ``-b_1``.
    """

    regulariser: float
    rate: float | None = None
    sigma: float | None = None
    status: str = "proved"
    per_class: bool = False


def objective_perturbation(
    epsilon: float,
    delta: float = 0.0,
    *,
    n_classes: int,
    regulariser: float = 0.0,
    norm: float = 1.0,
    bias: bool = False,
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> ObjectiveNoise:
    """Noise and regulariser that make the exact minimiser of a perturbed multi-class
    logistic loss private.

    The guarantee does not cover an approximate minimiser. The tight analysis follows
    :func:`loss_perturbation`.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
        Delta of the guarantee. If delta is 0, the noise gives pure DP; otherwise it is
        Gaussian.
    n_classes : int, >= 2
    regulariser : float, >= 0
        Regulariser of the problem itself, for the sum of the losses: n times the
        regulariser of the mean objective. Only the tight analysis uses it.
    norm : float, > 0
        Bound on the Euclidean norm of the features.
    bias : bool
        Whether a constant feature 1 is appended to the features.
    adjacency : {"add-remove", "zero-out", "replace-one"}
    analysis : {"tight", "split", "published"}
        ``"tight"``: a part of epsilon pays for the change of volume, which is the
        change of the Jacobian's determinant and depends on the whole regulariser. The
        noise is the smallest that the rest of epsilon allows. A regulariser is added if
        the change of volume would use more than half of epsilon. ``"split"``: half of
        epsilon is for the noise and half for the change of volume, as in the paper,
        with sharper constants. ``"published"``: the constants of the paper's Theorems 3
        and 4 (not for replace-one). The proof of Theorem 4 has a gap beyond two
        classes. The status shows whether the noise of Theorem 4 is enough according to
        :func:`loss_perturbation`; it is enough for any usual number of classes.

    Returns
    -------
    ObjectiveNoise

    Raises
    ------
    ValueError
        If a parameter is outside its range, or ``analysis="published"`` is combined
        with replace-one.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorems 3 and 4; the constants are sharpened in
    the private-prediction chapter.

    Examples
    --------
    >>> [
    ...     round(
    ...         objective_perturbation(1.0, n_classes=10, regulariser=sum_).regulariser,
    ...         6,
    ...     )
    ...     for sum_ in (0.0, 600.0)
    ... ]
    [1.750463, 0.0]
    >>> objective_perturbation(1.0, n_classes=10, analysis="published").regulariser
    10.0
    >>> ways = {"regulariser": 600.0}, {"analysis": "split"}, {"analysis": "published"}
    >>> [
    ...     round(objective_perturbation(1.0, 1e-5, n_classes=10, **way).sigma, 4)
    ...     for way in ways
    ... ]
    [5.9416, 13.5322, 14.2582]
    """
    epsilon = check.positive("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0, below="then no noise is needed")
    n_classes = check.at_least("n_classes", n_classes, 2)
    norm = math.sqrt(squared_norm(norm, bias))
    regulariser = check.real("regulariser", regulariser)
    exchanged = check.one_of("adjacency", adjacency, ADJACENCIES) == "replace-one"
    analysis = check.one_of("analysis", analysis, ("tight", "split", "published"))
    if analysis == "published" and exchanged:
        raise ValueError(
            "analysis='published' is not valid for adjacency='replace-one', got"
            f" adjacency={adjacency!r}"
        )
    # where log det <= (C - 1) log(1 + norm^2 / (C regulariser)) is epsilon / 2
    # a regulariser below this one would spend more than half of epsilon on the volume
    growth = math.expm1(min(700.0, epsilon / (2 * (n_classes - 1))))
    least = norm**2 / (n_classes * growth)
    reach = (1 + exchanged) * norm
    if analysis != "tight":
        published = n_classes * norm**2 / epsilon if analysis == "published" else None
        # a union bound over both records, if two are exchanged
        each = delta / (1 + exchanged)
        return _half_each(epsilon, each, n_classes, LIMIT * reach, least, published)
    # the problem's own regulariser may be enough
    added = max(0.0, least - regulariser)
    # the margin is for the rounding of the difference
    left = epsilon * (1 - 1e-15) - volume_loss(regulariser + added, n_classes, norm)
    if delta == 0:
        return ObjectiveNoise(added, rate=left / (2 * reach), per_class=True)
    mu = _largest_shift(left, delta, n_classes, exchanged=exchanged)
    return ObjectiveNoise(added, sigma=LIMIT * reach / mu)


def gradient_quantile(delta: float, *, n_classes: int, bound: str = "union") -> float:
    """Factor t for which ``<b, gradient> <= t sigma K`` with probability >= 1 - delta,
    for Gaussian b.

    The gradient may depend on b, except in the published bound.

    Parameters
    ----------
    delta : float, in (0, 1)
    n_classes : int, >= 2
    bound : {"union", "published"}
        ``"union"``: a union bound over the differences of one-hot vectors
        (cross-entropy with one label). ``"published"``: a bound for a gradient that
        does not depend on b.

    Returns
    -------
    float, >= 0

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorem 4; the union bound is proved in the
    private-prediction chapter.

    Examples
    --------
    >>> [
    ...     round(gradient_quantile(1e-5, n_classes=10, bound=bound), 4)
    ...     for bound in ("union", "published")
    ... ]
    [4.7321, 4.9409]
    """
    why = "Gaussian noise is not bounded"
    delta = float(
        check.array("delta", delta, high=1.0, open_low=True, open_high=True, why=why)
    )
    n_classes = check.at_least("n_classes", n_classes, 2)
    bound = check.one_of("bound", bound, ("union", "published"))
    if bound == "union":
        return max(0.0, float(-special.ndtri(min(0.5, delta / (n_classes - 1)))))
    return math.sqrt(2 * math.log(2 / delta))


def volume_loss(regulariser: float, n_classes: int, norm: float) -> float:
    """Largest logarithm of the factor by which one record changes the determinant of
    the Jacobian.
    """
    return (n_classes - 1) * math.log1p(norm**2 / (n_classes * regulariser))


def _half_each(
    epsilon: float,
    delta: float,
    n_classes: int,
    shift: float,
    least: float,
    published: float | None,
) -> ObjectiveNoise:
    """Half of epsilon for the volume, half for noise that hides gradients up to
    ``shift``; delta for each record.
    """
    regulariser = least if published is None else published
    if delta == 0:
        return ObjectiveNoise(regulariser, rate=epsilon / (2 * shift))
    # <b, g> exceeds t sigma K with probability delta at most
    t = gradient_quantile(delta, n_classes=n_classes)
    sufficient = shift * (t + math.sqrt(t * t + epsilon)) / epsilon
    if published is None:
        return ObjectiveNoise(regulariser, sigma=sufficient)
    # Theorem 4 of the paper
    sigma = shift / epsilon * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon)
    left = epsilon - volume_loss(regulariser, n_classes, shift / LIMIT)
    shifts = Shifts(shift / sigma, n_classes, exchanged=False)
    status = "proved" if shifts.delta(np.array(left)) <= delta else "conjecture"
    return ObjectiveNoise(regulariser, sigma=sigma, status=status)


def _largest_shift(
    epsilon: float, delta: float, n_classes: int, *, exchanged: bool
) -> float:
    """Largest ``mu`` of :class:`Shifts` for the pair, between those by a union bound
    and for a single shift.
    """
    # shifts that a union bound counts
    count = (n_classes + 1 if exchanged else 1) * (n_classes - 1)
    deltas = delta * (1 - 10 * MARGIN) / np.array([count, 1.0])
    ends = largest_mu(np.full(2, epsilon), np.minimum(LARGEST_DELTA, deltas))
    # low is enough in every round: mu errs to the private side
    low, high = np.log(ends).tolist()
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        shifts = Shifts(math.exp(middle), n_classes, exchanged)
        if shifts.delta(np.array(epsilon)) <= delta:
            low = middle
        else:
            high = middle
    return math.exp(low)


@cache
def _largest_table(others: int) -> Any:
    """Logarithm of the chance that ``max(u_1, ..., u_others) - u_0 > sqrt(2) z``, u
    standard normal, as a spline of z.

    The sums over u_0 are exact to rounding: the integrand is analytic and falls as a
    normal density does.
    """
    z = np.arange(LOWEST, HIGHEST + STEP / 2, STEP)
    u = np.arange(-HIGHEST, 12.0, 0.1)
    # 1 - Phi^others, given u_0, without losing a small chance
    missed = -np.expm1(others * special.log_ndtr(math.sqrt(2) * z[:, None] + u))
    chances = missed @ scipy.stats.norm.pdf(u) * 0.1
    return scipy.interpolate.make_interp_spline(z, np.log(chances), k=7)


def _tail_of_largest(z: Floats, others: int) -> Floats:
    """That chance, for any z; beyond the table a bound."""
    union = np.log(others) + special.log_ndtr(-z)
    if others == 1:
        return np.asarray(np.exp(union))
    log_chance = _largest_table(others)(np.clip(z, LOWEST, HIGHEST))
    log_chance = np.where(z > HIGHEST, union, log_chance)
    log_chance = np.where(z < LOWEST, 0.0, log_chance)
    return np.asarray(np.exp(np.minimum(log_chance, 0.0)))
