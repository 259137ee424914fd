"""Checkpoints beside a store: a row whose process is killed goes on, whatever is damaged, full, or there twice."""

import errno
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import training_toys
from filelock import FileLock

from dpnotes.lab.store import _checkpoint, _sweep, checkpoint, read_store, sweep, unfinished, verify

GRID = [{"kind": "mlp"}]


class StoppedError(Exception):
    """Stands for a kill."""


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    monkeypatch.setattr(_checkpoint, "LEAST", 0.0)
    monkeypatch.setattr(_checkpoint, "FRACTION", float("inf"))


@pytest.fixture
def undisturbed(tmp_path):
    folder = tmp_path / "undisturbed"
    return metrics(sweep(training_toys.train, GRID, store=folder / "toy.csv", progress=False))


@pytest.fixture
def stopped(store, monkeypatch):
    """A store whose only row was stopped after three epochs, and the file of its state."""
    stop_at(monkeypatch, 3)
    with pytest.raises(RuntimeError, match="StoppedError"):
        sweep(training_toys.train, GRID, store=store, progress=False)
    monkeypatch.undo()
    monkeypatch.setattr(_checkpoint, "LEAST", 0.0)
    monkeypatch.setattr(_checkpoint, "FRACTION", float("inf"))
    (file,) = store.parent.glob(".checkpoints/*/*.state")
    return store, file


def stop_at(monkeypatch, count):
    written, real = [], _checkpoint._write

    def write(*arguments):
        real(*arguments)
        written.append(arguments)
        if len(written) == count:
            raise StoppedError

    monkeypatch.setattr(_checkpoint, "_write", write)


def metrics(table):
    return table[["weights", "loss"]].to_dict("list")


def states(monkeypatch):
    """Epochs of the states that are handed to learners, and of those that are kept."""
    loaded, kept, load, write = [], [], _checkpoint.RowCheckpoint.load, _checkpoint._write

    def recorded(self, training):
        state = load(self, training)
        loaded.append(state and state["done"])
        return state

    def writing(path, state, seconds):
        write(path, state, seconds)
        kept.append(state["done"])

    monkeypatch.setattr(_checkpoint.RowCheckpoint, "load", recorded)
    monkeypatch.setattr(_checkpoint, "_write", writing)
    return loaded, kept


def test_a_row_goes_on_and_leaves_nothing(stopped, undisturbed, monkeypatch, capfd):
    store, file = stopped
    key = file.parent.name
    assert unfinished(store.parent) == {key: file.stat().st_size}
    loaded, kept = states(monkeypatch)
    table = sweep(training_toys.train, GRID, store=store, progress=False)
    assert (loaded, kept) == ([3], [4, 5])
    assert metrics(table) == undisturbed
    assert f"row {key} goes on from a checkpoint of 0.1 MB, made after" in capfd.readouterr().err
    assert unfinished(store.parent) == {}
    assert not file.parent.exists()


def test_what_a_kill_after_storing_leaves_is_removed_by_the_next_sweep(stopped, monkeypatch):
    store, file = stopped
    monkeypatch.setattr(_sweep, "forget", lambda *_: None)
    sweep(training_toys.train, GRID, store=store, progress=False)
    assert file.exists()
    other = file.parent.with_name("another row")
    other.mkdir()
    monkeypatch.undo()
    sweep(training_toys.train, GRID, store=store, progress=False)
    assert [path.name for path in file.parent.parent.iterdir()] == [other.name]


