"""Jordon, Yoon and van der Schaar (2019): personalised moments, per-instance bounds, and why they give no guarantee."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes.accounting._profile import Floats, PrivacyProfile, _like_input, describe
from dpnotes.accounting.papers._converted import ConvertedRelease

MOMENTS = np.arange(1.0, 101.0)  # l, the integer moments that the paper searches


@overload
def personalised_moments(order: float, *, noise: float, m: ArrayLike = 1.0) -> float: ...
@overload
def personalised_moments(order: ArrayLike, *, noise: float, m: ArrayLike = 1.0) -> Floats: ...
def personalised_moments(order: ArrayLike, *, noise: float, m: ArrayLike = 1.0) -> float | Floats:
    """Bound on a log-moment of one noisy vote, for one pair of data sets: ``2 noise^2 m^2 l (l + 1)``, l the order.

    Status: *per-instance*. It bounds the moment for this data set with and without one record, in both directions; m is
    a function of the private data, and neither it nor an epsilon made of it may be published or used to stop.

    Parameters
    ----------
    order : float or array_like, >= 0
        l, the order of the moment; the Renyi order is l + 1, and its divergence the moment divided by l.
    noise : float, > 0
        lambda, the inverse scale of the Laplace noise on each class, per vote.
    m : float or array_like, in [0, 1]
        Largest fraction of the record's own models that do not vote for some class: 1 if they all agree; for two
        classes 1/2 if they are of two minds. Broadcast against ``order``.

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
    >>> round(personalised_moments(14, noise=0.04, m=0.5), 6)
    0.168
    """
    orders = check.array("order", order)
    noise = check.positive("noise", noise)
    fraction = check.array("m", m, high=1.0)
    return _like_input(np.asarray(2 * noise**2 * fraction**2 * orders * (orders + 1), dtype=np.float64))


def personalised_vote(
    squares: ArrayLike, *, noise: float, n_partitions: int, answers: int, assumption: str = ""
) -> PrivacyProfile:
    """What the moments of :func:`personalised_moments` bound over all the answers that were given on one data set.

    Status: *per-instance*, and not to be published. The bound is that of the record that pays most.

    Parameters
    ----------
    squares : array_like, >= 0
        For each record, the sum over the answers of ``(n_partitions m)^2``, m of :func:`personalised_moments`.
    noise : float, > 0
        lambda, the inverse scale of the Laplace noise on each class, per vote.
    n_partitions : int, >= 1
    answers : int, >= 0
        Answers given in all; recorded, the squares already hold their effect.
    assumption : str
        What else must hold, in words.

    Returns
    -------
    PrivacyProfile
        Adjacency add-remove; delta is the least over the integer moments up to 100.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorems 4 and 5; the status refutes Theorem 6.

    Examples
    --------
    >>> round(personalised_vote([0, 38], noise=0.04, n_partitions=1, answers=38).epsilon(1e-5), 6)
    2.488893
    """
    sums = check.array("squares", squares, finite=True)
    noise = check.positive("noise", noise)
    k, answers = check.at_least_one("n_partitions", n_partitions), check.at_least("answers", answers, 0)
    return ConvertedRelease(
        2 * noise**2 * float(sums.max()) / k**2,
        1,
        moments=MOMENTS,
        **describe("personalised_vote", "add-remove", noise=noise, n_partitions=k, answers=answers),
        status="per-instance",
        assumption=assumption,
        source="Jordon, Yoon and van der Schaar (2019), Theorems 4 and 5; refutes Theorem 6",
    )


def personalised_answers(epsilon: float, delta: float, *, noise: float, m: float) -> int:
    """Labels that Algorithm 1 of the paper gives out when the record that pays most has the same m at each of them.

    Not private: m is a function of the data, so that the number of labels reveals it (claim 24 of the book's ledger).
    The loop stops after the label that reaches epsilon.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    noise : float, > 0
        lambda, the inverse scale of the Laplace noise on each class, per vote.
    m : float, in (0, 1]
        Of :func:`personalised_moments`.

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
    >>> personalised_answers(1.0, 1e-3, noise=2 / 50, m=1.0)  # as published for 50 teachers
    11
    """
    epsilon = check.positive("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0, open_low=True, below="the loop would not spend anything")
    m = check.real("m", m, high=1.0, open_low=True)
    per_answer = personalised_moments(MOMENTS, noise=noise, m=m)
    reached = ((epsilon * MOMENTS + math.log(delta)) / per_answer).max()  # labels at which epsilon-hat is epsilon
    return max(1, math.ceil(float(reached)))
