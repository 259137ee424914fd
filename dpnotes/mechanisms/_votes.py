"""Votes of many models: their counts, and the class with most votes after noise that
hides each voter.

Each voting function names the constructor of :mod:`dpnotes.accounting` that gives its
guarantee. The guarantee assumes that one record can move only one vote. Without a seed
it holds for the computed result: the noise is real, from the operating system, and the
winner is decided exactly (:mod:`dpnotes.mechanisms._exact`). With a seed, the functions
use NumPy's floating-point noise, which anyone who has the seed can repeat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes._validation import Floats, Integers, array, at_least_one, positive, real
from dpnotes.mechanisms._exact import (
    GaussianReals,
    NormReals,
    argmax_after,
    reaches_after,
    softmax_draws,
)
from dpnotes.mechanisms._noise import Seed, generator_of

CELLS = 2**16  # noisy counts held at a time


class ConfidentAnswers(NamedTuple):
    """Answers of :func:`confident_vote`.

    Attributes
    ----------
    labels : ndarray of int64, shape [n_queries] or [n_repeats, n_queries]
        Class codes; -1 for a query without an answer.
    answered : ndarray of bool, same shape
        Whether each query is answered.
    """

    labels: Integers
    answered: NDArray[np.bool_]


def vote_counts(votes: NDArray[np.integer], n_classes: int) -> Integers:
    """Count the models that vote for each class.

    Parameters
    ----------
    votes : ndarray of int, shape [n_models, n]
        Class codes 0 to ``n_classes - 1``, one row for each model, one column for each
        query.
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
        raise ValueError(
            f"votes must have shape [n_models, n], got shape {votes.shape}"
        )
    if votes.size and (votes.min() < 0 or votes.max() >= n_classes):
        raise ValueError(f"votes must be codes in 0..{n_classes - 1}, got others")
    n = votes.shape[1]
    # [n_models, n], one cell of the table for each vote
    cells = np.arange(n) * n_classes + votes
    return np.bincount(cells.ravel(), minlength=n * n_classes).reshape(n, n_classes)


def laplace_vote(
    counts: ArrayLike,
    *,
    scale: float,
    seed: Seed | None = None,
    n_repeats: int | None = None,
) -> Integers:
    """Return the class with most votes after Laplace noise on each count.

    The guarantee is ``accounting.noisy_vote(inverse_scale=1 / scale)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class. If a record can move a vote in each of several partitions,
        divide the votes by the number of partitions.
    scale : float, > 0
        Scale parameter of the Laplace distribution, in votes: 1 / lambda of
        differentially private bagging.
    seed : int, >= 0, or numpy Generator, optional
        Source of reproducible noise; by default the noise is exact and comes from the
        operating system.
    n_repeats : int, >= 1, optional
        Number of times that the whole batch is answered, each time with independent
        noise.

    Returns
    -------
    ndarray of int64, shape [n_queries], or [n_repeats, n_queries]
        Class codes.

    Raises
    ------
    ValueError
        If counts are not [n_queries, n_classes], negative or not finite, or a number is
        outside its range.
    TypeError
        If a number has the wrong type, or the seed is neither an integer nor a
        Generator.

    Source
    ------
    Papernot et al. (2017); Jordon, Yoon and van der Schaar (2019), Theorem 1.

    Examples
    --------
    >>> laplace_vote([[90, 10], [20, 80]], scale=5.0, seed=0)
    array([0, 1])
    """
    votes = _counts(counts)
    scale = positive("scale", scale)
    return _winners(
        votes,
        seed,
        n_repeats,
        lambda rows: argmax_after(rows, NormReals(1, scale, n_vectors=rows.size)),
        lambda generator, shape: generator.laplace(0.0, scale, shape),
    )


def gaussian_vote(
    counts: ArrayLike,
    *,
    sigma: float,
    seed: Seed | None = None,
    n_repeats: int | None = None,
) -> Integers:
    """Return the class with most votes after normal noise on each count (GNMax).

    The guarantee is ``accounting.gnmax(sigma=sigma)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    sigma : float, > 0
        Standard deviation of the noise on each count, in votes.
    seed, n_repeats
        As in :func:`laplace_vote`, which also describes the result and the errors.

    Source
    ------
    Papernot et al. (2018), Section 4.1.

    Examples
    --------
    >>> gaussian_vote([[90, 10], [20, 80]], sigma=5.0, seed=0)
    array([0, 1])
    """
    votes = _counts(counts)
    sigma = positive("sigma", sigma)
    return _winners(
        votes,
        seed,
        n_repeats,
        lambda rows: argmax_after(rows, GaussianReals(rows.size, sigma)),
        lambda generator, shape: generator.normal(0.0, sigma, shape),
    )


