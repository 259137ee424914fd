"""Networks of the bagging chapter: architectures, rows to train on and to score,
public weights, PATE's teachers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpnotes._validation import one_of

if TYPE_CHECKING:
    import torch

    from dpnotes.data import Dataset
    from dpnotes.learners import NetworkClassifier

VALIDATION_ROWS = 10_000  # last training rows, held out while settings are chosen
# first test rows that Case II makes public; the other data sets have a split for it
PUBLIC_ROWS = {"digits": 100}
SPLITS = ("test", "validation", "rest")
IMAGENET = "imagenet"  # a public model rather than a data set: VGG16's convolutions
# of red, green and blue: torchvision's for these weights
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
STAGES = {  # channels of the convolutions, in units of the first one's
    "convolutional": (1, 2),
    # one convolution for each stage of VGG16, without normalisation
    "vgg5": (1, 2, 4, 8, 8),
}
VGG16 = {"width": 64, "kernel_size": 3, "padding": 1}


# a set, rows and labels to train on, and to score
Task: TypeAlias = "tuple[Dataset, Any, Any, Any, Any]"


def load(dataset: str, split: str, public: str | None = None) -> Task:
    """An image set, with rows and labels to train on, and rows and labels to score, as
    a public model expects them.

    ``"test"``: training rows and test rows. ``"validation"``: all training rows but the
    last 10,000, and those. ``"rest"``: training rows, and the test rows that are left
    when Case II has made the first ones public.
    """
    from dpnotes import data

    # the larger sets have a split for their public images
    own = one_of("split", split, SPLITS) == "rest" and dataset not in PUBLIC_ROWS
    arrays = data.load(dataset, split="bagging_public" if own else "original")
    X = _scaled(arrays.X_train, public)
    X_test = _scaled(arrays.X_test, public)
    y = arrays.y_train
    if split == "validation":
        return (
            arrays,
            X[:-VALIDATION_ROWS],
            y[:-VALIDATION_ROWS],
            X[-VALIDATION_ROWS:],
            y[-VALIDATION_ROWS:],
        )
    # digits make their first test rows public
    first = PUBLIC_ROWS.get(dataset, 0) if split == "rest" else 0
    return arrays, X, y, X_test[first:], arrays.y_test[first:]


def load_public(dataset: str, public: str | None = None) -> tuple[Any, Any]:
    """The test rows that Case II makes public, as :func:`load` gives rows, and their
    labels, which no method sees.
    """
    from dpnotes import data

    if dataset in PUBLIC_ROWS:
        arrays = data.load(dataset)
        first = PUBLIC_ROWS[dataset]
        return arrays.X_test[:first], arrays.y_test[:first]
    arrays = data.load(dataset, split="bagging_public")
    return _scaled(arrays.X_public, public), arrays.y_public


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
    **training: Any,
) -> NetworkClassifier:
    """The chapter's network, untrained, or with all but the last layer from a model of
    the public data set.

    ``training``: further parameters of :class:`dpnotes.learners.NetworkClassifier`.
    """
    from dpnotes.lab.store import checkpoint
    from dpnotes.learners import NetworkClassifier, vgg16

    if architecture == "vgg16":
        shape: dict[str, Any] = {
            "architecture": functools.partial(
                vgg16, norm=None if public == IMAGENET else "group"
            )
        }
    else:
        stages = STAGES[one_of("architecture", architecture, (*STAGES, "vgg16"))]
        shape = {
            "channels": tuple(width * factor for factor in stages),
            "kernel_size": kernel_size,
            "padding": padding,
        }
    if public is not None:  # the learning rate itself is the tenth
        size = {"width": width, "kernel_size": kernel_size, "padding": padding}
        start = functools.partial(
            public_weights,
            public,
            public_epochs,
            public_rate,
            architecture=architecture,
            **size,
        )
        # its classes are others
        training |= {"new_last_layer": True}
        training["initial"] = (
            convolutions() if public == IMAGENET else start(device=device)
        )
    return NetworkClassifier(
        arrays.image_shape, **shape, device=device, checkpoint=checkpoint(), **training
    )


@functools.lru_cache(maxsize=2)
def public_weights(public: str, epochs: int, rate: float, **architecture: Any) -> Any:
    """Weights of the network trained on a public image set, by Adam in batches of
    32; once in a process.
    """
    from dpnotes import data

    arrays = data.load(public)
    untrained = network(
        arrays,
        **architecture,
        epochs=epochs,
        batch_size=32,
        optimizer="adam",
        learning_rate=rate,
        random_state=0,
    )
    # all labels of the public set are public
    fitted = untrained.fit(arrays.X_train, arrays.y_train)
    return fitted.models_.state_dict(0)


def convolutions() -> dict[str, torch.Tensor]:
    """Weights and biases of VGG16's thirteen convolutions, as ImageNet trained them, by
    their names in ``vgg16``.
    """
    from dpnotes import data

    prefix = "features."
    return {
        name.removeprefix(prefix): value
        for name, value in data.load_weights().items()
        if name.startswith(prefix)
    }


def _scaled(X: Any, public: str | None) -> Any:
    """Rows [n, 3 * height * width] of pixels as the public model expects them:
    ImageNet's standardised by channel.
    """
    if public != IMAGENET:
        return X
    mean, std = (np.array(values, dtype=X.dtype)[:, None] for values in (MEAN, STD))
    return ((X.reshape(len(X), len(MEAN), -1) - mean) / std).reshape(X.shape)


def shards(n: int, n_teachers: int, seed: int) -> NDArray[np.int64]:
    """Teacher of each of n records, shape [n]."""
    from dpnotes.mechanisms import draw_partitions

    return draw_partitions(n, n_chunks=n_teachers, n_partitions=1, seed=seed).chunk[
        :, 0
    ]


class Trained:
    """A learner of many models that are trained already: the same shards give the
    same votes.
    """

    def __init__(self, votes: NDArray[np.int64]) -> None:
        self._votes = votes

    def fit_many(
        self, X: Any, _codes: Any, subsets: Any, *, n_classes: int, seed: int
    ) -> Trained:
        """Give the trained teachers."""
        return self

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Votes on the first public rows, shape [n_teachers, len(X)]."""
        return self._votes[:, : len(X)]
