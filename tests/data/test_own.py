"""A reader's own file: what is public of it, how it is encoded, and all that is
wrong with it at once.
"""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from dpnotes import data

N = 300
PUBLIC = (
    'classes = ["yes", "no"]\n[columns]\nage = [0, 100]\njob = ["baker", "nurse"]\n'
)
PRIVATE = (
    'classes = ["yes", "no"]\n[columns]\nage = [0, 100]\nward = ["01", "02",'
    ' "03"]\nmember = [true, false]\n'
)


@pytest.fixture
def table():
    """Numbers, text, truth values, and classes in words."""
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": generator.integers(20, 90, N),
            "hours": generator.uniform(0, 60, N),
            "job": generator.choice(["nurse", "baker", "teacher"], N),
            "member": generator.random(N) < 0.4,
            "ill": generator.choice(["yes", "no"], N),
        }
    )


@pytest.fixture
def load(tmp_path):
    """Write a table, with what is public, and load it."""

    def load(table, public="", **how):
        table.to_csv(tmp_path / "mine.csv", index=False)
        if public:
            (tmp_path / "mine.toml").write_text(public)
        return data.load_file(tmp_path / "mine.csv", **how)

    return load


def records(mine):
    """Features and codes in the order of the file."""
    X, labels = mine.records()
    places = {label: code for code, label in enumerate(mine.labels.tolist())}
    return X, np.array([places[label] for label in labels.tolist()])


