"""The speed claims: both sides compute the same, and nothing tracked changes unless
somebody says so.
"""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import __main__ as main, _common, boosted_trees, sgd


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # times and bytes are claimed of one thread
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_sides_take_turns_and_the_first_call_does_not_count(monkeypatch):
    calls = []
    # before and after each call; the first of each side takes 100
    times = iter(np.cumsum([0, 100, 0, 100, 0, 1, 0, 4, 0, 3, 0, 6]).tolist())

    def side(name):
        return lambda: calls.append(name) or len(calls)

    sides = side("a"), side("b")
    found = _common.timed(*sides, repeats=2, clock=lambda: next(times))
    assert ("".join(calls), found) == ("ababab", ([2.0, 5.0], [5, 6]))
    monkeypatch.setattr(_common, "OWN_SIDE_ONLY", True)
    calls.clear()
    _common.timed(*sides, repeats=2)
    assert "".join(calls) == "abaa"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_peak_memory_counts_what_was_freed_within_the_call():
    # 40 MiB
    assert 39 <= _common.peak_memory(lambda: np.ones(40 * 2**17).sum()) < 60
    assert _common.peak_memory(lambda: None) < 5


def test_the_arithmetic_yardstick_does_as_many_operations_as_it_says():
    with FlopCounterMode(display=False) as counted:
        _common.arithmetic(torch.float32)()
    assert counted.get_total_flops() == _common.OPERATIONS


# less than an epoch of 100 steps, and more
@pytest.mark.parametrize("steps", [30, 250])
def test_neighbours_are_counted_from_the_step_that_first_holds_their_record(steps):
    task = sgd.Task("", "", np.zeros((3200, 9)), np.zeros(3200), 32, 0.1, steps, 50, 0)
    apart = np.maximum(0, steps - np.arange(3200) // 32).mean()
    # operations of a model in a step
    one = 2 * 32 * 2 * 10
    assert sgd.operations(task, 1) == steps * one
    expected = one * (steps + 50 * apart)
    assert sgd.operations(task, 51) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("job", main.JOBS)
def test_both_sides_of_the_small_version_agree(job, monkeypatch, tmp_path):
    """What is timed by `make bench` computes the same on both sides; bytes are
    counted, the clock is not read.
    """
    # random numbers, here as anywhere
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    agree(job, monkeypatch)


@pytest.mark.needs("mnist", "adult", "covertype")
@pytest.mark.parametrize("job", ["1", "1b", "1c", "2", "2b", "2c", "4"])
def test_both_sides_agree_on_the_data_sets(job, monkeypatch):
    found = {row.data for row in agree(job, monkeypatch)}
    assert found <= {"mnist", "adult", "covertype"}


def agree(job, monkeypatch):
    # results alone are looked at
    monkeypatch.setattr(_common, "CALL_ONCE", True)
    rows = list(main.JOBS[job](True, "cpu"))
    assert all(min(row.ours, row.other) > 0 for row in rows)
    for row in rows:
        assert row.gap is None or row.gap <= row.allowed, str(row)
        # bytes are counted; small data count little beside what any fit takes
        assert row.unit == "s" or row.ratio >= 0.2, str(row)
    assert any(row.gap is not None for row in rows) or job in ("memory", "8")
    return rows


def test_one_model_of_eight_that_votes_the_opposite_is_noticed():
    """Votes with ties as often as on random numbers, 6 in 100, and much oftener in
    some models than in others.
    """
    rng = np.random.default_rng(0)
    votes = rng.integers(2, size=(8, 1024))
    often = rng.permutation(np.linspace(0.01, 0.15, 8))[:, None]
    # half of the ties fall to either class
    turned = rng.random((3, *votes.shape)) < often / 2
    ours, one, other = np.where(turned, 1 - votes, votes)
    _, gap, allowed = boosted_trees.agreement(ours, one, other)
    assert gap <= allowed <= 0.05
    # one model of eight is wrong everywhere
    ours[3] = 1 - ours[3]
    _, gap, allowed = boosted_trees.agreement(ours, one, other)
    assert gap > allowed


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The tracked table, with rows that jobs measured on machine m, a number written
    at length.
    """
    path = tmp_path / "benchmarks.csv"
    path.write_text(
        "group,data,machine,device,ours\n"
        "1,mnist,m,cpu,1.0000893785890663\n"
        "1b,mnist,m,cpu,2\n"
        "1b,mnist,m,cpu,3\n"
        "2,adult,m,cpu,4\n"
    )
    monkeypatch.setattr(main, "KEPT", path)
    monkeypatch.setattr(_common, "ORIGIN", ["machine", "commit"])
    about = {"machine": "m", "commit": "c"}
    monkeypatch.setattr(_common, "provenance", lambda: about)
    return path


@pytest.mark.parametrize("changed", ["data", "device", "group", "machine", None])
def test_rows_give_way_to_the_same_job_data_machine_and_device_only(
    path, changed, monkeypatch
):
    new = {"group": "1b", "data": "mnist", "device": "cpu", "ours": 5.0, "gap": None}
    new["machine"] = "m"
    if changed == "machine":
        about = {"machine": "n", "commit": "c"}
        monkeypatch.setattr(_common, "provenance", lambda: about)
    elif changed:
        # a row of other data, device or job
        new[changed] = "other"
    _common.keep(path, [new, {**new, "ours": 1 / 3}], main.KEY)
    found = pd.read_csv(path, dtype=str)["ours"].tolist()
    # where the first of them stood, or last
    old = ["1.0000893785890663", "2", "3", "4"]
    mine = ["5", "0.333333"]
    assert found == ([old[0], *mine, old[3]] if changed is None else old + mine)


def test_ctrl_c_keeps_the_finished_jobs_and_says_how_to_go_on(
    path, monkeypatch, capsys
):
    def job(small, device):
        yield _common.Row("new", "mnist", 1.0, 8.0, "library", 3, "equal")

    def stops(small, device):
        yield from job(small, device)
        raise KeyboardInterrupt

    # the second of three is stopped
    monkeypatch.setattr(main, "JOBS", {"1": job, "3": stops, "4": job})
    before = path.read_bytes()
    for options, said in {
        "": "the rows of 1 of 3 jobs are printed above; go on with --job 3 4",
        "--keep": "the rows of 1 of 3 jobs were kept; go on with --job 3 4",
    }.items():
        assert path.read_bytes() == before
        monkeypatch.setattr(sys, "argv", ["benchmarks", *options.split()])
        with pytest.raises(SystemExit) as end:
            main.main()
        assert end.value.code == 130
        said = f"Stopped: {said} and the same options"
        assert capsys.readouterr().err.strip() == said
    found = pd.read_csv(path)
    assert found["job"].fillna("").tolist() == ["new", "", "", ""]


def test_a_table_is_kept_once_all_rows_are_there(tmp_path):
    path = tmp_path / "table.csv"

    def rows():
        yield {"method": "a", "accuracy": 0.5}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _common.table(path, rows(), ["method"], kept=True)
    for kept in (False, True):
        assert not path.exists()
        row = {"method": "a", "accuracy": 0.5}
        _common.table(path, [row], ["method"], kept=kept)
    assert path.exists()
