"""How a record's own models vote: exact against plain sums, whatever the blocks, at
the ends of the integer types.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpnotes.learners import TouchedVotes


def plain(votes, membership, n_classes):
    """Running sums of (k - fewest)^2, [D, queries], one record and one query at a
    time in Python's integers.
    """
    k, _, queries = votes.shape
    sums = []
    for row in membership:
        total = 0
        running = []
        # with the integers of Python, which have no limit
        for q in range(queries):
            own = [int(votes[j, row[j], q]) for j in range(k)]
            total += (k - min(own.count(c) for c in range(n_classes))) ** 2
            running.append(total)
        sums.append(running)
    return np.array(sums, dtype=np.int64).reshape(len(membership), queries)


def in_blocks(blocks, *arguments, **settings):
    """Votes whose blocks hold so many records and queries."""
    with pytest.MonkeyPatch.context() as patch:
        # as for a small cache, which this machine need not have
        patch.setattr(TouchedVotes, "_blocks", lambda self: blocks)
        return TouchedVotes(*arguments, **settings)


@settings(max_examples=60)
@given(
    k=st.sampled_from([1, 2, 14, 15, 16, 31]),
    n_classes=st.integers(2, 4),
    queries=st.integers(1, 40),
    abstain=st.booleans(),
    records=st.integers(1, 9),
    width=st.integers(1, 40),
    seed=st.integers(0, 2**31),
)
def test_sums_equal_the_plain_ones_whatever_the_blocks(
    k, n_classes, queries, abstain, records, width, seed
):
    generator = np.random.default_rng(seed)
    votes = generator.integers(
        n_classes + abstain, size=(k, 4, queries), dtype=np.uint8
    )
    membership = generator.integers(4, size=(7, k))
    expected = plain(votes, membership, n_classes)
    how = {"n_teachers": 4, "n_classes": n_classes, "device": "cpu"}
    touched = in_blocks((records, width), membership, **how)
    # calls of any lengths, also of none
    cut = int(generator.integers(queries + 1))
    found = [touched.add(votes[:, :, :cut]), touched.add(votes[:, :, cut:])]
    assert (np.concatenate(found) == expected.max(0)).all()
    assert (touched.totals == expected[:, -1]).all()


@pytest.mark.parametrize("k", [255, 256, 300, 1000])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_counts_beyond_a_byte(k, n_classes):
    """k = 256 is the first that eight bits would wrap to 0; agreement and dissent
    both reach the ends.
    """
    generator = np.random.default_rng(k)
    votes = generator.integers(n_classes, size=(k, 3, 20), dtype=np.uint8)
    # all models of the first record agree, and all of the second
    votes[:, 0] = 1
    votes[:, 1] = 0
    membership = generator.integers(3, size=(6, k))
    membership[:2] = [[0], [1]]
    touched = TouchedVotes(membership, n_teachers=3, n_classes=n_classes, device="cpu")
    expected = plain(votes, membership, n_classes)
    assert (touched.add(votes) == expected.max(0)).all()
    assert (touched.totals == expected[:, -1]).all()
    assert touched.totals[0] == touched.totals[1] == 20 * k**2


def test_sums_beyond_32_bits():
    """At k = 300, 2^31 / k^2 = 23,860 queries; 40 calls of 1,000 pass it, one of
    them within a block of int64 sums.
    """
    votes = np.ones((300, 1, 1000), np.uint8)
    membership = np.zeros((2, 300), int)
    touched = TouchedVotes(membership, n_teachers=1, device="cpu")
    found = [touched.add(votes) for _ in range(40)]
    assert (np.concatenate(found) == 90_000 * np.arange(1, 40_001)).all()
    # in one block, whose sums no longer fit 32 bits
    wide = in_blocks((2, 600), np.zeros((2, 2000), int), n_teachers=1, device="cpu")
    assert wide.add(np.zeros((2000, 1, 600), np.uint8))[-1] == 600 * 2000**2 > 2**31


@pytest.mark.parametrize("blocks", [(3, 8), (3, 5), (100, 100)])
def test_stops_after_the_query_that_reaches_the_limit(blocks):
    generator = np.random.default_rng(1)
    votes = generator.integers(2, size=(9, 4, 50))
    membership = generator.integers(4, size=(12, 9))
    expected = plain(votes, membership, 2)
    largest = expected.max(0)
    middle = int(largest[7])
    end = int(largest[-1])
    # reached just so, and missed by one
    for limit in (1, middle, middle + 1, end, end + 1):
        # blocks that end before, at and after the query
        touched = in_blocks(blocks, membership, n_teachers=4, device="cpu")
        added = min(50, int(np.searchsorted(largest, limit)) + 1)
        assert (touched.add(votes, limit=limit) == largest[:added]).all()
        assert (touched.totals == expected[:, added - 1]).all()


def test_read_only_votes_and_no_queries():
    votes = np.zeros((2, 2, 3), np.uint8)
    # as NumPy reads a file that it maps
    votes.flags.writeable = False
    touched = TouchedVotes(np.zeros((1, 2), int), n_teachers=2, device="cpu")
    assert touched.add(votes).tolist() == [4, 8, 12]
    assert touched.add(votes[:, :, :0]).tolist() == []
    assert touched.totals.tolist() == [12]


@pytest.mark.parametrize(
    ("membership", "votes", "change", "message"),
    [
        ([0, 1], None, {}, r"membership must be integers of shape \[D >= 1, k >= 1\]"),
        ([[0.0]], None, {}, "membership must be integers"),
        ([[0, 2]], None, {}, r"membership must be in 0..1, got 0..2"),
        (np.zeros((1, 2**15), int), None, {}, "at most 32767 partitions, got k=32768"),
        ([[0]], None, {"n_classes": 256}, "n_classes must be >= 2 and <= .*255"),
        ([[0]], None, {"n_teachers": 0}, "n_teachers must be >= 1"),
        (
            [[0, 0]],
            np.zeros((2, 3, 4), int),
            {},
            r"votes must be integers of shape \[2, 2, queries\]",
        ),
        ([[0, 0]], np.full((2, 2, 4), 3), {}, r"votes must be in 0..2, got 3..3"),
        ([[0, 0]], np.zeros((2, 2, 4)), {}, "votes must be integers"),
    ],
)
def test_bad_input_is_named(membership, votes, change, message):
    with pytest.raises(ValueError, match=message):
        TouchedVotes(
            np.asarray(membership), **{"n_teachers": 2, "device": "cpu", **change}
        ).add(votes)
