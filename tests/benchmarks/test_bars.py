"""The benchmarks: what they share, and that both sides of each comparison compute the same."""

import sys

import numpy as np
import pytest
import torch

from benchmarks import _common, boosted_trees, gpu
from benchmarks.__main__ import JOBS


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_sides_take_turns_and_the_first_call_does_not_count():
    calls, clock = [], iter(np.cumsum([0, 100, 0, 100, 0, 1, 0, 4, 0, 3, 0, 6]).tolist())
    seconds = _common.timed(lambda: calls.append("a"), lambda: calls.append("b"), repeats=2, clock=lambda: next(clock))
    assert "".join(calls) == "ababab"
    assert seconds == [2.0, 5.0]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_peak_memory_counts_what_was_freed_within_the_call():
    peak = _common.peak_memory
    assert 39 <= peak(lambda: np.ones(40 * 2**17).sum()) < 60  # 40 MiB
    assert peak(lambda: None) < 5


ON_DATA = ["1", "1b", "1c", "2", "2b", "2c", "4"]  # those that take data sets where they are here


@pytest.mark.parametrize("job", [job for job in JOBS if job != "gpu"])
def test_both_sides_of_the_small_version_agree(job, monkeypatch, tmp_path):
    """What is timed by `make bench` computes the same on both sides; bytes are counted, the clock is not read."""
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))  # random numbers, here as anywhere
    agree(job, monkeypatch)


@pytest.mark.needs("mnist", "adult", "covertype")
@pytest.mark.parametrize("job", ON_DATA)
def test_both_sides_agree_on_the_data_sets(job, monkeypatch):
    assert not any(_common.RANDOM in row.data for row in agree(job, monkeypatch))


def agree(job, monkeypatch):
    monkeypatch.setattr(_common, "CALL_ONCE", True)
    rows = list(JOBS[job](True))
    assert rows
    for row in rows:
        assert row.ours > 0, row
        assert row.other > 0, row
        assert row.gap is None or row.gap <= row.allowed, str(row)
        assert row.unit == "s" or row.ratio >= row.demanded, str(row)
    assert any(row.gap is not None for row in rows) or job == "memory"
    return rows


def test_one_model_of_eight_that_votes_the_opposite_is_noticed():
    """Votes with ties as often as on synthetic data, 6 in 100, and much oftener in some models than in others."""
    rng = np.random.default_rng(0)
    votes = rng.integers(2, size=(8, 1024))
    often = rng.permutation(np.linspace(0.01, 0.15, 8))[:, None]
    ours, one, other = (np.where(rng.random(votes.shape) < often / 2, 1 - votes, votes) for _ in range(3))
    _, found = boosted_trees.agreement(ours, one, other)
    assert found["gap"] <= found["allowed"] <= 0.05
    ours[3] = 1 - ours[3]
    _, found = boosted_trees.agreement(ours, one, other)
    assert found["gap"] > found["allowed"]


def test_the_rows_of_a_gpu_agree_with_the_other_side(monkeypatch):
    """Run on a CPU, where nothing is promised about speed: that both sides do the same must hold anywhere."""
    monkeypatch.setattr(_common, "CALL_ONCE", True)
    found = list(gpu.rows(True, device="cpu"))
    assert len(found) == 9
    assert all(row.gap < 1e-3 for row in found), found
