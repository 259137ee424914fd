"""Missing and damaged files are refused, each with a message that says which file
and what is wrong.
"""

import io
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpnotes import data
from dpnotes.data import _images, _tables
from dpnotes.data._catalogue import SOURCES


def archive(arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def flipped(content, position):
    content = bytearray(content)
    content[position] ^= 1
    return bytes(content)


# what stands in mnist.npz instead of the arrays a, and what the message must say
DAMAGE = {
    "truncated": (lambda a: archive(a)[:-2_000], "not a whole .npz archive"),
    "empty": (lambda a: b"", "not a whole .npz archive"),
    "web page": (lambda a: b"<!DOCTYPE html>", "not a whole .npz archive"),
    "flipped bit": (lambda a: flipped(archive(a), 5_000), "Bad CRC-32"),
    "missing array": (
        lambda a: archive({k: v for k, v in a.items() if k != "y_test"}),
        "y_test is not a file",
    ),
    "pickled array": (
        lambda a: archive(a | {"x_test": np.array([{}, None])}),
        "allow_pickle",
    ),
    "float": (
        lambda a: archive(a | {"x_train": a["x_train"] / 255}),
        r"'x_train' is float64 \(20, 28, 28\), expected u",
    ),
    "too few rows": (
        lambda a: archive(a | {"x_test": a["x_test"][1:]}),
        r"\(9, 28, 28\), expected uint8 \(10, 28, 28",
    ),
    "wrong label": (
        lambda a: archive(a | {"y_train": a["y_train"] + 1}),
        "images are not the published ones",
    ),
    "rows swapped": (
        lambda a: archive(a | {"x_train": a["x_train"][::-1]}),
        "images are not the published ones",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_image_file_is_refused(tiny, folder, damage):
    content, message = DAMAGE[damage]
    arrays = tiny("mnist")
    folder.mkdir()
    (folder / "mnist.npz").write_bytes(archive(arrays))
    assert data.load("mnist").n_train == 20  # the undamaged file loads
    (folder / "mnist.npz").write_bytes(content(arrays))
    with pytest.raises(data.DataDamaged, match=message) as caught:
        data.load("mnist")
    assert isinstance(caught.value, ValueError)
    assert str(folder / "mnist.npz") in str(caught.value)
    assert "dpnotes data fetch mnist" in str(caught.value)
    status = next(status for status in data.status() if status.name == "mnist")
    assert (status.state, status.note) == ("damaged", caught.value.fault)


@pytest.mark.needs("cifar10")
def test_the_forms_of_cifar10_are_told_apart(path_of, monkeypatch):
    folder = path_of("cifar10").parent
    known = _images.KNOWN["cifar10"]
    found = known.read(folder)
    if found.note:  # the copy, and not the original
        assert found.digest == "93-inexact:e57384ac0441"
        assert (
            found.note
            == "93 of 60,000 images (73 training, 20 test) are JPEG approximations"
        )

    arrays = _images.load_arrays("cifar10", folder / "cifar10.npz", tuple(known.shapes))
    monkeypatch.setattr(_images, "load_arrays", lambda name, path, keys: arrays)
    # The original differs from that copy in listed images alone; what it has there
    # cannot be known from the copy.
    arrays["x_test"][1_259] = 7
    original = known.read(folder)
    assert (len(original.digest), original.note) == (12, "")

    arrays["x_test"][1_258] = 7
    with pytest.raises(data.DataDamaged, match="images are not the published ones"):
        known.read(folder)


@pytest.mark.needs("adult", "covertype", "diabetes130")
@pytest.mark.parametrize(
    "file",
    [
        "adult/adult.data",
        "adult/adult.test",
        _tables.COVERTYPE_FILE,
        _tables.DIABETES_FILE,
    ],
)
def test_a_damaged_table_is_refused(path_of, folder, file):
    name = file.split("/")[0]
    shutil.copytree(path_of(name).parent, folder / name)
    content = (folder / file).read_bytes()
    for damaged in (content[:-3], flipped(content, len(content) // 2), b""):
        (folder / file).unlink()
        (folder / file).write_bytes(damaged)
        with pytest.raises(
            data.DataDamaged, match=r"SHA-256 sum|not a whole (gzip|zip)"
        ) as caught:
            data.load(name, split=next(iter(SOURCES[name].splits)))
        assert str(folder / file) in str(caught.value)


@pytest.mark.parametrize("name", [name for name in data.NAMES if SOURCES[name].files])
def test_a_missing_set_says_what_would_bring_it(folder, name):
    with pytest.raises(
        data.DataMissing, match=f"`dpnotes data fetch {name}`"
    ) as caught:
        data.load(name, split=next(iter(SOURCES[name].splits)))
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, data.DataError)
    assert str(folder / name) in str(caught.value)
    assert "DPNOTES_DATA" in str(caught.value)
    assert not folder.exists()  # looking for data makes nothing


def test_errors_travel_between_processes():
    path = Path("mnist.npz")
    for error in (
        data.DataMissing("mnist", path),
        data.DataDamaged("mnist", path, "cut"),
        data.DataUnreachable("gone"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))
        assert vars(copy) == vars(error)


def test_status_of_an_empty_folder(folder):
    states = {status.name: status.state for status in data.status()}
    assert states.pop("digits") == states.pop("breast_cancer") == "embedded"
    assert states == dict.fromkeys([*data.NAMES[2:], "imagenet"], "missing")


def test_a_file_that_cannot_be_read_does_not_hide_the_others(folder):
    for unreadable in ("mnist.npz", "adult/adult.data", "covertype/covtype.data.gz"):
        # a folder in its place: the superuser may read anything else
        (folder / unreadable).mkdir(parents=True)
    (folder / "diabetes130").write_text("a file in the place of a folder")
    found = {one.name: one for one in data.status()}
    for name in ("mnist", "adult", "covertype"):
        assert found[name].state == "unreadable"
        assert "Is a directory" in found[name].note
    assert found["diabetes130"].state == "unreadable"
    assert found["cifar10"].state == "missing"


@pytest.mark.needs("adult")
def test_status_of_what_is_here(path_of):
    path = path_of("adult")
    status = next(status for status in data.status() if status.name == "adult")
    assert status == data.DataStatus(
        "adult", "present", path, 3_974_305 + 2_003_153, ""
    )


@pytest.mark.needs("covertype", "diabetes130")
def test_tables_are_known_by_their_content_not_by_their_packing(path_of, folder):
    for name in ("covertype", "diabetes130"):
        (folder / name).mkdir(parents=True)
    packed = path_of("covertype").read_bytes()
    # gzip's time stamp
    (folder / _tables.COVERTYPE_FILE).write_bytes(packed[:4] + b"time" + packed[8:])
    assert data.load("covertype").digest == "covertype:original:0a9371cef7c9"
    member = "dataset_diabetes/diabetic_data.csv"
    with (
        zipfile.ZipFile(path_of("diabetes130")) as old,
        zipfile.ZipFile(folder / _tables.DIABETES_FILE, "w") as new,
    ):
        new.writestr(member, old.read(member), zipfile.ZIP_STORED)
    assert (
        data.load("diabetes130", split="dpbag").digest
        == "diabetes130:dpbag:0689e7ec0312"
    )
    with zipfile.ZipFile(folder / _tables.DIABETES_FILE, "w") as other:
        other.writestr("readme.txt", "no data")
    with pytest.raises(
        data.DataDamaged, match="not a whole zip archive with dataset_diabetes"
    ):
        data.load("diabetes130", split="dpbag")
