"""Faults that were in this package or are common elsewhere, each kept as a small broken
copy.

They are what attacks must succeed on; nothing here protects anything.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dpnotes.accounting import gaussian_sigma
from dpnotes.methods import fit_minimiser

L2 = 0.06


def minimiser(X: Any, y: Any, l2: float = L2, n_classes: int = 2) -> Any:
    """Minimiser of the regularised logistic loss, and its sensitivity: not private."""
    return fit_minimiser(
        X, y, n_classes=n_classes, l2=l2, intercept=False, device="cpu"
    )


class OutputPerturbation:
    """Minimiser plus normal noise, all of it decided by an integer of 31 bits that
    ``random_state`` gives.
    """

    seed_bits = 31

    def __init__(
        self, epsilon: float = 0.1, delta: float = 1e-6, random_state: Any = None
    ) -> None:
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X: Any, y: Any) -> OutputPerturbation:
        exact = minimiser(X, y)
        self.n_features_in_ = X.shape[1]
        self.sigma_ = gaussian_sigma(
            self.epsilon, self.delta, sensitivity=exact.sensitivity()
        )
        self.coef_ = exact.weights + self._generator().normal(
            0.0, self.sigma_, exact.weights.shape
        )
        return self

    def _generator(self) -> Any:
        return np.random.default_rng(
            check_random_state(self.random_state).randint(2**31 - 1)
        )


class GlobalNoise(OutputPerturbation):
    """The noise is NumPy's global stream's."""

    def _generator(self) -> Any:
        return np.random.mtrand._rand


class NoiseDrawnOnce(OutputPerturbation):
    """The operating system is asked once, at import: threads and forked processes
    share its answer.
    """

    entropy = np.random.SeedSequence().entropy

    def _generator(self) -> Any:
        return np.random.default_rng(self.entropy)


def fit(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Target (X, y, **parameters) as those of ours."""
    return lambda X, y, **parameters: kind(**parameters).fit(X, y)


class NoisyAnswers:
    """Logit of class 1 of 3 by a minimiser, with noise in proportion to the
    Euclidean norm of the query.
    """

    answers = 400

    def __init__(self, random_state: Any = None, **_: Any) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NoisyAnswers:
        exact = minimiser(X, y, 1e-3, n_classes=3)
        self.n_features_in_, self.exact_ = X.shape[1], exact.weights[1]
        self.scale_ = (
            exact.sensitivity() * gaussian_sigma(0.1, 1e-6) * self.answers**0.5
        )
        self.left, self.generator_ = (
            self.answers,
            np.random.default_rng(self.random_state),
        )
        return self

    def decision_function(self, X: Any) -> Any:
        X = np.asarray(X, dtype=np.float64)
        if len(X) > self.left:
            raise RuntimeError("no answers left")
        with np.errstate(over="ignore", invalid="ignore"):
            logits = X @ self.exact_
            noise = self.generator_.normal(size=len(X)) * (
                self.scale_ * np.linalg.norm(X, axis=1)
            )
            self.left -= len(X)
            return logits + noise


class OpenBudget:
    """Counts answers in attributes that can be written to, and takes any number for
    a count.
    """

    def __init__(self, answers: int) -> None:
        self.answers, self.released = answers, 0

    def spend(self, count: int) -> None:
        if self.released + count > self.answers:
            raise RuntimeError("no answers left")
        self.released += count

    def resume(self, *, released: int) -> None:
        self.released = released


class LiveVote:
    """Noisy votes whose noise is read from a parameter at each answer, and a profile
    that can be written to.
    """

    def __init__(
        self, sigma: float = 1000.0, answers: int = 10, **parameters: Any
    ) -> None:
        self.sigma, self.answers = sigma, answers
        self.epsilon = parameters.get("epsilon", 0.1)

    def fit(self, X: Any, y: Any) -> LiveVote:
        self.n_features_in_, self.generator_ = X.shape[1], np.random.default_rng(0)
        self.budget_ = OpenBudget(400)
        self.profile_ = SimpleNamespace(
            status="proved",
            parameters={"sigma": self.sigma},
            assumption="",
            adjacency="x",
        )
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"sigma": self.sigma, "answers": self.answers}

    def set_params(self, **parameters: Any) -> LiveVote:
        self.__dict__.update(parameters)
        return self

    def votes(self, X: Any) -> Any:
        return np.where(X[:, 0] > 0, 8.0, -8.0)

    def predict(self, X: Any) -> Any:
        self.budget_.spend(len(X))
        return (
            self.votes(X) + self.sigma * self.generator_.normal(size=len(X)) > 0
        ).astype(int)