def test_processes_killed_at_random_moments_lose_nothing(tmp_path):
    """The campaign of ``training_toys``, a few kills of it."""
    command = [sys.executable, training_toys.__file__, "4", "mlp"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["kills"] >= 4
    assert found["continued"]
    assert (found["other results"], found["left over"]) == (0, 0)


@pytest.mark.parametrize("damage", ["cut", "turned", "head", "empty", "foreign"])
def test_a_damaged_state_is_left_out_with_a_word(stopped, undisturbed, monkeypatch, damage):
    store, file = stopped
    content = file.read_bytes()
    middle = len(content) // 2
    changed = {
        "cut": content[:-1],
        "turned": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "head": content[1:],
        "empty": b"",
        "foreign": b"\x80\x04.\n\n",
    }
    file.write_bytes(changed[damage])
    loaded, kept = states(monkeypatch)
    with pytest.warns(UserWarning, match=r"is left out, the training begins anew: it.* damaged"):
        table = sweep(training_toys.train, GRID, store=store, progress=False)
    assert (loaded, kept) == ([None], [1, 2, 3, 4, 5])
    assert metrics(table) == undisturbed


def test_a_state_of_another_row_or_setting_is_not_continued(stopped, monkeypatch):
    store, _ = stopped
    loaded, _ = states(monkeypatch)
    sweep(training_toys.train, [{"kind": "mlp", "seed": 1}], store=store, progress=False)
    assert loaded == [None]
    monkeypatch.setitem(training_toys.COMMON, "epochs", 6)
    changed = {**training_toys.COMMON, "architecture": "mlp", "hidden": (16,)}
    monkeypatch.setitem(
        training_toys.NETWORKS, "mlp", lambda **own: training_toys.NetworkClassifier(None, **changed, **own)
    )
    sweep(training_toys.train, GRID, store=store, progress=False)
    assert loaded == [None, None]
    assert not unfinished(store.parent)


def test_a_full_disk_stops_no_training_and_is_warned_of_once(store, undisturbed, monkeypatch):
    full, real = [], os.fsync

    def fsync(file):
        if len(full) == 5:  # that of the row
            return real(file)
        full.append(file)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_checkpoint.os, "fsync", fsync)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table = sweep(training_toys.train, GRID, store=store, progress=False)
    assert len(full) == 5
    assert [str(each.message).count("No space left on device") for each in found] == [1]
    assert metrics(table) == undisturbed


def test_a_disk_that_was_full_for_a_time_has_states_again(store, monkeypatch):
    times, real = [], os.fsync

    def fsync(file):
        times.append(1)
        if len(times) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(_checkpoint.os, "fsync", fsync)
    stop_at(monkeypatch, 3)
    with pytest.warns(UserWarning, match="no checkpoint in .* goes on"), pytest.raises(RuntimeError, match="Stopped"):
        sweep(training_toys.train, GRID, store=store, progress=False)
    assert len(times) == 4  # the second failed
    (file,) = store.parent.glob(".checkpoints/*/*.state")
    assert _checkpoint._parsed(file.read_bytes())[0]["done"] == 4
    assert not list(store.parent.glob(".checkpoints/*/*.tmp"))


def test_a_second_process_at_the_row_keeps_no_states_until_the_first_is_gone(stopped, undisturbed, monkeypatch):
    store, file = stopped
    loaded, kept = states(monkeypatch)
    other, save = FileLock(file.parent / ".lock", is_singleton=False), _checkpoint.RowCheckpoint.save
    other.acquire()

    def saving(self, training, state, *, last):
        if last:
            other.release()
        save(self, training, state, last=last)

    monkeypatch.setattr(_checkpoint.RowCheckpoint, "save", saving)
    table = sweep(training_toys.train, GRID, store=store, progress=False)
    assert (loaded, kept) == ([3], [5])
    assert metrics(table) == undisturbed


def test_the_time_of_a_row_counts_what_was_kept(stopped, monkeypatch):
    store, file = stopped
    head, rest = file.read_bytes().split(b"\n", 1)
    told = json.loads(head) | {"seconds": 5000.0}
    file.write_bytes(json.dumps(told).encode() + b"\n" + rest)
    sweep(training_toys.train, GRID, store=store, progress=False)
    (seconds,) = read_store(store)["seconds"]
    assert 5000 < seconds < 6000


def test_states_that_cost_too_much_are_left_out(store, monkeypatch):
    """A quick training writes nothing at all."""
    monkeypatch.setattr(_checkpoint, "LEAST", 1e9)
    _, kept = states(monkeypatch)
    sweep(training_toys.train, GRID, store=store, progress=False)
    assert not kept
    assert not Path(store.parent, ".checkpoints").exists()


def test_outside_of_a_sweep_nothing_is_kept(store, monkeypatch):
    _, kept = states(monkeypatch)
    assert checkpoint() is None
    training_toys.train(**GRID[0])
    sweep(training_toys.train, GRID, store=store, progress=False)
    assert len(kept) == 5
    assert checkpoint() is None
    verify(training_toys.train, store, sample=1, random_state=0, tolerance={})
    assert len(kept) == 5


def test_status_tells_the_size_of_what_was_begun(stopped, monkeypatch):
    from click.testing import CliRunner

    from dpnotes.lab import cli

    store, file = stopped
    monkeypatch.setenv("DPNOTES_RUNS", str(store.parent))
    monkeypatch.setattr("dpnotes.lab._remember.tell", lambda *_: None)  # the rows themselves
    told = CliRunner().invoke(cli.main, ["results", "status"], catch_exceptions=False).output
    assert told == f"checkpoints of rows that were begun: 1 (0.1 MiB), in {store.parent}\n"
    assert file.stat().st_size < 150_000
