"""Several processes at one store, and processes that are killed: every finished row is there exactly once."""

import json
import random
import textwrap
import time

import pytest
import sweep_toys

from dpnotes.lab.store import missing, read_store, sweep

FILL = textwrap.dedent("""
    import json, sys, time, pathlib
    from dpnotes.lab.store import sweep
    import sweep_toys
    folder, rows, pause, step = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    print("ready", flush=True)
    while not (folder / "go").exists():
        time.sleep(0.001)
    grid = [{"index": index} for index in range(rows)][::step]
    options = {"pause": pause, "calls": folder / "calls"}
    table = sweep(sweep_toys.slow, grid, store=folder / "toy.csv", options=options, progress=False)
    print(json.dumps(table["pid"].tolist()))
""")


HANG = 600  # seconds: far beyond what a busy machine takes


def wait_until_ready(process):
    assert process.stdout.readline() == "ready\n", process.communicate()[1]


def test_two_processes_fill_one_store(store, tmp_path, script):
    """Neither loses, repeats or overwrites a row of the other; both report the row that was kept."""
    rows = 80
    processes = [script(FILL, tmp_path, rows, 0.003, step) for step in (1, -1)]  # from either end
    for process in processes:
        wait_until_ready(process)
    (tmp_path / "go").touch()
    outputs = [process.communicate(timeout=HANG) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    table = read_store(store)
    assert sorted(table["index"]) == list(range(rows))
    kept = table.sort_values("index")["pid"].tolist()
    assert set(kept) == {process.pid for process in processes}  # they did race
    assert [json.loads(out) for out, _ in outputs] == [kept, kept[::-1]]
    assert (tmp_path / "calls").read_text().count("\n") > rows


def test_a_process_killed_at_any_moment_loses_no_finished_row(store, tmp_path, script):
    """Rows without any work, so that most kills strike while the file is being written."""
    rows, rounds = 20_000, 5  # more than any machine gets through before it is killed
    random.seed(20)
    (tmp_path / "go").touch()
    finished = set()
    calls = tmp_path / "calls"
    for _ in range(rounds):
        process = script(FILL, tmp_path, rows, 0.0, 1)
        wait_until_ready(process)
        computed, some = len(calls.read_text().split()) if calls.exists() else 0, random.randint(2, 40)
        while process.poll() is None and not (calls.exists() and calls.read_text().count("\n") >= computed + some):
            time.sleep(0.001)
        process.kill()
        process.wait()
        now = set(read_store(store)["index"]) if store.exists() else set()
        assert finished <= now
        finished = now
    assert 0 < len(finished) < rows  # the kills struck in the middle
    rows = len(finished) + 20
    table = sweep(
        sweep_toys.slow, [{"index": i} for i in range(rows)], store=store, options={"calls": calls}, progress=False
    )
    assert sorted(read_store(store)["index"]) == table["index"].tolist() == list(range(rows))
    computed = calls.read_text().split()
    assert set(computed) == {str(index) for index in range(rows)}
    assert len(computed) <= rows + rounds  # at most the one row under way at each kill is computed again
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("function", "when", "column", "kept"),
    [
        *(("write", "before", 0, 3), ("write", "half", 0, 3), ("write", "after", 0, 4)),
        *(("fsync", "before", 1, 3), ("fsync", "after", 1, 3), ("replace", "before", 1, 3), ("replace", "after", 1, 4)),
    ],
)
def test_a_process_killed_at_the_worst_moments(store, script, function, when, column, kept):
    """In the middle of the fourth row's writing, with a new column or none; its lock does not stop the next process."""
    code = textwrap.dedent("""
        import os, sys
        from dpnotes.lab.store import sweep
        import sweep_toys
        store, function, when, column = sys.argv[1:]
        grid = [{"index": index, **({"last": 0.0} if index >= 3 and column == "1" else {})} for index in range(6)]
        sweep(sweep_toys.slow, grid[:3], store=store, progress=False)
        real = getattr(os, function)
        def deadly(*arguments, **settings):
            if when == "after":
                real(*arguments, **settings)
            if when == "half":
                real(arguments[0], arguments[1][:50])
            os.kill(os.getpid(), 9)
        setattr(os, function, deadly)
        sweep(sweep_toys.slow, grid, store=store, progress=False)
    """)
    process = script(code, store, function, when, column)
    process.communicate(timeout=HANG)
    assert process.returncode == -9
    grid = [{"index": index, **({"last": 0.0} if index >= 3 and column else {})} for index in range(6)]
    assert len(missing(grid, store)) == 6 - kept
    sweep(sweep_toys.slow, grid, store=store, progress=False)
    assert read_store(store)["index"].tolist() == list(range(6))
    assert not list(store.parent.glob(".*.tmp"))
