"""A reader's own training in an audit: from a file, on a table, with scores that are kept as they come."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import sys
from collections import UserDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib

from dpnotes.accounting import approximate
from dpnotes.auditing import AuditReport, audit
from dpnotes.data import load_file


def named(reference: str) -> Any:
    """What ``FILE.py:NAME`` names: a function, or an unfitted estimator.

    Raises
    ------
    ValueError
        If it is not of this form, or the file has nothing of that name.
    FileNotFoundError
        If there is no such file.
    """
    file, _, name = reference.rpartition(":")
    path = Path(file).expanduser().absolute()
    if not name.isidentifier() or path.suffix != ".py":
        raise ValueError(f"a training must be named as FILE.py:NAME, got {reference!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # for what it imports beside it, and for workers, which import it anew
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise ValueError(f"{file} has no {name!r}")
    return getattr(module, name)


def audit_table(
    training: str,
    table: Path,
    *,
    target: str,
    epsilon: float | None,
    delta: float,
    adjacency: str,
    jobs: int,
    seed: int,
    keep: Path | None,
    **settings: Any,
) -> AuditReport:
    """What ``dpnotes audit`` does: all records of a table, encoded by public bounds, with the labels of its classes.

    Parameters
    ----------
    training : str
        See :func:`named`.
    table : Path
    target : str
        See :func:`dpnotes.data.load_file`.
    epsilon, delta, adjacency
        The claim; without an epsilon that of an estimator, if ``training`` names one.
    jobs, seed : int
    keep : Path, optional
        See :class:`Kept`.
    **settings
        Of :func:`dpnotes.audit`.
    """
    own = load_file(table, target=target)
    train = named(training)
    script = hashlib.sha256(Path(training.rpartition(":")[0]).expanduser().read_bytes()).hexdigest()
    about = {"training": training, "code of the file": script, "table": own.digest, "epsilon": epsilon, "delta": delta,
             "adjacency": adjacency, "seed": seed} | settings  # fmt: skip
    about.pop("seconds", None)  # an audit may go on for longer
    if sys.stderr.isatty():
        _tell_on_one_line()
    with joblib.parallel_config(n_jobs=jobs):
        report = audit(
            train,
            *own.records(),
            claim=None if epsilon is None else approximate(epsilon, delta, adjacency=adjacency),
            # indicators of categories fill no box: canaries then keep to the ranges and norms of the records
            domain=(-1.0, 1.0) if all(column.is_number for column in own.columns) else None,
            random_state=seed,
            memory=None if keep is None else Kept(keep, about),
            **settings,
        )
    return replace(report, remarks=(*report.remarks, *own.unread()))


def _tell_on_one_line() -> None:
    handler = logging.StreamHandler()
    handler.terminator = " "
    handler.setFormatter(logging.Formatter("\raudit: %(message)s"))
    log = logging.getLogger("dpnotes.auditing")
    log.setLevel(logging.INFO)
    log.handlers = [handler]


class Kept(UserDict[str, Any]):
    """Findings of one audit or comparison in a file, a line each, written as they come: what it goes on with.

    Parameters
    ----------
    path : Path
    about : mapping
        What is audited or compared and how, by name, as plain values; a file of another one is refused.
    kind : {"audit", "comparison"}

    Raises
    ------
    ValueError
        If the file is of another one, which says in what, or no file of this kind.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, kind: str = "audit") -> None:
        super().__init__()
        self._path = path
        ours = json.loads(json.dumps(about))
        text = path.read_bytes() if path.is_file() else b""
        whole = text[: text.rfind(b"\n") + 1]  # a line that a kill tore is dropped
        if len(whole) < len(text):
            path.write_bytes(whole)
        try:
            self.data = dict(json.loads(line) for line in whole.splitlines())
        except ValueError:
            raise ValueError(f"{path} is no file of an audit or a comparison") from None
        if not self.data:
            self[kind] = ours
        theirs = self.data.get(kind)
        if not isinstance(theirs, dict):
            raise ValueError(f"{path} is no file of this kind: {kind}")
        changed = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
        if changed:
            told = "; ".join(f"{name} was {theirs.get(name)!s:.60}, now {ours.get(name)!s:.60}" for name in changed)
            raise ValueError(f"{path} is of another {kind}: {told}. Take another file, or the settings that it has")

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, value]) + "\n")

    def __delitem__(self, name: str) -> None:
        raise TypeError("what was counted stays")
