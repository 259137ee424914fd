"""Splits, sizes and preprocessing, against the papers' numbers and against the raw
files.
"""

import csv
import io
import math
import subprocess
import sys
import zipfile
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from dpnotes import data
from dpnotes.data import _tables, to_unit_ball
from dpnotes.data._catalogue import SOURCES
from tests.data.conftest import key

# name, split, rows of train, validation, public, test, d, classes, digest.
# Hyland and Tople, Table I: 10,397 / 1,155 / 1,902 / 50; 378,783 / 42,086 / 74,272 /
# 49; 29,305 / 3,256 / 16,281 / 100. Jordon et al., supplement: 108 features, thirds.
# Liu et al., Case II: 1,000 public and 9,000 test images.
SIZES = """
digits          original           1442   -     -     355    64   10 f6d9e39f37dc
breast_cancer   original           456    -     -     113    30   2  25e2eb7b7a87
mnist           original           60000  -     -     10000  784  10 06b0d1f124c4
mnist           bagging_public     60000  -     1000  9000   784  10 06b0d1f124c4
mnist           private_prediction 60000  -     -     10000  784  10 06b0d1f124c4
mnist           intrinsic_sgd      10397  1155  -     1902   50   2  06b0d1f124c4
fashion_mnist   original           60000  -     -     10000  784  10 ca3ab2a37f84
cifar10         original           50000  -     -     10000  3072 10 -
cifar10         bagging_public     50000  -     1000  9000   3072 10 -
cifar100_subset original           18000  -     -     2000   3072 100 041c75b0418d
adult           original           32561  -     -     16281  108  2  4b73a16de3b9
adult           dpbag              16280  -     16280 16282  108  2  4b73a16de3b9
adult           intrinsic_sgd      29305  3256  -     16281  100  2  4b73a16de3b9
covertype       original           11340  3780  -     565892 54   7  0a9371cef7c9
covertype       intrinsic_sgd      378783 42086 -     74272  49   2  0a9371cef7c9
diabetes130     dpbag              8058   -     8058  8059   99   2  0689e7ec0312
"""
SIZES = [line.split() for line in SIZES.strip().splitlines()]
PARTS = ("train", "validation", "public", "test")


def union(dataset):
    """All rows of a data set with their labels as the last column."""
    parts = []
    for part in PARTS:
        X = getattr(dataset, f"X_{part}")
        y = getattr(dataset, f"y_{part}")
        if X is not None:
            parts.append(np.column_stack([X, y]))
    return np.vstack(parts)


def sorted_rows(matrix):
    rows = np.ascontiguousarray(matrix)
    return np.sort(rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel())


def row_norms(X):
    return np.linalg.norm(X.astype(np.float64), axis=1)


@pytest.mark.needs("{name}")
@pytest.mark.parametrize(
    ("name", "split", "sizes"), [(name, split, sizes) for name, split, *sizes in SIZES]
)
def test_sizes_and_form(load, name, split, sizes):
    *rows, d, n_classes, digest = sizes
    d = int(d)
    n_classes = int(n_classes)
    loaded = load(name, split)
    assert (loaded.name, loaded.split) == (name, split)
    assert (loaded.d, loaded.n_classes) == (d, n_classes)
    for part, n in zip(PARTS, rows, strict=True):
        X = getattr(loaded, f"X_{part}")
        y = getattr(loaded, f"y_{part}")
        if n == "-":
            assert X is y is None
            continue
        assert X.shape == (int(n), d)
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert y.shape == (int(n),)
        assert y.dtype == np.int64
        assert np.array_equal(np.unique(y), np.arange(n_classes))
        assert not X.flags.writeable
        assert not y.flags.writeable
    assert loaded.feature_names is None or len(loaded.feature_names) == d
    assert loaded.image_shape is None or np.prod(loaded.image_shape) == d
    assert loaded.digest.startswith(f"{name}:{split}:")
    # of CIFAR-10 there are two forms
    if digest != "-":
        assert loaded.digest == f"{name}:{split}:{digest}"
        assert loaded.note == ""


def test_the_table_has_every_split():
    splits = [[name, split] for name in data.NAMES for split in SOURCES[name].splits]
    assert sorted(splits) == sorted(row[:2] for row in SIZES)
    told = [line.split()[:2] for line in data.load.__doc__.splitlines()]
    for split in splits:
        assert split in told


