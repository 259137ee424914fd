"""Worker processes that die, are stopped, or lose their parent: it costs them their row, and nobody else anything."""

import os
import signal
import sys
import textwrap
import threading
import time

import pytest
import sweep_toys
from processes import HANG, gone, lines, wait_until

from dpnotes.lab.store import read_store, sweep

GRID = [{"index": index} for index in range(8)]


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which processes there are")


def test_a_row_that_kills_its_worker_is_run_twice_and_then_named(store, tmp_path, capfd):
    """All others are finished and stored first; a second call has nothing but such rows to do."""
    calls = tmp_path / "calls"
    options = {"bad": [0], "ending": [3], "calls": calls}
    with pytest.raises(RuntimeError) as raised:
        sweep(sweep_toys.suicide, GRID, store=store, options=options, n_jobs=2, progress=False)
    said = str(raised.value)
    assert said.startswith("sweep_toys.suicide lost its worker twice, the second time as the only row there, with {")
    assert "{'index': 0} (its process was killed by SIGKILL)" in said
    assert "{'index': 3} (its process ended with code 0)" in said
    assert sorted(read_store(store)["index"]) == [1, 2, 4, 5, 6, 7]
    assert sorted(lines(calls)) == sorted("0012334567")
    assert set(lines(calls)[-2:]) == {"0", "3"}  # again, but last
    assert capfd.readouterr().err.count("it is run again at the end") == 2
    assert len(sweep(sweep_toys.suicide, GRID, store=store, options={"calls": calls}, progress=False)) == 8
    assert lines(calls)[-2:] == ["0", "3"]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_killed_from_outside_costs_its_row_a_second_run(store, tmp_path, stopped):
    pids = tmp_path / "pids"

    def kill_one():
        wait_until(lambda: len(lines(pids)) >= 2)
        victim = int(lines(pids)[0])
        if stopped:
            os.kill(victim, signal.SIGSTOP)
            wait_until(lambda: len(lines(pids)) >= 4)  # its neighbour goes on
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    table = sweep(sweep_toys.slow, GRID, store=store, options={"pause": 1, "pids": pids}, n_jobs=2, progress=False)
    killer.join(HANG)
    assert table["square"].tolist() == [index**2 for index in range(8)]
    assert len(lines(pids)) == 9
    assert len(set(lines(pids))) >= 3  # the second run is in a process that did not exist before


@LINUX
def test_a_worker_that_leaves_a_child_is_not_waited_for(store, tmp_path):
    """The child holds all that the worker had open."""
    pids = tmp_path / "pids"

    def leaves(index):
        child = os.fork()
        if child == 0:
            time.sleep(3600)
        sweep_toys.note(pids, child)
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        with pytest.raises(RuntimeError, match=r"leaves lost its worker twice.*'index': 0"):
            sweep(leaves, GRID[:1], store=store, n_jobs=2, progress=False)
        assert len(lines(pids)) == 2
        assert not any(gone(pid) for pid in lines(pids))
    finally:
        for pid in lines(pids):
            os.kill(int(pid), signal.SIGKILL)


PARENT = textwrap.dedent("""
    import sys
    from dpnotes.lab.store import sweep
    import sweep_toys
    store, pids = sys.argv[1:]
    grid = [{"index": index} for index in range(4)]
    options = {"pause": 0, "last": 3600, "pids": pids}
    sweep(sweep_toys.slow, grid, store=store, options=options, n_jobs=2, progress=False)
""")


@LINUX
@pytest.mark.parametrize(
    ("by", "stopped"),
    [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGTERM, False), (signal.SIGINT, True)],
)
def test_workers_end_with_their_parent(store, tmp_path, script, by, stopped):
    """In the middle of rows of an hour; what was finished is stored."""
    pids = tmp_path / "pids"
    process = script(PARENT, store, pids)
    wait_until(lambda: process.poll() is not None or (len(lines(pids)) == 4 and len(lines(store)) == 3))
    workers = {int(line) for line in lines(pids)}
    assert len(workers) == 2
    if stopped:
        os.kill(min(workers), signal.SIGSTOP)
    process.send_signal(by)
    process.communicate(timeout=HANG)
    assert process.returncode == -by
    wait_until(lambda: all(gone(pid) for pid in workers))
    assert sorted(read_store(store)["index"]) == [0, 1]


def test_an_experiment_that_ends_its_process_says_so_with_its_row(store):
    def ends(index):
        raise SystemExit(index)

    for n_jobs in (None, 2):
        with pytest.raises(RuntimeError, match=r"ends failed with \{'index': 5\}: SystemExit: 5"):
            sweep(ends, [{"index": 5}], store=store, n_jobs=n_jobs, progress=False)


def test_what_no_worker_can_load_is_named_with_its_row(store):
    options = {"calls": sweep_toys.Unloadable()}
    with pytest.raises(RuntimeError, match=r"slow failed with \{'index': [01]\}: .*not on this machine"):
        sweep(sweep_toys.slow, GRID, store=store, options=options, n_jobs=2, progress=False)


def test_what_cannot_be_sent_is_refused_at_once(store):
    with pytest.raises(TypeError, match="lock"):
        sweep(sweep_toys.slow, GRID, store=store, options={"calls": threading.Lock()}, n_jobs=2, progress=False)
    assert not store.exists()


def test_rows_beside_one_with_an_odd_result_are_kept(store):
    def odd(index):
        time.sleep(index % 2)
        return {"y": index} if index % 2 else [index]

    with pytest.raises(TypeError, match=r"odd with {'index': 0} must return a dict of metrics"):
        sweep(odd, GRID[:2], store=store, n_jobs=2, progress=False)
    assert read_store(store)["y"].tolist() == [1]
