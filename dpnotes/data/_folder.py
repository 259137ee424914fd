"""Where the data sets are kept."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """Folder of the data sets: ``DPNOTES_DATA`` if that is set, else ``data`` in the user's cache folder of dpnotes.

    It need not exist; :func:`fetch` makes it. It holds ``mnist.npz``, ``fashion_mnist.npz``, ``cifar10.npz`` (arrays
    ``x_train``, ``y_train``, ``x_test``, ``y_test``, uint8 as published), ``cifar100_subset.npz`` (``x``, ``y``),
    ``adult/adult.data``, ``adult/adult.test``, ``covertype/covtype.data.gz`` and ``diabetes130/dataset_diabetes.zip``
    (the published files).
    """
    if folder := os.environ.get("DPNOTES_DATA"):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("dpnotes") / "data"