def soft_vote(
    counts: ArrayLike,
    *,
    beta: float,
    seed: Seed | None = None,
    n_repeats: int | None = None,
) -> Integers:
    """Draw class c with probability proportional to ``exp(beta counts[c])``.

    The guarantee is ``accounting.soft_vote(beta=beta)``. With a seed, the function
    returns the class with most votes after Gumbel noise of scale ``1 / beta`` on each
    count, which has the same distribution. Without a seed, it uses exact rejection
    sampling.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    beta : float, > 0
        Inverse temperature, per vote.
    seed, n_repeats
        As in :func:`laplace_vote`, which also describes the result and the errors.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorem 7, for the mechanism. Its stated guarantee
    is corrected by ``accounting.soft_vote``.

    Examples
    --------
    >>> soft_vote([[90, 10], [20, 80]], beta=0.5, seed=0)
    array([0, 1])
    """
    votes = _counts(counts)
    beta = positive("beta", beta)
    return _winners(
        votes if seed is None else beta * votes,
        seed,
        n_repeats,
        lambda rows: softmax_draws(rows, beta),
        lambda generator, shape: generator.gumbel(size=shape),
    )


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
    """Answer by :func:`gaussian_vote` if the largest count plus normal noise reaches a
    threshold; else do not answer.

    The two noises are independent. ``accounting.confident_gnmax(queries=n_queries)``
    gives the guarantee.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class, with queries in the order in which they are asked.
    threshold : float, >= 0
        Threshold in votes.
    sigma_threshold : float, > 0
        Standard deviation of the noise on the largest count, in votes.
    sigma_answer : float, > 0
        Standard deviation of the noise on each count of an answered query, in votes.
    seed, n_repeats
        As in :func:`laplace_vote`.
    answers : int, >= 1, optional
        Number of answers after which the function stops for good; it does not answer
        the later queries.

    Returns
    -------
    ConfidentAnswers
        ``labels`` and ``answered``; a query without an answer has label -1, whatever
        its votes.

    Raises
    ------
    ValueError, TypeError
        In the same cases as :func:`laplace_vote`.

    Source
    ------
    Papernot et al. (2018), Section 4.2.

    Examples
    --------
    >>> labels, answered = confident_vote(
    ...     [[90, 10], [52, 48]],
    ...     threshold=70.0,
    ...     sigma_threshold=3.0,
    ...     sigma_answer=5.0,
    ...     seed=0,
    ... )
    >>> labels, answered
    (array([ 0, -1]), array([ True, False]))
    """
    votes = _counts(counts)
    threshold = real("threshold", threshold)
    sigma_threshold = positive("sigma_threshold", sigma_threshold)
    sigma_answer = positive("sigma_answer", sigma_answer)
    # as many answers as there are queries: no limit
    limit = len(votes) if answers is None else at_least_one("answers", answers)
    generator = None if seed is None else generator_of(seed)

    def answer(rows: Floats) -> Integers:
        most = rows.max(axis=1)
        if generator is None:
            noise = GaussianReals(len(rows), sigma_threshold)
            reached = reaches_after(most, threshold, noise)
            best = argmax_after(rows, GaussianReals(rows.size, sigma_answer))
        else:
            # the threshold's, then the answer's
            normal = generator.standard_normal((len(rows), 1 + rows.shape[1]))
            reached = most + sigma_threshold * normal[:, 0] >= threshold
            # drawn for all queries, as the answered ones must not decide what is drawn
            best = (rows + sigma_answer * normal[:, 1:]).argmax(axis=1)
        return np.where(reached, best, -1)

    labels = _answer_all(votes, answer, n_repeats)
    answered = labels >= 0
    # for good: also later queries that would reach the threshold
    answered &= answered.cumsum(axis=-1) <= limit
    return ConfidentAnswers(np.where(answered, labels, -1), answered)


def _winners(
    votes: Floats,
    seed: Seed | None,
    n_repeats: int | None,
    exact: Callable[[Floats], Integers],
    noise: Callable[[np.random.Generator, tuple[int, ...]], Floats],
) -> Integers:
    """Answer all queries exactly, or with noise from a seed on the counts."""
    if seed is None:
        return _answer_all(votes, exact, n_repeats)
    generator = generator_of(seed)

    def answer(rows: Floats) -> Integers:
        noisy: Floats = rows + noise(generator, rows.shape)
        return np.asarray(noisy.argmax(axis=1))

    return _answer_all(votes, answer, n_repeats)


def _answer_all(
    votes: Floats, answer: Callable[[Floats], Integers], n_repeats: int | None
) -> Integers:
    """Answer all queries, ``n_repeats`` times, in parts of bounded memory; the noise
    does not depend on their size.
    """
    n_queries, n_classes = votes.shape
    shape: tuple[int, ...] = (n_queries,)
    if n_repeats is not None:
        shape = at_least_one("n_repeats", n_repeats), n_queries
    labels = np.empty(math.prod(shape), dtype=np.int64)
    # queries whose noisy counts fit into memory at once
    step = max(1, CELLS // n_classes)
    for start in range(0, len(labels), step):
        queries = np.arange(start, min(start + step, len(labels))) % n_queries
        labels[start : start + step] = answer(votes[queries])
    return labels.reshape(shape)


def _counts(counts: ArrayLike) -> Floats:
    votes = np.asarray(counts, dtype=np.float64)
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ValueError(
            "counts must have shape [n_queries, n_classes >= 2], got shape"
            f" {votes.shape}"
        )
    return array("counts", votes, finite=True, private=True)
