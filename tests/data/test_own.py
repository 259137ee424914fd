"""A reader's own file: what is public of it, how it is encoded, and all that is wrong with it at once."""

import numpy as np
import pandas as pd
import pytest

from dpnotes import data
from dpnotes.data import load_file

N = 300


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


def written(folder, table, public=""):
    table.to_csv(folder / "mine.csv", index=False)
    if public:
        (folder / "mine.toml").write_text(public)
    return folder / "mine.csv"


PUBLIC = """
classes = ["yes", "no"]
[columns]
age = [0, 100]
job = ["baker", "nurse"]
"""


class TestWhatIsPublic:
    def test_is_taken_from_the_records_where_nothing_is_said(self, tmp_path, table):
        mine = load_file(written(tmp_path, table))
        assert [column.name for column in mine.columns] == ["age", "hours", "job", "member"]
        assert not any(column.given for column in mine.columns)
        assert not mine.classes_given
        assert mine.columns[0].known == (table["age"].min(), table["age"].max())
        assert mine.columns[2].known == ("baker", "nurse", "teacher")
        assert mine.columns[3].known == ("False", "True")
        assert mine.class_names == ("no", "yes")
        assert (mine.n_train, mine.n_test, mine.d) == (240, 60, 7)

    def test_is_what_was_said_and_other_columns_are_left_out(self, tmp_path, table):
        mine = load_file(written(tmp_path, table, PUBLIC))
        assert mine.feature_names == ("age", "job=baker", "job=nurse")
        assert all(column.given for column in mine.columns)
        assert mine.classes_given
        assert mine.class_names == ("yes", "no")
        order = np.concatenate([mine.X_train, mine.X_test])
        ages, hidden = np.sort(order[:, 0]), (order[:, 1:] == 0).all(axis=1)
        np.testing.assert_allclose(ages, np.sort(table["age"] / 50 - 1), atol=1e-6)
        assert hidden.sum() == (table["job"] == "teacher").sum()  # a value that is no public category

    def test_bounds_clip_and_stars_stand_for_the_other_numbers(self, tmp_path, table):
        mine = load_file(written(tmp_path, table, '[columns]\nage = [50, 60]\n"*" = [0, 60]\n'))
        assert mine.feature_names == (
            "age",
            "hours",
            "job=baker",
            "job=nurse",
            "job=teacher",
            "member=False",
            "member=True",
        )
        assert [column.given for column in mine.columns] == [True, True, False, False]
        assert (np.abs(mine.X_train) <= 1).all()

    def test_then_one_record_changes_its_own_row_and_no_other(self, tmp_path, table):
        """The guarantee of a method on the encoded rows is one for the records."""
        public = PUBLIC + '"*" = [0, 60]\nmember = ["False", "True"]\n'
        before = load_file(written(tmp_path, table, public))
        table.loc[7, ["age", "hours", "job", "ill"]] = [
            1000,
            -5.0,
            "spy",
            "no" if table.loc[7, "ill"] == "yes" else "yes",
        ]
        after = load_file(written(tmp_path, table, public))
        changed = [
            (np.abs(getattr(after, f"X_{part}") - getattr(before, f"X_{part}")).sum(axis=1) > 0).sum()
            for part in ("train", "test")
        ]
        assert sum(changed) == 1
        assert before.class_names == after.class_names
        assert before.digest != after.digest

    def test_no_row_is_longer_than_the_bound(self, tmp_path, table):
        mine = load_file(written(tmp_path, table))
        assert mine.bound == 2.0
        assert np.linalg.norm(mine.X_train, axis=1).max() <= mine.bound + 1e-6


