"""scikit-learn classifiers that can fit many models in one call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from dpnotes import _validation as check
from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin, decision_values
from dpnotes._validation import Features, Integers
from dpnotes.learners._architectures import (
    convolutional_network,
    multilayer_perceptron,
    residual_network,
    vgg16,
)
from dpnotes.learners._boosted_trees import BoostedTrees, fit_boosted_trees
from dpnotes.learners._descent import Checkpoint, Schedule
from dpnotes.learners._devices import RowSubsets
from dpnotes.learners._logistic import LogisticModels, fit_multinomial_logistic
from dpnotes.learners._models import ManyModels
from dpnotes.learners._network_training import load_weights
from dpnotes.learners._networks import Networks, fit_networks

# with parameters of their own
ARCHITECTURES: dict[str, tuple[Callable[..., nn.Module], tuple[str, ...]]] = {
    "convolutional": (convolutional_network, ("channels", "kernel_size", "padding")),
    "residual": (residual_network, ()),
    "vgg16": (vgg16, ()),
    "mlp": (multilayer_perceptron, ("hidden",)),
}
# of which the classifier has those of its fields that have their names
TRAINING = signature(fit_networks).parameters


class ManyClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that can fit many models in one call; fitted by itself, it is one of
    them.

    Attributes
    ----------
    classes_ : ndarray, shape [n_classes]
    models_ : ManyModels
        Result of :meth:`fit_many` for all rows.
    n_features_in_ : int
    """

    classes_: NDArray[Any]
    models_: Any

    # of features; others are converted to the first
    _dtypes: ClassVar = [np.float64, np.float32]

    @abstractmethod
    def fit_many(
        self, X: Features, codes: Integers, subsets: RowSubsets, *, n_classes: int
    ) -> ManyModels:
        """Fit one model to each subset, without changing this estimator.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        codes : ndarray of int, shape [n]
            Class codes 0 to ``n_classes - 1``; a subset need not contain all of them.
        subsets : ndarray of int, shape [n_models, m], or a sequence of arrays of row
        indices
        n_classes : int

        Returns
        -------
        ManyModels
        """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one model to all rows of X [n, d], y [n].

        Raises
        ------
        ValueError
            If X is not finite, y does not hold classes that the model can tell apart,
            or a parameter is out of its range.
        """
        # scikit-learn's own checks, and its words for what they find
        X, y = validate_data(self, X, y, dtype=self._dtypes)
        check_classification_targets(y)
        # sorted, as scikit-learn has them
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least 2 classes, got 1 class: {classes[0]!r}"
            )
        every = np.arange(len(X))[None]
        self.models_ = self.fit_many(X, codes, every, n_classes=len(classes))
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Features:
        """Logits, shape [n, n_classes]; for two classes their difference, shape [n]."""
        # before anything is said of the queries
        check_is_fitted(self)
        X = validate_data(self, X, dtype=self._dtypes, reset=False)
        logits: Features = self.models_.logits(X)[0]
        return logits if logits.ndim == 1 else decision_values(logits)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label with the largest logit, shape [n]; among equal ones the first in
        ``classes_``.
        """
        values = self.decision_function(X)
        if values.ndim == 1:
            return np.asarray(self.classes_[(values > 0).astype(np.int64)])
        return np.asarray(self.classes_[values.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Features:
        """Softmax of the logits, shape [n, n_classes]."""
        values = self.decision_function(X)
        # the difference of two logits, of which the first may be 0
        if values.ndim == 1:
            values = np.stack([np.zeros_like(values), values], axis=1)
        return np.asarray(softmax(values, axis=1))


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(ManyClassifier):
    """Multinomial logistic regression with an L2 term, fitted in the dtype of X.

    With two classes it is still the multinomial model, which gives the same votes as a
    binary model with twice the ``l2``.

    Parameters
    ----------
    l2 : float, >= 0
        Weight of |W|^2/2 relative to the mean cross-entropy; scikit-learn's C is 1/(n
        l2).
    intercept : bool
        Whether to fit an intercept, which is not penalised.
    tolerance, max_iterations, device
        See :func:`dpnotes.learners.fit_multinomial_logistic`.

    Attributes
    ----------
    classes_, models_, n_features_in_
        See :class:`ManyClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> LogisticClassifier(l2=1e-3, device="cpu").fit(X[:1000] / 16, y[:1000]).score(
    ...     X[1000:] / 16, y[1000:]
    ... ) > 0.9
    True
    """

    l2: float = 1e-3
    intercept: bool = True
    tolerance: float = 1e-5
    max_iterations: int = 1000
    device: str = "auto"

    @property
    def coef_(self) -> Features:
        """Weights of the fitted model, of shape [n_classes, d]."""
        return np.asarray(self.models_.weights[0])

    @property
    def intercept_(self) -> Features:
        """Intercepts of the fitted model, of shape [n_classes]."""
        return np.asarray(self.models_.intercept[0])

    def fit_many(
        self,
        X: Features,
        codes: Integers,
        subsets: RowSubsets,
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> LogisticModels:
        """Fit one model to each subset; ``seed`` is for other learners, since this one
        makes no random draws.
        """
        return fit_multinomial_logistic(
            X, codes, subsets, n_classes=n_classes, **self.get_params()
        )


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTreesClassifier(ManyClassifier):
    """Gradient-boosted trees of two classes, as in scikit-learn's
    ``GradientBoostingClassifier``, for many subsets.

    The classifier is made for thousands of teachers on small subsets at once. It fits
    them in the dtype of X.

    Parameters
    ----------
    n_trees, depth, learning_rate, device
        See :func:`dpnotes.learners.fit_boosted_trees`.

    Attributes
    ----------
    classes_, models_, n_features_in_
        See :class:`ManyClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> BoostedTreesClassifier(n_trees=20, device="cpu").fit(X[:400], y[:400]).score(
    ...     X[400:], y[400:]
    ... ) > 0.9
    True
    """

    n_trees: int = 100
    depth: int = 3
    learning_rate: float = 0.1
    device: str = "auto"

    def __sklearn_tags__(self) -> Any:
        # what scikit-learn's checks of estimators ask for
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit_many(
        self,
        X: Features,
        codes: Integers,
        subsets: RowSubsets,
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> BoostedTrees:
        """Fit one model of two classes to each subset; ``seed`` is for other learners,
        since this one makes no random draws.
        """
        # in the words that scikit-learn's checks look for
        if n_classes != 2:
            raise ValueError(
                "Only binary classification is supported: y must hold 2 classes, got"
                f" {n_classes} classes"
            )
        return fit_boosted_trees(X, codes, subsets, **self.get_params())


@dataclass(eq=False, repr=False)
class NetworkClassifier(ManyClassifier):
    """Classifier that trains a network, from scratch or from given weights; by default
    the bagging chapter's network.

    Parameters
    ----------
    image_shape : (channels, height, width) or None
        Shape of the images that the rows of X contain, flattened in this order. With
        None, which suits ``architecture="mlp"``, the rows are used without reshaping.
    architecture : {"convolutional", "residual", "vgg16", "mlp"} or callable
        ``"convolutional"``: convolutions, each with 2x2 pooling, and one linear layer;
        ``"residual"``: ResNet-20; ``"vgg16"``; ``"mlp"``: fully connected layers. A
        callable is called as ``architecture(image_shape, n_classes,
        generator=generator)`` and must return a module, as
        :func:`dpnotes.learners.convolutional_network` does.
    channels, kernel_size, padding
        Settings of ``"convolutional"``, see
        :func:`dpnotes.learners.convolutional_network`.
    hidden : sequence of int
        Widths of the hidden layers of ``"mlp"``.
    epochs, batch_size, learning_rate, optimizer, momentum, schedule, augmentation
        See :func:`dpnotes.learners.fit_networks`.
    initial, new_last_layer, engine, checkpoint, device
        See :func:`dpnotes.learners.fit_networks`.
    random_state : int, RandomState instance or None
        Source of the initial weights, the order of the batches and the augmentation.

    Attributes
    ----------
    classes_, models_, n_features_in_
        See :class:`ManyClassifier`; ``models_`` has one network.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NetworkClassifier(
    ...     None, architecture="mlp", epochs=10, random_state=0
    ... ).fit(X[:900] / 16, y[:900])
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
    schedule: Schedule = None
    augmentation: str | None = None
    initial: Mapping[str, Tensor] | None = None
    new_last_layer: bool = False
    engine: str = "auto"
    checkpoint: Checkpoint | None = None
    device: str = "auto"
    random_state: int | np.random.RandomState | None = None

    # networks are trained in float32 unless the rows are float64
    _dtypes: ClassVar = [np.float32, np.float64]

    def fit_many(
        self,
        X: Features,
        codes: Integers,
        subsets: RowSubsets,
        *,
        n_classes: int,
        seed: int | None = None,
        first: int = 0,
    ) -> Networks:
        """Fit one network to each subset, by the random streams of ``seed`` and the
        models from ``first`` on; see :func:`dpnotes.learners.fit_networks`. Without a
        seed, ``random_state`` gives it.
        """
        if seed is None:
            # an integer, so that a model of many has streams of its own
            seed = int(check_random_state(self.random_state).randint(2**31))
        # in the shape that the network takes
        images = self.as_images(X)
        return fit_networks(
            lambda generator: self._network(images.shape[1:], n_classes, generator),
            images,
            codes,
            subsets,
            seed=seed,
            first=first,
            **{name: vars(self)[name] for name in TRAINING if name in vars(self)},
        )

    def as_images(self, X: Features) -> Features:
        """Reshape rows [n, d] to the input of the network, ``[n, *image_shape]``."""
        shape = self.image_shape
        # a perceptron takes rows as they are
        if shape is None:
            return X
        if X.shape[1] != np.prod(shape):
            raise ValueError(
                f"image_shape={tuple(shape)} has {np.prod(shape)} pixels, but X has"
                f" {X.shape[1]}"
            )
        return X.reshape(-1, *shape)

    def untrained(
        self, image_shape: tuple[int, ...], n_classes: int, generator: torch.Generator
    ) -> nn.Module:
        """Build the module that training starts from, with weights from the generator
        or from ``initial``.

        Parameters
        ----------
        image_shape : tuple of int
            Shape of one example, as :meth:`as_images` returns it.
        n_classes : int
        generator : torch.Generator

        Raises
        ------
        ValueError
            If the architecture is unknown or does not suit the shape, or ``initial``
            does not fit.
        """
        # the weights from the generator are drawn even where they are replaced, so that
        # the stream stays the same
        network = self._network(image_shape, n_classes, generator)
        if self.initial is not None:
            load_weights(network, self.initial, new_last_layer=self.new_last_layer)
        return network

    def _network(
        self, image_shape: tuple[int, ...], n_classes: int, generator: torch.Generator
    ) -> nn.Module:
        # a function of the caller's, with no settings but these
        if callable(self.architecture):
            return self.architecture(image_shape, n_classes, generator=generator)
        # with the settings that this architecture has
        make, names = ARCHITECTURES[
            check.one_of("architecture", self.architecture, tuple(ARCHITECTURES))
        ]
        if self.architecture != "mlp" and len(image_shape) != 3:
            raise ValueError(
                "image_shape must be (channels, height, width) for"
                f" architecture={self.architecture!r}, got"
                f" image_shape={self.image_shape}"
            )
        return make(
            image_shape,
            n_classes,
            generator=generator,
            **{name: getattr(self, name) for name in names},
        )
