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
IMAGENET = "imagenet"  # a public model rather than a data set: VGG16's convolutions, see _bagging_imagenet
STAGES = {  # channels of the convolutions, in units of the first one's
    "convolutional": (1, 2),
    "vgg5": (1, 2, 4, 8, 8),  # one convolution for each stage of VGG16, without normalisation
}
VGG16 = {"width": 64, "kernel_size": 3, "padding": 1}

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
        "epochs": 20,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 3e-3,
    },
}
# Batch, clipping norm and learning rate of DP-SGD are the defaults of the public example for MNIST of the library that
# the paper uses (TensorFlow Privacy). The rate suits little noise only: _bagging_rates chooses it for each noise.
DP_SGD: dict[str, dict[str, Any]] = {
    "mnist": {"epochs": 100, "batch_size": 256, "clipping_norm": 1.0, "learning_rate": 0.15},
    "digits": {"epochs": 5, "batch_size": 64, "clipping_norm": 1.0, "learning_rate": 0.5},
}
# The public model of Case II, and the tenth of a learning rate with which the paper goes on from it.
PUBLIC: dict[str, dict[str, Any]] = {"mnist": {"public": "fashion_mnist", "public_epochs": 10, "public_rate": 1e-3}}
FINE_TUNING = 0.1


def parts(dataset: str, part: str, public: str | None = None) -> tuple[Dataset, Any, Any, Any, Any]:
    """An image set, with rows and labels to train on, and rows and labels to score, as a public model expects them.

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
    X, X_test, y = _scaled(arrays, arrays.X_train, public), _scaled(arrays, arrays.X_test, public), arrays.y_train
    if part == "validation":
        return arrays, X[:-VALIDATION_ROWS], y[:-VALIDATION_ROWS], X[-VALIDATION_ROWS:], y[-VALIDATION_ROWS:]
    first = PUBLIC_ROWS.get(dataset, 0) if part == "rest" else 0
    return arrays, X, y, X_test[first:], arrays.y_test[first:]


def public_rows(dataset: str, public: str | None = None) -> tuple[Any, Any]:
    """The test rows that Case II makes public, as :func:`parts` gives rows, and their labels, which no method sees."""
    from dpnotes import data

    if dataset in PUBLIC_ROWS:
        arrays, first = data.load(dataset), PUBLIC_ROWS[dataset]
        return arrays.X_test[:first], arrays.y_test[:first]
    arrays = data.load(dataset, split="bagging_public")
    return _scaled(arrays, arrays.X_public, public), arrays.y_public


def network(
    arrays: Dataset,
    *,
    width: int,
    kernel_size: int,
    padding: int,
    architecture: str = "convolutional",
    public: str | None = None,
    public_epochs: int = 0,
    public_rate: float = 0.0,
    device: str = "auto",
    **how: Any,
) -> NetworkClassifier:
    """The chapter's network, untrained, or with all but the last layer from a model of the public data set."""
    from dpnotes.learners import NetworkClassifier

    size = {"width": width, "kernel_size": kernel_size, "padding": padding}
    shape = _shape(architecture, norm=None if public == IMAGENET else "group", **size)
    if public is not None:
        if public == IMAGENET:
            how["initial"] = _imagenet(architecture, public_epochs, public_rate)
        else:
            how["initial"] = public_weights(
                public, public_epochs, public_rate, **size, architecture=architecture, device=device
            )
        how |= {"new_last_layer": True, "fine_tune_factor": 1.0}  # the learning rate itself is the tenth
    return NetworkClassifier(arrays.image_shape, **shape, device=device, **how)


@functools.lru_cache(maxsize=2)
def public_weights(
    public: str,
    epochs: int,
    rate: float,
    *,
    width: int,
    kernel_size: int,
    padding: int,
    architecture: str = "convolutional",
    device: str,
) -> Any:
    """Weights of the network trained on a public image set, by Adam in batches of 32; once in a process."""
    from dpnotes import data

    arrays = data.load(public)
    model = network(
        arrays,
        width=width,
        kernel_size=kernel_size,
        padding=padding,
        architecture=architecture,
        epochs=epochs,
        batch_size=32,
        optimizer="adam",
        learning_rate=rate,
        device=device,
        random_state=0,
    )
    return model.fit(arrays.X_train, arrays.y_train).networks_


def _imagenet(architecture: str, epochs: int, rate: float) -> Any:
    from dpnotes.lab.bagging.imagenet import convolutions

    if architecture != "vgg16" or epochs or rate:
        raise ValueError(
            f"public={IMAGENET!r} is a trained VGG16 and needs architecture='vgg16', public_epochs=0, public_rate=0, "
            f"got architecture={architecture!r}, public_epochs={epochs}, public_rate={rate}"
        )
    return convolutions()


def _scaled(arrays: Dataset, X: Any, public: str | None) -> Any:
    if public != IMAGENET or arrays.image_shape is None:
        return X
    from dpnotes.lab.bagging.imagenet import standardised

    return standardised(X, arrays.image_shape)


def _shape(architecture: str, *, norm: str | None, **size: int) -> dict[str, Any]:
    """What a NetworkClassifier has to know of an architecture."""
    from dpnotes.learners import vgg16

    if architecture == "vgg16":
        if size != VGG16:
            raise ValueError(f"architecture='vgg16' has {VGG16}, got {size}")
        return {"architecture": functools.partial(vgg16, norm=norm)}
    if architecture not in STAGES:
        known = ", ".join(map(repr, [*STAGES, "vgg16"]))
        raise ValueError(f"architecture must be one of {known}, got architecture={architecture!r}")
    width = size.pop("width")
    return {"channels": tuple(width * factor for factor in STAGES[architecture]), **size}