@pytest.mark.parametrize("name", ["digits", "breast_cancer"])
def test_embedded_sets_hold_scikit_learns_records_once_and_are_stratified(name, folder):
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    loaded = data.load(name)
    assert not folder.exists()
    low = bunch.data.min(axis=0)
    high = bunch.data.max(axis=0)
    if name == "digits":
        low = 0
        high = 16
    X = ((bunch.data - low) / (high - low)).astype(np.float32)
    expected = np.column_stack([X, bunch.target])
    assert np.array_equal(sorted_rows(union(loaded)), sorted_rows(expected))
    # exactly a fifth of each class
    assert np.array_equal(np.bincount(loaded.y_test), np.bincount(bunch.target) // 5)


@pytest.mark.needs("{name}")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_images_are_flattened_channel_first(load, path_of, name):
    loaded = load(name)
    with np.load(path_of(name)) as archive:
        image = archive["x_test"][17]
        label = archive["y_test"][17]
    channels = image.reshape(*image.shape[:2], -1).transpose(2, 0, 1)
    assert loaded.image_shape == channels.shape
    assert np.array_equal(
        loaded.X_test[17].reshape(loaded.image_shape),
        (channels / 255).astype(np.float32),
    )
    assert loaded.y_test[17] == label


@pytest.mark.needs("mnist")
def test_bagging_public_cuts_the_test_rows(load):
    original = load("mnist")
    cut = load("mnist", "bagging_public")
    assert np.array_equal(np.vstack([cut.X_public, cut.X_test]), original.X_test)
    assert np.array_equal(np.concatenate([cut.y_public, cut.y_test]), original.y_test)
    assert cut.digest == original.digest.replace("original", "bagging_public")
    assert cut.note == original.note


@pytest.mark.needs("mnist")
def test_private_prediction_scales_both_parts_by_one_constant(load):
    original = load("mnist")
    scaled = load("mnist", "private_prediction")
    # float32 rounding, and the guard of 2**-23 that keeps norms at most 1
    np.testing.assert_allclose(
        scaled.X_train[::9] * 28, original.X_train[::9], rtol=4e-7
    )
    np.testing.assert_allclose(scaled.X_test[::9] * 28, original.X_test[::9], rtol=4e-7)
    assert row_norms(scaled.X_train).max() == pytest.approx(17.179 / 28, abs=1e-4)


@pytest.mark.needs("mnist")
def test_mnist_binary_is_the_stated_projection(load, path_of):
    loaded = load("mnist", "intrinsic_sgd")
    with np.load(path_of("mnist")) as archive:
        x = archive["x_train"]
        y = archive["y_train"]
    rows = np.flatnonzero((y == 3) | (y == 5))
    projection = np.random.default_rng(0).normal(0, np.sqrt(1 / 50), (784, 50))
    for part, first in (("validation", 0), ("train", 1_155)):
        X = x[rows[first : first + 30]].reshape(30, 784) / 255 @ projection
        expected = X / np.linalg.norm(X, axis=1, keepdims=True)
        # float32
        np.testing.assert_allclose(
            getattr(loaded, f"X_{part}")[:30], expected, atol=1e-6
        )
        assert np.array_equal(
            getattr(loaded, f"y_{part}")[:30], y[rows[first : first + 30]] == 5
        )
    assert loaded.class_names == ("3", "5")


@pytest.mark.needs("{name}")
@pytest.mark.parametrize("name", ["mnist", "adult", "covertype"])
def test_intrinsic_sgd_rows_have_norm_one_and_never_more(load, name):
    loaded = load(name, "intrinsic_sgd")
    for X in (loaded.X_train, loaded.X_validation, loaded.X_test):
        assert row_norms(X).min() > 1 - 5e-7
        assert row_norms(X).max() <= 1


@pytest.fixture
def adult_by_hand(path_of):
    return read_adult_by_hand(path_of("adult").parent)


@cache
def read_adult_by_hand(folder):
    """Numbers, one-hot columns in the order of their names, labels; by csv and
    dictionaries instead of pandas.
    """
    numeric = (0, 2, 4, 10, 11, 12)
    rows = []
    for file in ("adult.data", "adult.test"):
        lines = (folder / file).read_text().splitlines()
        rows += [
            row for row in csv.reader(lines, skipinitialspace=True) if len(row) == 15
        ]
    numbers = np.array([[float(row[i]) for i in numeric] for row in rows])
    onehot = []
    for column in sorted(set(range(14)).difference(numeric)):
        code = {
            level: i for i, level in enumerate(sorted({row[column] for row in rows}))
        }
        onehot.append(np.eye(len(code))[[code[row[column]] for row in rows]])
    return numbers, onehot, np.array([row[14].startswith(">") for row in rows])


@pytest.mark.needs("adult")
def test_adult_original_by_another_road(load, adult_by_hand):
    numbers, onehot, y = adult_by_hand
    low = numbers[:32_561].min(axis=0)
    high = numbers[:32_561].max(axis=0)
    expected = np.column_stack([(numbers - low) / (high - low), *onehot, y]).astype(
        np.float32
    )
    assert np.array_equal(union(load("adult")), expected)
    named = load("adult").feature_names[:8]
    assert " ".join(named) == (
        "age fnlwgt education-num capital-gain capital-loss hours-per-week workclass=?"
        " workclass=Federal-gov"
    )
    assert np.bincount(load("adult").y_test).tolist() == [12_435, 3_846]


@pytest.mark.needs("adult")
def test_adult_dpbag_holds_each_record_once(load, adult_by_hand):
    numbers, onehot, y = adult_by_hand
    low = numbers.min(axis=0)
    high = numbers.max(axis=0)
    expected = np.column_stack([(numbers - low) / (high - low), *onehot, y]).astype(
        np.float32
    )
    loaded = load("adult", "dpbag")
    found = sorted_rows(union(loaded).astype(np.float32))
    assert np.array_equal(found, sorted_rows(expected))
    # random thirds: the share of positive records within 4 standard errors in each
    allowed = 4 * 0.427 / np.sqrt(16_280)
    for y in (loaded.y_train, loaded.y_public, loaded.y_test):
        assert y.mean() == pytest.approx(11_687 / 48_842, abs=allowed)


@pytest.mark.needs("adult")
def test_adult_intrinsic_sgd_by_another_road(load, adult_by_hand):
    numbers, onehot, y = adult_by_hand
    low = numbers[:32_561].min(axis=0)
    high = numbers[:32_561].max(axis=0)
    X = np.column_stack(
        [(numbers - low) / (high - low), *(columns[:, 1:] for columns in onehot)]
    )
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    loaded = load("adult", "intrinsic_sgd")
    found = np.vstack([loaded.X_validation, loaded.X_train, loaded.X_test])
    np.testing.assert_allclose(found, X, atol=4e-7)  # float32
    labels = np.concatenate([loaded.y_validation, loaded.y_train, loaded.y_test])
    assert np.array_equal(labels, y)
    assert "workclass=?" not in loaded.feature_names


@pytest.mark.needs("covertype")
def test_covertype_original_keeps_the_published_order(load, path_of):
    import gzip

    loaded = load("covertype")
    with gzip.open(path_of("covertype"), "rt") as file:
        raw = np.array([next(file).split(",") for _ in range(15_200)], dtype=np.float64)
    low = raw[:11_340, :10].min(axis=0)
    high = raw[:11_340, :10].max(axis=0)
    expected = np.hstack([(raw[:, :10] - low) / (high - low), raw[:, 10:54]])
    parts = (loaded.X_train, loaded.X_validation, loaded.X_test[:80])
    assert np.array_equal(np.vstack(parts), expected.astype(np.float32))
    # as the set's description says
    assert np.bincount(loaded.y_train).tolist() == [1_620] * 7
    assert np.bincount(loaded.y_validation).tolist() == [540] * 7
    everything = np.concatenate([loaded.y_train, loaded.y_validation, loaded.y_test])
    counts = " ".join(map(str, np.bincount(everything)))
    assert counts == "211840 283301 35754 2747 9493 17367 20510"


def test_unknown_names_and_splits_list_the_known_ones():
    with pytest.raises(ValueError, match="unknown data set 'minst'; known: digits, br"):
        data.load("minst")
    with pytest.raises(
        ValueError, match=r"split 'dpbag' .* 'mnist'; known: original, "
    ):
        data.load("mnist", split="dpbag")


def test_data_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    assert data.data_folder() == tmp_path
    monkeypatch.delenv("DPNOTES_DATA")
    assert data.data_folder().name == "data"
    assert "dpnotes" in data.data_folder().parts[-2]


def test_import_is_cheap():
    code = "import sys, dpnotes.data; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "torchvision", "sklearn", "pandas", "scipy"}.intersection(
        modules
    )


