"""Votes of many models: their counts, and the class of most votes after noise that hides each voter.

The guarantee is that of the constructor of :mod:`dpnotes.accounting` named in each, for votes of which one record can
move one. Without a seed it holds for what is computed: the noise is real, from the operating system, and the winner is
decided exactly (:mod:`dpnotes.mechanisms._exact`). With a seed, NumPy's floating-point noise is used, which anybody can
repeat who has the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes._validation import Floats, Integers, array, at_least_one, positive, real
from dpnotes.mechanisms._exact import GaussianReals, NormReals, argmax_after, reaches_after, softmax_draws
from dpnotes.mechanisms._noise import Seed, generator_of

CELLS = 2**16  # noisy counts held at a time


class ConfidentAnswers(NamedTuple):
    """Answers of :func:`confident_vote`.

    Attributes
    ----------
    labels : ndarray of int64, shape [n_queries] or [n_repeats, n_queries]
        Class codes; -1 where no answer is given.
    answered : ndarray of bool, same shape
    """

    labels: Integers
    answered: NDArray[np.bool_]


def vote_counts(votes: NDArray[np.integer], n_classes: int) -> Integers:
    """How many models vote for each class.

    Parameters
    ----------
    votes : ndarray of int, shape [n_models, n]
        Class codes 0 to ``n_classes - 1``, one row for each model, one column for each query.
    n_classes : int, >= 1

    Returns
    -------
    ndarray of int64, shape [n, n_classes]

    Raises
    ------
    ValueError
        If votes is not two-dimensional or a code is out of range.

    Examples
    --------
    >>> vote_counts(np.array([[0, 2], [1, 2], [1, 0]]), 3)
    array([[1, 2, 0],
           [1, 0, 2]])
    """
    votes = np.asarray(votes)
    if votes.ndim != 2:
        raise ValueError(f"votes must have shape [n_models, n], got shape {votes.shape}")
    if votes.size and (votes.min() < 0 or votes.max() >= n_classes):
        raise ValueError(f"votes must be codes in 0..{n_classes - 1}, got {votes.min()}..{votes.max()}")
    n = votes.shape[1]
    cells = np.arange(n) * n_classes + votes  # [n_models, n], one cell of the table for each vote
    return np.bincount(cells.ravel(), minlength=n * n_classes).reshape(n, n_classes)


def laplace_vote(
    counts: ArrayLike, *, scale: float, seed: Seed | None = None, n_repeats: int | None = None
) -> Integers:
    """Class of most votes after Laplace noise on each count: ``accounting.noisy_vote(noise=1 / scale)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class; divided by the number of partitions where a record has a vote in each.
    scale : float, > 0
        The Laplace distribution's own parameter, in votes: 1 / lambda of differentially private bagging.
    seed : int, >= 0, or numpy Generator, optional
        Default: exact noise from the operating system.
    n_repeats : int, >= 1, optional
        How often the whole batch is answered, with noise of its own each time.

    Returns
    -------
    ndarray of int64, shape [n_queries], or [n_repeats, n_queries]
        Class codes.

    Raises
    ------
    ValueError
        If counts are not [n_queries, n_classes], negative or not finite, or a number is outside its range.
    TypeError
        If a number is of the wrong kind, or the seed neither an integer nor a Generator.

    Source
    ------
    Papernot et al. (2017); Jordon, Yoon and van der Schaar (2019), Theorem 1.

    Examples
    --------
    >>> laplace_vote([[90, 10], [20, 80]], scale=5.0, seed=0)
    array([0, 1])
    """
    votes, scale = _counts(counts), positive("scale", scale)
    if seed is None:
        return _answer_all(votes, lambda rows: argmax_after(rows, NormReals(1, scale, n_vectors=rows.size)), n_repeats)
    generator = generator_of(seed)
    return _answer_all(votes, lambda rows: (rows + generator.laplace(0.0, scale, rows.shape)).argmax(axis=1), n_repeats)


def gaussian_vote(
    counts: ArrayLike, *, sigma: float, seed: Seed | None = None, n_repeats: int | None = None
) -> Integers:
    """Class of most votes after normal noise on each count (GNMax): ``accounting.gnmax(sigma=sigma)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    sigma : float, > 0
        Standard deviation of the noise on each count, in votes.
    seed, n_repeats
        See :func:`laplace_vote`, which also says what is given and what is refused.

    Source
    ------
    Papernot et al. (2018), Section 4.1.

    Examples
    --------
    >>> gaussian_vote([[90, 10], [20, 80]], sigma=5.0, seed=0)
    array([0, 1])
    """
    votes, sigma = _counts(counts), positive("sigma", sigma)
    if seed is None:
        return _answer_all(votes, lambda rows: argmax_after(rows, GaussianReals(rows.size, sigma)), n_repeats)
    generator = generator_of(seed)
    return _answer_all(votes, lambda rows: (rows + generator.normal(0.0, sigma, rows.shape)).argmax(axis=1), n_repeats)


def soft_vote(counts: ArrayLike, *, beta: float, seed: Seed | None = None, n_repeats: int | None = None) -> Integers:
    """Class c with probability proportional to ``exp(beta counts[c])``: ``accounting.soft_vote(beta=beta)``.

    With a seed drawn as the class of most votes after Gumbel noise of scale ``1 / beta`` on each count, whose
    distribution this is; without one, by exact rejection.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    beta : float, > 0
        Inverse temperature, per vote.
    seed, n_repeats
        See :func:`laplace_vote`, which also says what is given and what is refused.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorem 7 (the mechanism; its stated guarantee is corrected by the accounting).

    Examples
    --------
    >>> soft_vote([[90, 10], [20, 80]], beta=0.5, seed=0)
    array([0, 1])
    """
    votes, beta = _counts(counts), positive("beta", beta)
    if seed is None:
        return _answer_all(votes, lambda rows: softmax_draws(rows, beta), n_repeats)
    generator = generator_of(seed)
    return _answer_all(beta * votes, lambda rows: (rows + generator.gumbel(size=rows.shape)).argmax(axis=1), n_repeats)


def confident_vote(
    counts: ArrayLike,
    *,
    threshold: float,
    sigma_threshold: float,
    sigma_answer: float,
    seed: Seed | None = None,
    answers: int | None = None,
    n_repeats: int | None = None,
) -> ConfidentAnswers:
    """:func:`gaussian_vote` where the largest count plus normal noise reaches a threshold, and no answer elsewhere.

    The two noises are independent. The guarantee is that of ``accounting.confident_gnmax(queries=n_queries)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class; queries in the order in which they are put.
    threshold : float, >= 0
        In votes.
    sigma_threshold : float, > 0
        Standard deviation of the noise on the largest count, in votes.
    sigma_answer : float, > 0
        Standard deviation of the noise on each count of an answered query, in votes.
    seed, n_repeats
        See :func:`laplace_vote`.
    answers : int, >= 1, optional
        Stop for good after so many answers; the later queries are not answered.

    Returns
    -------
    ConfidentAnswers
        ``labels`` and ``answered``; a query without an answer has label -1, whatever its votes.

    Raises
    ------
    ValueError, TypeError
        As :func:`laplace_vote`.

    Source
    ------
    Papernot et al. (2018), Section 4.2.

    Examples
    --------
    >>> labels, answered = confident_vote(
    ...     [[90, 10], [52, 48]], threshold=70.0, sigma_threshold=3.0, sigma_answer=5.0, seed=0
    ... )
    >>> labels, answered
    (array([ 0, -1]), array([ True, False]))
    """
    votes = _counts(counts)
    threshold = real("threshold", threshold)
    sigma_threshold = positive("sigma_threshold", sigma_threshold)
    sigma_answer = positive("sigma_answer", sigma_answer)
    limit = len(votes) if answers is None else at_least_one("answers", answers)
    generator = None if seed is None else generator_of(seed)

    def answer(rows: Floats) -> Integers:
        if generator is None:
            reached = reaches_after(rows.max(axis=1), threshold, GaussianReals(len(rows), sigma_threshold))
            return np.where(reached, argmax_after(rows, GaussianReals(rows.size, sigma_answer)), -1)
        normal = generator.standard_normal((len(rows), 1 + rows.shape[1]))  # the threshold's, then the answer's
        reached = rows.max(axis=1) + sigma_threshold * normal[:, 0] >= threshold
        return np.where(reached, (rows + sigma_answer * normal[:, 1:]).argmax(axis=1), -1)

    labels = _answer_all(votes, answer, n_repeats)
    answered = labels >= 0
    answered &= answered.cumsum(axis=-1) <= limit
    return ConfidentAnswers(np.where(answered, labels, -1), answered)


def _answer_all(votes: Floats, answer: Callable[[Floats], Integers], n_repeats: int | None) -> Integers:
    """Answer all queries, ``n_repeats`` times, in parts of bounded memory; the noise does not depend on their size."""
    n_queries, n_classes = votes.shape
    shape = (n_queries,) if n_repeats is None else (at_least_one("n_repeats", n_repeats), n_queries)
    labels = np.empty(math.prod(shape), dtype=np.int64)
    step = max(1, CELLS // n_classes)
    for start in range(0, len(labels), step):
        queries = np.arange(start, min(start + step, len(labels))) % n_queries
        labels[start : start + step] = answer(votes[queries])
    return labels.reshape(shape)


def _counts(counts: ArrayLike) -> Floats:
    votes = np.asarray(counts, dtype=np.float64)
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ValueError(f"counts must have shape [n_queries, n_classes >= 2], got shape {votes.shape}")
    return array("counts", votes, finite=True)
