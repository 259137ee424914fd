"""An audit of a reader's training procedure: from a file, on a table, with scores
that are saved as they come.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import secrets
import sys
from collections import UserDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from dpnotes import _validation as check
from dpnotes.data import load_file

if TYPE_CHECKING:
    from dpnotes.auditing import AuditReport

BEGINNING = b'["audit", {"salt": '  # of a file of findings


def named(reference: str) -> Any:
    """Import the function or the unfitted estimator that ``FILE.py:NAME`` names.

    Raises
    ------
    ValueError
        If the reference does not have this form, or the file does not define the name.
    FileNotFoundError
        If there is no such file.
    """
    file, _, name = reference.rpartition(":")
    path = Path(file).expanduser().absolute()
    if not name.isidentifier() or path.suffix != ".py":
        raise ValueError(
            f"the training procedure must be named as FILE.py:NAME, got {reference!r}"
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # for imports from its folder, and for workers, which import it again
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    # after it ran: a name may be made by a loop
    if not hasattr(module, name):
        raise ValueError(f"{file} does not define {name!r}")
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
    """Audit a training procedure on all records of a table, encoded by public bounds,
    with the labels of its classes.

    Parameters
    ----------
    training : str
        See :func:`named`.
    table : Path
        The file of the table.
    target : str
        See :func:`dpnotes.data.load_file`.
    epsilon, delta, adjacency
        The claim. Without an epsilon, the claim of an estimator, if ``training`` names
        one.
    jobs, seed : int
        Number of training runs at a time, and seed of the audit.
    keep : Path, optional
        See :class:`Kept`.
    **settings
        Further parameters of :func:`dpnotes.audit`.
    """
    own = load_file(table, target=target)
    train = named(training)
    # late, as they import much: faults of the file are told without it
    from dpnotes.accounting import approximate
    from dpnotes.auditing import audit

    script = hashlib.sha256(
        Path(training.rpartition(":")[0]).expanduser().read_bytes()
    ).hexdigest()
    # what decides the findings: with other settings they must not be continued
    about = {
        "training": training,
        "code of the file": script,
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "seed": seed,
    } | settings
    about.pop("seconds", None)  # an audit may go on for longer
    if sys.stderr.isatty():
        _tell_on_one_line()
    with joblib.parallel_config(n_jobs=check.jobs("jobs", jobs)):
        report = audit(
            train,
            *own.records(),
            claim=(
                None
                if epsilon is None
                else approximate(epsilon, delta, adjacency=adjacency)
            ),
            # indicators of categories fill no box: canaries then keep to the ranges and
            # norms of the records
            domain=(
                (-1.0, 1.0) if all(column.is_number for column in own.columns) else None
            ),
            random_state=seed,
            memory=None if keep is None else Kept(keep, own.digest, about),
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
    """File that saves the findings of one audit, a line each, so that an interrupted
    audit can continue.

    The findings are as private as the records, so only the owner can read the file. It
    tells by a salted digest which table it belongs to, so two files do not show that
    they are about the same table.

    Parameters
    ----------
    path : Path
        The file.
    table : str
        Digest of the table.
    about : mapping
        Settings of the audit by name, as plain values; a file with other settings
        raises an error.

    Raises
    ------
    ValueError
        If the file belongs to another audit (the message names the differences), or is
        not such a file.
    """

    def __init__(self, path: Path, table: str, about: Mapping[str, Any]) -> None:
        super().__init__()
        self._path = path
        # before anything private is in it
        path.touch(mode=0o600)
        text = path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]  # a line that a kill tore is dropped
        theirs = None
        if text.startswith(BEGINNING[: len(text)]):
            with suppress(ValueError, TypeError):
                self.data = dict(json.loads(line) for line in whole.splitlines())
                theirs = self.data.get("audit", {})
        # another file is left as it was
        if not isinstance(theirs, dict):
            raise ValueError(f"{path} is not a file of an audit")
        path.chmod(0o600)
        if len(whole) < len(text):
            path.write_bytes(whole)
        # without it, a digest would tell who has the same table
        salt = theirs.get("salt", secrets.token_hex(16))
        digest = hashlib.sha256((salt + table).encode()).hexdigest()
        # as they are read back: tuples are lists there
        ours = json.loads(json.dumps({"salt": salt, "table": digest, **about}))
        if not self.data:
            self["audit"] = theirs = ours
        changed = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
        if changed:
            told = "; ".join(
                f"{name} was {theirs.get(name)!s:.60}, now {ours.get(name)!s:.60}"
                for name in changed
            )
            raise ValueError(
                f"{path} belongs to another audit: {told}. Use another file, or its"
                " settings"
            )

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, value]) + "\n")

    def __delitem__(self, name: str) -> None:
        raise TypeError("cannot delete a recorded result")
