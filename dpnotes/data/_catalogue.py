"""All data sets by name: load one of them, or list which are present."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpnotes.data import _images, _tables, _weights
from dpnotes.data._dataset import DataDamaged, DataMissing, Dataset, Source

SOURCES: Mapping[str, Source[Any]] = {
    **_tables.EMBEDDED,
    **_images.SOURCES,
    **_tables.SOURCES,
    **_weights.SOURCES,
}
# of data sets; the weights of a network have no split
NAMES = tuple(name for name in SOURCES if SOURCES[name].splits)


def data_folder() -> Path:
    """Folder of the data sets: ``DPNOTES_DATA`` if it is set, else ``data`` in the
    user's cache folder of dpnotes.

    The folder need not exist, because :func:`fetch` creates it. It holds ``mnist.npz``,
    ``fashion_mnist.npz`` and ``cifar10.npz`` (each with the arrays ``x_train``,
    ``y_train``, ``x_test``, ``y_test``, uint8 as published), ``cifar100_subset.npz``
    (with the arrays ``x``, ``y``), and the published files ``adult/adult.data``,
    ``adult/adult.test``, ``covertype/covtype.data.gz``,
    ``diabetes130/dataset_diabetes.zip`` and ``vgg16-397923af.pth`` (torchvision's
    weights of VGG16, trained on ImageNet).
    """
    # a variable that is set but empty counts as not set
    if folder := os.environ.get("DPNOTES_DATA"):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("dpnotes") / "data"


def source(name: str) -> Source[Any]:
    """Source of data set ``name``; a ValueError lists the known data sets if there
    is no such set.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(SOURCES)}")
    return SOURCES[name]


def load(name: str, *, split: str = "original") -> Dataset:
    """Load a data set from the data folder (or from scikit-learn) in one of its splits,
    without any download.

    The loaded data are the published data: each call checks counts and SHA-256 sums,
    and a damaged file raises an error. Every split is fixed, its parts are disjoint,
    and no random state changes it. Features that are scaled by the smallest and largest
    value of some rows ("min-max") depend on the records in these rows. No guarantee
    covers this dependence; the papers treat the two values as public. Image features
    are pixels / 255 unless the split says otherwise.

    ===============  ====================  =============================================================================
    name             split                 rows and features
    ===============  ====================  =============================================================================
    digits           original              1,442 training, 355 test: every fifth record of each class, in published
                                           order, is a test record (our rule; scikit-learn has no split). Grey levels
                                           / 16, d = 64.
    breast_cancer    original              456 training, 113 test, by the same rule. Min-max over all rows (the ranges
                                           are printed in the set's public description), d = 30.
    mnist            original              60,000 training, 10,000 test, d = 784.
    mnist            bagging_public        Liu et al., Case II: the first 1,000 test rows are public, 9,000 remain.
    mnist            private_prediction    van der Maaten and Hannun: the rows of original, brought into the unit ball
                                           without looking at data: pixels / (255 * 28). (Instead of 28, their code uses
                                           the largest norm of each part, 17.18 and 15.54, which no proof covers.)
    mnist            intrinsic_sgd         Hyland and Tople: digits 3 (code 0) and 5 (code 1); Gaussian random
                                           projection of pixels / 255 to d = 50, entries N(0, 1/50) of
                                           ``default_rng(0)``; each row scaled to norm 1. The first tenth of the
                                           training rows is for validation: 10,397 training, 1,155 validation, 1,902
                                           test.
    fashion_mnist    original              60,000 training, 10,000 test, d = 784.
    cifar10          original              50,000 training, 10,000 test, d = 3,072.
    cifar10          bagging_public        As for mnist.
    cifar100_subset  original              20,000 images of CIFAR-100, for pre-training. Its two published parts are
                                           mixed and ordered by the SHA-256 sums of the pixels. No image is in
                                           CIFAR-10. 18,000 training, the last 2,000 test, d = 3,072. The split is
                                           ours, so an accuracy on it is not an accuracy on CIFAR-100.
    adult            original              32,561 training, 16,281 test, d = 108: 6 numeric columns (min-max over
                                           training rows), then 8 one-hot columns, where ``?`` (missing) is a level.
    adult            dpbag                 Jordon et al.: all rows in the order of ``default_rng(0).permutation``;
                                           16,280 training, 16,280 public, 16,282 test; min-max over all rows, d = 108.
    adult            intrinsic_sgd         Hyland and Tople: the alphabetically first level of each column left out,
                                           d = 100; min-max over adult.data; each row scaled to norm 1. 29,305
                                           training, 3,256 validation (the first rows), 16,281 test.
    covertype        original              As published: the first 11,340 rows train, 3,780 validate, 565,892 test.
                                           10 numeric columns, min-max over training rows, and 44 binary ones, d = 54.
    covertype        intrinsic_sgd         Hyland and Tople: types 1 and 2 (codes 0 and 1) in the order of
                                           ``default_rng(0).permutation``, divided into 85 % and 15 % (test); the first
                                           tenth of the 85 % is for validation: 378,783 training, 42,086 validation,
                                           74,272 test. Min-max over the 85 %, without the 5 columns that are constant
                                           there, d = 49; each row scaled to norm 1.
    diabetes130      dpbag                 Replaces the private Heart Failure data of Jordon et al., with the same
                                           size. It has the first stay of each patient who left alive and not for a
                                           hospice. Of these 69,973 stays, 24,175 are drawn in the order of
                                           ``default_rng(0).permutation`` and divided into thirds: 8,058 training, 8,058
                                           public, 8,059 test. Code 1 means readmitted at any time. Age, and 8 counts
                                           as log(1 + count), are scaled min-max over all rows. Race, gender, kinds of
                                           admission and discharge, two laboratory results, insulin, change of
                                           medication, any medication and the chapter of the first diagnosis are
                                           one-hot, where ``?`` (missing) is a level; d = 99.
    ===============  ====================  =============================================================================

    CIFAR-10 exists in two forms that can be loaded: the original, and a copy in which
    93 images are JPEG approximations. The attribute ``digest`` distinguishes the forms
    (``cifar10:original:93-inexact:...``). It also marks as ``unverified`` a subset of
    CIFAR-100 that differs from the known subset. The attribute ``note`` says the same
    in words.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    split : str
        One of the splits above.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is no such data set or split; the message lists the known names.
    DataMissing
        If the data folder lacks a file.
    DataDamaged
        If a file differs from the published file.

    Examples
    --------
    >>> load("digits")
    Dataset(name='digits', split='original', image_shape=(1, 8, 8), digest='digits:original:f6d9e39f37dc', note='')
    """
    chosen = source(name)
    if split not in chosen.splits:
        raise ValueError(
            f"unknown split {split!r} of data set {name!r}; known:"
            f" {', '.join(chosen.splits) or 'none, it holds the weights of a network'}"
        )
    return chosen.load(name, split, data_folder())


