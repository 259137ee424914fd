"""Votes that hide each voter: the class of most votes after noise.

Each is differentially private for the noise's ideal law over the reals; the guarantee is that of the constructor of
:mod:`dpnotes.accounting` named in it, for votes of which one record can move one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes._validation import at_least_one, positive
from dpnotes.mechanisms._noise import Seed, generator_of

CELLS = 2**20  # noisy counts held at a time: 8 MiB

Draw = Callable[[tuple[int, int]], NDArray[np.float64]]


class ConfidentAnswers(NamedTuple):
    """Answers of :func:`confident_vote`.

    Attributes
    ----------
    labels : ndarray of int64, shape [n_queries] or [n_repeats, n_queries]
        Class codes; -1 where no answer is given.
    answered : ndarray of bool, same shape
    """

    labels: NDArray[np.int64]
    answered: NDArray[np.bool_]


def laplace_vote(counts: ArrayLike, *, scale: float, seed: Seed, n_repeats: int | None = None) -> NDArray[np.int64]:
    """Class of most votes after Laplace noise on each count: ``accounting.noisy_vote(noise=1 / scale)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class; divided by the number of partitions where a record has a vote in each.
    scale : float, > 0
        The Laplace distribution's own parameter, in votes: 1 / lambda of differentially private bagging.
    seed : int, >= 0, or numpy Generator
        Must stay secret where the noise protects data.
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
    votes, scale, generator = _counts(counts), positive("scale", scale), generator_of(seed)
    return _noisy_argmax(votes, lambda shape: generator.laplace(0.0, scale, shape), n_repeats)


def gaussian_vote(counts: ArrayLike, *, sigma: float, seed: Seed, n_repeats: int | None = None) -> NDArray[np.int64]:
    """Class of most votes after normal noise on each count (GNMax): ``accounting.gnmax(sigma=sigma)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    sigma : float, > 0
        Standard deviation of the noise on each count, in votes.
    seed, n_repeats
        See :func:`laplace_vote`.

    Returns
    -------
    ndarray of int64, shape [n_queries], or [n_repeats, n_queries]
        Class codes.

    Raises
    ------
    ValueError, TypeError
        As :func:`laplace_vote`.

    Source
    ------
    Papernot et al. (2018), Section 4.1.

    Examples
    --------
    >>> gaussian_vote([[90, 10], [20, 80]], sigma=5.0, seed=0)
    array([0, 1])
    """
    votes, sigma, generator = _counts(counts), positive("sigma", sigma), generator_of(seed)
    return _noisy_argmax(votes, lambda shape: generator.normal(0.0, sigma, shape), n_repeats)


def soft_vote(counts: ArrayLike, *, beta: float, seed: Seed, n_repeats: int | None = None) -> NDArray[np.int64]:
    """Class c with probability proportional to ``exp(beta counts[c])``: ``accounting.soft_vote(beta=beta)``.

    Drawn as the class of most votes after Gumbel noise of scale ``1 / beta`` on each count, which has this law.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class.
    beta : float, > 0
        Inverse temperature, per vote.
    seed, n_repeats
        See :func:`laplace_vote`.

    Returns
    -------
    ndarray of int64, shape [n_queries], or [n_repeats, n_queries]
        Class codes.

    Raises
    ------
    ValueError, TypeError
        As :func:`laplace_vote`.

    Source
    ------
    Van der Maaten and Hannun (2020), Theorem 7 (the mechanism; its stated guarantee is corrected by the accounting).

    Examples
    --------
    >>> soft_vote([[90, 10], [20, 80]], beta=0.5, seed=0)
    array([0, 1])
    """
    votes, beta, generator = _counts(counts), positive("beta", beta), generator_of(seed)
    return _noisy_argmax(beta * votes, lambda shape: generator.gumbel(0.0, 1.0, shape), n_repeats)


def confident_vote(
    counts: ArrayLike,
    *,
    threshold: float,
    sigma_threshold: float,
    sigma_answer: float,
    seed: Seed,
    answers: int | None = None,
    n_repeats: int | None = None,
) -> ConfidentAnswers:
    """:func:`gaussian_vote` where the largest count plus normal noise reaches a threshold, and no answer elsewhere.

    The two noises are independent. The guarantee is that of ``accounting.confident_gnmax(queries=n_queries)``.

    Parameters
    ----------
    counts : array_like, [n_queries, n_classes >= 2], >= 0
        Votes for each class; queries in the order in which they are put.
    threshold : float
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
    votes, generator = _counts(counts), generator_of(seed)
    if not isinstance(threshold, Real) or not math.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number, got threshold={threshold!r}")
    sigma_threshold = positive("sigma_threshold", sigma_threshold)
    sigma_answer = positive("sigma_answer", sigma_answer)
    limit = len(votes) if answers is None else at_least_one("answers", answers)

    rows, n_classes = _rows(votes, n_repeats)
    labels = np.empty(rows, dtype=np.int64)
    reached = np.empty(rows, dtype=np.bool_)
    for part, queries in _parts(rows, votes):
        normal = generator.standard_normal((len(queries), 1 + n_classes))  # the threshold's, then the answer's
        reached[part] = votes[queries].max(axis=1) + sigma_threshold * normal[:, 0] >= threshold
        labels[part] = (votes[queries] + sigma_answer * normal[:, 1:]).argmax(axis=1)
    shape = _shape(votes, n_repeats)
    answered = reached.reshape(shape)
    answered &= answered.cumsum(axis=-1) <= limit
    return ConfidentAnswers(np.where(answered, labels.reshape(shape), -1), answered)


def _noisy_argmax(scores: NDArray[np.float64], draw: Draw, n_repeats: int | None) -> NDArray[np.int64]:
    rows, n_classes = _rows(scores, n_repeats)
    labels = np.empty(rows, dtype=np.int64)
    for part, queries in _parts(rows, scores):
        labels[part] = (scores[queries] + draw((len(queries), n_classes))).argmax(axis=1)
    return labels.reshape(_shape(scores, n_repeats))


def _rows(counts: NDArray[np.float64], n_repeats: int | None) -> tuple[int, int]:
    """Votes to be held over all repeats, and the number of classes."""
    repeats = 1 if n_repeats is None else at_least_one("n_repeats", n_repeats)
    return repeats * len(counts), counts.shape[1]


def _parts(rows: int, counts: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Rows in parts of bounded memory, with the query of each; the noise does not depend on where they are cut."""
    n_queries, n_classes = counts.shape
    step = max(1, CELLS // n_classes)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        yield part, np.arange(part.start, part.stop) % n_queries


def _shape(counts: NDArray[np.float64], n_repeats: int | None) -> tuple[int, ...]:
    return (len(counts),) if n_repeats is None else (n_repeats, len(counts))


def _counts(counts: ArrayLike) -> NDArray[np.float64]:
    votes = np.asarray(counts, dtype=np.float64)
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ValueError(f"counts must have shape [n_queries, n_classes >= 2], got shape {votes.shape}")
    wrong = ~((votes >= 0) & (votes < math.inf))  # NaN is wrong, too
    if wrong.any():
        raise ValueError(f"counts must be finite and >= 0, got counts={float(votes[wrong][0])}")
    return votes