@pytest.mark.needs("diabetes130")
def test_one_record_for_each_patient_who_could_return(path_of):
    path = path_of("diabetes130")
    with (
        zipfile.ZipFile(path) as archive,
        archive.open("dataset_diabetes/diabetic_data.csv") as file,
    ):
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    assert len(rows) == 101_766
    first = {}
    for row in sorted(rows, key=lambda row: int(row["encounter_id"])):
        first.setdefault(row["patient_nbr"], row)
    assert len(first) == 71_518
    kept = [
        row
        for row in first.values()
        if row["discharge_disposition_id"] not in {"11", "13", "14", "19", "20", "21"}
    ]
    table = _tables.read_diabetes(path.parents[1])
    assert len(kept) == len(table.y) == 69_973
    assert table.y.tolist() == [int(row["readmitted"] != "NO") for row in kept]
    names = table.number_names + table.level_names
    for index in (0, 1234, 69_972):
        row = kept[index]
        numbers = np.append(table.numbers[index], table.levels[index])
        values = dict(zip(names, numbers, strict=True))
        assert values["age"] == int(row["age"][1:].partition("-")[0])
        for column in _tables._DIABETES_COUNTS:
            assert values[column] == pytest.approx(math.log(1 + int(row[column])))
        for column in _tables._DIABETES_LEVELS:
            own = [n for n in names if n.startswith(f"{column}=") and values[n]]
            assert own == [f"{column}={row[column]}"]
    assert (table.levels.sum(axis=1) == len(_tables._DIABETES_LEVELS) + 1).all()


