"""Subsamples and partitions: every record where it should be, uniform, independent
of the others.
"""

import numpy as np
import pytest
from scipy import stats

from dpnotes.mechanisms import draw_partitions, draw_subsets, hash_chunks


def test_subsets_have_the_promised_repeats():
    free = draw_subsets(50, subsample=50, n_models=20, replace=False, seed=1)
    assert all(len(set(row)) == 50 for row in free.tolist())
    split = draw_subsets(
        60, subsample=3, n_models=20, replace=False, scheme="split", seed=1
    )
    assert len(set(split.ravel().tolist())) == 60
    assert any(
        len(set(row)) < 50
        for row in draw_subsets(
            50, subsample=50, n_models=3, replace=True, seed=1
        ).tolist()
    )


def test_streams_do_not_depend_on_the_number_of_models():
    few = draw_subsets(100, subsample=5, n_models=2, replace=True, seed=3)
    many = draw_subsets(100, subsample=5, n_models=7, replace=True, seed=3)
    np.testing.assert_array_equal(few, many[:2])
    assert len(np.unique(many, axis=0)) == 7
    assert (
        draw_subsets(100, subsample=5, n_models=2, replace=True, seed=4) != few
    ).any()


@pytest.mark.parametrize("scheme", ["independent", "balanced"])
def test_every_record_is_in_one_chunk_of_each_partition(scheme):
    drawn = draw_partitions(53, n_chunks=7, n_partitions=5, scheme=scheme, seed=3)
    chunks = drawn.subsets()
    assert len(chunks) == 35
    assert drawn.n_partitions == 5
    for j in range(5):
        own = chunks[7 * j : 7 * (j + 1)]
        assert sorted(np.concatenate(own).tolist()) == list(range(53))
        assert all((drawn.chunk[rows, j] == i).all() for i, rows in enumerate(own))
        assert 0 <= drawn.joining[j] < 7
    assert len({tuple(column) for column in drawn.chunk.T.tolist()}) == 5


def test_balanced_chunks_differ_by_one_and_a_new_record_joins_a_small_one():
    for n in (53, 56, 7):
        drawn = draw_partitions(
            n, n_chunks=7, n_partitions=4, scheme="balanced", seed=0
        )
        for column, joining in zip(drawn.chunk.T, drawn.joining, strict=True):
            sizes = np.bincount(column, minlength=7)
            assert sizes.max() - sizes.min() <= 1
            assert sizes[joining] == n // 7
            assert joining == sizes.argmin()


def test_chunks_are_uniform_and_independent_chunks_vary_in_size():
    """Chi-square at 1e-3 over the 9 cells of two records' chunks; balanced
    partitions fail it, as two records repel.
    """
    k = 20_000

    def p_values(scheme):
        chunk = draw_partitions(
            6, n_chunks=3, n_partitions=k, scheme=scheme, seed=11
        ).chunk
        pair = stats.chisquare(np.bincount(3 * chunk[0] + chunk[5], minlength=9)).pvalue
        return pair, stats.chisquare(np.bincount(chunk[2], minlength=3)).pvalue

    pair, single = p_values("independent")
    assert pair > 1e-3
    assert single > 1e-3
    pair, single = p_values("balanced")
    assert pair < 1e-6
    assert single > 1e-3


def test_independent_chunks_do_not_depend_on_how_many_records_follow():
    few = draw_partitions(10, n_chunks=250, n_partitions=3, seed=5)
    many = draw_partitions(11, n_chunks=250, n_partitions=3, seed=5)
    assert (many.chunk[:10] == few.chunk).all()
    assert (many.chunk[10] == few.joining).all()


def test_hashed_chunks_depend_on_the_identifier_and_the_key_alone():
    names = [f"person {i}" for i in range(30_000)]
    chunk = hash_chunks(names, n_chunks=7, n_partitions=2, key=b"k")
    assert (
        hash_chunks(names[::-1][:5], n_chunks=7, n_partitions=2, key=b"k")
        == chunk[::-1][:5]
    ).all()
    assert (
        hash_chunks(names, n_chunks=7, n_partitions=1, key=b"k") == chunk[:, :1]
    ).all()
    assert (hash_chunks(names, n_chunks=7, n_partitions=2, key=b"l") != chunk).any()
    assert (
        hash_chunks([b"person 0"], n_chunks=7**5, n_partitions=2, key=b"k") != chunk[:1]
    ).any()
    assert (
        stats.chisquare(np.bincount(7 * chunk[:, 0] + chunk[:, 1], minlength=49)).pvalue
        > 1e-3
    )
    assert hash_chunks([], n_chunks=7, n_partitions=2, key=b"k").shape == (0, 2)


SUBSETS = {"n": 3, "subsample": 2, "n_models": 2, "replace": False}
CHUNKS = {"n": 10, "n_chunks": 3, "n_partitions": 2}


@pytest.mark.parametrize(
    ("draw", "change", "message"),
    [
        (draw_subsets, {**SUBSETS, "n": 0}, "n must be >= 1"),
        (draw_subsets, {**SUBSETS, "subsample": 0}, "subsample must be >= 1"),
        (draw_subsets, {**SUBSETS, "n_models": 0}, "n_models must be >= 1"),
        (draw_subsets, {**SUBSETS, "subsample": 4}, "at most n=3 without replacement"),
        (draw_subsets, {**SUBSETS, "scheme": "split"}, "only n=3"),
        (draw_subsets, {**SUBSETS, "scheme": "other"}, "scheme must be one of"),
        (draw_partitions, {**CHUNKS, "n": 0}, "n must be >= 1, got n=0"),
        (draw_partitions, {**CHUNKS, "n_chunks": 0}, "n_chunks must be >= 1"),
        (draw_partitions, {**CHUNKS, "n_partitions": 0}, "n_partitions must be >= 1"),
        (
            draw_partitions,
            {**CHUNKS, "n_chunks": 11, "scheme": "balanced"},
            "n_chunks must be at most n=10 for",
        ),
        (
            draw_partitions,
            {**CHUNKS, "scheme": "equal"},
            "scheme must be one of 'independent', 'balanced', got",
        ),
    ],
)
def test_bad_parameters_are_named(draw, change, message):
    with pytest.raises(ValueError, match=message):
        draw(change.pop("n"), **change, seed=0)


def test_bad_hash_arguments_are_named():
    with pytest.raises(TypeError, match="must be str or bytes, got one of type int"):
        hash_chunks([3], n_chunks=2, n_partitions=1, key=b"k")
    with pytest.raises(TypeError):
        hash_chunks(["a"], n_chunks=2, n_partitions=1, key="k")
