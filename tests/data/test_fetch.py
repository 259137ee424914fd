"""Downloads with the real downloaders, from a server on this machine; and what
happens when they fail.
"""

import gzip
import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from torchvision import datasets

from dpnotes import data
from dpnotes.data import _fetch, _images, _weights
from dpnotes.data._catalogue import SOURCES
from tests.data.conftest import key

NOWHERE = "http://127.0.0.1:9/"  # refused at once


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """A web server: the folder that it serves, and its address."""
    root = tmp_path / "web"
    root.mkdir()
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=root)
    ) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield root, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def mnist_mirror(tiny, web, monkeypatch):
    """A mirror with the four files of a tiny MNIST; gives its arrays."""
    arrays = tiny("mnist")
    mirror, address = web
    resources = []
    for part, prefix in (("train", "train"), ("test", "t10k")):
        for kind, name in (("images-idx3", f"x_{part}"), ("labels-idx1", f"y_{part}")):
            array = arrays[name]
            header = np.array([0x800 + array.ndim, *array.shape], dtype=">i4").tobytes()
            path = mirror / f"{prefix}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(header + array.tobytes()))
            resources.append((path.name, md5(path)))
    monkeypatch.setattr(datasets.MNIST, "mirrors", [address])
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    return arrays


def leftovers(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_mnist_comes_by_torchvision(mnist_mirror, folder):
    assert data.fetch("mnist") == folder / "mnist.npz"
    loaded = data.load("mnist")
    assert np.array_equal(
        loaded.X_train * 255, mnist_mirror["x_train"].reshape(20, 784)
    )
    assert np.array_equal(loaded.y_test, mnist_mirror["y_test"])
    assert leftovers(folder) == ["mnist.npz"]


@pytest.mark.needs("{name}")
@pytest.mark.parametrize("name", ["adult", "covertype"])
def test_tables_come_as_published_and_a_bad_page_is_refused(
    path_of, folder, web, monkeypatch, name
):
    files = {
        file: path_of(name).parents[1] / file for file in _fetch.source(name).files
    }
    root, address = web
    (root / name).symlink_to(path_of(name).parent)
    (root / "moved").write_text("<!DOCTYPE html><title>moved</title>")
    moved = partial(_fetch._tables, dict.fromkeys(files, address + "moved"))
    monkeypatch.setattr(_fetch, "DOWNLOADS", {name: moved})
    with pytest.raises(data.DataUnreachable, match=r"SHA-256 sum|not a whole gzip"):
        data.fetch(name)
    assert leftovers(folder) == []
    monkeypatch.setattr(
        _fetch,
        "DOWNLOADS",
        {name: partial(_fetch._tables, {file: address + file for file in files})},
    )
    assert data.fetch(name) == folder / next(iter(files))
    for file, path in files.items():
        assert (folder / file).read_bytes() == path.read_bytes()
    assert leftovers(folder) == sorted([name, *files])


def test_every_set_to_fetch_has_a_download():
    fetched = [name for name, source in SOURCES.items() if source.files]
    assert [*_fetch.DOWNLOADS] == fetched
    for name in ("adult", "covertype"):
        (urls,) = _fetch.DOWNLOADS[name].args
        assert tuple(urls) == _fetch.source(name).files
        assert all(url.startswith("https://") for url in urls.values())


@pytest.mark.parametrize("name", ["mnist", "cifar10", "adult", "covertype"])
def test_without_network_nothing_changes(folder, monkeypatch, name):
    monkeypatch.setattr(datasets.MNIST, "mirrors", [NOWHERE])
    monkeypatch.setattr(datasets.CIFAR10, "url", NOWHERE + "cifar-10-python.tar.gz")
    files = _fetch.source(name).files
    if name in ("adult", "covertype"):
        monkeypatch.setattr(
            _fetch,
            "DOWNLOADS",
            {name: partial(_fetch._tables, dict.fromkeys(files, NOWHERE))},
        )
    (folder / files[0]).parent.mkdir(parents=True)
    (folder / files[0]).write_bytes(b"half a file")  # damaged, so a download is tried
    before = leftovers(folder)
    with pytest.raises(
        data.DataUnreachable, match=f"data set '{name}' could not be downloaded"
    ) as caught:
        data.fetch(name)
    assert isinstance(caught.value, ConnectionError)
    assert f"into {folder}" in str(caught.value)
    assert all(file in str(caught.value) for file in files)
    assert leftovers(folder) == before
    assert (folder / files[0]).read_bytes() == b"half a file"


def test_a_download_that_is_not_the_published_data_is_refused(
    mnist_mirror, folder, monkeypatch
):
    # the mirror stays, what is known to be published changes
    monkeypatch.setitem(
        _images.KNOWN, "mnist", replace(_images.KNOWN["mnist"], sum="0" * 64)
    )
    with pytest.raises(data.DataUnreachable, match="images are not the published ones"):
        data.fetch("mnist")
    assert leftovers(folder) == []


def test_a_sound_copy_is_left_alone_and_a_damaged_one_replaced(
    mnist_mirror, folder, monkeypatch
):
    data.fetch("mnist")
    (folder / "mnist.npz").write_bytes(b"damaged")
    data.fetch("mnist")
    assert data.load("mnist").n_train == 20
    monkeypatch.setattr(datasets.MNIST, "mirrors", [NOWHERE])
    data.fetch("mnist")


def test_what_a_killed_fetch_left_is_removed_and_what_others_work_on_is_not(
    mnist_mirror, folder
):
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
    )
    dead = f".mnist.{int(ended.stdout)}-abc"
    running = f".mnist.{os.getpid()}-abc"
    for scratch in (dead, running, f".adult.{int(ended.stdout)}-abc"):
        (folder / scratch / "half").mkdir(parents=True)
    data.fetch("mnist")
    assert not (folder / dead).exists()
    assert (folder / running / "half").is_dir()