def test_chapters_of_diagnoses():
    codes = ["250.83", "276", "428", "8", "139", "140", "V57", "786", "?"]
    assert " ".join(map(_tables._chapter, codes)) == (
        "diabetes endocrine circulatory infectious infectious neoplasms supplementary"
        " symptoms missing"
    )


@pytest.mark.needs("cifar100_subset", "cifar10")
def test_the_file_here_follows_the_rule_and_shares_no_image_with_cifar10(load, path_of):
    with np.load(path_of("cifar100_subset")) as archive:
        keys = [key(image) for image in archive["x"]]
    assert keys == sorted(set(keys))
    with np.load(path_of("cifar10")) as archive:
        for part in ("x_train", "x_test"):
            assert not {*map(key, archive[part])} & {*keys}
    assert load("cifar100_subset").class_names == tuple(map(str, range(100)))


ROWS = arrays.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6, width=32),
)


@given(ROWS, st.floats(1e-3, 1e3))
def test_rows_lie_in_the_ball_and_keep_their_direction(X, bound):
    inside = to_unit_ball(X, bound=bound)
    assert inside.dtype == np.float32
    assert (np.linalg.norm(inside.astype(np.float64), axis=1) <= 1).all()
    alone = np.vstack([to_unit_ball(row[None], bound=bound) for row in X])
    assert np.array_equal(inside, alone)  # each row by itself
    norms = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    # float32 rounding and the guard; entries below 1e-37 are not normal numbers
    np.testing.assert_allclose(
        inside, X / np.maximum(norms, bound), rtol=4e-7, atol=1e-37
    )


def test_the_default_bound_shortens_no_row_of_unit_features():
    X = np.random.default_rng(0).uniform(size=(50, 64))
    np.testing.assert_allclose(to_unit_ball(X), X / 8, rtol=4e-7)
    assert np.linalg.norm(to_unit_ball(np.ones((1, 64))).astype(np.float64)) <= 1


def test_rows_and_bounds_that_have_no_norm_are_named():
    with pytest.raises(ValueError, match="rows of finite norm, got 1 rows without one"):
        to_unit_ball(np.array([[1.0, np.nan], [1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"X must be a matrix .*, got shape \(3,\)"):
        to_unit_ball(np.ones(3))
    for bound in (0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="bound must be positive and finite"):
            to_unit_ball(np.ones((2, 2)), bound=bound)
