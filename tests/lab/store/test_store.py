"""The file: refused when damaged, whole when the disk is full, stable in its columns."""

import errno
import json
import os
import pathlib
import signal
import textwrap
import time

import pytest
import sweep_toys

from dpnotes.lab.store import StoreError, _store, adopt, collect, missing, read_store, sweep, verify
from dpnotes.lab.store._format import Row
from dpnotes.lab.store._store import Store

GRID = [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.fixture
def filled(store):
    sweep(sweep_toys.ratio, GRID, store=store, progress=False)
    return store


def count(path):
    """The file beside a store that has the number of its rows."""
    return path.with_name(f".{path.name}.rows")


def cell(line, column, text):
    """Damage: another text in one cell of a line (1 is the header)."""

    def damage(lines):
        fields = lines[line - 1].split(",")
        fields[lines[0].split(",").index(column)] = text
        lines[line - 1] = ",".join(fields)
        return lines

    return damage


def swap(lines, first, second):
    """Damage: two columns change places, in every line, so that each line stays whole."""
    names = lines[0].split(",")
    order = list(range(len(names)))
    i, j = names.index(first), names.index(second)
    order[i], order[j] = j, i
    return [",".join(line.split(",")[k] for k in order) for line in lines]


DAMAGE = {
    "a changed metric": (3, "was changed after it was written", cell(3, "ratio", "9.5")),
    "a changed parameter": (2, "was changed after it was written", cell(2, "a", "7")),
    "a changed provenance": (4, "was changed after it was written", cell(4, "version", "9.9")),
    "a removed cell": (4, "was changed after it was written", cell(4, "whole", "")),
    "a float of fewer digits": (2, "was changed after it was written", cell(2, "ratio", "0.50")),
    "a changed check": (2, "was changed after it was written", cell(2, "check", "00000000")),
    "a renamed column": (2, "was changed after it was written", cell(1, "ratio", "quotient")),
    "a parameter made a metric": (
        2,
        "is not the row of its parameters",
        lambda lines: swap(lines, "seconds", "a"),
    ),
    "a row twice": (5, "is there twice", lambda lines: [*lines, lines[1]]),
    "a cell too many": (3, "fields under", lambda lines: [*lines[:2], lines[2] + ",", *lines[3:]]),
    "a blank line": (3, "0 fields under", lambda lines: [*lines[:2], "", *lines[2:]]),
    "an open quote": (2, "not a line of CSV", cell(2, "label", '"plain')),
    "a column twice": (
        1,
        "'ratio' is there twice",
        lambda lines: [line.replace("seconds", "seconds,ratio") for line in lines],
    ),
    "another program's table": (1, "not the header of a store", lambda lines: ["a,b,c", "1,2,3"]),
    "no header": (1, "not the header of a store", lambda lines: lines[1:]),
    "a missing column of provenance": (
        1,
        "not the header of a store",
        lambda lines: [lines[0].replace(",machine", ""), *lines[1:]],
    ),
    "a mark of byte order": (1, "not the header of a store", lambda lines: ["\ufeff" + lines[0], *lines[1:]]),
}


def users(path):
    """Everything that reads a store, or writes to it."""
    return {
        "sweep": lambda: sweep(sweep_toys.ratio, [{"a": 9}], store=path, progress=False),
        "read_store": lambda: read_store(path),
        "missing": lambda: missing(GRID, path),
        "adopt from": lambda: adopt(path, path.with_name("other.csv")),
        "collect": lambda: collect(
            sweep_toys.ratio, GRID, compute="stored", published=path, runs=path.with_name("r.csv"), progress=False
        ),
        "verify": lambda: verify(sweep_toys.ratio, path, sample=1, random_state=0, tolerance={}),
    }


@pytest.mark.parametrize(("line", "reason", "damage"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_store_is_refused_with_its_line_and_left_alone(filled, line, reason, damage):
    filled.write_text("\n".join(damage(filled.read_text().splitlines())) + "\n")
    before = filled.read_bytes()
    with pytest.raises(StoreError, match=reason) as raised:
        read_store(filled)
    assert f"{filled}, line {line}:" in str(raised.value)
    with pytest.raises(StoreError, match=reason):
        sweep(sweep_toys.ratio, [{"a": 9}], store=filled, progress=False)
    assert filled.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "reason", "damage"),
    [
        (1, "empty file", lambda data: b""),
        (1, "cut off", lambda data: data[:20]),
        (4, "cut off", lambda data: data[:-1]),
        (4, "cut off", lambda data: data[:-40]),
        (3, "not UTF-8", lambda data: data.replace(b"plain", b"pl\xe4in", 2).replace(b"pl\xe4in", b"plain", 1)),
        (2, "was changed", lambda data: data.replace(b"plain", b"pla\x00n", 1)),
        (2, "not a line of CSV", lambda data: data.replace(b"plain", b"pla\rn", 1)),
    ],
)
def test_damaged_bytes_are_refused_with_their_line_and_left_alone(filled, line, reason, damage):
    """As published, without a count of rows, a line that does not end may be one that was cut."""
    count(filled).unlink()
    before = damage(filled.read_bytes())
    filled.write_bytes(before)
    for use in users(filled).values():
        with pytest.raises(StoreError, match=f"line {line}: .*{reason}"):
            use()
    assert filled.read_bytes() == before


def test_any_single_changed_byte_is_noticed(filled):
    """The checks leave no gap: whichever byte of the rows is changed, the store is refused or reads the same."""
    data = filled.read_bytes()
    whole = Store(filled).read().rows
    for position in range(data.index(b"\n") + 1, len(data)):
        changed = bytearray(data)
        changed[position] = ord("7") if changed[position] != ord("7") else ord("3")
        filled.write_bytes(changed)
        try:
            rows = Store(filled).read().rows
        except StoreError:
            continue
        assert rows == whole, (position, data[position - 5 : position + 5])


def test_a_store_of_another_experiment_is_refused(filled, tmp_path):
    with pytest.raises(StoreError, match=r"holds rows of 'sweep_toys.ratio', not of 'sweep_toys.slow'"):
        sweep(sweep_toys.slow, [{"index": 1}], store=filled, progress=False)
    other = tmp_path / "other.csv"
    sweep(sweep_toys.slow, [{"index": 1}], store=other, progress=False)
    with pytest.raises(StoreError, match=r"holds rows of 'sweep_toys.ratio'"):
        adopt(other, filled)
    stranger = Row("toy.f", {"a": 1}, {"ratio": 0.5}, {"seconds": 0.1})
    names = filled.read_text().splitlines()[0].split(",")
    filled.write_text(filled.read_text() + ",".join(stranger.cells.get(name, "") for name in names) + "\n")
    with pytest.raises(StoreError, match=r"line 5: a row of 'toy\.f' among those of another experiment"):
        read_store(filled)


def test_line_ends_of_another_system_are_read(filled):
    before = read_store(filled)
    filled.write_bytes(filled.read_bytes().replace(b"\n", b"\r\n"))
    assert read_store(filled).equals(before)


def test_new_columns_leave_the_old_rows_as_they_were(filled):
    lines = filled.read_text().splitlines()
    Store(filled).put([Row("sweep_toys.ratio", {"a": 4, "b": 8}, {"ratio": 0.5, "extra": True}, {"seconds": 0.1})])
    after = filled.read_text().splitlines()
    names = after[0].split(",")
    assert names[:5] == ["row", "experiment", "a", "b", "seconds"]
    assert names.index("extra") == names.index("empty") + 1
    assert [line.split(",")[-1] for line in after[1:4]] == [line.split(",")[-1] for line in lines[1:]]
    table = read_store(filled)
    assert table["extra"].isna().tolist() == [True, True, True, False]
    assert table["b"].isna().tolist() == [True, True, True, False]
    with pytest.raises(ValueError, match="'extra' cannot be both a parameter and a metric"):
        sweep(sweep_toys.ratio, [{"a": 5, "extra": 1}], store=filled, progress=False)


def test_a_row_finished_twice_is_kept_once_the_first(store):
    first = Row("toy.f", {"x": 1}, {"y": 1}, {"seconds": 0.1})
    second = Row("toy.f", {"x": 1}, {"y": 2}, {"seconds": 0.2})
    Store(store).put([first])
    Store(store).put([second])
    assert read_store(store)["y"].tolist() == [1]
    Store(store).put([second], replace=True)
    assert read_store(store)["y"].tolist() == [2]


def test_rows_of_others_are_seen_and_kept(store):
    """A store in memory must not overwrite what another process wrote since."""
    ours, theirs = Store(store), Store(store)
    for index in range(6):
        (ours, theirs)[index % 2].put([Row("toy.f", {"x": index}, {"y": index}, {"seconds": 0.1})])
    assert read_store(store)["x"].tolist() == list(range(6))


@pytest.mark.parametrize("row", [{"a": 9}, {"a": 9, "b": 4.0}], ids=["appended", "with a new column"])
@pytest.mark.parametrize("call", ["os.fsync", "os.write", "pathlib.Path.open", "pathlib.Path.replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(filled, monkeypatch, call, row):
    before = filled.read_bytes()
    real = {"os.write": os.write, "pathlib.Path.open": type(filled).open}
    failed = []

    def full(*arguments, **settings):
        if call == "pathlib.Path.open" and "wb" not in arguments:
            return real[call](*arguments, **settings)
        failed.append(call)
        if call == "os.write" and len(failed) == 1:  # half of the line is on the disk
            return real[call](arguments[0], arguments[1][: len(arguments[1]) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = sorted(filled.parent.iterdir())
    monkeypatch.setattr(_store, "SYNC", 0.0)
    monkeypatch.setattr(call, full)
    used = {
        "b" in row: {"os.fsync", "pathlib.Path.open", "pathlib.Path.replace"},
        "b" not in row: {"os.fsync", "os.write"},
    }
    if call in used[True]:
        with pytest.raises(OSError, match="cannot write the store \\(No space left on device\\)") as raised:
            sweep(sweep_toys.ratio, [row], store=filled, progress=False)
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == str(filled)
        assert filled.read_bytes() == before
        assert failed
    monkeypatch.undo()
    assert sorted(filled.parent.iterdir()) == files
    assert len(sweep(sweep_toys.ratio, [row], store=filled, progress=False)) == 1


def test_a_file_that_the_system_will_not_let_grow_is_left_whole(filled, script):
    """The same with a real limit: the kernel refuses the bytes half-way through the new file."""
    before = filled.read_bytes()
    code = textwrap.dedent("""
        import json, resource, sys
        from dpnotes.lab.store import sweep
        import sweep_toys
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
        try:
            sweep(sweep_toys.ratio, [{"a": 9}], store=sys.argv[1], progress=False)
        except OSError as error:
            print(json.dumps([error.errno, error.filename]))
    """)
    process = script(code, filled, len(before) + 20)
    out, err = process.communicate(timeout=600)
    assert out, err
    assert json.loads(out) == [errno.EFBIG, str(filled)]
    assert filled.read_bytes() == before
    assert not list(filled.parent.glob(".*.tmp"))


def test_a_folder_that_cannot_be_written_is_noticed_before_the_run(tmp_path):
    (tmp_path / "file").write_text("no folder")
    calls = tmp_path / "calls"
    with pytest.raises(OSError, match="cannot write the store"):
        sweep(
            sweep_toys.slow,
            [{"index": 1}],
            store=tmp_path / "file" / "x.csv",
            options={"calls": calls},
            progress=False,
        )
    assert not calls.exists()


def test_a_store_reached_by_a_link_stays_one(filled, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(filled)
    sweep(sweep_toys.ratio, [{"a": 9}], store=link, progress=False)
    assert link.is_symlink()
    assert len(read_store(filled)) == 4


def test_a_row_costs_its_own_line_however_many_there_are(store, monkeypatch):
    """Two processes, by turns: each writes its own line and reads that of the other, and nothing else."""
    written, parsed = [], []
    real_write, real_parse = os.write, _store.parse
    monkeypatch.setattr(os, "write", lambda file, data: written.append(len(data)) or real_write(file, data))
    monkeypatch.setattr(
        _store, "parse", lambda data, *rest: parsed.append(data.count(b"\n")) or real_parse(data, *rest)
    )
    ours, theirs = Store(store), Store(store)
    for index in range(10, 60):
        (ours, theirs)[index % 2].put([Row("toy.f", {"x": index}, {"y": index}, {"seconds": 0.5})])
    lines = store.read_bytes().splitlines(keepends=True)
    assert len(lines) == 51
    numbers = len(count(store).read_bytes())
    assert set(written) == {len(lines[-1]), numbers}
    assert written.count(numbers) <= 51
    assert sum(parsed) == 50  # the header and every line but the last, once each; none of its own by the writer
    assert read_store(store)["x"].tolist() == list(range(10, 60))


def rows_of(path):
    return read_store(path)["index"].tolist()


@pytest.mark.parametrize("fault", ["deleted", "rolled back", "written over", "replaced by fewer rows"])
def test_a_file_that_vanishes_during_a_sweep_gets_its_rows_back(store, tmp_path, fault):
    """Also those that were there at the beginning; the table has no gaps."""
    sweep(sweep_toys.slow, [{"index": 100}], store=store, progress=False)
    old = store.read_bytes()
    count(store).unlink(missing_ok=True)

    def faulty(index, *, at):
        if index == at:
            if fault == "deleted":
                store.unlink()
            elif fault == "written over":
                store.write_bytes(old)
                count(store).unlink()
            else:
                (tmp_path / "older.csv").write_bytes(old if fault == "rolled back" else old.splitlines()[0] + b"\n")
                (tmp_path / "older.csv").replace(store)
                count(store).unlink()
        return sweep_toys.slow(index)

    faulty.experiment_name = "sweep_toys.slow"
    grid = [{"index": index} for index in (100, *range(6))]
    for at in (3, 5):
        store.unlink(missing_ok=True)
        count(store).unlink(missing_ok=True)
        store.write_bytes(old)
        table = sweep(faulty, grid, store=store, options={"at": at}, progress=False)
        assert table["square"].tolist() == [10_000, 0, 1, 4, 9, 16, 25]
        assert sorted(rows_of(store)) == [0, 1, 2, 3, 4, 5, 100]


@pytest.mark.parametrize("others", [True, False], ids=["with the row of others", "without it"])
def test_a_file_that_is_rolled_back_below_its_count_gets_back_what_the_sweep_knows(store, others):
    """Where a row of others is gone, too, the sweep ends with the file's name."""
    sweep(sweep_toys.slow, [{"index": 100}], store=store, progress=False)
    header, row = store.read_bytes().splitlines(keepends=True)

    def faulty(index):
        if index == 3:
            store.write_bytes(header + row * others)
        return sweep_toys.slow(index)

    faulty.experiment_name = "sweep_toys.slow"
    grid = [{"index": index} for index in range(6)]
    if others:
        assert sweep(faulty, grid, store=store, progress=False)["square"].tolist() == [0, 1, 4, 9, 16, 25]
        assert sorted(rows_of(store)) == [0, 1, 2, 3, 4, 5, 100]
    else:
        named = r"toy\.csv has 0 rows, and 4 were finished: .* remove .*\.toy\.csv\.rows"
        with pytest.raises(StoreError, match=named):
            sweep(faulty, grid, store=store, progress=False)
        assert store.read_bytes() == header


def test_a_file_that_is_cut_at_the_end_of_a_line_is_refused(store):
    rows = [Row("toy.f", {"x": index}, {"y": index}, {"seconds": 0.5}) for index in range(4)]
    for row in rows:
        Store(store).put([row])
    whole = store.read_bytes()
    lines = whole.splitlines(keepends=True)
    for data in (b"".join(lines[:-1]), whole[:-7], lines[0], whole[:-1]):
        store.write_bytes(data)
        with pytest.raises(StoreError, match=r"rows, and 4 were finished: it was cut"):
            read_store(store)
        with pytest.raises(StoreError, match=r"rows, and 4 were finished: it was cut"):
            Store(store).put([rows[-1]])
        assert store.read_bytes() == data
    store.write_bytes(lines[0])
    count(store).unlink()
    assert len(read_store(store)) == 0


def test_a_torn_last_line_is_left_out_by_readers_and_dropped_by_writers(store):
    rows = [Row("toy.f", {"x": index}, {"y": index}, {"seconds": 0.5}) for index in range(4)]
    for row in rows[:3]:
        Store(store).put([row])
    whole = store.read_bytes()
    for cut in range(1, 30):
        store.write_bytes(whole + whole.splitlines()[-1][:cut])
        reader = Store(store)
        assert list(reader.read().rows) == [row.key for row in rows[:3]]
        assert store.read_bytes() != whole
        reader.prepare("toy.f")
        assert store.read_bytes() == whole
        reader.put([rows[3]])
        assert len(Store(store).read().rows) == 4
        store.write_bytes(whole)
        count(store).write_text("3 rows\n")


def test_a_new_column_keeps_the_mode_of_the_file(filled):
    filled.chmod(0o640)
    sweep(sweep_toys.ratio, [{"a": 1, "b": 8.0}], store=filled, progress=False)
    assert filled.stat().st_mode & 0o777 == 0o640
    assert len(read_store(filled)) == 4


def test_a_finished_sweep_is_read_where_nothing_can_be_written(filled, monkeypatch):
    def no_lock(*arguments, **settings):
        raise PermissionError("read-only")

    monkeypatch.setattr("filelock.FileLock.acquire", no_lock)
    assert sweep(sweep_toys.ratio, GRID, store=filled, progress=False)["a"].tolist() == [1, 2, 3]
    with pytest.raises(OSError, match="read-only"):
        sweep(sweep_toys.ratio, [{"a": 9}], store=filled, progress=False)


def test_a_stopped_process_that_holds_the_lock_is_named(filled, script, monkeypatch, capsys):
    code = textwrap.dedent("""
        import os, signal, sys
        from dpnotes.lab.store._store import Store
        with Store(sys.argv[1])._locked():
            print("ready", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
    """)
    process = script(code, filled)
    assert process.stdout.readline() == "ready\n"
    while pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    monkeypatch.setattr(_store, "PATIENCE", 0.05)
    real = _store.tqdm.write

    def told(text, **settings):
        real(text, **settings)
        process.send_signal(signal.SIGCONT)

    monkeypatch.setattr(_store.tqdm, "write", told)
    sweep(sweep_toys.ratio, [{"a": 9}], store=filled, progress=False)
    said = capsys.readouterr().err
    assert f"waiting for the lock of {filled}, held by process {process.pid}, which is stopped" in said


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("ratio", "nan", "not a number"),
        ("b", "inf", "inf is no parameter, which must be finite"),
        ("b", "nan", "not a number"),
        ("label", '"""\\ud800"""', "half of a pair of surrogates"),
    ],
)
def test_values_that_no_cell_can_hold_are_refused_with_their_line(store, column, text, reason):
    """Though the check of the line fits."""
    sweep(sweep_toys.ratio, [{"a": 1, "b": 2.0}, {"a": 2, "b": 2.0}], store=store, progress=False)
    names, first, second = store.read_text().splitlines()
    store.write_text("\n".join([names, first, sweep_toys.forged(names, second, column, text)]) + "\n")
    with pytest.raises(StoreError, match=f"line 3: .*{reason}"):
        read_store(store)


def test_half_of_a_pair_of_surrogates_is_no_value(store):
    with pytest.raises(ValueError, match=r"grid\[0\]: 'a' must be text, got half of a pair"):
        sweep(sweep_toys.ratio, [{"a": "\ud800"}], store=store, progress=False)
    with pytest.raises(ValueError, match=r"'label' must be text, got half of a pair"):
        sweep(sweep_toys.ratio, [{"a": 1}], store=store, options={"label": "\udfff"}, progress=False)


def test_a_cell_as_long_as_the_predictions_of_an_ensemble_is_read_back(store):
    """Python's csv refuses fields of more than 131,072 characters unless it is told otherwise."""
    long = "0123456789" * 100_000
    sweep(sweep_toys.ratio, [{"a": 1}], store=store, options={"label": long}, progress=False)
    assert read_store(store)["label"].tolist() == [long]