def load_weights() -> dict[str, Any]:
    """Load the weights of VGG16 that were trained on ImageNet, from the data folder.

    Returns
    -------
    dict of str to torch.Tensor
        Tensors on the CPU, by torchvision's names.

    Raises
    ------
    DataMissing
        If the data folder lacks the file.
    DataDamaged
        If the file differs from the published file.
    """
    import torch

    folder = data_folder()
    # torch would load a damaged file until it fails
    _weights.read(folder)
    path = folder / _weights.FILE
    return dict(torch.load(path, map_location="cpu", weights_only=True))


@dataclass(frozen=True)
class DataStatus:
    """Whether one data set can be loaded.

    Parameters
    ----------
    name : str
    state : "embedded", "present", "missing", "damaged" or "unreadable"
        State of the data set. An ``"embedded"`` set comes with scikit-learn; an
        ``"unreadable"`` set has a file that the system cannot read.
    path : Path or None
        First file of the data set, whether it exists or not; None if embedded.
    bytes : int
        Total size of its files that are present.
    note : str
        Remark, for example that the data are inexact or damaged, or why they cannot be
        read.
    """

    name: str
    state: Literal["embedded", "present", "missing", "damaged", "unreadable"]
    path: Path | None
    bytes: int
    note: str


def absent(names: Iterable[str]) -> list[str]:
    """Select the data sets for which the data folder lacks a file, without looking at
    the contents of files.

    Each data set is listed once. The result omits names that are not data sets.

    Examples
    --------
    >>> absent(["digits", "breast_cancer"])
    []
    """
    folder = data_folder()
    # each name once, in the given order
    wanted = [name for name in dict.fromkeys(names) if name in SOURCES]
    return [
        name
        for name in wanted
        if not all((folder / file).is_file() for file in SOURCES[name].files)
    ]


def status() -> list[DataStatus]:
    """Report the state of every data set, in the order of :data:`NAMES`, and of the
    weights ``"imagenet"``.

    The function reads and checks every file, which takes seconds.
    """
    return [_status(name, data_folder()) for name in SOURCES]


def _status(name: str, folder: Path) -> DataStatus:
    # none, if scikit-learn brings the set
    files = [folder / file for file in SOURCES[name].files]
    if not files:
        return DataStatus(name, "embedded", None, 0, "")
    size = 0
    try:
        size = sum(file.stat().st_size for file in files if file.is_file())
        return DataStatus(
            name, "present", files[0], size, SOURCES[name].read(folder).note
        )
    except DataMissing:
        return DataStatus(name, "missing", files[0], size, "")
    except DataDamaged as error:
        # the system's own error, such as no permission, says more than "damaged"
        if isinstance(error.__cause__, OSError) and error.__cause__.errno:
            return DataStatus(name, "unreadable", files[0], size, str(error.__cause__))
        return DataStatus(name, "damaged", files[0], size, error.fault)
    except OSError as error:
        return DataStatus(name, "unreadable", files[0], size, str(error))
