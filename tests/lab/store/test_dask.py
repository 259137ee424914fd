"""A real cluster on this machine: scheduler and two workers, each a process of its own, reached through joblib."""

import contextlib
import importlib
import os
import signal
import textwrap
import threading
import time

import distributed
import joblib
import pytest
import sweep_toys
from processes import HANG, Machines, wait_until

from dpnotes.lab.store import _workers, read_store, sweep
from dpnotes.lab.store._grid import requests
from dpnotes.lab.store._run import Job, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets that distributed leaves to the collector
]


@pytest.fixture(scope="module")
def machines(tmp_path_factory, environment):
    machines = Machines(tmp_path_factory.mktemp("cluster"), environment)
    yield machines
    machines.stop()


@pytest.fixture(scope="module")
def client(machines):
    machines.start_worker()
    machines.start_worker()
    with distributed.Client(scheduler_file=str(machines.scheduler_file), timeout=HANG) as client:
        yield client


@pytest.fixture
def cluster(machines, client):
    """Two workers, and all that runs rows by joblib runs them there."""
    while len(machines.alive()) < 2:
        machines.start_worker()
    wait_until(lambda: len(client.nthreads()) == 2)
    client.run(importlib.import_module, "dpnotes.lab.store")  # else the first to have it computes all rows
    with joblib.parallel_config(backend="dask"):
        yield machines


def rows_in(store):
    return max(store.read_text().count("\n") - 1, 0) if store.exists() else 0


@contextlib.contextmanager
def meanwhile(function):
    """Run something beside the block, and see to it that it was run."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    yield
    thread.join(HANG)
    assert not thread.is_alive()


pytestmark.append(pytest.mark.usefixtures("cluster"))


def test_rows_come_as_they_are_finished(store):
    """Not in one piece at the end: an interruption would lose them."""
    grid = [{"index": index} for index in range(8)]
    sizes = set()
    done = threading.Event()

    def watch():
        while not done.wait(0.02):
            sizes.add(store.read_text().count("\n") - 1 if store.exists() else 0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    table = sweep(sweep_toys.slow, grid, store=store, options={"pause": 0.2}, progress=False)
    done.set()
    watcher.join()
    assert table["square"].tolist() == [index**2 for index in range(8)]
    assert os.getpid() not in set(table["pid"])
    assert table["pid"].nunique() == 2
    assert len(sizes - {0, 8}) >= 2


def test_an_experiment_that_fails_on_the_cluster_says_which_row_and_stops_the_rest(store, tmp_path):
    grid = [{"index": index} for index in range(40)]
    options = {"bad": [3], "pause": 0.05, "calls": tmp_path / "calls"}
    with pytest.raises(RuntimeError, match=r"failed with \{'index': 3\}: RuntimeError: Unpicklable") as raised:
        sweep(sweep_toys.fragile, grid, store=store, options=options, progress=False)
    assert "raise Unpicklable" in raised.value.__cause__.__notes__[0]
    time.sleep(1.5)  # 30 rows would be run by now
    assert (tmp_path / "calls").read_text().count("\n") < 20


def test_the_scheduler_knows_few_rows_at_a_time_however_many_there_are(client):
    """As many as there are threads, one to come, and one that is being forgotten; nothing stays behind."""
    grid = requests("toy", [{"index": index} for index in range(300)])
    known, kept = [], []

    def look(row):
        kept.append(row.parameters["index"])
        known.append(len(client.futures))

    run(Job(sweep_toys.slow, None, None, False), grid, finished=look)
    assert sorted(kept) == list(range(300))
    assert max(known) <= 2 + 1 + 1
    wait_until(lambda: client.run_on_scheduler(tasks_and_marks) == (0, 0))


def tasks_and_marks(dask_scheduler):
    """Sizes of what the scheduler keeps for rows."""
    return len(dask_scheduler.tasks), len(dask_scheduler.extensions["events"]._events)


def test_a_killed_worker_costs_no_row(cluster, store, tmp_path):
    """The rows that it had are run by the other; every row is there exactly once."""
    grid = [{"index": index} for index in range(20)]
    killed = cluster.alive()[0]

    def kill_half_way():
        wait_until(lambda: rows_in(store) >= 8)
        killed.send_signal(signal.SIGKILL)

    options = {"pause": 0.2, "calls": tmp_path / "calls"}
    with meanwhile(kill_half_way):
        table = sweep(sweep_toys.slow, grid, store=store, options=options, progress=False)
    assert killed.wait(HANG) == -signal.SIGKILL
    assert table["square"].tolist() == [index**2 for index in range(20)]
    assert sorted(read_store(store)["index"]) == list(range(20))
    assert table["pid"].nunique() == 2
    calls = [int(line) for line in (tmp_path / "calls").read_text().split()]
    assert set(calls) == set(range(20))
    # Work lost with the worker: the row under way, and one whose result it still held.
    assert len(calls) <= 20 + 2


def test_a_row_that_kills_its_worker_is_run_twice_and_then_named(cluster, store, tmp_path):
    """The other rows are stored; it takes two workers with it, and no third."""
    grid = [{"index": index} for index in range(10)]
    options = {"bad": [3], "calls": tmp_path / "calls"}
    cluster.start_worker()
    with pytest.raises(RuntimeError, match=r"suicide lost its worker twice.*with \{'index': 3\} \(.*\)\. .*stored"):
        sweep(sweep_toys.suicide, grid, store=store, options=options, progress=False)
    assert sorted(read_store(store)["index"]) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (tmp_path / "calls").read_text().split().count("3") == 2
    assert len(cluster.alive()) == 1


def test_a_cluster_without_workers_is_said_and_waited_for(cluster, store, monkeypatch, capfd):
    monkeypatch.setattr(_workers, "LONG", 1.0)
    for worker in cluster.alive():
        worker.kill()
        worker.wait()
    said = []

    def start_one_when_it_is_said():
        wait_until(lambda: said.append(capfd.readouterr().err) or "has had no worker" in "".join(said))
        cluster.start_worker()

    grid = [{"index": index} for index in range(3)]
    with meanwhile(start_one_when_it_is_said):
        table = sweep(sweep_toys.slow, grid, store=store, progress=False)
    assert table["square"].tolist() == [0, 1, 4]
    assert "".join(said).count("has had no worker") == 1


def test_a_scheduler_that_is_stopped_is_said_and_waited_for(cluster, store, monkeypatch, capfd):
    monkeypatch.setattr(_workers, "LONG", 1.0)
    said = []

    def stop_until_it_is_said():
        wait_until(lambda: rows_in(store) >= 3)
        cluster.scheduler.send_signal(signal.SIGSTOP)
        wait_until(lambda: said.append(capfd.readouterr().err) or "has not answered" in "".join(said))
        cluster.scheduler.send_signal(signal.SIGCONT)

    grid = [{"index": index} for index in range(20)]
    with meanwhile(stop_until_it_is_said):
        table = sweep(sweep_toys.slow, grid, store=store, options={"pause": 0.1}, progress=False)
    assert table["square"].tolist() == [index**2 for index in range(20)]


CLIENT = textwrap.dedent("""
    import sys, joblib, distributed, sweep_toys
    from dpnotes.lab.store import sweep
    scheduler_file, store, calls = sys.argv[1:]
    with distributed.Client(scheduler_file=scheduler_file, timeout=600), joblib.parallel_config(backend="dask"):
        grid = [{"index": index} for index in range(400)]
        sweep(sweep_toys.slow, grid, store=store, options={"pause": 0.1, "calls": calls}, progress=False)
