"""Quantities and analyses that belong to a single paper of the book, separate from the
mechanisms.

Most of these results do not give a guarantee on their own. Each function says what its
result is worth.

Jordon, Yoon and van der Schaar (2019): personalised moments, per-instance bounds, and
the reason why they give no
guarantee.
Hyland and Tople (2019): the privacy that the paper claims for SGD's own randomness, and
the basis of the claim.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats, floats
from dpnotes.accounting._calibrate import gaussian_sigma
from dpnotes.accounting._curves import like_input
from dpnotes.accounting._kinds import ConvertedRelease, GaussianRelease
from dpnotes.accounting._profile import PrivacyProfile, describe

MOMENTS = np.arange(1.0, 101.0)  # l, the integer moments that the first paper searches
ANALYSES = ("tight", "published")
# of one record, by which a visited batch's sum can change
GRADIENTS = {"replace-one": 2, "zero-out": 1}


@overload
def personalised_moments(
    order: float, *, inverse_scale: float, m: ArrayLike = 1.0
) -> float: ...
@overload
def personalised_moments(
    order: ArrayLike, *, inverse_scale: float, m: ArrayLike = 1.0
) -> Floats: ...
def personalised_moments(
    order: ArrayLike, *, inverse_scale: float, m: ArrayLike = 1.0
) -> float | Floats:
    """Bound on a log-moment of one noisy vote, for one pair of data sets: ``2 lambda^2
    m^2 l (l + 1)`` at order l.

    Status: *per-instance*. The result bounds the moment for this data set with and
    without one record, in both directions. Because m is a function of the private data,
    neither m nor an epsilon computed from it may be published or used to decide when to
    stop.

    Parameters
    ----------
    order : float or array_like, >= 0
        Order l of the moment. The Renyi order is l + 1, and its divergence is the
        moment divided by l.
    inverse_scale : float, > 0
        Inverse scale lambda of the Laplace noise on each class, per vote: a larger
        value means less noise.
    m : float or array_like, in [0, 1]
        For each class, take the fraction of the record's own models that do not vote
        for this class; m is the largest of these fractions. It is 1 if these models all
        agree. For two classes, it is 1/2 if they are divided equally. The function
        broadcasts ``m`` against ``order``.

    Returns
    -------
    float or ndarray, >= 0

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorems 4 and 5.

    Examples
    --------
    >>> round(personalised_moments(14, inverse_scale=0.04, m=0.5), 6)
    0.168
    """
    orders = check.array("order", order)
    beta = check.positive("inverse_scale", inverse_scale)
    fraction = check.array("m", m, high=1.0)
    return like_input(floats(2 * beta**2 * fraction**2 * orders * (orders + 1)))


def personalised_vote(
    squares: ArrayLike,
    *,
    inverse_scale: float,
    n_partitions: int,
    answers: int,
    assumption: str = "",
) -> PrivacyProfile:
    """Bound for all the answers that were given on one data set, from the moments of
    :func:`personalised_moments`.

    Status: *per-instance*; the bound must not be published. It holds for the record
    with the largest cost.

    Parameters
    ----------
    squares : array_like, >= 0
        Sum over the answers of ``(n_partitions m)^2`` for each record, with the m of
        :func:`personalised_moments`.
    inverse_scale : float, > 0
        Inverse scale lambda of the Laplace noise on each class, per vote: a larger
        value means less noise.
    n_partitions : int, >= 1
    answers : int, >= 0
        Total number of answers. It does not change the bound, because the squares are
        already sums over the answers.
    assumption : str
        Further conditions, in words.

    Returns
    -------
    PrivacyProfile
        Profile for add-remove adjacency, whose delta is the least over the integer
        moments up to 100.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorems 4 and 5. Theorem 6, which claims a
    guarantee, is refuted.

    Examples
    --------
    >>> round(
    ...     personalised_vote(
    ...         [0, 38], inverse_scale=0.04, n_partitions=1, answers=38
    ...     ).epsilon(1e-5),
    ...     6,
    ... )
    2.488893
    """
    sums = check.array("squares", squares, finite=True)
    beta = check.positive("inverse_scale", inverse_scale)
    k = check.at_least_one("n_partitions", n_partitions)
    given = {"inverse_scale": beta, "n_partitions": k}
    given["answers"] = check.at_least("answers", answers, 0)
    return PrivacyProfile(
        ConvertedRelease(2 * beta**2 * float(sums.max()) / k**2, moments=MOMENTS),
        **describe("personalised_vote", "add-remove", **given),
        status="per-instance",
        assumption=assumption,
        source=(
            "Jordon, Yoon and van der Schaar (2019), Theorems 4 and 5; refutes"
            " Theorem 6"
        ),
    )


def personalised_answers(
    epsilon: float, delta: float, *, inverse_scale: float, m: float
) -> int:
    """Number of labels that Algorithm 1 of the paper releases if its most expensive
    record always has the same m.

    This number is not protected: it reveals m, which is a function of the data (claim
    24 of the book's ledger). The loop stops after the label that reaches epsilon.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    inverse_scale : float, > 0
        Inverse scale lambda of the Laplace noise on each class, per vote: a larger
        value means less noise.
    m : float, in (0, 1]
        Fraction m of :func:`personalised_moments`.

    Returns
    -------
    int, >= 1

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Algorithm 1.

    Examples
    --------
    >>> personalised_answers(
    ...     1.0, 1e-3, inverse_scale=2 / 50, m=1.0
    ... )  # as published for 50 teachers
    11
    """
    m = check.real("m", m, high=1.0, open_low=True)
    return _reached(epsilon, delta, inverse_scale, 1 / m**2)


def _reached(
    epsilon: float, delta: float, inverse_scale: float, per_square: float
) -> int:
    """Least whole number of labels, or of other units of which ``per_square`` make a
    sum of squares of 1, at which the paper's accountant reaches epsilon.
    """
    epsilon = check.positive("epsilon", epsilon)
    log_delta = _log_of(delta)
    # the loop stops at the first sum whose best moment reaches epsilon
    moments = personalised_moments(MOMENTS, inverse_scale=inverse_scale)
    reached = float(((epsilon * MOMENTS + log_delta) / moments).max())
    return max(1, math.ceil(reached * per_square))


def _log_of(delta: float) -> float:
    why = "nothing would be spent"
    return math.log(check.real("delta", delta, high=1.0, open_low=True, below=why))


def personalised_epsilon(
    squares: ArrayLike, *, n_partitions: int, beta: float, delta: float
) -> Floats:
    """Compute from sums of squares the epsilon of the paper's accountant, minimised
    over integer moments 1 to 100.

    Status: *per-instance*, as :func:`personalised_moments`
    explains. The best integer moment is next to the optimum over all real moments.

    Parameters
    ----------
    squares : array_like of int, >= 0
        Sums of the charges (k m)^2 over the answered queries;
        :class:`dpnotes.learners.TouchedVotes` defines and computes the charges.
    n_partitions : int, >= 1
        Number of partitions, k in the formula.
    beta : float, > 0
        The paper's lambda, the inverse scale of the Laplace noise on each class, per
        vote.
    delta : float, in (0, 1)

    Returns
    -------
    ndarray of float64, shape of ``squares``
        Epsilon for each sum; 0 for a sum of 0.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorem 4 and Algorithm 1.

    Examples
    --------
    >>> personalised_epsilon([0, 11], n_partitions=1, beta=2 / 50, delta=1e-3).round(6)
    array([0.      , 1.021411])
    """
    sums = check.array("squares", squares)
    k = check.at_least_one("n_partitions", n_partitions)
    beta = check.positive("beta", beta)
    log_delta = _log_of(delta)
    totals = np.where(sums > 0, sums, 1.0) / k**2
    # the only optimum over all real moments
    best = np.sqrt(-log_delta / (2 * beta**2 * totals))
    below = np.clip(np.floor(best), MOMENTS[0], MOMENTS[-1])
    result = np.full(sums.shape, np.inf)
    # the bound is convex in the order: the best integers are the two beside the optimum
    for order in (below, np.minimum(below + 1, MOMENTS[-1])):
        moments = totals * personalised_moments(order, inverse_scale=beta)
        result = np.minimum(result, (moments - log_delta) / order)
    return np.where(sums > 0, result, 0.0)


def squares_of_budget(
    epsilon: float, delta: float, *, n_partitions: int, beta: float
) -> int:
    """Compute the least sum of squares over the answered queries at which
    :func:`personalised_epsilon` reaches epsilon.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    n_partitions, beta
        See :func:`personalised_epsilon`.

    Returns
    -------
    int, >= 1

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> squares_of_budget(
    ...     1.0, 1e-3, n_partitions=10, beta=2 / 50
    ... )  # 11 labels, all models agreed: 1100
    1056
    """
    k = check.at_least_one("n_partitions", n_partitions)
    return _reached(epsilon, delta, check.positive("beta", beta), k**2)


def sgd_sensitivity(
    *,
    lipschitz: float,
    smoothness: float,
    learning_rate: float,
    batch_size: int,
    epochs: float,
    analysis: str = "tight",
    adjacency: str = "replace-one",
) -> float:
    """L2 sensitivity of the final weights of SGD, for one fixed seed.

    The bound is for mini-batch SGD on a convex loss with a constant learning rate;
    projections are allowed. Every visit of the replaced record adds at most ``2
    lipschitz learning_rate / batch_size`` to the distance between the weights, and no
    other step increases this distance. A record that is made empty retains its place in
    the batches and loses its gradient, so each visit adds half as much.

    Parameters
    ----------
    lipschitz : float, > 0
        Bound on the norm of one loss's gradient.
    smoothness : float, > 0
        Bound on the largest eigenvalue of one loss's Hessian.
    learning_rate : float, > 0 and <= 2 / smoothness
    batch_size : int, >= 1
        Size of every batch. The bound fails if the last batch of a pass is smaller and
        is divided by its own size: drop that batch, or give the size of the smallest
        batch.
    epochs : float, > 0
        Number of passes through the data: steps divided by steps per pass.
    analysis : {"tight", "published"}
        ``"tight"``: a record is visited up to ceil(epochs) times. ``"published"``: a
        record is visited epochs times, as in the paper's tables. For a fixed seed this
        result is too small if the last pass is incomplete, but it bounds the distance
        between the *mean* weights over seeds.
    adjacency : {"replace-one", "zero-out"}
        Whether one record is replaced or made empty. Sums of gradients are divided by
        ``batch_size`` in both cases.

    Returns
    -------
    float
        L2 sensitivity in the units of the weights.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the learning rate is too large for the
        bound.

    Source
    ------
    Hardt, Recht and Singer (2016); Wu et al. (2017); Hyland and Tople (2019), Theorem
    2.

    Examples
    --------
    >>> setting = dict(
    ...     lipschitz=2**0.5,
    ...     smoothness=0.5,
    ...     learning_rate=1.0,
    ...     batch_size=50,
    ...     epochs=1.108814,
    ... )
    >>> (
    ...     round(sgd_sensitivity(**setting), 4),
    ...     round(sgd_sensitivity(**setting, analysis="published"), 4),
    ... )
    (0.1131, 0.0627)
    """
    lipschitz = check.positive("lipschitz", lipschitz)
    smoothness = check.positive("smoothness", smoothness)
    learning_rate = check.positive("learning_rate", learning_rate)
    # up to there a step moves no two points apart
    if learning_rate > 2 / smoothness:
        raise ValueError(
            f"learning_rate must be <= 2 / smoothness = {2 / smoothness:g}, got"
            f" learning_rate={learning_rate!r}; with a larger rate, a step can push the"
            " weights apart"
        )
    batch_size = check.at_least_one("batch_size", batch_size)
    epochs = check.positive("epochs", epochs)
    if check.one_of("analysis", analysis, ANALYSES) == "tight":
        # a pass that is begun may have visited the record already
        epochs = math.ceil(epochs)
    gradients = GRADIENTS[check.one_of("adjacency", adjacency, tuple(GRADIENTS))]
    return gradients * lipschitz * learning_rate * epochs / batch_size


def intrinsic_sgd(
    *, sigma: float, sensitivity: float, adjacency: str = "replace-one"
) -> PrivacyProfile:
    """Guarantee of releasing SGD's weights *if* they were Gaussian with one covariance
    ``sigma^2 I`` on all data sets.

    The assumption cannot be tested. With a public initialisation the weights take
    finitely many values, and neighbouring data sets in general share none of these
    values. The guarantee then fails for every epsilon and every delta < 1.

    Parameters
    ----------
    sigma : float, > 0
        Standard deviation of a weight over seeds, in the units of the weights.
    sensitivity : float, > 0
        Bound on the distance between the mean weights of neighbouring data sets
        (:func:`sgd_sensitivity`, ``"published"``). A maximum over sampled pairs is only
        a lower bound and does not give a guarantee.
    adjacency : {"replace-one", "zero-out"}
        The relation that the sensitivity was computed for.

    Returns
    -------
    PrivacyProfile
        Profile of status "assumption".

    Raises
    ------
    ValueError
        If a parameter is not positive and finite.

    Source
    ------
    Hyland and Tople (2019), Equations 14 and 15; Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> profile = intrinsic_sgd(sigma=0.028, sensitivity=0.050)
    >>> profile.status, round(profile.epsilon(9.62e-5), 4)
    ('assumption', 7.7167)
    """
    sigma = check.positive("sigma", sigma)
    sensitivity = check.positive("sensitivity", sensitivity)
    return PrivacyProfile(
        GaussianRelease(check.positive("sensitivity / sigma", sensitivity / sigma)),
        **describe("intrinsic_sgd", adjacency, sigma=sigma, sensitivity=sensitivity),
        status="assumption",
        assumption=(
            "over its seeds, SGD's output is Gaussian with the same covariance sigma^2"
            " I for every data set"
        ),
        source="Hyland and Tople (2019)",
        remark=(
            "with a public initialisation the output takes finitely many values, and"
            " the assumption is false"
        ),
    )


def augmenting_sigma(
    epsilon: float,
    delta: float,
    *,
    sensitivity: float,
    intrinsic_sigma: float = 0.0,
    analysis: str = "tight",
) -> float:
    """Noise to add to SGD's weights for (epsilon, delta)-DP, if the weights already
    contain Gaussian noise.

    Parameters
    ----------
    epsilon : float, >= 0
    delta : float, in (0, 1)
    sensitivity : float, > 0
        L2 sensitivity in the units of the weights.
    intrinsic_sigma : float, >= 0
        Standard deviation that the weights are assumed to have already, as in
        :func:`intrinsic_sgd`. With 0 there is no assumption, and the result is the
        noise of output perturbation.
    analysis : {"tight", "published"}
        ``"published"``: total noise by the classical formula. The function raises an
        error where this noise is not sufficient.

    Returns
    -------
    float
        ``sqrt(total^2 - intrinsic_sigma^2)``, in the units of the weights; 0 if the
        assumed noise is enough.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Hyland and Tople (2019), Algorithm 2 and Theorem 3.

    Examples
    --------
    >>> setting = dict(
    ...     epsilon=1.0, delta=9.62e-5, sensitivity=0.050, analysis="published"
    ... )
    >>> (
    ...     round(augmenting_sigma(**setting), 4),
    ...     round(augmenting_sigma(**setting, intrinsic_sigma=0.028), 4),
    ... )
    (0.2176, 0.2158)
    """
    intrinsic_sigma = check.real("intrinsic_sigma", intrinsic_sigma)
    if check.one_of("analysis", analysis, ANALYSES) == "published":
        analysis = "classical"
    total = gaussian_sigma(epsilon, delta, sensitivity=sensitivity, analysis=analysis)
    # no difference of near squares
    left = max(0.0, total - intrinsic_sigma)
    return math.sqrt(left) * math.sqrt(total + intrinsic_sigma)
