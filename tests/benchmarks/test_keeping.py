"""What becomes of measured rows: nothing tracked changes unless told so, and only rows of the same data give way."""

import sys

import pandas as pd
import pytest

from benchmarks import __main__ as main
from benchmarks import _common


def row(job, data="mnist", ours=1.0, device="cpu"):
    return _common.Row(job, data, ours, 8.0, "loop", 3, "equal", device=device)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The tracked table, with one row that ``1b`` measured on MNIST on machine m, a number written at length."""
    path = tmp_path / "benchmarks.csv"
    path.write_text("group,data,machine,device,ours\n1b,mnist,m,cpu,1.0000893785890663\n")
    monkeypatch.setattr(main, "KEPT", path)
    monkeypatch.setattr(main, "origin", lambda: {"machine": "m", "commit": "c"})
    return path


@pytest.mark.parametrize(
    ("changed", "gives_way"),
    [
        ({}, True),
        ({"data": "random numbers, shaped as mnist"}, False),
        ({"machine": "n"}, False),
        ({"device": "cuda"}, False),
        ({"group": "1c"}, False),
    ],
)
def test_a_row_gives_way_to_the_same_job_data_machine_and_device_only(path, changed, gives_way):
    new = {"group": "1b", "data": "mnist", "machine": "m", "device": "cpu", "ours": 2.0, "commit": "c"} | changed
    before = path.read_text().splitlines()[1]
    _common.keep(path, [new], main.KEY)
    kept = path.read_text().splitlines()[1:]
    assert [line for line in kept if line.startswith(before)] == [] if gives_way else [before + ","]
    assert len(kept) == 2 - gives_way


def test_rows_are_put_where_their_key_first_stood(path):
    rows = [{"group": g, "data": "mnist", "machine": "m", "device": "cpu", "ours": o} for g, o in (("2", 1), ("3", 2))]
    _common.keep(path, rows, main.KEY)
    _common.keep(path, [{**rows[0], "ours": 3}, {**rows[0], "ours": 4}], main.KEY)
    found = pd.read_csv(path, dtype=str)[["group", "ours"]].to_numpy().tolist()
    assert found == [["1b", "1.0000893785890663"], ["2", "3"], ["2", "4"], ["3", "2"]]


def interrupted(small):
    yield row("half")
    raise KeyboardInterrupt


ALL = {"1": lambda small: [row("one")], "1b": lambda small: [row("one b")], "2": interrupted, "3": lambda small: []}
ENDS = {  # options: what the last line says, jobs whose rows are in the table afterwards
    "": (
        "2 of 4 jobs were measured (1, 1b), benchmarks.csv is as before; go on with python -m benchmarks --job 2 3",
        [],
    ),
    "--keep": (
        "2 of 4 jobs were measured (1, 1b), their rows are in benchmarks.csv; "
        "go on with python -m benchmarks --keep --job 2 3",
        ["one b", "one"],
    ),
    "--keep --job 2": (
        "0 of 1 jobs were measured, benchmarks.csv is as before; go on with python -m benchmarks --keep --job 2",
        [],
    ),
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


@pytest.mark.parametrize(("kept", "why"), [(True, "rows are kept once all are there"), (False, "--keep was not given")])
def test_a_table_is_whole_or_as_before(tmp_path, capsys, kept, why):
    path = tmp_path / "table.csv"

    def rows():
        yield {"method": "a", "accuracy": 0.5}
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        _common.table(path, rows(), ["method"], kept=kept)
    assert end.value.code == 130
    assert f"1 rows were printed, table.csv is as before ({why})" in capsys.readouterr().err
    assert not path.exists()
    _common.table(path, [{"method": "a", "accuracy": 0.5}], ["method"], kept=kept)
    assert path.exists() is kept
