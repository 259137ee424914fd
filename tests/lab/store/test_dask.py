"""A real cluster on this machine: scheduler and two workers, each a process of its own, reached through joblib."""

import os
import signal
import subprocess
import sys
import threading
import time

import joblib
import pytest
import sweep_toys

from dpnotes.lab.store import read_store, sweep

distributed = pytest.importorskip("distributed", reason="needs the dask extra: pip install dpnotes[dask]")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets that distributed leaves to the collector
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a scheduler and two workers; give a client and the workers' processes."""
    folder = tmp_path_factory.mktemp("cluster")
    address = folder / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": os.path.dirname(sweep_toys.__file__)}
    processes = []

    def start(role, *arguments):
        command = [sys.executable, "-m", "dask", role, "--scheduler-file", str(address), "--no-dashboard", *arguments]
        with (folder / f"{role}{len(processes)}.log").open("w") as log:
            processes.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log))

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0")
        for _ in range(2):
            start("worker", "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
        with distributed.Client(scheduler_file=str(address), timeout=600) as client:
            client.wait_for_workers(2, timeout=600)
            yield client, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(autouse=True)
def on_dask(cluster):
    with joblib.parallel_config(backend="dask"):
        yield


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


def test_a_killed_worker_costs_no_row(cluster, store, tmp_path):
    """Last, for it takes a worker away. The rows it had are run by the other; every row is there exactly once."""
    _, workers = cluster
    grid = [{"index": index} for index in range(20)]

    def kill_half_way():
        while not store.exists() or store.read_text().count("\n") < 8:
            time.sleep(0.01)
        workers[0].send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill_half_way, daemon=True)
    killer.start()
    options = {"pause": 0.2, "calls": tmp_path / "calls"}
    table = sweep(sweep_toys.slow, grid, store=store, options=options, progress=False)
    assert not killer.is_alive()
    workers[0].wait(timeout=600)
    assert workers[0].returncode == -signal.SIGKILL
    assert table["square"].tolist() == [index**2 for index in range(20)]
    assert sorted(read_store(store)["index"]) == list(range(20))
    assert table["pid"].nunique() == 2
    calls = [int(line) for line in (tmp_path / "calls").read_text().split()]
    assert set(calls) == set(range(20))
    # Work lost with the worker: the row under way, and rows whose results it still held.
    assert len(calls) <= 20 + 6
