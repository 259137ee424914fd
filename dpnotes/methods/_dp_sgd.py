"""DP-SGD as a classifier: calibrated to a budget, or with a given noise multiplier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from dpnotes import accounting
from dpnotes.learners import NetworkClassifier, fit_dp_sgd_linear, fit_dp_sgd_network
from dpnotes.methods._answers import secret_seed
from dpnotes.methods._labels import encode

ASSUMPTION = "the number of records, which sets the scale of a step, is public"


class DPSGD(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Softmax regression or a network by stochastic gradient descent with clipped gradients and Gaussian noise.

    Batches are Poisson samples, as the accounting needs. Either ``noise_multiplier`` is given, or ``epsilon`` and
    ``delta``, from which the smallest multiplier is calibrated.

    Parameters
    ----------
    epsilon : float, >= 0, optional
    delta : float, in (0, 1), optional
    noise_multiplier : float, > 0, optional
        Standard deviation of the noise on the sum of clipped gradients, in units of the clipping norm.
    network : NetworkClassifier, optional
        Its architecture and the weights it starts from (``initial``, ``new_last_layer``: these must come from public
        data) are used, its other settings are not. Default: softmax regression with an intercept, from zero weights.
    clipping_norm : float, > 0
        Largest L2 norm of the gradient of one record, over all parameters together.
    sample_rate : float, in (0, 1]
        Probability of each record to be in a batch.
    steps : int, >= 1
    learning_rate : float or sequence of float, > 0
        For the mean of the clipped gradients over the expected batch; one value for each step, or the same for all.
    optimizer : {"sgd", "momentum", "adam"}
        Softmax regression has no ``"adam"``.
    momentum : float, in [0, 1)
        Of ``optimizer="momentum"``.
    accountant : {"pld", "rdp"}
        See :func:`dpnotes.accounting.dp_sgd`. ``"pld"`` is the tight one.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all of the fitted estimator except ``classes_``.
    device : {"auto", "cpu", "cuda", ...}
    random_state : int, RandomState instance or None
        Batches, noise and initial weights. The guarantee needs it secret: keep None, which takes fresh entropy from the
        system, or a seed that nobody else knows, outside of experiments.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Add-remove guarantee of releasing the weights after every step.
    noise_multiplier_ : float
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Abadi et al. (2016), Algorithm 1, with Poisson sampling.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPSGD(epsilon=3.0, delta=1e-4, sample_rate=0.1, steps=200, learning_rate=4.0, clipping_norm=0.5,
    ...               accountant="rdp", random_state=0)
    >>> bool(model.fit(X / 64, y).score(X / 64, y) > 0.8)
    True
    >>> bool(model.profile_.epsilon(1e-4) <= 3.0)
    True
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        noise_multiplier: float | None = None,
        network: NetworkClassifier | None = None,
        clipping_norm: float = 1.0,
        sample_rate: float = 0.1,
        steps: int = 100,
        learning_rate: float | Sequence[float] = 0.5,
        optimizer: str = "sgd",
        momentum: float = 0.9,
        accountant: str = "pld",
        classes: Sequence[Any] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.network = network
        self.clipping_norm = clipping_norm
        self.sample_rate = sample_rate
        self.steps = steps
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.accountant = accountant
        self.classes = classes
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> DPSGD:
        """Calibrate, then train.

        Parameters
        ----------
        X : array_like of float, shape [n, d], finite
        y : array_like, shape [n]

        Returns
        -------
        DPSGD
            Itself.

        Raises
        ------
        ValueError
            If X and y differ in length, X is not finite, a label is not among ``classes``, the budget is given twice or
            not at all, no noise meets it, or training diverges.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        noise = self._noise()
        profile = accounting.dp_sgd(
            noise_multiplier=noise, sample_rate=self.sample_rate, steps=self.steps, accountant=self.accountant
        )
        profile.assumption = ASSUMPTION
        self.classes_, codes = encode(y, self.classes)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold two classes, got one class, {self.classes_[0]}; or name all in classes")
        secret = self.random_state is None
        seed = secret_seed(None) if secret else int(check_random_state(self.random_state).randint(2**31))
        how: dict[str, Any] = {
            "noise_multiplier": noise,
            "clipping_norm": self.clipping_norm,
            "sample_rate": self.sample_rate,
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "seed": seed,
            "device": self.device,
        }
        self._models = self._linear(X, codes, how) if self.network is None else self._deep(X, codes, how)
        self.noise_multiplier_ = noise
        self.profile_ = profile
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Softmax of the logits, shape [n, n_classes]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        images = X if self.network is None else self.network.as_images(X)
        logits = self._models.logits(images, device=self.device)[0]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable label, shape [n]."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def _noise(self) -> float:
        budget = (self.epsilon, self.delta)
        if self.noise_multiplier is not None and budget == (None, None):
            return self.noise_multiplier
        if self.noise_multiplier is None and None not in budget:
            found = accounting.dp_sgd_noise_multiplier(
                *budget,  # type: ignore[arg-type]
                sample_rate=self.sample_rate,
                steps=self.steps,
                accountant=self.accountant,
            )
            return float(found)
        raise ValueError(
            "give epsilon and delta, or noise_multiplier, got "
            f"epsilon={self.epsilon!r}, delta={self.delta!r}, noise_multiplier={self.noise_multiplier!r}"
        )

    def _linear(self, X: NDArray[np.floating], codes: NDArray[np.int64], how: dict[str, Any]) -> Any:
        if self.optimizer not in ("sgd", "momentum"):
            raise ValueError(
                f"optimizer must be 'sgd' or 'momentum' for softmax regression, got optimizer={self.optimizer!r}"
            )
        momentum = self.momentum if self.optimizer == "momentum" else 0.0
        return fit_dp_sgd_linear(X, codes, n_classes=len(self.classes_), momentum=momentum, **how)

    def _deep(self, X: NDArray[np.floating], codes: NDArray[np.int64], how: dict[str, Any]) -> Any:
        network: NetworkClassifier = self.network  # type: ignore[assignment]
        images = network.as_images(X)

        def build(generator: torch.Generator) -> torch.nn.Module:
            return network.untrained(images.shape[1:], len(self.classes_), generator)

        return fit_dp_sgd_network(build, images, codes, optimizer=self.optimizer, momentum=self.momentum, **how)
