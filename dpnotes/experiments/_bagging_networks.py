"""Networks of the bagging chapter: settings, rows to train on and to score, public weights to start from."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpnotes.data import Dataset
    from dpnotes.learners import NetworkClassifier

VALIDATION_ROWS = 10_000  # last rows of a training part, held out while settings are chosen
PUBLIC_ROWS = {"digits": 100}  # first test rows that Case II makes public; the other data sets have a split for it
PARTS = ("test", "validation", "rest")

# The paper names two convolutions with pooling and one linear layer, and 100 epochs; the rest is chosen on held-out
# training rows, never on the test set, by the rows of bagging_settings: see the chapter.
NETWORKS: dict[str, dict[str, Any]] = {
    "mnist": {
        "width": 16,
        "kernel_size": 5,
        "padding": 0,
        "epochs": 100,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
    "digits": {
        "width": 16,
        "kernel_size": 3,
        "padding": 1,
        "epochs": 30,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 3e-3,
    },
}
# Batch, clipping norm and learning rate of DP-SGD are the defaults of the authors' public example for MNIST (TensorFlow
# Privacy), whose code the paper uses; nothing is chosen by looking at accuracies.
DP_SGD: dict[str, dict[str, Any]] = {
    "mnist": {"epochs": 100, "batch_size": 256, "clipping_norm": 1.0, "learning_rate": 0.15},
    "digits": {"epochs": 5, "batch_size": 64, "clipping_norm": 1.0, "learning_rate": 0.5},
}
# The public model of Case II, and the tenth of a learning rate with which the paper goes on from it.
PUBLIC: dict[str, dict[str, Any]] = {"mnist": {"public": "fashion_mnist", "public_epochs": 10, "public_rate": 1e-3}}
FINE_TUNING = 0.1


def parts(dataset: str, part: str) -> tuple[Dataset, Any, Any, Any, Any]:
    """An image set, with rows and labels to train on, and rows and labels to score.

    ``"test"``: training rows and test rows. ``"validation"``: all training rows but the last 10,000, and those.
    ``"rest"``: training rows, and the test rows that are left when Case II has made the first ones public.
    """
    from dpnotes import data

    if part not in PARTS:
        raise ValueError(f"part must be 'test', 'validation' or 'rest', got part={part!r}")
    own = part == "rest" and dataset not in PUBLIC_ROWS
    arrays = data.load(dataset, split="bagging_public" if own else "original")
    if arrays.image_shape is None:
        raise ValueError(f"dataset must hold images, got dataset={dataset!r}")
    X, y = arrays.X_train, arrays.y_train
    if part == "validation":
        return arrays, X[:-VALIDATION_ROWS], y[:-VALIDATION_ROWS], X[-VALIDATION_ROWS:], y[-VALIDATION_ROWS:]
    first = PUBLIC_ROWS.get(dataset, 0) if part == "rest" else 0
    return arrays, X, y, arrays.X_test[first:], arrays.y_test[first:]


def public_rows(dataset: str) -> tuple[Any, Any]:
    """The test rows that Case II makes public, and their labels, which no method sees."""
    from dpnotes import data

    if dataset in PUBLIC_ROWS:
        arrays, first = data.load(dataset), PUBLIC_ROWS[dataset]
        return arrays.X_test[:first], arrays.y_test[:first]
    arrays = data.load(dataset, split="bagging_public")
    return arrays.X_public, arrays.y_public


def network(
    arrays: Dataset,
    *,
    width: int,
    kernel_size: int,
    padding: int,
    public: str | None = None,
    public_epochs: int = 0,
    public_rate: float = 0.0,
    device: str = "auto",
    **how: Any,
) -> NetworkClassifier:
    """The chapter's network, untrained, or with all but the last layer from a model of the public data set."""
    from dpnotes.learners import NetworkClassifier

    shape: dict[str, Any] = {"channels": (width, 2 * width), "kernel_size": kernel_size, "padding": padding}
    if public is not None:
        how["initial"] = public_weights(
            public, public_epochs, public_rate, width=width, kernel_size=kernel_size, padding=padding, device=device
        )
        how |= {"new_last_layer": True, "fine_tune_factor": 1.0}  # the learning rate itself is the tenth
    return NetworkClassifier(arrays.image_shape, **shape, device=device, **how)


@functools.lru_cache(maxsize=2)
def public_weights(
    public: str, epochs: int, rate: float, *, width: int, kernel_size: int, padding: int, device: str
) -> Any:
    """Weights of the network trained on a public image set, by Adam in batches of 32; once in a process."""
    from dpnotes import data

    arrays = data.load(public)
    model = network(
        arrays,
        width=width,
        kernel_size=kernel_size,
        padding=padding,
        epochs=epochs,
        batch_size=32,
        optimizer="adam",
        learning_rate=rate,
        device=device,
        random_state=0,
    )
    return model.fit(arrays.X_train, arrays.y_train).networks_
