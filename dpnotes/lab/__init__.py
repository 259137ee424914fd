"""The workshop behind the book: experiments and their stored rows, the ledger of claims, chapters, the command line.

It is of no use without a checkout of the repository, and nothing of the library imports it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from dpnotes import _extras

_extras.require("book", part="dpnotes.lab")

Function = TypeVar("Function", bound=Callable[..., Any])


def experiment(name: str) -> Callable[[Function], Function]:
    """Decorator that gives an experiment the name that its rows carry, whatever module it moves to.

    Parameters
    ----------
    name : str
        Chapter and function, separated by a dot: ``"bagging.ensemble"``. The keys of stored rows depend on it.
    """

    def named(function: Function) -> Function:
        function.experiment_name = name  # type: ignore[attr-defined]
        return function

    return named
