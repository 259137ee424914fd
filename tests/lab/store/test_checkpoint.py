"""Checkpoints in a store: a row whose process is killed goes on, whatever is
damaged, full, or there twice.
"""

import errno
import hashlib
import io
import os
import warnings

import pytest
import torch

from dpnotes.lab.store import (
    _checkpoint,
    checkpoint,
    read_store,
    sweep,
    unfinished,
    verify,
)
from tests.lab.store import toys

GRID = [{"kind": "mlp"}]


class StoppedError(Exception):
    """Stands for a kill."""


def always(monkeypatch):
    monkeypatch.setattr(_checkpoint, "LEAST", 0.0)
    monkeypatch.setattr(_checkpoint, "FRACTION", float("inf"))


@pytest.fixture
def store(tmp_path, monkeypatch):
    always(monkeypatch)
    return tmp_path / "runs" / "toy"


@pytest.fixture(scope="module")
def undisturbed():
    return toys.train(**GRID[0])


def read(file):
    """What a state says, after its digest."""
    return torch.load(io.BytesIO(file.read_bytes()[16:]), weights_only=True)


def train(store, grid=GRID):
    # seconds differ from run to run, weights must not
    row = sweep(toys.train, grid, store=store, progress=False).iloc[0]
    return {"weights": row["weights"], "loss": row["loss"]}


@pytest.fixture
def stopped(store, monkeypatch):
    """A store whose only row was stopped after three epochs, and the file of its
    state.
    """
    real = _checkpoint.replace_file
    written = []

    def write(*arguments):
        real(*arguments)
        written.append(1)
        if len(written) == 3:
            raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint, "replace_file", write)
        with pytest.raises(RuntimeError, match="StoppedError"):
            train(store)
    # one training, one state
    (file,) = store.glob("*.states/*.state")
    return store, file


@pytest.fixture
def states(monkeypatch):
    """Epochs of the states that are handed to learners, and of those that are kept."""
    loaded = []
    kept = []
    load = _checkpoint.RowCheckpoint.load
    write = _checkpoint.replace_file

    def recorded(self, training):
        state = load(self, training)
        loaded.append(state and state["done"])
        return state

    def writing(path, content):
        write(path, content)
        kept.append(read(path)["state"]["done"])

    monkeypatch.setattr(_checkpoint.RowCheckpoint, "load", recorded)
    monkeypatch.setattr(_checkpoint, "replace_file", writing)
    return loaded, kept


def test_a_row_goes_on_and_leaves_nothing(stopped, undisturbed, states, capfd):
    store, file = stopped
    key = file.parent.name.removesuffix(".states")
    assert unfinished(store.parent) == {key: file.stat().st_size}
    torch.save(read(file) | {"seconds": 5000.0}, told := io.BytesIO())
    file.write_bytes(
        hashlib.blake2b(told.getbuffer(), digest_size=16).digest() + told.getvalue()
    )
    assert train(store) == undisturbed
    assert states == ([3], [4, 5])
    assert (
        f"row {key} goes on from a checkpoint of 0.1 MB, made after 5000 s of it"
        in capfd.readouterr().err
    )
    # the time before the kill counts
    assert 5000 < read_store(store)["seconds"].item() < 6000
    assert unfinished(store.parent) == {}
    assert not file.parent.exists()


def test_what_a_kill_after_storing_leaves_is_removed_by_the_next_sweep(
    stopped, monkeypatch
):
    store, _ = stopped
    with monkeypatch.context() as patch:
        patch.setattr("dpnotes.lab.store._sweep.forget", lambda *_: None)
        train(store)
    # states of rows that are not finished stay
    other = store / "of another row.states"
    other.mkdir()
    train(store)
    assert [path for path in store.iterdir() if path.is_dir()] == [other]


@pytest.mark.parametrize("damage", ["cut", "turned", "head", "empty", "foreign"])
def test_a_damaged_state_is_left_out_with_a_word(stopped, undisturbed, states, damage):
    store, file = stopped
    content = file.read_bytes()
    # within the weights
    middle = len(content) // 2
    changed = {
        "cut": content[:-1],
        "turned": (
            content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        ),
        "head": content[1:],
        "empty": b"",
        "foreign": b"\x80\x04.\n\n",
    }
    file.write_bytes(changed[damage])
    with pytest.warns(UserWarning, match=r"is left out, so the training starts again"):
        assert train(store) == undisturbed
    assert states == ([None], [1, 2, 3, 4, 5])


def test_a_state_of_another_row_or_setting_is_not_continued(stopped, states):
    store, _ = stopped
    train(store, [{"kind": "mlp", "seed": 1}])
    train(store, [{"kind": "mlp", "epochs": 6}])
    assert states[0] == [None, None]


def test_a_full_disk_stops_no_training_and_is_warned_of_once(
    store, undisturbed, monkeypatch
):
    full = []
    real = os.fsync

    def fsync(file):
        if len(full) == 5:  # that of the row
            return real(file)
        full.append(file)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        assert train(store) == undisturbed
    assert len(full) == 5
    assert [str(each.message).count("No space left on device") for each in found] == [1]


def test_a_quick_training_and_one_outside_of_a_sweep_keep_nothing(
    store, states, monkeypatch
):
    assert checkpoint() is None
    toys.train(**GRID[0])
    train(store)
    assert states[1] == [1, 2, 3, 4, 5]
    assert checkpoint() is None
    verify(toys.train, store, sample=[read_store(store)["row"][0]], tolerance={})
    # no training of a test takes so long
    monkeypatch.setattr(_checkpoint, "LEAST", 1e9)
    train(store, [{"kind": "mlp", "seed": 2}])
    assert states[1] == [1, 2, 3, 4, 5]
    assert not list(store.glob("*.states"))
