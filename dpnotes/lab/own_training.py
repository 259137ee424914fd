"""A reader's own training in an audit: from a file, on a table, with scores that are kept as they come."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

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
    score: str | None,
    jobs: int,
    seed: int,
    keep: Path | None,
    **settings: Any,
) -> AuditReport:
    """What ``dpnotes audit`` does: all records of a table, encoded by public bounds, which canaries keep to as well.

    Parameters
    ----------
    training, score : str
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
    about = [training, own.digest, epsilon, delta, adjacency, score, seed, settings]
    text = "".join(Path(name.rpartition(":")[0]).read_text(encoding="utf-8") for name in (training, score) if name)
    memory = None if keep is None else Kept(keep, json.dumps(about) + text)
    return audit(
        named(training),
        np.concatenate([own.X_train, own.X_test]),
        np.concatenate([own.y_train, own.y_test]),
        claim=None if epsilon is None else approximate(epsilon, delta, adjacency=adjacency),
        score=None if score is None else named(score),
        norm=own.bound,
        bounds=(-1.0, 1.0),
        classes=range(len(own.class_names)),
        n_jobs=jobs,
        random_state=seed,
        progress=sys.stderr.isatty(),
        memory=memory,
        **settings,
    )


class Kept(MutableMapping[str, Any]):
    """Findings of one audit or comparison in a file, a line each, written as they come: what it goes on with.

    Parameters
    ----------
    path : Path
    about : str
        What is audited or compared and how; a file of another one is refused.
    kind : {"audit", "comparison"}

    Raises
    ------
    ValueError
        If the file is of another one, or no file of this kind.
    """

    def __init__(self, path: Path, about: str, *, kind: str = "audit") -> None:
        self._path, self._found = path, dict[str, Any]()
        digest = hashlib.sha256(about.encode()).hexdigest()
        if path.is_file() and path.stat().st_size:
            text = path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]  # a line that a kill tore is dropped
            if len(whole) < len(text):
                path.write_bytes(whole)
            try:
                self._found = dict(json.loads(line) for line in whole.splitlines())
            except ValueError:
                raise ValueError(f"{path} is no file of an audit or a comparison") from None
        if self._found.setdefault(kind, digest) != digest or next(iter(self._found)) != kind:
            raise ValueError(f"{path} is of another {kind}: of another training, table, claim or setting")
        if not path.is_file() or not path.stat().st_size:
            self._write(kind, digest)

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._found[name] = value
        self._write(name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError("what was counted stays")

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _write(self, name: str, value: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, value]) + "\n")
