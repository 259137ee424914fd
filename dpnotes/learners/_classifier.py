"""Networks as a scikit-learn classifier that can fit many models in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import nn

from dpnotes import _validation as check
from dpnotes._validation import Features, Integers
from dpnotes.learners._architectures import convolutional_network, multilayer_perceptron, residual_network, vgg16
from dpnotes.learners._checkpoints import Checkpoint
from dpnotes.learners._decisions import LogitClassifier, decision_values
from dpnotes.learners._descent import Schedule
from dpnotes.learners._network_initial import load_weights
from dpnotes.learners._networks import Networks, fit_networks

ARCHITECTURES: dict[str, tuple[Callable[..., nn.Module], tuple[str, ...]]] = {  # with parameters of their own
    "convolutional": (convolutional_network, ("channels", "kernel_size", "padding")),
    "residual": (residual_network, ()),
    "vgg16": (vgg16, ()),
    "mlp": (multilayer_perceptron, ("hidden",)),
}
TRAINING = (  # parameters of fit_networks
    "epochs", "batch_size", "learning_rate", "optimizer", "momentum", "weight_decay", "schedule", "augmentation",
    "initial", "new_last_layer", "engine", "checkpoint", "device",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class NetworkClassifier(LogitClassifier):
    """A network trained from scratch, or from given weights; by default that of the bagging chapter.

    Parameters
    ----------
    image_shape : (channels, height, width) or None
        Rows of X are images of this shape, flattened in this order. None: rows are taken as they are, for
        ``architecture="mlp"``.
    architecture : {"convolutional", "residual", "vgg16", "mlp"} or callable
        ``"convolutional"``: convolutions, each with 2x2 pooling, and one linear layer; ``"residual"``: ResNet-20;
        ``"vgg16"``; ``"mlp"``: fully connected layers. A callable: ``architecture(image_shape, n_classes,
        generator=generator)`` gives a module, as :func:`dpnotes.learners.convolutional_network` does.
    channels, kernel_size, padding
        Of ``"convolutional"``, see :func:`dpnotes.learners.convolutional_network`.
    hidden : sequence of int
        Widths of the hidden layers of ``"mlp"``.
    epochs, batch_size, learning_rate, optimizer, momentum, weight_decay, schedule, augmentation
        See :func:`dpnotes.learners.fit_networks`.
    initial, new_last_layer, engine, checkpoint, device
        See :func:`dpnotes.learners.fit_networks`.
    random_state : int, RandomState instance or None
        Initial weights, order of the batches, augmentation.

    Attributes
    ----------
    classes_ : ndarray, shape [n_classes]
    networks_ : Networks
        The one network, with a leading axis of length 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NetworkClassifier(None, architecture="mlp", epochs=10, random_state=0).fit(X[:900] / 16, y[:900])
    >>> bool(model.score(X[900:] / 16, y[900:]) > 0.85)
    True
    """

    image_shape: tuple[int, ...] | None = (1, 28, 28)
    _: KW_ONLY
    architecture: str | Callable[..., nn.Module] = "convolutional"
    channels: tuple[int, ...] = (16, 32)
    kernel_size: int = 5
    padding: int = 0
    hidden: tuple[int, ...] = (64,)
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Schedule = None
    augmentation: str | None = None
    initial: Mapping[str, torch.Tensor] | None = None
    new_last_layer: bool = False
    engine: str = "auto"
    checkpoint: Checkpoint | None = None
    device: str = "auto"
    random_state: int | np.random.RandomState | None = None

    _dtypes: ClassVar = [np.float32, np.float64]

    def fit(self, X: Any, y: Any) -> NetworkClassifier:
        """Fit one network to all rows of X [n, d], y [n]."""
        X, codes, classes = self._records(X, y, least=1)
        seed = int(check_random_state(self.random_state).randint(2**31))
        fitted = self.fit_many(X, codes, np.arange(len(X))[None], n_classes=len(classes), seed=seed)
        self.networks_, self.classes_ = fitted.networks, classes
        return self

    def fit_many(
        self,
        X: Features,
        codes: NDArray[np.integer],
        subsets: NDArray[np.integer] | Sequence[ArrayLike],
        *,
        n_classes: int,
        seed: int,
        first: int = 0,
    ) -> FittedNetworks:
        """Fit one network to each subset; this estimator itself stays as it is.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        codes : ndarray of int, shape [n]
            Class codes 0 to ``n_classes - 1``; a subset need not hold all of them.
        subsets : ndarray of int, shape [n_models, m], or sequence of index arrays
        n_classes : int
        seed, first : int
            See :func:`dpnotes.learners.fit_networks`.

        Returns
        -------
        FittedNetworks
        """
        images = self.as_images(X)
        networks = fit_networks(
            lambda generator: self._network(images.shape[1:], n_classes, generator),
            images,
            codes,
            subsets,
            seed=seed,
            first=first,
            **{name: getattr(self, name) for name in TRAINING},
        )
        return FittedNetworks(networks, self.image_shape, self.device)

    def decision_function(self, X: Any) -> Features:
        """Logits, shape [n, n_classes]; for two classes their difference, shape [n]."""
        images = self.as_images(self._queries(X))
        return decision_values(self.networks_.logits(images, device=self.device)[0])

    def as_images(self, X: Features) -> Features:
        """Rows [n, d] in the shape that the network takes, ``[n, *image_shape]``."""
        return _as_images(X, self.image_shape)

    def untrained(self, image_shape: tuple[int, ...], n_classes: int, generator: torch.Generator) -> nn.Module:
        """Build the module that training starts from: weights from the generator, or those of ``initial``.

        Parameters
        ----------
        image_shape : tuple of int
            Of one example, as :meth:`as_images` gives it.
        n_classes : int
        generator : torch.Generator

        Raises
        ------
        ValueError
            If the architecture is not one of the above or does not suit the shape, or ``initial`` does not fit.
        """
        network = self._network(image_shape, n_classes, generator)
        if self.initial is not None:
            load_weights(network, self.initial, new_last_layer=self.new_last_layer)
        return network

    def _network(self, image_shape: tuple[int, ...], n_classes: int, generator: torch.Generator) -> nn.Module:
        if callable(self.architecture):
            return self.architecture(image_shape, n_classes, generator=generator)
        make, names = ARCHITECTURES[check.one_of("architecture", self.architecture, tuple(ARCHITECTURES))]
        if self.architecture != "mlp" and len(image_shape) != 3:
            raise ValueError(
                f"image_shape must be (channels, height, width) for architecture={self.architecture!r}, "
                f"got image_shape={self.image_shape}"
            )
        return make(image_shape, n_classes, generator=generator, **{name: getattr(self, name) for name in names})


@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """Networks that take rows [n, d] for images."""

    networks: Networks
    image_shape: tuple[int, ...] | None
    device: str

    def votes(self, X: Features) -> Integers:
        """Class codes, shape [n_models, n]."""
        return self.networks.votes(_as_images(X, self.image_shape), device=self.device)


def _as_images(X: Features, image_shape: tuple[int, ...] | None) -> Features:
    if image_shape is None:
        return X
    if X.shape[1] != np.prod(image_shape):
        raise ValueError(f"image_shape={tuple(image_shape)} holds {np.prod(image_shape)} pixels, X has {X.shape[1]}")
    return X.reshape(-1, *image_shape)
