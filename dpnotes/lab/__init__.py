"""The workshop behind the book: experiments and their stored rows, the ledger of
claims, chapters, the command line.

Most of this package is useful only with the book, in a checkout or in a folder made by
``dpnotes book``. No part of the library imports it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def experiment(name: str, version: int = 1) -> Callable[[Function], Function]:
    """Decorate an experiment with the name and the version that its rows carry.

    The name and the version stay the same if the function moves to another module.

    Parameters
    ----------
    name : str
        Chapter and function, separated by a dot: ``"bagging.ensemble"``. The keys of
        stored rows depend on it.
    version : int
        Version of the numbers that the experiment returns. Raise the version by hand
        when these numbers are meant to change; rows of an earlier version are then out
        of date.
    """

    def named(function: Function) -> Function:
        # store reads them off the function, wherever it is
        function.experiment_name = name  # type: ignore[attr-defined]
        function.experiment_version = version  # type: ignore[attr-defined]
        return function

    return named