def test_concurrent_fetches_leave_one_whole_file(mnist_mirror, folder):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(data.fetch, ["mnist"] * 4))
    assert set(paths) == {folder / "mnist.npz"}
    assert data.load("mnist").n_train == 20
    assert leftovers(folder) == ["mnist.npz"]


def test_embedded_and_unknown_sets_are_not_fetched():
    with pytest.raises(ValueError, match=r"'digits' comes with .* name one of: mnist"):
        data.fetch("digits")
    with pytest.raises(ValueError, match="unknown data set 'svhn'; known: digits"):
        data.fetch("svhn")


def test_weights_are_fetched_checked_and_loaded(folder, monkeypatch):
    """A file in the place of VGG16's, whose digest is that of these bytes."""
    folder.mkdir()
    published = folder / "published.pth"
    torch.save({"features.0.weight": torch.ones(2)}, published)
    content = published.read_bytes()
    monkeypatch.setattr(_weights, "URL", published.as_uri())
    with pytest.raises(data.DataMissing, match="fetch imagenet"):
        data.load_weights()
    with pytest.raises(data.DataUnreachable, match="invalid hash value"):
        data.fetch("imagenet")
    monkeypatch.setattr(_weights, "DIGEST", hashlib.sha256(content).hexdigest()[:8])
    assert data.absent(["imagenet", "digits"]) == ["imagenet"]
    path = data.fetch("imagenet")
    assert not data.absent(["imagenet"])
    assert data.load_weights()["features.0.weight"].tolist() == [1.0, 1.0]
    path.write_bytes(content[:-1])
    with pytest.raises(data.DataDamaged, match="fetch imagenet"):
        data.load_weights()


N = 230  # images of either published part of CIFAR-100 here; 400 are chosen


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(_images, "CIFAR100_RECORDS", 400)
    known = replace(_images.KNOWN["cifar100_subset"], parts={"": 400}, n_test=150)
    monkeypatch.setitem(_images.KNOWN, "cifar100_subset", known)


def published():
    """Two parts of CIFAR-100 and one of CIFAR-10, with an image twice, one with two
    labels and one in both sets.
    """
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, N, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(2 * N, dtype=np.uint8).reshape(2, N) % 100
    others = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    # twice
    images[1, 0] = images[0, 0]
    labels[1, 0] = labels[0, 0]
    # with two labels
    images[1, 1] = images[0, 1]
    labels[1, 1] = labels[0, 1] + 1
    others[3] = images[0, 2]
    return list(zip(images, labels, strict=True)), others


def test_the_subset_is_the_first_images_by_hash(small):
    parts, others = published()
    x, y = _images.cifar100_subset(parts, [others])
    assert x.shape == (400, 32, 32, 3)
    label_of = {}
    for images, labels in parts:
        label_of |= dict(zip(map(key, images), labels, strict=True))
    (first, _), _ = parts
    # with two labels, and in both sets
    left = set(label_of) - {key(first[1]), key(first[2])}
    keys = [key(image) for image in x]
    assert keys == sorted(left)[:400]
    assert y.tolist() == [label_of[k] for k in keys]
    assert key(first[0]) in left


def test_it_is_fetched_from_both_sets_of_torchvision(small, folder, monkeypatch):
    parts, others = published()

    def kind(arrays):
        class Set:
            def __init__(self, root, *, train, download):
                assert download
                self.data, labels = arrays[0 if train else 1]
                self.targets = labels.tolist()

        return Set

    monkeypatch.setattr(datasets, "CIFAR100", kind(parts))
    monkeypatch.setattr(
        datasets, "CIFAR10", kind([(others, np.zeros(5)), (others, np.zeros(5))])
    )
    assert data.fetch("cifar100_subset") == folder / "cifar100_subset.npz"
    loaded = data.load("cifar100_subset")
    x, y = _images.cifar100_subset(parts, [others])
    assert np.array_equal(loaded.y_train, y[:-150])
    assert np.array_equal(loaded.y_test, y[-150:])
    planes = (x[-1].transpose(2, 0, 1) / 255).astype(np.float32)
    assert np.array_equal(loaded.X_test[-1].reshape(3, 32, 32), planes)
    assert "unverified" in loaded.digest
    assert "not the subset" in loaded.note
    assert [path.name for path in folder.iterdir()] == ["cifar100_subset.npz"]