@pytest.mark.parametrize("private", [False, True])
def test_records_are_in_the_order_of_the_file(load, table, private):
    table["ill"] = table["ill"].where(np.arange(N) != 7)
    mine = load(table.assign(age=np.arange(N)), PUBLIC, private=private)
    kept = np.arange(N) != 7 if not private else np.full(N, True)
    X, y = mine.records()
    age = np.clip(np.arange(N) / 50 - 1, -1, 1)
    np.testing.assert_allclose(X[:, 0], age[kept], atol=1e-6)
    np.testing.assert_array_equal(
        y, table["ill"].astype(object).where(table["ill"].notna(), "")[kept]
    )
    # the fifth that is for testing is drawn among the records that are kept
    test = np.random.default_rng(0).permutation(kept.sum())[: kept.sum() // 5]
    np.testing.assert_array_equal(mine.X_test, X[np.sort(test)])


def test_dates_are_days_between_public_dates(load, table, tmp_path):
    born = pd.date_range("1899-12-31", periods=N, freq="30D").strftime("%Y-%m-%d")
    table["born"] = np.where(np.arange(N) == 3, "unknown", born)
    public = "[columns]\nborn = [1900-01-01, 1920-01-01]"
    mine = load(table, public, target="ill")
    (column,) = mine.encoding
    assert column.known == (date(1900, 1, 1), date(1920, 1, 1))
    X, _ = mine.records()
    days = (pd.to_datetime(born) - pd.Timestamp("1900-01-01")).days.to_numpy()
    length = (date(1920, 1, 1) - date(1900, 1, 1)).days
    expected = np.clip(2 * days / length - 1, -1, 1)
    expected[3] = 0
    np.testing.assert_allclose(X[:, 0], expected, atol=1e-6)
    assert mine.columns[0].unread == 1
    with pytest.warns(UserWarning, match="1 of 'born'"):
        new = data.encode_file(tmp_path / "mine.csv", [column])
    np.testing.assert_array_equal(new, X)


def test_what_is_public_is_taken_from_the_records_where_nothing_is_said(load, table):
    mine = load(table)
    assert [column.name for column in mine.columns] == ["age", "hours", "job", "member"]
    assert not any(column.given for column in mine.columns)
    assert not mine.classes_given
    assert mine.columns[0].known == (table["age"].min(), table["age"].max())
    assert mine.columns[2].known == ("baker", "nurse", "teacher")
    assert mine.columns[3].known == ("False", "True")
    assert mine.class_names == ("no", "yes")
    assert (mine.n_train, mine.n_test, mine.d) == (240, 60, 7)
    assert isinstance(mine, data.Dataset)
    assert mine.X_train.dtype == np.float32
    assert not mine.X_train.flags.writeable
    assert mine.bound == 2.0
    assert np.linalg.norm(mine.X_train, axis=1).max() <= mine.bound + 1e-6


def test_what_is_public_is_what_was_said_and_other_columns_are_left_out(load, table):
    mine = load(table, PUBLIC)
    assert mine.feature_names == ("age", "job=baker", "job=nurse")
    assert all(column.given for column in mine.columns)
    assert mine.classes_given
    X, y = records(mine)
    np.testing.assert_allclose(X[:, 0], table["age"] / 50 - 1, atol=1e-6)
    # a value that is no public category
    assert ((X[:, 1:] == 0).all(axis=1) == (table["job"] == "teacher")).all()
    assert (y == (table["ill"] == "no")).all()
    mine = load(table, '[columns]\nage = [50, 60]\n"*" = [0, 60]\n')
    assert mine.feature_names[:3] == ("age", "hours", "job=baker")
    assert [column.given for column in mine.columns] == [True, True, False, False]
    # bounds clip, and a star stands for the other numbers
    assert (np.abs(mine.X_train) <= 1).all()


def test_then_one_record_changes_its_own_row_and_no_other(load, table):
    """The guarantee of a method on the encoded rows is one for the records."""
    public = PUBLIC + '"*" = [0, 60]\nmember = ["False", "True"]\n'
    before = load(table, public)
    other = "no" if table.loc[7, "ill"] == "yes" else "yes"
    table.loc[7, ["age", "hours", "job", "ill"]] = [1000, -5.0, "spy", other]
    after = load(table, public)
    changed = (records(after)[0] != records(before)[0]).any(axis=1)
    assert np.flatnonzero(changed).tolist() == [7]
    assert before.class_names == after.class_names
    assert before.digest != after.digest


def test_the_target_may_be_any_column_and_classes_of_numbers_are_in_their_order(
    load, table
):
    with pytest.raises(ValueError, match="there is no column 'illness' for the target"):
        load(table, target="illness")
    mine = load(table, target="job")
    assert mine.n_classes == 3
    assert "ill=yes" in mine.feature_names
    numbers = load(table.assign(ill=[10.0, 2.0, 1.0] * (N // 3)))
    assert numbers.class_names == ("1", "2", "10")


def test_arrays(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, 4))
    y = np.arange(N) % 3
    np.savez(tmp_path / "mine.npz", X=X, y=y, other=y % 2)
    (tmp_path / "mine.toml").write_text('[columns]\n"*" = [-1, 1]\n')
    mine = data.load_file(tmp_path / "mine.npz")
    assert (mine.n_classes, mine.feature_names) == (3, ("0", "1", "2", "3"))
    assert data.load_file(tmp_path / "mine.npz", target="other").n_classes == 2
    np.testing.assert_allclose(records(mine)[0], np.clip(X, -1, 1), atol=1e-6)
    wide = np.ones((N, N + 1)) * np.arange(N)[:, None]
    for arrays, message in (
        ({"X": X[:, 0], "y": y}, r"bad.npz must have numbers X \[n, d\] and y \[n\]"),
        ({"x": X}, r"bad.npz must have the arrays X and y, got 'x'"),
        ({"X": wide, "y": y}, "more features than records: is the table transp"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            data.load_file(tmp_path / "bad.npz")


def test_all_faults_are_said_at_once_without_a_value(load, table):
    table = table.assign(
        secret=[f"patient {i}" for i in range(N)],
        same=1234567,
        hours=np.where(np.arange(N) == 3, "unknown", table["hours"]),
        member="",
        ill=["rare"] * 5 + ["yes"] * (N - 5),
    )
    with pytest.raises(ValueError, match="cannot be used") as found:
        load(table, target="ill")
    *lines, advice = str(found.value).splitlines()[1:]
    assert advice.startswith("mine.toml must give [low, high] for numbers")
    assert [line.partition(": declare")[0] for line in lines] == [
        "- a class of 'ill' has fewer than 30 records",
        "- column 'hours': numbers and text",
        "- column 'member': all values are missing",
        "- column 'secret': text of more than 50 categories",
        "- column 'same': constant",
    ]
    for value in ("patient 1", "rare", "1234567"):
        assert value not in str(found.value)


ILL = ["yes", "no"] * (N // 2)


@pytest.mark.parametrize(
    ("ill", "public", "message"),
    [
        ("yes", "", "the target 'ill' must have 2 to 50 classes"),
        (range(N), "", "the target 'ill' is a number to predict: cut it at public"),
        (None, "", "all values of the target 'ill' are missing"),
        (ILL, 'classes = ["a", "b"]', r"no value .* is among classes = \['a', 'b'\]"),
        (
            ILL,
            "[columns]\nwage = [0, 1]",
            "names columns 'wage' that the file does not",
        ),
        (ILL, "[columns]\nage = [1, 0]", r"column 'age': the entry must be \[low, hi"),
        (
            ILL,
            '[columns]\njob = ["2020-01-01", "2024-01-01"]',
            "column 'job': dates as bounds are written without",
        ),
        (ILL, "[columns]\njob = [0, 1]", "column 'job': text or dates, which need"),
        (ILL, "[columns]\n", "there are no columns of features"),
        (ILL, "classes = [", "mine.toml is not a TOML file"),
        (ILL, "bounds = 1", "mine.toml may only hold"),
        (ILL, "columns = 3", "mine.toml may only hold"),
    ],
)
def test_each_fault_is_named(load, table, ill, public, message):
    table = table.assign(ill=ill)
    with pytest.raises(ValueError, match=message):
        load(table, public)
    with pytest.raises(ValueError, match=r"at least 200 records|mine\.toml"):
        load(table[:150], public)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.csv", b"", "is empty, or a damaged .csv file"),
        ("mine.csv", b"a,a,b\n1,2,3\n", "columns of distinct names, got 'a' twice"),
        ("mine.csv", b"a,b\n1,2\n1,2,3\n", "is damaged: line 3 has too many cells"),
        ("mine.csv", b"a,b\nx\ry,2\n", "is damaged: a carriage return"),
        ("mine.npz", b"no archive", "is empty, or a damaged .npz file"),
        ("mine.txt", b"a", "a table must be a .csv or .npz file, got [^;]*$"),
        (
            "mine.xlsx",
            b"PK",
            r"a table must be .*: pd.read_excel\('.*mine.xlsx'\).to_csv\(",
        ),
        ("mine.csv", b"\x1f\x8b\x08", "is compressed, or a file of another program"),
    ],
)
def test_no_table_at_all(tmp_path, name, content, message):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        data.load_file(tmp_path / name)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        data.load_file(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_the_line_that_reads_a_file_of_another_form_makes_a_table_of_it(
    tmp_path, monkeypatch, encoding
):
    monkeypatch.chdir(tmp_path)
    lines = [f"1,{50 + i % 40};{('nein', 'ja')[i % 2]}" for i in range(N)]
    text = "\n".join(["Größe;krank", *lines])
    (tmp_path / "mine.csv").write_text(text, encoding=encoding)
    with pytest.raises(
        ValueError, match="must be in UTF-8, with commas between its cells and points"
    ) as found:
        data.load_file("mine.csv")
    made = str(found.value).partition("such a file: ")[2].partition(" (or")[0]
    assert (encoding in made) == (encoding != "utf-8")
    exec(made, {"pd": pd})
    mine = data.load_file("mine_plain.csv")
    assert (mine.columns[0].known, mine.class_names) == ((1.5, 1.89), ("ja", "nein"))


def test_a_draft_of_what_is_public_tells_kinds_alone_and_serves_when_it_is_filled(
    load, table
):
    table.insert(0, "born", "1990-12-31")
    few = table.assign(ill=7)
    few.loc[: N // 3, ["age", "job", "born"]] = [np.nan, "5", "secret"]
    drafts = []
    for frame in (table, few):
        with pytest.raises(
            ValueError,
            match="classes must be declared\n- columns 'born', 'age', 'hours'",
        ) as found:
            load(frame, private=True)
        drafts.append(str(found.value).partition("records:\n\n")[2])
    assert drafts[0] == drafts[1]
    lines = drafts[0].splitlines()
    assert '"age" = []  # numbers: [low, high]' in lines
    assert '"job" = []  # text: categories, as ["a", "b"]' in lines
    assert '"born" = []  # dates: [1900-01-01, 2010-01-01]' in lines
    filled = drafts[0].replace("classes = []", 'classes = ["yes", "no"]')
    filled = filled.replace('"age" = []', '"age" = [0, 100]')
    with pytest.raises(
        ValueError, match=r'(?s)member.: must be .*classes = ."yes", "no".*0, 100'
    ):
        load(table, filled, private=True)
    lines = [line for line in filled.splitlines() if "= []" not in line]
    mine = load(table, "\n".join(lines), private=True)
    assert [column.name for column in mine.columns] == ["age"]


@pytest.mark.parametrize("private", [False, True])
def test_values_that_are_missing_or_not_declared_stop_nothing_and_are_counted(
    load, table, private
):
    table["age"] = ["", "", "unknown", "unknown", "unknown", *table["age"][5:]]
    mine = load(table, PUBLIC, private=private)
    X, _ = records(mine)
    teachers = (table["job"] == "teacher").sum()
    assert [column.unread for column in mine.columns] == [5, teachers]
    assert (X[:5, 0] == 0).all()
    read_off = table.assign(age=[None, np.inf, *range(2, N)])
    assert load(read_off, "[columns]\nage = []").columns[0].known == (2.0, N - 1.0)


@pytest.mark.parametrize("classes", [["yes", "no", ""], [1, 0, 2], ["01", "1.5", ""]])
def test_labels_are_those_of_the_file_whatever_the_order_of_classes(
    load, table, classes
):
    known = [str(label) for label in classes[:2]]
    own = np.array(known * (N // 2))
    mine = load(table.assign(ill=own), f"classes = {known}")
    assert mine.labels.tolist() == classes
    assert mine.records()[1].astype(str).tolist() == own.tolist()


@pytest.mark.parametrize("largest", ["1e16", "9223372036854775807", f"{2**64 - 1}"])
def test_the_label_of_empty_records_is_no_class(load, table, largest):
    own = np.array(["0", largest, "5"] * (N // 3))
    columns = PUBLIC.partition("\n")[2]
    public = f'classes = ["0", "{largest}"]\n{columns}'
    mine = load(table.assign(ill=own), public, target="ill", private=True)
    first, second, empty = mine.labels.tolist()
    assert len({first, second, empty}) == 3
    assert mine.records()[1].tolist() == [first, second, empty] * (N // 3)


# in place of cells of one record: column=value, and so on
ODD = ["ward=unknown", "ward=0.5", "age=old", "age=", "age=inf", "member=", "ill="]
ODD += ["ill=perhaps", "ward= age= member= ill="]


@pytest.mark.parametrize("odd", ODD)
def test_no_private_record_decides_about_another_or_whether_the_table_can_be_used(
    load, table, odd
):
    table = table.assign(ward=[f"0{1 + i % 3}" for i in range(N)]).astype(str)
    X, y = records(load(table, PRIVATE, target="ill", private=True))
    assert X[:, 3:6].sum(axis=0).tolist() == [N / 3] * 3
    for cell in odd.split():
        name, _, value = cell.partition("=")
        table.loc[7, name] = value
    changed, labels = records(load(table, PRIVATE, target="ill", private=True))
    np.testing.assert_array_equal(
        np.delete(changed, 7, axis=0), np.delete(X, 7, axis=0)
    )
    np.testing.assert_array_equal(np.delete(labels, 7), np.delete(y, 7))
    assert labels[7] == (2 if "ill" in odd else y[7])
    assert np.isfinite(changed).all()


def test_records_without_a_declared_label_are_empty_and_left_out_of_a_public_table(
    load, table
):
    table.loc[:9, "ill"] = None
    table.loc[10:14, "ill"] = "Yes"
    mine = load(table, PUBLIC)
    assert (mine.left_out, mine.n_train + mine.n_test) == (15, N - 15)
    assert "not among the classes (15 in all)" in mine.unread()[0]
    private = load(table, PUBLIC, private=True)
    assert np.bincount(records(private)[1])[2] == 15
    assert private.unread()[0] == mine.unread()[0]


def test_records_of_another_file_are_encoded_as_those_that_a_model_learned_from(
    load, table, tmp_path
):
    mine = load(table, PUBLIC)
    table.drop(columns="ill").iloc[::-1, ::-1].to_csv(tmp_path / "new.csv")
    with pytest.warns(UserWarning, match=r"not as declared \(.* of 'job'"):
        found = data.encode_file(tmp_path / "new.csv", mine.encoding)
    both = np.concatenate([mine.X_train, mine.X_test])
    assert sorted(found.tolist()) == sorted(both.tolist())
    assert all(column.unread == 0 for column in mine.encoding)
    (tmp_path / "new.csv").write_text('job,age\nnurse,"30,5"\n')
    with pytest.warns(UserWarning, match=r"new.csv: values .* \(1 of 'age'\)"):
        new = data.encode_file(tmp_path / "new.csv", mine.encoding)
    assert new.tolist() == [[0.0, 0.0, 1.0]]
    (tmp_path / "new.csv").write_text("job\nnurse\n")
    with pytest.raises(ValueError, match="none named 'age'"):
        data.encode_file(tmp_path / "new.csv", mine.encoding)
    with pytest.raises(ValueError, match=r"columns must be declared before .* 'age'"):
        _ = load(table, 'classes = ["yes", "no"]').encoding


def test_few_private_records_of_a_class_are_no_fault(load, table):
    table = table.assign(ward="02", ill=["yes"] * 3 + ["no"] * (N - 3)).astype(str)
    _, codes = records(load(table, PRIVATE, target="ill", private=True))
    assert np.bincount(codes).tolist() == [3, N - 3]


def test_cells_are_read_one_by_one(load, table):
    """By how they stand, else by their value: codes with and without zeros, truth
    values, whole numbers.
    """
    odd = table.assign(job=["01", "1", "1.0", "True", "TRUE", "None"] * (N // 6))
    mine = load(odd, '[columns]\njob = ["1", "True", "None"]\n')
    assert records(mine)[0].sum(axis=0).tolist() == [N / 2, N / 3, N / 6]
    two = load(odd.replace("None", "nil"), '[columns]\njob = ["01", "1"]\n')
    assert records(two)[0].sum(axis=0).tolist() == [N / 6, N / 6]  # "1.0" may be either
