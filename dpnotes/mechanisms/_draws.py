"""Assignment of records to models: random subsamples, and many partitions of the
records into shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpnotes._validation import Integers, at_least_one, one_of
from dpnotes.mechanisms._noise import stream


def draw_subsets(
    n: int,
    *,
    subsample: int,
    n_models: int,
    replace: bool,
    scheme: str = "independent",
    seed: int,
) -> Integers:
    """Draw the row indices of the subsample of each model.

    With ``scheme="independent"``, model i draws from a separate stream, spawned from
    the seed and i. Therefore the first models of a larger draw equal the models of a
    smaller draw.

    Parameters
    ----------
    n : int, >= 1
        Number of records.
    subsample : int, >= 1
        Number of records of each model; at most ``n`` without replacement.
    n_models : int, >= 1
    replace : bool
        Whether a record can be in one subsample more than once.
    scheme : {"independent", "split"}
        ``"independent"``: each subsample is drawn independently. ``"split"``: one draw
        of ``n_models * subsample`` records is dealt out to the models.
    seed : int, >= 0

    Returns
    -------
    ndarray of int64, shape [n_models, subsample]

    Raises
    ------
    ValueError
        If a number is below 1, more records are drawn without replacement than there
        are, or the scheme is invalid.

    Examples
    --------
    >>> draw_subsets(5, subsample=3, n_models=2, replace=False, seed=0).shape
    (2, 3)
    """
    for name, value in (("n", n), ("subsample", subsample), ("n_models", n_models)):
        at_least_one(name, value)
    one_of("scheme", scheme, ("independent", "split"))
    if not replace and subsample > n:
        raise ValueError(
            f"subsample must be at most n={n} without replacement, got"
            f" subsample={subsample}"
        )
    if scheme == "split":
        # one draw for all: without replacement no record is in two subsamples
        drawn = n_models * subsample
        if not replace and drawn > n:
            raise ValueError(
                f"scheme='split' draws n_models*subsample={drawn} records without"
                f" replacement; there are only n={n}"
            )
        return stream(seed, 0).choice(n, size=(n_models, subsample), replace=replace)
    subsets = np.empty((n_models, subsample), dtype=np.int64)
    for i in range(n_models):
        subsets[i] = stream(seed, i).choice(n, size=subsample, replace=replace)
    return subsets


@dataclass(frozen=True, eq=False)
class Partitions:
    """k partitions of n records, each into the same number of shards.

    Parameters
    ----------
    chunk : ndarray of int64, shape [n, k], in 0 .. n_chunks - 1
        Shard of each record in each partition.
    joining : ndarray of int64, shape [k]
        Shard of each partition that an additional record would join.
    n_chunks : int
        Number of shards in each partition.
    """

    chunk: Integers
    joining: Integers
    n_chunks: int

    @property
    def n_partitions(self) -> int:
        """Number of partitions k."""
        return int(self.chunk.shape[1])

    def subsets(self) -> list[Integers]:
        """Return k * n_chunks arrays, each with the records of one shard in ascending
        order.

        Shard i of partition j is at position j * n_chunks + i. Shards of independent
        partitions can be empty.
        """
        subsets: list[Integers] = []
        for column in self.chunk.T:
            # rows in the order of their shards, cut where a shard ends
            ends = np.cumsum(np.bincount(column, minlength=self.n_chunks))[:-1]
            subsets += np.split(np.argsort(column, kind="stable"), ends)
        return subsets


def draw_partitions(
    n: int, *, n_chunks: int, n_partitions: int, scheme: str = "independent", seed: int
) -> Partitions:
    """Draw random partitions of ``n`` records into shards.

    ``"independent"``: each record draws its shards independently of the other records,
    so adding or removing one record changes one shard of each partition. A draw for
    more records with the same seed begins with the n rows of the draw for n, and its
    next row is the ``joining`` of that draw. ``"balanced"``: each partition is drawn
    uniformly from the partitions whose shards differ by at most one record in size, and
    ``joining`` is the first of the smaller shards. Replacing a record changes one shard
    of each balanced partition. Adding a record can change two shards, because it can
    displace another record. Therefore balanced partitions suit only the replace-one
    adjacency.

    Parameters
    ----------
    n : int, >= 1
        Number of records; at least ``n_chunks`` for balanced partitions.
    n_chunks : int, >= 1
        Number of shards in each partition.
    n_partitions : int, >= 1
    scheme : {"independent", "balanced"}
    seed : int, >= 0
        Seed of the draws. Balanced partition j draws from a separate stream, spawned
        from the seed and j.

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
    Jordon, Yoon and van der Schaar (2019), Section 4 (balanced); the chapter on
    differentially private bagging for the guarantee of each scheme.

    Examples
    --------
    >>> drawn = draw_partitions(
    ...     7, n_chunks=3, n_partitions=2, scheme="balanced", seed=0
    ... )
    >>> [len(rows) for rows in drawn.subsets()], drawn.joining
    ([3, 2, 2, 3, 2, 2], array([1, 1]))
    """
    n = at_least_one("n", n)
    n_chunks = at_least_one("n_chunks", n_chunks)
    n_partitions = at_least_one("n_partitions", n_partitions)
    one_of("scheme", scheme, ("independent", "balanced"))
    if scheme == "independent":
        # one row more, for the record that would join
        drawn = stream(seed, 0).integers(n_chunks, size=(n + 1, n_partitions))
        return Partitions(drawn[:n], drawn[n], n_chunks)
    if n < n_chunks:
        raise ValueError(
            f"n_chunks must be at most n={n} for balanced partitions, got"
            f" n_chunks={n_chunks}"
        )
    # shards of equal size, or of one record more, shuffled
    dealt = np.arange(n) % n_chunks
    chunk = np.stack(
        [stream(seed, j).permutation(dealt) for j in range(n_partitions)], axis=1
    )
    return Partitions(chunk, np.full(n_partitions, n % n_chunks), n_chunks)


def hash_chunks(
    identifiers: Iterable[str | bytes], *, n_chunks: int, n_partitions: int, key: bytes
) -> Integers:
    """Assign each identifier to a shard of each partition by a keyed hash of only the
    identifier and the key.

    The shards of an identifier do not depend on the other identifiers. All records of a
    person share the same shards if they share the identifier. The key may be public if
    the identifiers were chosen without knowledge of it.

    Parameters
    ----------
    identifiers : iterable of str or bytes
    n_chunks : int, >= 1
        Number of shards in each partition. The hash has 64 bits for each partition, so
        the probabilities of the shards are equal up to a relative error of n_chunks /
        2^64.
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
        If a number is not an integer, or an identifier or the key has the wrong type.

    Examples
    --------
    >>> hash_chunks(["ada", "blaise"], n_chunks=250, n_partitions=3, key=b"2019")
    array([[ 14,  74,  40],
           [189, 203, 160]])
    """
    n_chunks = at_least_one("n_chunks", n_chunks)
    n_partitions = at_least_one("n_partitions", n_partitions)
    # of fixed length: no key with an identifier equals another pair
    prefix = hashlib.sha256(key).digest()
    digests = [
        hashlib.shake_256(prefix + _bytes(each)).digest(8 * n_partitions)
        for each in identifiers
    ]
    # 64 bits for each partition: their remainders are as good as uniform
    words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(
        len(digests), n_partitions
    )
    return (words % np.uint64(n_chunks)).astype(np.int64)


def _bytes(identifier: str | bytes) -> bytes:
    # a mark of the type, so that text and bytes never share a hash
    if isinstance(identifier, str):
        # a lone surrogate is no error, which would show it
        return b"s" + identifier.encode(errors="surrogatepass")
    if isinstance(identifier, bytes):
        return b"b" + identifier
    kind = type(identifier).__name__
    raise TypeError(f"identifiers must be str or bytes, got one of type {kind}")