""")


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_client_keeps_its_rows_and_ends_its_work(cluster, client, store, tmp_path, script, by):
    process = script(CLIENT, cluster.scheduler_file, store, tmp_path / "calls")
    wait_until(lambda: rows_in(store) >= 5 or process.poll() is not None)
    process.send_signal(by)
    assert process.wait(HANG) == -by
    wait_until(lambda: client.run_on_scheduler(tasks_and_marks)[0] == 0)
    kept = rows_in(store)
    calls = (tmp_path / "calls").read_text().split()
    assert 5 <= kept <= len(calls) <= kept + 5
    again = tmp_path / "again"
    sweep(sweep_toys.slow, [{"index": i} for i in range(kept + 3)], store=store, options={"calls": again})
    assert len(again.read_text().split()) == 3


def test_a_row_that_no_worker_can_load_is_named(store):
    """It is not waited for without end."""
    with pytest.raises(RuntimeError, match=r"failed with \{'index': 1\}: .*not on this machine"):
        sweep(sweep_toys.slow, [{"index": 1}], store=store, options={"calls": sweep_toys.Unloadable()}, progress=False)


def test_a_killed_scheduler_ends_the_sweep_and_keeps_the_rows(cluster, store):
    """Last, for nothing runs after it."""
    grid = [{"index": index} for index in range(400)]

    def kill_it():
        wait_until(lambda: rows_in(store) >= 5)
        cluster.scheduler.kill()

    with meanwhile(kill_it), pytest.raises(ConnectionError, match=r"scheduler tcp://.* is gone; the rows .* stored"):
        sweep(sweep_toys.slow, grid, store=store, options={"pause": 0.1}, progress=False)
    assert 5 <= len(read_store(store)) < 400
