"""The convolutional network as a scikit-learn classifier that can fit many models in one call."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from dpnotes.learners._convolution import convolutional_network
from dpnotes.learners._networks import Networks, fit_networks


class FittedModels(Protocol):
    """What ``fit_many`` gives: models that vote."""

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Class codes, shape [n_models, n]."""
        ...


class NetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two convolutions, each with 2x2 pooling, and one linear layer, trained from scratch (see the bagging chapter).

    Parameters
    ----------
    image_shape : (channels, height, width)
        Rows of X are images of this shape, flattened in this order.
    channels, kernel_size, padding
        See :func:`dpnotes.learners.convolutional_network`.
    epochs, batch_size, learning_rate, optimizer, device
        See :func:`dpnotes.learners.fit_networks`.
    random_state : int, RandomState instance or None
        Initial weights and order of the batches.

    Attributes
    ----------
    classes_ : ndarray, shape [n_classes]
    networks_ : Networks
        The one network, with a leading axis of length 1.
    """

    def __init__(
        self,
        image_shape: tuple[int, ...] = (1, 28, 28),
        *,
        channels: tuple[int, ...] = (16, 32),
        kernel_size: int = 5,
        padding: int = 0,
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        optimizer: str = "adam",
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.image_shape = image_shape
        self.channels = channels
        self.kernel_size = kernel_size
        self.padding = padding
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NetworkClassifier:
        """Fit one network to all rows of X [n, d], y [n]."""
        X, y = validate_data(self, X, y, dtype=[np.float32, np.float64])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        fitted = self.fit_many(X, codes, np.arange(len(X))[None], n_classes=len(self.classes_), seed=seed)
        self.networks_ = fitted.networks
        return self

    def fit_many(
        self,
        X: NDArray[np.floating],
        codes: NDArray[np.integer],
        subsets: NDArray[np.integer],
        *,
        n_classes: int,
        seed: int,
    ) -> FittedNetworks:
        """Fit one network to each subset; this estimator itself stays as it is.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        codes : ndarray of int, shape [n]
            Class codes 0 to ``n_classes - 1``; a subset need not hold all of them.
        subsets : ndarray of int, shape [n_models, m]
        n_classes : int
        seed : int

        Returns
        -------
        FittedNetworks
        """
        networks = fit_networks(
            lambda generator: convolutional_network(
                self.image_shape,
                n_classes,
                channels=self.channels,
                kernel_size=self.kernel_size,
                padding=self.padding,
                generator=generator,
            ),
            _as_images(X, self.image_shape),
            codes,
            subsets,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            seed=seed,
            device=self.device,
        )
        return FittedNetworks(networks, self.image_shape, self.device)

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Softmax of the logits, shape [n, n_classes]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        logits = self.networks_.logits(_as_images(X, self.image_shape), device=self.device)[0]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable label, shape [n]."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])


class FittedNetworks:
    """Networks that take rows [n, d] for images."""

    def __init__(self, networks: Networks, image_shape: tuple[int, ...], device: str) -> None:
        self.networks = networks
        self._image_shape = image_shape
        self._device = device

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Class codes, shape [n_models, n]."""
        return self.networks.votes(_as_images(X, self._image_shape), device=self._device)


def _as_images(X: NDArray[np.floating], image_shape: tuple[int, ...]) -> NDArray[np.floating]:
    if X.shape[1] != np.prod(image_shape):
        raise ValueError(f"image_shape={tuple(image_shape)} holds {np.prod(image_shape)} pixels, X has {X.shape[1]}")
    return X.reshape(-1, *image_shape)
