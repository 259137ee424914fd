"""No record moves a sum of clipped gradients by more than the clipping norm: every
engine, with a record that is huge, tiny, orthogonal to all others or at the boundary of
the dtype.

The sum over the record alone is at most as long as the clipping norm, to the last
digit. Among b records the addition rounds, by at most b^2 u of the clipping norm.
"""

import threading

import numpy as np
import pytest
import torch

from dpnotes.learners._clipping import ROOM, clipped_sums
from dpnotes.learners._devices import full_float32
from tests.learners.test_dp_sgd import fixed
from tests.learners.test_dp_sgd_networks import NETWORKS, problem

B = 7  # records, the far one included
NORMS = (2.0**-20, 0.1, 1e4)
DTYPES = (torch.float32, torch.float64)


def far_records(shape, dtype):
    """Records [..., *shape]: sizes up to the largest number, in several directions."""
    finfo = torch.finfo(dtype)
    root = float(np.sqrt(finfo.max))
    # the smallest number there is
    subnormal = finfo.tiny * finfo.eps
    sizes = [0.0, subnormal, finfo.tiny, 1 / root, 1.0, 1 / finfo.eps]
    # squares of the last two are beyond the dtype
    sizes += [root**0.5, 0.99 * root, 1.01 * root, finfo.max]
    # entries of all signs and sizes
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=dtype)
    alone = torch.zeros(shape, dtype=dtype)
    alone.view(-1)[0] = 1
    directions = (-torch.ones(shape, dtype=dtype), drawn / drawn.abs().max(), alone)
    return [size * direction for size in sizes for direction in directions]


def check_moves(sums, x, y, norm):
    """Largest move over the norm by any far record in the place of the first."""
    # what the addition may round
    room = B**2 * torch.finfo(x.dtype).eps / 2
    # without the record
    rest = sums(x[1:], y[1:], norm)
    largest = 0.0
    for far in far_records(x.shape[1:], x.dtype):
        x[0] = far
        alone = np.linalg.norm(sums(x[:1], y[:1], norm))
        moved = np.linalg.norm(sums(x, y, norm) - rest)
        assert alone <= norm, (far.flatten()[:3], alone / norm)
        assert moved <= norm * (1 + room), (far.flatten()[:3], moved / norm)
        largest = max(largest, alone / norm)
    # no promise is kept by clipping to much less than is promised
    assert norm > 1 or largest >= 1 - 2 * ROOM[x.dtype]


def test_a_thread_that_leaves_changes_no_precision_under_another_one():
    before = torch.get_float32_matmul_precision()
    # each thread waits until the other has come or gone
    first, second, left = (threading.Event() for _ in range(3))
    seen = []

    def leaves():
        with full_float32():
            first.set()
            second.wait(20)
        left.set()

    def stays():
        first.wait(20)
        with full_float32():
            second.set()
            left.wait(20)
            seen.append(torch.get_float32_matmul_precision())

    torch.set_float32_matmul_precision("medium")
    try:
        threads = [threading.Thread(target=each) for each in (leaves, stays)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [*seen, torch.get_float32_matmul_precision()] == ["highest", "medium"]
    finally:
        torch.set_float32_matmul_precision(before)


class Shifted(torch.nn.Module):
    """A network with very many numbers, all of the same gradient."""

    def __init__(self, size):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(size))
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x + self.shift.sum())


def test_many_numbers_of_one_size():
    """In float32 the sum of their squares is too small by a thousandth."""
    x = torch.ones(1, 100_000)
    linear = torch.nn.Sequential(torch.nn.Linear(100_000, 2))
    for network, row in ((linear, x), (Shifted(100_000), x[:, :2])):
        found, _ = clipped_sums(network)(row, torch.zeros(1, dtype=torch.int64), 0.1)
        squares = sum(float(each.double().square().sum()) for each in found)
        assert 1 - 2 * ROOM[x.dtype] <= squares**0.5 / 0.1 <= 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, dtype, norm):
    network, x, y = problem(name, B)
    network = network.to(dtype)
    clipped = clipped_sums(network)

    def sums(x, y, norm):
        found, _ = clipped(x, y, norm)
        flat = torch.cat([value.flatten() for value in found])
        return flat.double().numpy()

    with full_float32():
        check_moves(sums, x.to(dtype), y, norm)


@pytest.mark.parametrize("margin", [0.0, 1.0, 30.0, 80.0, 700.0, 1e30, 1e300])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_regression(dtype, norm, margin):
    """Margins up to which residuals' squares underflow, where those of rows
    overflow.
    """
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(B, 6, generator=generator, dtype=dtype)
    y = torch.arange(B) % 3
    direction = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    weights = direction * min(margin, 0.1 * torch.finfo(dtype).max)

    def sums(x, y, norm):
        return fixed(x.numpy(), y.numpy(), weights.to(dtype).numpy(), norm)

    check_moves(sums, x, y, norm)
