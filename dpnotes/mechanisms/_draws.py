"""Which model sees which record: random subsamples, and many partitions of the records into chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpnotes._validation import Integers, at_least_one, one_of
from dpnotes.mechanisms._noise import stream


def draw_subsets(
    n: int, *, subsample: int, n_models: int, replace: bool, scheme: str = "independent", seed: int
) -> Integers:
    """Row indices of the subsample of each model.

    Model i draws from a stream of its own, spawned from the seed and i: the first models of a larger draw are those of
    a smaller one (``scheme="independent"``).

    Parameters
    ----------
    n : int, >= 1
        Number of records.
    subsample : int, >= 1
        Records of each model; at most ``n`` without replacement.
    n_models : int, >= 1
    replace : bool
        Whether a record can stand in one subsample more than once.
    scheme : {"independent", "split"}
        Each subsample drawn anew, or one draw of ``n_models * subsample`` records dealt out to the models.
    seed : int, >= 0

    Returns
    -------
    ndarray of int64, shape [n_models, subsample]

    Raises
    ------
    ValueError
        If a number is below 1, more records are drawn without replacement than there are, or the scheme is invalid.

    Examples
    --------
    >>> draw_subsets(5, subsample=3, n_models=2, replace=False, seed=0).shape
    (2, 3)
    """
    for name, value in (("n", n), ("subsample", subsample), ("n_models", n_models)):
        at_least_one(name, value)
    one_of("scheme", scheme, ("independent", "split"))
    if not replace and subsample > n:
        raise ValueError(f"subsample must be at most n={n} without replacement, got subsample={subsample}")
    if scheme == "split":
        drawn = n_models * subsample
        if not replace and drawn > n:
            raise ValueError(f"scheme='split' draws n_models*subsample={drawn} records without replacement, of n={n}")
        return stream(seed, 0).choice(n, size=(n_models, subsample), replace=replace)
    return np.stack([stream(seed, i).choice(n, size=subsample, replace=replace) for i in range(n_models)])


@dataclass(frozen=True, eq=False)
class Partitions:
    """k partitions of n records into the same number of chunks.

    Parameters
    ----------
    chunk : ndarray of int64, shape [n, k], in 0 .. n_chunks - 1
        Chunk of each record in each partition.
    joining : ndarray of int64, shape [k]
        Chunk of each partition that one more record would join.
    n_chunks : int
    """

    chunk: Integers
    joining: Integers
    n_chunks: int

    @property
    def n_partitions(self) -> int:
        """Number of partitions k."""
        return int(self.chunk.shape[1])

    def subsets(self) -> list[Integers]:
        """Records of each chunk in ascending order, k * n_chunks arrays; chunk i of partition j is at j * n_chunks + i.

        Chunks of independent partitions can be empty.
        """
        subsets: list[Integers] = []
        for column in self.chunk.T:
            ends = np.cumsum(np.bincount(column, minlength=self.n_chunks))[:-1]
            subsets += np.split(np.argsort(column, kind="stable"), ends)
        return subsets


def draw_partitions(n: int, *, n_chunks: int, n_partitions: int, scheme: str = "independent", seed: int) -> Partitions:
    """Random partitions of ``n`` records into chunks.

    ``"independent"``: each record draws its chunks independently of the other records, so that adding or removing one
    changes one chunk of each partition; the first n rows of a draw for more records are those of a draw for n, and
    ``joining`` is the next row. ``"balanced"``: each partition uniform among those whose chunks differ by at most one
    record in size; ``joining`` is the first of the smaller chunks. Replacing a record changes one chunk of each of
    them; adding one does not (two chunks change where it displaces another), so that they suit the replace-one
    adjacency only.

    Parameters
    ----------
    n : int, >= 1
        Number of records; at least ``n_chunks`` for balanced partitions.
    n_chunks : int, >= 1
    n_partitions : int, >= 1
    scheme : {"independent", "balanced"}
    seed : int, >= 0
        Partition j of balanced ones draws from a stream of its own, spawned from the seed and j.

    Returns
    -------
    Partitions

    Raises
    ------
    ValueError
        If a number is outside its range or the scheme is invalid.
    TypeError
        If a number is not an integer.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Section 4 (balanced); the chapter on differentially private bagging for
    what each scheme guarantees.

    Examples
    --------
    >>> drawn = draw_partitions(7, n_chunks=3, n_partitions=2, scheme="balanced", seed=0)
    >>> [len(rows) for rows in drawn.subsets()], drawn.joining
    ([3, 2, 2, 3, 2, 2], array([1, 1]))
    """
    n, n_chunks = at_least_one("n", n), at_least_one("n_chunks", n_chunks)
    n_partitions = at_least_one("n_partitions", n_partitions)
    one_of("scheme", scheme, ("independent", "balanced"))
    if scheme == "independent":
        drawn = stream(seed, 0).integers(n_chunks, size=(n + 1, n_partitions))
        return Partitions(drawn[:n], drawn[n], n_chunks)
    if n < n_chunks:
        raise ValueError(f"n_chunks must be at most n={n} for balanced partitions, got n_chunks={n_chunks}")
    dealt = np.arange(n) % n_chunks
    chunk = np.stack([stream(seed, j).permutation(dealt) for j in range(n_partitions)], axis=1)
    return Partitions(chunk, np.full(n_partitions, n % n_chunks), n_chunks)


def hash_chunks(identifiers: Iterable[str | bytes], *, n_chunks: int, n_partitions: int, key: bytes) -> Integers:
    """Chunk of each identifier in each partition by a keyed hash: a function of the identifier and the key alone.

    The chunks of an identifier stay the same whoever else is there; all records of a person share them if they share
    the identifier. The key may be public if the identifiers were chosen without it.

    Parameters
    ----------
    identifiers : iterable of str or bytes
    n_chunks : int, >= 1
        The hash has 64 bits for each partition: chunks are equally likely up to a fraction n_chunks / 2^64.
    n_partitions : int, >= 1
    key : bytes

    Returns
    -------
    ndarray of int64, shape [identifiers, n_partitions], in 0 .. n_chunks - 1

    Raises
    ------
    ValueError
        If a number is outside its range.
    TypeError
        If a number is not an integer, or an identifier or the key is of another kind.

    Examples
    --------
    >>> hash_chunks(["ada", "blaise"], n_chunks=250, n_partitions=3, key=b"2019")
    array([[ 14,  74,  40],
           [189, 203, 160]])
    """
    n_chunks, n_partitions = at_least_one("n_chunks", n_chunks), at_least_one("n_partitions", n_partitions)
    prefix = hashlib.sha256(key).digest()  # of fixed length: no key with an identifier equals another pair
    digests = [hashlib.shake_256(prefix + _bytes(each)).digest(8 * n_partitions) for each in identifiers]
    words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(len(digests), n_partitions)
    return (words % np.uint64(n_chunks)).astype(np.int64)


def _bytes(identifier: str | bytes) -> bytes:
    if isinstance(identifier, str):
        return b"s" + identifier.encode()
    if isinstance(identifier, bytes):
        return b"b" + identifier
    raise TypeError(f"identifiers must be str or bytes, got {identifier!r}")