class FailsLate:
    """Estimator that writes its profile before the last step of a fit, which may
    fail.
    """

    def __init__(self, epsilon: float, student: Any) -> None:
        self.epsilon, self.student = epsilon, student

    def fit(self, X: Any, y: Any) -> FailsLate:
        self.profile_ = f"epsilon={self.epsilon}"
        self.student_ = copy.deepcopy(self.student).fit(X, y)
        return self

    def set_params(self, **parameters: Any) -> FailsLate:
        self.__dict__.update(parameters)
        return self

    def predict(self, X: Any) -> Any:
        return self.student_.predict(X)


def personalised() -> Any:
    """A fitted estimator whose profile holds for the votes at hand only."""
    return SimpleNamespace(profile_=SimpleNamespace(status="per-instance"))


class Refuses:
    """Estimator that checks private rows together, and says what it saw."""

    def __init__(self, norm: float = 1.0, public: Any = ()) -> None:
        self.norm, self.public = norm, public

    def fit(self, X: Any, y: Any) -> Refuses:
        X = np.asarray(X, dtype=np.float64)
        norms = np.linalg.norm(X, axis=1)
        if (norms > self.norm).any():
            raise ValueError(
                f"{(norms > self.norm).sum()} rows are longer than {self.norm}, up to"
                f" {norms.max():.7g}"
            )
        if not np.isin(y, [0, 1]).any():
            raise ValueError("no label is among classes")
        if unknown := set(y.tolist()) - {0, 1}:
            raise ValueError(f"labels are not among classes: {unknown}")
        if len(set(y.tolist())) < 2:
            raise ValueError("y holds one class only")
        shared = {row.tobytes() for row in X} & {row.tobytes() for row in self.public}
        if shared:
            raise ValueError(f"{len(shared)} public rows are private")
        correlation = np.abs((X * (2 * y - 1)[:, None]).mean(axis=0)).max()
        if correlation > 0.05:
            warnings.warn(
                f"did not converge: {correlation:.3f}", RuntimeWarning, stacklevel=2
            )
        self.n_features_in_, self.loss_, self.agreement_ = (
            X.shape[1],
            float(X.mean()),
            norms.mean(),
        )
        self.coef_ = minimiser(X, y).weights + np.random.default_rng().normal(
            0, 100, (2, X.shape[1])
        )
        return self

    def publish(self) -> Refuses:
        return self

    def predict(self, X: Any) -> Any:
        for row in range(int(1000 * self.agreement_)):
            abs(row)
        raise RuntimeError("no answers left")

    def __repr__(self) -> str:
        return "Refuses()"


class NaiveDescent:
    """Rows are divided by norms whose squares are formed in the rows' own precision;
    what is not finite is refused.
    """

    def fit(self, X: Any, y: Any) -> NaiveDescent:
        if not np.isfinite(clipped(X, 1.0)).all():
            raise ValueError("training diverged: weights are not finite")
        return self

    def __repr__(self) -> str:
        return "NaiveDescent()"


def clipped(rows: Any, norm: float) -> Any:
    """Rows scaled down to a norm, without a thought of overflow and underflow."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        return rows / norms * np.minimum(norms, rows.dtype.type(norm))


class OverflowingDescent:
    """Steps of DP-SGD as they were: a residual of 0 times an infinite squared norm
    is not a number.
    """

    def fit(self, X: Any, y: Any) -> OverflowingDescent:
        weights = np.zeros((2, X.shape[1]), X.dtype)
        with np.errstate(all="ignore"):
            squares = np.square(X).sum(axis=1)
            for _ in range(2):
                residuals = 1 / (1 + np.exp(-weights @ X.T)) - np.stack(
                    [1 - y, y]
                ).astype(X.dtype)
                residuals *= np.minimum(1, 1 / np.sqrt(residuals**2 * squares))
                weights -= residuals @ X
        if not np.isfinite(weights).all():
            raise ValueError("training diverged: weights are not finite")
        return self

    def __repr__(self) -> str:
        return "OverflowingDescent()"
