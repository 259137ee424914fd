"""Chunk sizes: within budget, nearly equal, and an error that names one that fits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.learners import _chunks

CPU = torch.device("cpu")


@given(st.integers(1, 10_000), st.integers(1, 10**7), st.integers(1, 8))
def test_chunks_cover_all_models_within_the_budget_and_nearly_equally(n_models, size, threads):
    chunk = _chunks.chunk_size(n_models, size, CPU, n_threads=threads)
    parts = list(_chunks.slices(n_models, chunk))
    covered = np.concatenate([np.arange(n_models)[part] for part in parts])
    np.testing.assert_array_equal(covered, np.arange(n_models))
    assert chunk == 1 or chunk * size <= _chunks.CPU_BUDGET * threads
    # one chunk fewer would break the budget: nothing is gained by smaller ones
    if len(parts) > 1:
        most = max(1, _chunks.CPU_BUDGET * threads // size)
        assert (len(parts) - 1) * most < n_models


def test_own_choice_is_kept_and_checked(monkeypatch):
    assert _chunks.chunk_size(10, 1000, CPU, chunk=3) == 3
    assert _chunks.chunk_size(10, 1000, CPU, chunk=30) == 10
    with pytest.raises(ValueError, match="chunk must be >= 1, got chunk=0"):
        _chunks.chunk_size(10, 1000, CPU, chunk=0)
    monkeypatch.setattr(_chunks, "free_bytes", lambda device: 7_500_000)
    with pytest.raises(MemoryError, match=r"chunk=10 models of 1\.0 MB need 0\.01 GB.*chunk=7 would fit"):
        _chunks.chunk_size(10, 1_000_000, CPU, chunk=10)
    assert _chunks.chunk_size(10, 1_000_000, CPU, chunk=7) == 7
    with pytest.raises(MemoryError, match="not even chunk=1 fits"):
        _chunks.chunk_size(10, 8_000_000, CPU)


def test_what_an_iteration_reads_decides_on_a_cpu_and_what_is_held_bounds_it(monkeypatch):
    assert _chunks.chunk_size(64, 10**6, CPU, touched=2**18, n_threads=1) == 16
    monkeypatch.setattr(_chunks, "free_bytes", lambda device: 8_000_000)
    assert _chunks.chunk_size(64, 10**6, CPU, touched=2**18, n_threads=1) == 4


def test_out_of_memory_inside_names_a_smaller_chunk():
    def fail():
        with _chunks.memory_named(8, 1000, CPU):
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match="chunk=4 would fit"):
        fail()
    with pytest.raises(RuntimeError, match="shape"), _chunks.memory_named(8, 1000, CPU):
        raise RuntimeError("shape")
    with pytest.raises(MemoryError, match="chunk=8"), _chunks.memory_named(8, 2**50, CPU):
        torch.empty(2**56, dtype=torch.uint8)
