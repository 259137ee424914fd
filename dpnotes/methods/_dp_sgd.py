"""DP-SGD as a classifier: calibrated to a budget, or with a given noise multiplier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from dpnotes import accounting, learners
from dpnotes._validation import Features, Integers, at_least_one
from dpnotes.mechanisms import normal_floats
from dpnotes.methods._answers import short_seeds
from dpnotes.methods._private import Learned, LogitRelease, Records

if TYPE_CHECKING:
    import torch

# by default: few where n / sigma is at most so many times the root of the columns
STEPS = (10, 100)
SIGNAL = 16.0
LEARNING_RATES = {"sgd": 2.0, "momentum": 0.2, "adam": 0.01}
NEVER = 900  # a probability of 2^-900
ASSUMPTION = "the number that sets the scale of a step is public"


@dataclass(frozen=True, eq=False)
class _Model:
    """Release of one fit: everything that its answers depend on.

    Parameters
    ----------
    models : LogisticModels or Networks
        One model.
    """

    models: learners.LogisticModels | learners.Networks

    def logits(self, X: Features) -> Features:
        return np.asarray(self.models.logits(X)[0])


@dataclass(eq=False, repr=False)
class DPSGD(LogitRelease):
    """Private logistic (softmax) regression or a network, by descent with clipped
    gradients and Gaussian noise.

    Batches are Poisson samples, as the accounting requires. Give either
    ``noise_multiplier``, or ``epsilon`` and ``delta``, from which the smallest
    multiplier is calibrated. A record never moves a sum of gradients by more than the
    clipping norm, whatever numbers it holds. Whether the fit succeeds depends only on
    the noisy sums, not on any record itself.

    Parameters
    ----------
    epsilon : float, >= 0, optional
    delta : float, in (0, 1), optional
    noise_multiplier : float, > 0, optional
        Standard deviation of the noise on the sum of clipped gradients, in units of the
        clipping norm.
    network : NetworkClassifier or sequence of int, optional
        Either a classifier, or the widths of the hidden layers of a multilayer
        perceptron, such as ``(64,)``. From a classifier the fit uses the architecture
        and the initial weights (``initial``, ``new_last_layer``), which must come from
        public data. With a ``noise_seed`` the fit also uses the classifier's
        ``checkpoint``. All other settings of the classifier are ignored. Default:
        softmax regression with an intercept, from zero weights.
    clipping_norm : float, > 0
        Largest L2 norm of the gradient of one record, over all parameters together.
    sample_rate : float, in (0, 1]
        Probability that a record is in a batch.
    steps : int, >= 1, optional
        Number of steps. Default: 100, or 10 if there are at most 16 sqrt(d) sigma
        records. Here d is the number of features, and sigma is the standard deviation
        of the Gaussian noise that one release of sensitivity 1 needs for ``epsilon``
        and ``delta``. With ``noise_multiplier`` the default is 100.
    learning_rate : float or sequence of float, > 0, optional
        Step size for the sum of the clipped gradients divided by the expected size of a
        batch; one value for each step, or the same for all. Default: 2 for ``"sgd"``,
        0.2 for ``"momentum"`` and 0.01 for ``"adam"``.
    optimizer : {"sgd", "momentum", "adam"}
        Optimiser of the descent; softmax regression does not support ``"adam"``.
    momentum : float, in [0, 1)
        Momentum, used only by ``optimizer="momentum"``.
    n : int, >= 1, optional
        Public number of records, which scales the steps: a sum of gradients is divided
        by ``sample_rate * n``, the expected size of a batch. Default: the number of
        records. Under ``"add-remove"``, which protects it, n has no default.
    accountant : {"best", "pld", "rdp"}
        See :func:`dpnotes.accounting.dp_sgd`.
    adjacency : {"zero-out", "add-remove"}
        Definition of neighbouring data sets. ``"zero-out"`` hides the content of a
        record: the record could as well be empty, and an empty record moves no sum of
        gradients. The number of records is then public. ``"add-remove"`` hides whether
        the record exists at all; the scale of a step then needs the parameter ``n``.
        The noise and epsilon are the same under both adjacencies.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers all of the fitted estimator except ``classes_``. Omit them only if
        it is public which labels occur in y.
    device : {"auto", "cpu", "cuda", ...}
    random_state : int, RandomState instance or None
        Not used: initial weights and batches follow from ``noise_seed`` or, if it is
        None, from a secret seed of the operating system.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the weights after every step.
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
    >>> model = DPSGD(
    ...     epsilon=3.0,
    ...     delta=1e-4,
    ...     sample_rate=0.1,
    ...     steps=200,
    ...     learning_rate=4.0,
    ...     clipping_norm=0.5,
    ...     accountant="rdp",
    ...     noise_seed=0,
    ... )
    >>> bool(model.fit(X / 64, y).score(X / 64, y) > 0.8)
    True
    >>> bool(model.profile_.epsilon(1e-4) <= 3.0)
    True
    """

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    noise_multiplier: float | None = None
    network: learners.NetworkClassifier | Sequence[int] | None = None
    clipping_norm: float = 1.0
    sample_rate: float = 1.0
    steps: int | None = None
    learning_rate: float | Sequence[float] | None = None
    optimizer: str = "sgd"
    momentum: float = 0.9
    n: int | None = None
    accountant: str = "best"
    adjacency: str = "zero-out"
    device: str = "auto"
    noise_multiplier_: float = field(init=False)

    _adjacencies = ("zero-out", "add-remove")

    def _learn(self, records: Records) -> Learned:
        X, codes = records.labelled()
        accounted = self._chosen("sample_rate", "steps", "accountant")
        noise: Any = self.noise_multiplier
        if budget := self._budget_for("noise_multiplier"):
            noise = float(accounting.dp_sgd_noise_multiplier(*budget, **accounted))
        profile = accounting.dp_sgd(
            noise_multiplier=noise, adjacency=self.adjacency, **accounted
        )
        (seed,) = short_seeds(self.noise_seed, 1)
        # by default the number of places: empty records count
        n = at_least_one("n", self.n)  # type: ignore[arg-type]
        rate = self.sample_rate
        # the learner needs a row: one that is never drawn, at the same expected size of
        # a batch
        if not len(X):
            X = np.zeros_like(records.X[:1])
            codes = np.zeros(1, np.int64)
            n = int(math.ldexp(rate * n, NEVER))
            rate = math.ldexp(1.0, -NEVER)
        settings = {
            **self._chosen("clipping_norm", "learning_rate", "device", "steps"),
            "sample_rate": rate,
            "n_records": n,
            "noise_multiplier": noise,
            "seed": seed,
            # a seeded fit draws its noise from the learner's generator
            "normal": normal_floats if self.noise_seed is None else None,
        }
        train = self._train_linear if self.network is None else self._train_network
        model = train(X, codes, len(records.classes), settings)
        return Learned(
            profile.with_(assumption=ASSUMPTION),
            model,
            {"noise_multiplier_": noise},
            exact=False,
        )

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        if self.n is not None:
            n = at_least_one("n", self.n)
        if n is None:
            return {"n": None}
        budget = self._budget_for("noise_multiplier")
        least = 0.0
        if budget:
            least = SIGNAL * math.sqrt(d) * accounting.gaussian_sigma(*budget)
        return {
            "n": n,
            "steps": STEPS[n > least],
            "learning_rate": LEARNING_RATES.get(self.optimizer, 1.0),
        }

    def _train_linear(
        self, X: Features, codes: Integers, n_classes: int, settings: dict[str, Any]
    ) -> _Model:
        if self.optimizer not in ("sgd", "momentum"):
            raise ValueError(
                "optimizer must be 'sgd' or 'momentum' for softmax regression, got"
                f" optimizer={self.optimizer!r}"
            )
        momentum = self.momentum if self.optimizer == "momentum" else 0.0
        models = learners.fit_dp_sgd_linear(
            X, codes, n_classes=n_classes, momentum=momentum, **settings
        )
        return _Model(models)

    def _train_network(
        self, X: Features, codes: Integers, n_classes: int, settings: dict[str, Any]
    ) -> _Model:
        network = self.network
        if not isinstance(network, learners.NetworkClassifier):
            if not (
                isinstance(network, list | tuple)
                and network
                and all(isinstance(w, int) and w > 0 for w in network)
            ):
                known = (
                    "widths of hidden layers, such as (64,), or a"
                    " dpnotes.learners.NetworkClassifier"
                )
                raise TypeError(f"network must be {known}, got network={network!r}")
            # only its architecture is used
            network = learners.NetworkClassifier(
                None, architecture="mlp", hidden=tuple(network)
            )
        # what an earlier fit left on it stays there
        own: learners.NetworkClassifier = clone(network)
        images = own.as_images(X)

        def build(generator: torch.Generator) -> torch.nn.Module:
            module: torch.nn.Module = own.untrained(
                images.shape[1:], n_classes, generator
            )
            return module

        settings |= {"optimizer": self.optimizer, "momentum": self.momentum}
        if self.noise_seed is not None:  # secret noise cannot be drawn again
            settings["checkpoint"] = network.checkpoint
        models = learners.fit_dp_sgd_network(build, images, codes, **settings)
        models.loss = np.full(len(models), np.nan)  # it was exact, without noise
        return _Model(models)
