"""Experiments that need no learning."""

import csv
import os
import time

from dpnotes.lab.store._values import digest


def ratio(a, b=2.0, *, calls=None, label="plain"):
    """Metrics of every kind; one line a call in the file ``calls``."""
    note(calls, f"{a}/{b}")
    return {"ratio": a / b, "whole": a // int(b), "even": a % 2 == 0, "label": label, "empty": None}


def slow(index, *, pause=0.0, last=0.0, calls=None, pids=None):
    """Who computed it, after a pause, which is ``last`` from index 2 on."""
    note(calls, index)
    note(pids, os.getpid())
    time.sleep(last if last and index >= 2 else pause)
    return {"pid": os.getpid(), "square": index * index}


def fragile(index, *, bad=(), pause=0.0, calls=None):
    """Raise at the indices in ``bad``."""
    note(calls, index)
    time.sleep(pause * (index not in bad))
    if index in bad:
        raise Unpicklable(index, "no")
    return {"square": index * index}


def plain(index, *, scale=1.0, pause=0.0, pids=None):
    """Metrics of every kind that are the same wherever they are computed."""
    note(pids, os.getpid())
    time.sleep(pause)
    return {"third": scale * index / 3, "even": index % 2 == 0, "label": f"row {index} of {scale}", "empty": None}


def threads(index):
    """How many threads a worker may use."""
    return {"threads": os.environ.get("OMP_NUM_THREADS"), "pid": os.getpid()}


def suicide(index, *, bad=(), ending=(), calls=None):
    """Die without a word, as a process that the system kills for memory; other rows are stored by then."""
    note(calls, index)
    if index in bad:
        time.sleep(0.5)
        os.kill(os.getpid(), 9)
    if index in ending:
        os._exit(0)
    return {"square": index * index}


class Unpicklable(Exception):
    """Cannot be read back from a pickle: its arguments are not those of its message."""

    def __init__(self, index, reason):
        super().__init__(f"index {index}: {reason}")


class Unloadable:
    """Can be sent to another process, and not be read there."""

    def __reduce__(self):
        return _not_here, (os.getpid(),)


def _not_here(pid):
    if os.getpid() != pid:
        raise OSError("not on this machine")
    return Unloadable()


def note(calls, text):
    """Append a line to the file ``calls``, whole whatever other processes append."""
    if calls is not None:
        descriptor = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{text}\n".encode())
        os.close(descriptor)


def forged(header, line, column, text):
    """A line of a store with another text in one cell, and the check that fits."""
    names, fields = header.split(","), line.split(",")
    cells = dict(zip(names, fields, strict=True)) | {column: next(csv.reader([text]))[0]}
    fields[names.index(column)] = text
    fields[-1] = digest({name: cell for name, cell in cells.items() if cell and name != "check"}, 8)
    return ",".join(fields)
