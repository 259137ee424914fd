"""The speed claims: both sides compute the same, and nothing tracked changes unless
somebody says so.
"""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import __main__ as main
from benchmarks import _common, boosted_trees, sgd


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_sides_take_turns_and_the_first_call_does_not_count(monkeypatch):
    calls, times = (
        [],
        iter(np.cumsum([0, 100, 0, 100, 0, 1, 0, 4, 0, 3, 0, 6]).tolist()),
    )
    sides = (
        lambda: calls.append("a") or len(calls),
        lambda: calls.append("b") or len(calls),
    )
    found = _common.timed(*sides, repeats=2, clock=lambda: next(times))
    assert ("".join(calls), found) == ("ababab", ([2.0, 5.0], [5, 6]))
    monkeypatch.setattr(_common, "OWN_SIDE_ONLY", True)
    calls.clear()
    _common.timed(*sides, repeats=2)
    assert "".join(calls) == "abaa"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_peak_memory_counts_what_was_freed_within_the_call():
    assert 39 <= _common.peak_memory(lambda: np.ones(40 * 2**17).sum()) < 60  # 40 MiB
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
    one = 2 * 32 * 2 * 10  # operations of a model in a step
    assert sgd.operations(task, 1) == steps * one
    assert sgd.operations(task, 51) == pytest.approx(
        one * (steps + 50 * apart), rel=0.05
    )


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
    assert {row.data for row in agree(job, monkeypatch)} <= {
        "mnist",
        "adult",
        "covertype",
    }


def agree(job, monkeypatch):
    monkeypatch.setattr(_common, "CALL_ONCE", True)
    rows = list(main.JOBS[job](True, "cpu"))
    assert all(min(row.ours, row.other) > 0 for row in rows)
    for row in rows:
        assert row.gap is None or row.gap <= row.allowed, str(row)
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
    ours, one, other = (
        np.where(rng.random(votes.shape) < often / 2, 1 - votes, votes)
        for _ in range(3)
    )
    _, found = boosted_trees.agreement(ours, one, other)
    assert found["gap"] <= found["allowed"] <= 0.05
    ours[3] = 1 - ours[3]
    _, found = boosted_trees.agreement(ours, one, other)
    assert found["gap"] > found["allowed"]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The tracked table, with one row that ``1b`` measured on MNIST on machine m, a
    number written at length.
    """
    path = tmp_path / "benchmarks.csv"
    path.write_text(
        "group,data,machine,device,ours\n1b,mnist,m,cpu,1.0000893785890663\n"
    )
    monkeypatch.setattr(main, "KEPT", path)
    monkeypatch.setattr(_common, "provenance", lambda: {"machine": "m", "commit": "c"})
    return path


OTHER = [
    {"data": "random numbers, shaped as mnist"},
    {"machine": "n"},
    {"device": "cuda"},
    {"group": "1c"},
]


@pytest.mark.parametrize("changed", [{}, *OTHER])
def test_a_row_gives_way_to_the_same_job_data_machine_and_device_only(
    path, changed, monkeypatch
):
    new = {
        "group": "1b",
        "data": "mnist",
        "machine": "m",
        "device": "cpu",
        "ours": 2.0,
    } | changed
    monkeypatch.setattr(
        _common,
        "provenance",
        lambda: {"machine": new["machine"], "commit": "c", "numpy": "2"},
    )
    before = path.read_text().splitlines()[1]
    _common.keep(path, [new], main.KEY)
    head, *kept = path.read_text().splitlines()
    assert head == "group,data,machine,device,ours,commit"
    assert kept[:-1] == [f"{before},"] * bool(changed)
    assert kept[-1].replace('"', "") == ",".join(
        str(value) for value in [*new.values(), "c"]
    ).replace("2.0", "2")


def test_rows_are_put_where_their_key_first_stood(path):
    rows = [
        {"group": g, "data": "mnist", "machine": "m", "device": "cpu", "ours": o}
        for g, o in (("2", 1), ("3", 2))
    ]
    _common.keep(path, rows, main.KEY)
    _common.keep(path, [{**rows[0], "ours": 3}, {**rows[0], "ours": 4}], main.KEY)
    found = pd.read_csv(path, dtype=str)[["group", "ours"]].to_numpy().tolist()
    assert found == [["1b", "1.0000893785890663"], ["2", "3"], ["2", "4"], ["3", "2"]]


def job(*rows, stops=False):
    def measure(small, device):
        yield from (
            _common.Row(name, "mnist", 1.0, 8.0, "library", 3, "equal") for name in rows
        )
        if stops:
            raise KeyboardInterrupt

    return measure


ALL = {"1": job("one"), "1b": job("one b"), "2": job("half", stops=True), "3": job()}
TWO, AS_BEFORE = (
    "2 of 4 jobs were measured (1, 1b), ",
    "benchmarks.csv is as before; go on with python -m benchmarks",
)
# options: what the last line says, jobs whose rows are in the table afterwards
ENDS = {
    "": (f"{TWO}{AS_BEFORE} --job 2 3", []),
    "--keep": (
        (
            f"{TWO}their rows are in {AS_BEFORE.replace(' is as before', '')} --keep"
            " --job 2 3"
        ),
        ["one b", "one"],
    ),
    "--keep --job 2": (f"0 of 1 jobs were measured, {AS_BEFORE} --keep --job 2", []),
    "--small --device cuda": (f"{TWO}{AS_BEFORE} --small --device cuda --job 2 3", []),
    "--job 1": (None, []),
    "--job 1 --keep": (None, ["one"]),
}


@pytest.mark.parametrize("options", ENDS)
def test_ctrl_c_ends_with_a_sentence_and_only_finished_jobs_that_were_to_be_kept_are(
    path, options, monkeypatch, capsys
):
    monkeypatch.setattr(main, "JOBS", ALL)
    monkeypatch.setattr(sys, "argv", ["benchmarks", *options.split()])
    said, kept = ENDS[options]
    before = path.read_bytes()
    if said is None:
        main.main()
    else:
        with pytest.raises(SystemExit) as end:
            main.main()
        assert end.value.code == 130
        assert capsys.readouterr().err.strip() == f"Stopped: {said}"
    if kept:
        assert pd.read_csv(path)["job"].dropna().tolist() == kept
    else:
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("kept", "why"),
    [(True, "rows are kept once all are there"), (False, "--keep was not given")],
)
def test_a_table_is_whole_or_as_before(tmp_path, capsys, kept, why):
    path = tmp_path / "table.csv"

    def rows():
        yield {"method": "a", "accuracy": 0.5}
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        _common.table(path, rows(), ["method"], kept=kept)
    assert end.value.code == 130
    assert (
        f"1 rows were printed, table.csv is as before ({why})"
        in capsys.readouterr().err
    )
    assert not path.exists()
    _common.table(path, [{"method": "a", "accuracy": 0.5}], ["method"], kept=kept)
    assert path.exists() is kept
