"""What tests of several papers share."""

import numpy as np
import pytest

from dpnotes import data


@pytest.fixture
def random_images(monkeypatch):
    """Gives a function that puts random images, of three channels, in the place of
    every image set: some to train on and 30 to score, the first 10 of them public.
    """

    def put(side, n_train):
        rng = np.random.default_rng(0)
        X = rng.random((n_train + 30, 3 * side**2), dtype=np.float32)
        y = np.arange(len(X)) % 10

        def load(name, *, split="original"):
            public = slice(n_train, n_train + 10)
            rest = slice(n_train, None)
            rows = {}
            if split == "bagging_public":
                rest = slice(public.stop, None)
                rows = {"X_public": X[public], "y_public": y[public]}
            return data.Dataset(
                name=name,
                split=split,
                digest=f"{name}:{split}:0",
                class_names=tuple("0123456789"),
                feature_names=None,
                image_shape=(3, side, side),
                X_train=X[:n_train],
                y_train=y[:n_train],
                X_test=X[rest],
                y_test=y[rest],
                **rows,
            )

        monkeypatch.setattr(data, "load", load)
        return load("cifar10")

    return put
