"""What the machine itself can do, measured in the same run: bars are fractions of it.

How many times as fast as a loop in Python we are says as much about the interpreter and torch's overhead as about us:
with a new torch such ratios fell by half, although our own times fell, too. A bar is therefore one of these:

* a fraction of the machine's arithmetic. :func:`arithmetic` is one large matrix product, the fastest way to multiply
  numbers that it has; its time is scaled to the operations of the job's own products. Half of it is the bar: the rest
  is for products too small for that speed, and for all that is no product.
* a fraction of the machine's memory, where a job mostly moves data. :func:`gathering` takes the rows that the job needs
  out of their table in one compiled loop, and does nothing with them.
* the ratio to a library that people use, in the same run.

A fraction of 1 is all that the machine has. Loops in Python are still timed, but have no bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

OPERATIONS = 2 * 1024**3 * 8  # of a call of what `arithmetic` gives, a multiplication and an addition being two


def arithmetic(dtype: torch.dtype, device: str = "cpu") -> Callable[[], None]:
    """``OPERATIONS`` in products of two matrices of 1024 x 1024 numbers, the second in the cache."""
    left, right = torch.ones(2, 1024, 1024, dtype=dtype, device=device)
    product = torch.empty_like(left)

    def run() -> None:
        for _ in range(8):
            torch.mm(left, right, out=product)

    return run


def gathering(steps: Callable[[], Iterable[tuple[torch.Tensor, torch.Tensor]]]) -> Callable[[], None]:
    """Copies of rows, for each step of a table and the rows' numbers."""

    def run() -> None:
        out = None
        for table, rows in steps():
            out = table.new_empty(len(rows), table.shape[1]) if out is None else out
            torch.index_select(table, 0, rows, out=out)

    return run
