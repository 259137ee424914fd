"""Votes of the models that were trained on a record: sums of squares for each
record, exact in integers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpnotes import _validation as check
from dpnotes._validation import Integers
from dpnotes.learners._devices import choose_device, slices, temporary_bytes

NIBBLE = 15  # votes that four bits count
LOW_NIBBLES = 0x0F0F0F0F0F0F0F0F
WORD = 8  # bytes
# of a block: votes of 25,000 models stay in L3, counts in L2
CPU_RECORDS = 4096
CPU_QUERIES = 512
GPU_QUERIES = 1024
LARGEST_K = 2**15 - 1  # counts in 16 bits, squares in 32


class TouchedVotes:
    """Running sums of charges, one sum for each record, from the votes of the models
    that were trained on it.

    Each record has one model in each of k partitions. At a query where n_c of these
    models vote for class c, the record is charged ``(k - min_c n_c)^2``. With two
    classes this is k^2 if the models agree, and (k/2)^2 if they split evenly. Every sum
    is exact. Votes are counted in 4 bits, then in 8 bits (16 bits for k > 255). Squares
    and sums within a block (records and queries that are computed at once) take 32 bits
    where they fit and 64 bits elsewhere; sums over blocks take 64 bits. Results depend
    neither on the blocks nor on the distribution of queries over calls of :meth:`add`.

    Parameters
    ----------
    membership : ndarray of int, shape [D, k], in 0 .. n_teachers - 1
        For each record and each partition, the model that was trained on the record. A
        row may also be for a record that could join later; it is treated like any other
        row.
    n_teachers : int, >= 1
        Number of models in each partition.
    n_classes : int, in [2, 255]
    device : str
        A PyTorch device, or ``"auto"``: the GPU if there is one.

    Attributes
    ----------
    totals : ndarray of int64, shape [D]
        Sum of the charges of each record over all queries so far.

    Raises
    ------
    ValueError
        If membership is not [D >= 1, 1 <= k < 32768] or out of range, or a number is
        outside its range.
    TypeError
        If a number is not an integer.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorem 4: the sum is k^2 times the sum of
    m(x; u)^2 over the queries.

    Examples
    --------
    >>> votes = np.array(
    ...     [[[1, 0], [1, 1]], [[0, 0], [0, 1]]]
    ... )  # [k, n_teachers, queries]
    >>> touched = TouchedVotes(
    ...     np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), n_teachers=2, device="cpu"
    ... )
    >>> touched.add(votes)  # largest sum of a record after each query
    array([1, 5])
    >>> touched.totals
    array([5, 2, 2, 5])
    """

    def __init__(
        self,
        membership: NDArray[np.integer],
        *,
        n_teachers: int,
        n_classes: int = 2,
        device: str = "auto",
    ) -> None:
        self._n_teachers = check.at_least("n_teachers", n_teachers, 1)
        most = ("the largest code", 255)
        self._n_classes = check.at_least("n_classes", n_classes, 2, most=most)
        # checked here, because a GPU does not name what is out of range
        rows = np.asarray(membership)
        if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "iu":
            raise ValueError(
                "membership must be integers of shape [D >= 1, k >= 1], got"
                f" {rows.dtype} {rows.shape}"
            )
        if rows.shape[1] > LARGEST_K:
            raise ValueError(
                f"membership must have at most {LARGEST_K} partitions, got"
                f" k={rows.shape[1]}"
            )
        if rows.min() < 0 or rows.max() >= n_teachers:
            raise ValueError(
                f"membership must be in 0..{n_teachers - 1}, got"
                f" {rows.min()}..{rows.max()}"
            )
        self._device = choose_device(device)
        self._k = rows.shape[1]
        # [k, D]
        own = torch.from_numpy(rows.T.astype(np.int64))
        self._own = own.to(self._device).contiguous()
        self._totals = torch.zeros(len(rows), dtype=torch.int64, device=self._device)
        self._records, self._queries = self._blocks()

    @property
    def totals(self) -> Integers:
        """Sum of the charges of each record over all queries so far, int64, shape
        [D].
        """
        return np.asarray(self._totals.cpu().numpy().copy())

    @torch.no_grad()
    def add(self, votes: NDArray[np.integer], *, limit: int | None = None) -> Integers:
        """Add queries; return, for each query, the largest sum that any record has
        reached after it.

        Parameters
        ----------
        votes : ndarray of int, shape [k, n_teachers, queries], in 0 .. n_classes
            Class code that each model votes for, or ``n_classes`` if it does not vote.
            An array of uint8 is not copied.
        limit : int, optional
            Sum at which to stop: the method stops after the first query at which a
            record's sum is at least ``limit`` and does not add later queries.

        Returns
        -------
        ndarray of int64, shape [queries added], ascending

        Raises
        ------
        ValueError
            If votes have another shape or a code is out of range.
        """
        given = np.asarray(votes)
        if (
            given.ndim != 3
            or given.shape[:2] != (self._k, self._n_teachers)
            or given.dtype.kind not in "iub"
        ):
            raise ValueError(
                f"votes must be integers of shape [{self._k}, {self._n_teachers},"
                f" queries], got {given.dtype} of shape {given.shape}"
            )
        if given.size and (given.min() < 0 or given.max() > self._n_classes):
            raise ValueError(
                f"votes must be in 0..{self._n_classes}, got"
                f" {given.min()}..{given.max()}"
            )
        codes = given.astype(np.uint8, copy=False)
        # with all votes in, those for the last class follow from the others
        complete = not given.size or int(given.max()) < self._n_classes
        # PyTorch warns of memory that it may not write to
        host = torch.from_numpy(codes if codes.flags.writeable else codes.copy())
        found: list[Tensor] = []
        for part in slices(codes.shape[2], self._queries):
            block = host[:, :, part].to(self._device)
            totals = self._totals.clone()
            largest = self._block(block, totals, complete)
            reached = len(largest)
            if limit is not None:
                reached = int((largest < limit).sum())
            if reached < len(largest):
                # again, without the queries after the one that reaches it
                totals = self._totals.clone()
                largest = self._block(block[:, :, : reached + 1], totals, complete)
            self._totals = totals
            found.append(largest)
            if limit is not None and int(largest[-1]) >= limit:
                break
        if not found:
            return np.zeros(0, np.int64)
        return np.asarray(torch.cat(found).cpu().numpy())

    def _blocks(self) -> tuple[int, int]:
        """Records and queries computed at once, from the cache or the GPU memory at
        hand.
        """
        queries = GPU_QUERIES if self._device.type == "cuda" else CPU_QUERIES
        # bytes for a record: gathered votes, counts, squares and their sums
        held = 16 * queries
        budget = temporary_bytes(self._device, on_cpu=CPU_RECORDS * held)
        return max(1, budget // held), queries

    def _block(self, votes: Tensor, totals: Tensor, complete: bool) -> Tensor:
        """Add a block of queries, in which all models vote if it is ``complete``;
        largest sum after each query.
        """
        queries = votes.shape[2]
        most = queries * self._k**2  # that a record can pay in this block
        kind = torch.int32 if most < 2**30 else torch.int64
        binary = complete and self._n_classes == 2
        codes = range(1 if complete else 0, self._n_classes)
        packed = []
        for code in codes:
            # the votes for class 1 of 2 are the codes themselves
            own = votes if binary else (votes == code).to(torch.uint8)
            packed.append(_packed(own))
        best = totals.max()
        width = packed[0].shape[2]
        largest = torch.full((queries,), -most, dtype=kind, device=votes.device)
        for part in slices(totals.shape[0], self._records):
            # a record further behind than the block can pay is never the largest, so
            # its lag needs no more digits
            lag = (totals[part] - best).clamp(min=-most).to(kind)
            # [2, records, width]
            against = self._k - self._fewest(packed, self._own[:, part], complete)
            paid = torch.empty(lag.shape[0], 2 * width, dtype=kind, device=votes.device)
            paid[:, :width] = against[0]
            paid[:, width:] = against[1]
            paid = paid[:, :queries]
            paid *= paid
            paid[:, 0] += lag
            torch.cumsum(paid, 1, out=paid)
            torch.maximum(largest, paid.amax(0), out=largest)
            totals[part] += paid[:, -1] - lag
        return largest.to(torch.int64) + best

    def _fewest(self, packed: list[Tensor], own: Tensor, complete: bool) -> Tensor:
        """Votes of a record's own models for the class that has fewest of them, [2,
        records, width].
        """
        counts = (self._counts(votes, own) for votes in packed)
        fewest = next(counts)
        others = self._k - fewest if complete else fewest
        for count in counts:
            fewest = torch.minimum(fewest, count)
            if complete:
                others = others - count  # the first class has what the others leave
        return torch.minimum(fewest, others)

    def _counts(self, packed: Tensor, own: Tensor) -> Tensor:
        """Votes for a class among each record's own models, [2, records, width]:
        rows gathered whole, nibbles added.
        """
        k = own.shape[0]
        records = own.shape[1]
        width = packed.shape[2]
        small = k <= 255
        kind = torch.uint8 if small else torch.int16
        counts = torch.zeros(2, records, width, dtype=kind, device=own.device)
        gathered = torch.empty(records, width, dtype=torch.uint8, device=own.device)
        nibbles = torch.empty_like(gathered)
        # eight counts at a time; none overflows
        low, high = counts.view(torch.int64) if small else counts
        for first in range(0, k, NIBBLE):
            torch.index_select(packed[first], 0, own[first], out=nibbles)
            for j in range(first + 1, min(first + NIBBLE, k)):
                torch.index_select(packed[j], 0, own[j], out=gathered)
                nibbles += gathered
            words = nibbles.view(torch.int64)
            spare = gathered.view(torch.int64)
            torch.bitwise_and(words, LOW_NIBBLES, out=spare)
            low += spare if small else gathered
            torch.bitwise_right_shift(words, 4, out=spare)
            spare &= LOW_NIBBLES
            high += spare if small else gathered
        return counts


def _packed(votes: Tensor) -> Tensor:
    """Two queries in a byte, the first ``width`` in the low nibbles: 0 or 1 [k, n,
    queries] to [k, n, width].
    """
    queries = votes.shape[2]
    width = WORD * -(-queries // (2 * WORD))
    if queries < 2 * width:
        votes = functional.pad(votes, (0, 2 * width - queries))
    return votes[:, :, :width] | (votes[:, :, width:] << 4)
