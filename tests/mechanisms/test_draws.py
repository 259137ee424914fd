"""Subsamples and partitions: every record where it should be, uniform, independent
of the others.
"""

import numpy as np
import pytest
from scipy import stats

from dpnotes.mechanisms import draw_partitions, draw_subsets, hash_chunks

SUBSETS = {"n": 60, "subsample": 3, "n_models": 20, "replace": False, "seed": 1}
CHUNKS = {"n": 53, "n_chunks": 7, "n_partitions": 5, "seed": 3}


def chi_square(values, cells):
    return stats.chisquare(np.bincount(values, minlength=cells)).pvalue


def test_subsets_have_the_promised_repeats():
    free = draw_subsets(50, subsample=50, n_models=20, replace=False, seed=1)
    assert all(len(set(row)) == 50 for row in free.tolist())
    again = draw_subsets(50, subsample=50, n_models=3, replace=True, seed=1)
    assert any(len(set(row)) < 50 for row in again.tolist())
    split = draw_subsets(**SUBSETS, scheme="split")
    assert len(np.unique(split)) == 60


def test_streams_do_not_depend_on_the_number_of_models():
    few = draw_subsets(100, subsample=5, n_models=2, replace=True, seed=3)
    many = draw_subsets(100, subsample=5, n_models=7, replace=True, seed=3)
    np.testing.assert_array_equal(few, many[:2])
    assert len(np.unique(many, axis=0)) == 7
    other = draw_subsets(100, subsample=5, n_models=2, replace=True, seed=4)
    assert (other != few).any()


@pytest.mark.parametrize("scheme", ["independent", "balanced"])
def test_every_record_is_in_one_chunk_of_each_partition(scheme):
    drawn = draw_partitions(**CHUNKS, scheme=scheme)
    chunks = drawn.subsets()
    assert len(chunks) == 35
    assert drawn.n_partitions == 5
    for j in range(5):
        own = chunks[7 * j : 7 * (j + 1)]
        assert sorted(np.concatenate(own).tolist()) == list(range(53))
        assert all((drawn.chunk[rows, j] == i).all() for i, rows in enumerate(own))
        assert 0 <= drawn.joining[j] < 7
    assert len(np.unique(drawn.chunk, axis=1).T) == 5


@pytest.mark.parametrize("n", [53, 56, 7])
def test_balanced_chunks_differ_by_one_and_a_new_record_joins_a_small_one(n):
    drawn = draw_partitions(**{**CHUNKS, "n": n}, scheme="balanced")
    for column, joining in zip(drawn.chunk.T, drawn.joining, strict=True):
        sizes = np.bincount(column, minlength=7)
        assert sizes.max() - sizes.min() <= 1
        assert sizes[joining] == n // 7
        assert joining == sizes.argmin()


def test_chunks_are_uniform_and_independent_chunks_vary_in_size():
    """Chi-square at 1e-3 over the 9 cells of two records' chunks; balanced
    partitions fail it, as two records repel.
    """
    for scheme in ("independent", "balanced"):
        sizes = {"n_chunks": 3, "n_partitions": 20_000, "seed": 11}
        chunk = draw_partitions(6, **sizes, scheme=scheme).chunk
        assert chi_square(chunk[2], 3) > 1e-3
        pair = chi_square(3 * chunk[0] + chunk[5], 9)
        assert pair > 1e-3 if scheme == "independent" else pair < 1e-6


def test_independent_chunks_do_not_depend_on_how_many_records_follow():
    few = draw_partitions(10, n_chunks=250, n_partitions=3, seed=5)
    many = draw_partitions(11, n_chunks=250, n_partitions=3, seed=5)
    assert (many.chunk[:10] == few.chunk).all()
    assert (many.chunk[10] == few.joining).all()


def test_hashed_chunks_depend_on_the_identifier_and_the_key_alone():
    def hashed(names, key=b"k", n_chunks=7, n_partitions=2):
        sizes = {"n_chunks": n_chunks, "n_partitions": n_partitions}
        return hash_chunks(names, key=key, **sizes)

    names = [f"person {i}" for i in range(30_000)]
    chunk = hashed(names)
    assert (hashed(names[::-1][:5]) == chunk[::-1][:5]).all()
    assert (hashed(names, n_partitions=1) == chunk[:, :1]).all()
    assert (hashed(names, key=b"l") != chunk).any()
    # bytes and text that look alike are two identifiers
    assert (
        hashed([b"person 0"], n_chunks=7**5) != hashed(["person 0"], b"k", 7**5)
    ).any()
    assert chi_square(7 * chunk[:, 0] + chunk[:, 1], 49) > 1e-3
    assert hashed([]).shape == (0, 2)
    # as a file name may have, which no error may show
    assert hashed(["person \ud800"]).shape == (1, 2)
    with pytest.raises(TypeError, match="must be str or bytes, got one of type int"):
        hashed([3])
    with pytest.raises(TypeError):
        hashed(["a"], key="k")


@pytest.mark.parametrize(
    ("draw", "change", "message"),
    [
        (draw_subsets, {"n": 0}, "n must be >= 1"),
        (draw_subsets, {"subsample": 0}, "subsample must be >= 1"),
        (draw_subsets, {"n_models": 0}, "n_models must be >= 1"),
        (draw_subsets, {"subsample": 61}, "at most n=60 without replacement"),
        (draw_subsets, {"n": 59, "scheme": "split"}, "only n=59"),
        (draw_subsets, {"scheme": "other"}, "scheme must be one of"),
        (draw_partitions, {"n": 0}, "n must be >= 1, got n=0"),
        (draw_partitions, {"n_chunks": 0}, "n_chunks must be >= 1"),
        (draw_partitions, {"n_partitions": 0}, "n_partitions must be >= 1"),
        (draw_partitions, {"n": 6, "scheme": "balanced"}, "must be at most n=6 for"),
        (draw_partitions, {"scheme": "equal"}, "must be one of 'independent', 'bal"),
    ],
)
def test_bad_parameters_are_named(draw, change, message):
    given = {**(SUBSETS if draw is draw_subsets else CHUNKS), **change}
    with pytest.raises(ValueError, match=message):
        draw(**given)