def test_classes_of_numbers_are_in_their_order(tmp_path, table):
    mine = load_file(written(tmp_path, table.assign(ill=[10.0, 2.0, 1.0] * (N // 3))))
    assert mine.class_names == ("1", "2", "10")


def test_the_target_may_be_any_column(tmp_path, table):
    mine = load_file(written(tmp_path, table), target="job")
    assert mine.n_classes == 3
    assert "ill=yes" in mine.feature_names


def test_arrays(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(N, 4)), np.arange(N) % 3
    np.savez(tmp_path / "mine.npz", X=X, y=y, other=y % 2)
    (tmp_path / "mine.toml").write_text('[columns]\n"*" = [-1, 1]\n')
    mine = load_file(tmp_path / "mine.npz")
    assert (mine.n_classes, mine.feature_names) == (3, ("0", "1", "2", "3"))
    assert load_file(tmp_path / "mine.npz", target="other").n_classes == 2
    whole = np.concatenate([mine.X_train, mine.X_test])
    np.testing.assert_allclose(np.sort(whole[:, 0]), np.sort(np.clip(X[:, 0], -1, 1)), atol=1e-6)
    np.savez(tmp_path / "bad.npz", X=X[:, 0], y=y)
    with pytest.raises(ValueError, match=r"bad.npz must have numbers X \[n, d\] and y \[n\], got X of float64"):
        load_file(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", x=X)
    with pytest.raises(ValueError, match=r"bad.npz must have the arrays X and y, got 'x'"):
        load_file(tmp_path / "bad.npz")


class TestFaults:
    def test_all_are_said_at_once_without_a_value(self, tmp_path, table):
        table = table.assign(
            secret=[f"patient {i}" for i in range(N)],
            same=1234567,
            hours=np.where(np.arange(N) == 3, np.inf, table["hours"]),
            age=table["age"].where(np.arange(N) > 5),
            job=table["job"].where(np.arange(N) > 5),
            ill=["rare"] * 5 + ["yes"] * (N - 5),
        )
        with pytest.raises(ValueError, match="cannot be used") as found:
            load_file(written(tmp_path, table), target="ill")
        *lines, advice = str(found.value).splitlines()[1:]
        assert advice.startswith("In mine.toml stand [low, high] of numbers")
        assert lines == [
            "- a class of 'ill' has fewer than 30 records",
            "- columns 'age', 'job': missing values: leave such records out, or fill them by a rule that looks at one "
            "record",
            "- column 'hours': infinite numbers",
            "- column 'secret': text of more than 50 categories",
            "- column 'same': constant, or empty",
        ]
        assert not any(value in str(found.value) for value in ("patient 1", "rare", "1234567"))

    @pytest.mark.parametrize(
        ("change", "public", "target", "message"),
        [
            ({}, "", "illness", "there is no column 'illness' for the target; there are 'age', 'hours', 'job'"),
            ({"ill": "yes"}, "", "", "the target 'ill' must have 2 to 50 classes"),
            ({"ill": np.arange(N)}, "", "", "numbers of a wide range are none"),
            ({"ill": [None, "yes", "no"] * (N // 3)}, "", "", "the target 'ill' has missing values"),
            ({}, 'classes = ["a", "b"]', "", "the target 'ill' has values that are not among the given classes"),
            ({}, "[columns]\nwage = [0, 1]\nage = [0, 1]", "", "names columns 'wage' that the table has not"),
            ({}, "[columns]\nage = [1, 0]", "", r"column 'age': what is public must be \[low, high\] or at least two"),
            ({}, "[columns]\njob = [0, 1]", "", "column 'job': text, for which categories must be given, and not"),
            ({}, "[columns]\n", "", "there are no columns of features"),
        ],
    )
    def test_each_kind(self, tmp_path, table, change, public, target, message):
        with pytest.raises(ValueError, match=message):
            load_file(written(tmp_path, table.assign(**change), public), target=target)

    def test_more_features_than_records(self, tmp_path):
        np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).normal(size=(N, N + 1)), y=np.arange(N) % 2)
        with pytest.raises(ValueError, match="more features than records: is the table transposed"):
            load_file(tmp_path / "mine.npz")

    def test_few_records(self, tmp_path, table):
        with pytest.raises(ValueError, match="there must be at least 200 records"):
            load_file(written(tmp_path, table[:150]))

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("mine.csv", b"", "cannot be read: it is no .csv file"),
            ("mine.csv", b"\xff\xfe\x00", "cannot be read: it is no .csv file"),
            ("mine.csv", b"a,a,b\n1,2,3\n", "columns of distinct names, got 'a' twice"),
            ("mine.npz", b"no archive", "cannot be read: it is no .npz file|must be"),
            ("mine.txt", b"a", "a table must be a .csv or .npz file"),
        ],
    )
    def test_no_table_at_all(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_file(tmp_path / name)

    @pytest.mark.parametrize("text", ["classes = [", "bounds = 1", "columns = 3", "classes = 3"])
    def test_a_file_of_what_is_public_that_is_none(self, tmp_path, table, text):
        with pytest.raises(ValueError, match=r"mine.toml (is no TOML file|may hold)"):
            load_file(written(tmp_path, table, text))

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            load_file(tmp_path / "mine.csv")


def test_it_is_a_data_set_like_others(tmp_path, table):
    mine = load_file(written(tmp_path, table))
    assert isinstance(mine, data.Dataset)
    assert mine.X_train.dtype == np.float32
    assert not mine.X_train.flags.writeable


class TestPrivate:
    """No record decides about another's encoding, or whether the table can be used."""

    PUBLIC = 'classes = ["yes", "no"]\n[columns]\nage = [0, 100]\nward = ["01", "02", "03"]\nmember = [true, false]\n'

    def loaded(self, folder, table):
        mine = load_file(written(folder, table, self.PUBLIC), target="ill", private=True)
        X = np.empty((N, mine.d))
        y = np.empty(N, int)
        test = np.random.default_rng(0).permutation(N)[: N // 5]
        train = np.setdiff1d(np.arange(N), test)
        X[train], X[np.sort(test)] = mine.X_train, mine.X_test
        y[train], y[np.sort(test)] = mine.y_train, mine.y_test
        return X, y

    @pytest.mark.parametrize(
        "odd",
        [
            {"ward": "unknown"},
            {"ward": "0.5"},
            {"age": "old"},
            {"age": ""},
            {"age": "inf"},
            {"member": ""},
            {"ill": ""},
            {"ill": "perhaps"},
            {"ward": "", "age": "", "member": "", "ill": ""},
        ],
    )
    def test_one_odd_record(self, tmp_path, table, odd):
        table = table.assign(ward=[f"0{1 + i % 3}" for i in range(N)]).astype(str)
        X, y = self.loaded(tmp_path, table)
        assert X[:, 3:6].sum(axis=0).tolist() == [N / 3] * 3
        for name, value in odd.items():
            table.loc[7, name] = value
        changed, labels = self.loaded(tmp_path, table)
        np.testing.assert_array_equal(np.delete(changed, 7, axis=0), np.delete(X, 7, axis=0))
        np.testing.assert_array_equal(np.delete(labels, 7), np.delete(y, 7))
        assert labels[7] == (2 if "ill" in odd else y[7])
        assert np.isfinite(changed).all()

    def test_few_records_of_a_class_are_no_fault(self, tmp_path, table):
        table = table.assign(ward="02", ill=["yes"] * 3 + ["no"] * (N - 3)).astype(str)
        assert np.bincount(self.loaded(tmp_path, table)[1]).tolist() == [3, N - 3]

    def test_what_is_not_declared_is_named(self, tmp_path, table):
        with pytest.raises(ValueError, match="cannot be used") as found:
            load_file(written(tmp_path, table), private=True)
        assert "classes must be declared: classes = [all labels]" in str(found.value)
        assert '"hours" = [low, high] or [categories]' in str(found.value)


def test_cells_are_read_one_by_one(tmp_path, table):
    """By how they stand, else by their value: codes with and without zeros, truth values, whole numbers."""
    odd = table.assign(job=["01", "1", "1.0", "True", "TRUE", "None"] * (N // 6))
    public = '[columns]\njob = ["1", "True", "None"]\n'
    mine = load_file(written(tmp_path, odd, public))
    counts = mine.X_train.sum(axis=0) + mine.X_test.sum(axis=0)
    assert counts.tolist() == [N / 2, N / 3, N / 6]
    two = load_file(written(tmp_path, odd.replace("None", "nil"), '[columns]\njob = ["01", "1"]\n'))
    assert (two.X_train.sum(axis=0) + two.X_test.sum(axis=0)).tolist() == [N / 6, N / 6]  # "1.0" may be either


def test_a_line_that_is_too_long_is_refused(tmp_path, table):
    path = written(tmp_path, table)
    path.write_text(path.read_text() + "1,2,nurse,True,yes,more\n")
    with pytest.raises(ValueError, match="damaged"):
        load_file(path)
