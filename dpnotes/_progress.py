"""The progress bar of a long fit, which shows public numbers only.

It counts what a fit is known beforehand to do: steps, trees, models. Loops that end
when the records say so, as those of a minimiser do, have no bar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Thing = TypeVar("Thing")

DELAY = 3.0  # seconds, after which a bar is shown


@dataclass
class _Fit:
    name: str
    has_bar: bool = False


# a thread or process that a fit starts has none, and is silent
_under_way: ContextVar[_Fit | None] = ContextVar("fit", default=None)


@contextmanager
def fitting(name: str) -> Iterator[None]:
    """Let the outermost counted loop of a block show a bar with this name."""
    before = _under_way.set(_Fit(name))
    try:
        yield
    finally:
        _under_way.reset(before)


def counted(things: Iterable[Thing], total: int) -> Iterator[Thing]:
    """Give the things, ``total`` of them; at a terminal, a fit shows how many it has
    had.
    """
    fit = _under_way.get()
    # whatever stands there for the standard error, if anything
    at_terminal = getattr(sys.stderr, "isatty", bool)()
    if fit is None or fit.has_bar or not at_terminal:
        yield from things
        return
    from tqdm import tqdm

    fit.has_bar = True
    try:
        yield from tqdm(things, fit.name, total, leave=False, delay=DELAY)
    finally:
        fit.has_bar = False
