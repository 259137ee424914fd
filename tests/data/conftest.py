from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dpnotes import data
from dpnotes.data import _images
from dpnotes.data._catalogue import SOURCES
from dpnotes.data._dataset import sha256

HERE = data.data_folder()  # before any test points elsewhere


@lru_cache(maxsize=4)  # some take a gigabyte
def _load(name: str, split: str) -> data.Dataset:
    return data.load(name, split=split)


@pytest.fixture
def path_of() -> Callable[[str], Path]:
    """Path of the (first) file of a data set that is here, wherever the test has the
    data folder.
    """
    return lambda name: HERE / SOURCES[name].files[0]


@pytest.fixture
def load() -> Callable[..., data.Dataset]:
    """data.load that reads each set once."""
    return lambda name, split="original": _load(name, split)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that is not yet made."""
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, np.ndarray]]:
    """Make the library believe that an image set has been published with 20 + 10
    random images; gives these.
    """

    def publish(name: str) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        known = _images.KNOWN[name]
        image = known.image
        arrays = {
            "x_train": rng.integers(0, 256, (20, *image), dtype=np.uint8),
            "y_train": np.arange(20, dtype=np.uint8) % 10,
            "x_test": rng.integers(0, 256, (10, *image), dtype=np.uint8),
            "y_test": np.arange(10, dtype=np.uint8),
        }
        known = replace(
            known,
            parts={"_train": 20, "_test": 10},
            n_test=10,
            sum=sha256(*arrays.values()),
            in_doubt={},
        )
        monkeypatch.setitem(_images.KNOWN, name, known)
        return arrays

    return publish


def key(image: np.ndarray) -> str:
    """SHA-256 sum of one image as the published files hold it: red plane, green
    plane, blue plane.
    """
    return sha256(image.transpose(2, 0, 1))
