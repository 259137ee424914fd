"""Differential privacy in machine learning: methods, their exact guarantees, and many models trained at once.

The estimators are here (``dpnotes.Bagging``); guarantees are in :mod:`dpnotes.accounting`, data sets in
:mod:`dpnotes.data`, learners in :mod:`dpnotes.learners`. Importing the package is cheap: a part is imported when it is
used. Accounting and mechanisms need numpy, scipy and dp-accounting only. The extra ``[learn]`` brings what estimators,
learners and data sets need, and ``[book]`` also what the book is made with.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_STUB = ast.parse(Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
_HOMES = {
    imported.name: statement.module
    for statement in _STUB.body
    if isinstance(statement, ast.ImportFrom)
    for imported in statement.names
}  # public name -> module that it is imported from on first use; the stub lists the names, for type checkers too

__all__ = [name for name, home in _HOMES.items() if home != "dpnotes"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpnotes' has no attribute {name!r}")
    home = _HOMES[name]
    return import_module(f"dpnotes.{name}") if home == "dpnotes" else getattr(import_module(str(home)), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
