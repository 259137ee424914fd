"""Download a data set and put it into the data folder in its plain form."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpnotes._processes import leftovers
from dpnotes.data._catalogue import SOURCES, data_folder, source
from dpnotes.data._dataset import DataDamaged, DataError, DataUnreachable
from dpnotes.data._images import cifar100_subset
from dpnotes.data._tables import ADULT_FILES, COVERTYPE_FILE, DIABETES_FILE
from dpnotes.data._weights import download

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


def fetch(name: str) -> Path:
    """Download a data set into the data folder unless an intact copy is there, and
    replace a damaged copy.

    A copy is intact if :func:`load` accepts it, so an inexact CIFAR-10 remains until
    you remove its file. Torchvision's own downloaders fetch the images; tables are the
    published files. Everything is downloaded and checked in a scratch folder; then each
    file is moved into place in one step. Therefore a failure does not change the data
    folder, and each of several concurrent calls leaves whole files. A call also removes
    the scratch folders of killed calls.

    Parameters
    ----------
    name : str
        One of :data:`NAMES` that does not come with scikit-learn, or ``"imagenet"``:
        weights of VGG16 for :func:`load_weights`, 528 MB.

    Returns
    -------
    Path
        File of the data set in the data folder; the first file if there are several.

    Raises
    ------
    ValueError
        If there is no such data set, or it comes with scikit-learn.
    DataUnreachable
        If the download failed, or the downloaded files differ from the published files.
    """
    chosen = source(name)
    folder = data_folder()
    if not chosen.files:
        fetched = ", ".join(name for name, other in SOURCES.items() if other.files)
        raise ValueError(
            f"data set {name!r} comes with scikit-learn and cannot be fetched; name one"
            f" of: {fetched}"
        )
    try:
        # an intact copy is left alone
        chosen.read(folder)
    except DataError:
        _download(name, folder)
    return folder / chosen.files[0]


def _download(name: str, folder: Path) -> None:
    files = source(name).files
    folder.mkdir(parents=True, exist_ok=True)
    # of processes that were killed; those of running ones stay
    for leftover in leftovers(folder, f".{name}."):
        shutil.rmtree(leftover, ignore_errors=True)
    with TemporaryDirectory(prefix=f".{name}.{os.getpid()}-", dir=folder) as temporary:
        scratch = Path(temporary)
        try:
            DOWNLOADS[name](scratch)
            source(name).read(scratch)
        # RuntimeError: no mirror answered
        except (DataDamaged, OSError, RuntimeError, HTTPException) as error:
            fault = getattr(error, "fault", f"{type(error).__name__}: {error}")
            raise DataUnreachable(
                f"data set {name!r} could not be downloaded ({fault}); no file was"
                f" changed; without a network, copy {' and '.join(files)} into"
                f" {folder}, or set DPNOTES_DATA to a folder that has this data set"
            ) from error
        # all of them are whole now, and each is put in place in one step
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(scratch / file, folder / file)


def _images(name: str, kind: str, scratch: Path) -> None:
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = _part(kind, part, scratch)
    np.savez(scratch / f"{name}.npz", **arrays)


def _cifar100_subset(scratch: Path) -> None:
    """Both CIFAR sets are downloaded, because images of CIFAR-10 are left out."""
    # each as [training part, test part]
    hundred, ten = (
        [_part(kind, part, scratch) for part in ("train", "test")]
        for kind in ("CIFAR100", "CIFAR10")
    )
    x, y = cifar100_subset(hundred, [images for images, _ in ten])
    np.savez(scratch / "cifar100_subset.npz", x=x, y=y)


def _part(kind: str, part: str, scratch: Path) -> tuple[Any, Any]:
    from torchvision import datasets

    published = getattr(datasets, kind)(
        scratch / "raw", train=part == "train", download=True
    )
    return np.asarray(published.data, dtype=np.uint8), np.asarray(
        published.targets, dtype=np.uint8
    )


def _tables(urls: Mapping[str, str], scratch: Path) -> None:
    from torchvision.datasets.utils import download_url

    # torchvision's downloader checks no sum here: reading the file does
    for file, url in urls.items():
        download_url(url, (scratch / file).parent, filename=Path(file).name)


# For each data set the function that writes its files into a folder.
DOWNLOADS: Mapping[str, Callable[[Path], None]] = {
    "mnist": partial(_images, "mnist", "MNIST"),
    "fashion_mnist": partial(_images, "fashion_mnist", "FashionMNIST"),
    "cifar10": partial(_images, "cifar10", "CIFAR10"),
    "cifar100_subset": _cifar100_subset,
    "adult": partial(_tables, {file: f"{_UCI}/{file}" for file in ADULT_FILES}),
    "covertype": partial(_tables, {COVERTYPE_FILE: f"{_UCI}/covtype/covtype.data.gz"}),
    "diabetes130": partial(
        _tables, {DIABETES_FILE: f"{_UCI}/00296/dataset_diabetes.zip"}
    ),
    "imagenet": download,
}
