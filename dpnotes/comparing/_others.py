"""Classifiers of other libraries as candidates, each with the guarantee that it
claims, under zero-out adjacency.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from dpnotes.accounting import (
    PrivacyProfile,
    approximate,
    dp_sgd,
    dp_sgd_noise_multiplier,
    pure,
)
from dpnotes.comparing._candidates import STRENGTHS, Candidate, Task, Unsuited, each_of
from dpnotes.methods import PrivateClassifier, Records

# hidden units; of the records, and how many of them at most, in a batch
WIDTH, RATE, LARGEST = 16, 0.25, 2000

Trained = tuple[Any, PrivacyProfile]


@dataclass(eq=False, repr=False)
class OtherClassifier(PrivateClassifier):
    """A classifier of another library, fitted to codes of public classes.

    Parameters
    ----------
    train : callable
        ``train(records, epsilon, delta, seed, **setting)`` gives a fitted model, which
        predicts codes, and its profile.
    epsilon : float, > 0
    delta : float, in [0, 1)
    setting : mapping, optional
    classes, random_state, noise_seed
        See :class:`dpnotes.methods.PrivateClassifier`. Without a ``noise_seed`` the
        library draws its noise as it does by default; ``random_state`` is not used.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
    model_ : object
        Fitted model of the other library.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int
    """

    train: Callable[..., Trained]
    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    setting: Mapping[str, Any] = field(default_factory=dict)

    _published = ("model_",)

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        records = self._private_records(X, y)
        self.model_, profile = self.train(
            records, self.epsilon, self.delta, self.noise_seed, **self.setting
        )
        self.profile_, self.classes_ = self._implemented(profile), records.classes

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a label for each row of X, shape [n]."""
        labels: NDArray[Any] = self.classes_[
            np.asarray(self.model_.predict(self._queries(X)), dtype=np.int64)
        ]
        return labels


def _forest(
    records: Records, epsilon: float, delta: float, seed: int | None, **setting: int
) -> Trained:
    """Fit trees with random splits on disjoint parts of the rows, whose leaves answer
    by permute-and-flip.

    The parts are drawn at random, because rows may be sorted by class (by default the
    library takes them in turn). An empty record retains its place, with a code that no
    leaf counts: one count falls by 1, and no other tree changes. If the record were
    left out, other records would move from tree to tree.
    """
    from diffprivlib.models import RandomForestClassifier

    classes = np.arange(len(records.classes))
    fixed: dict[str, Any] = {
        "epsilon": epsilon,
        "bounds": (-1.0, 1.0),
        "classes": classes,
        "shuffle": True,
        "random_state": seed,
    }
    X = np.where(records.codes[:, None] < len(classes), records.X, 0.0)
    model = RandomForestClassifier(**fixed, **setting).fit(X, records.codes)
    source = (
        "Fletcher and Islam (2017); McKenna and Sheldon (2020);"
        " diffprivlib.models.RandomForestClassifier"
    )
    return model, pure(epsilon, adjacency="zero-out").with_(
        exactness="claimed", source=source
    )


@dataclass(frozen=True)
class _Constant:
    """A linear model of rows (x, 1) / sqrt(2)."""

    model: Any

    def predict(self, X: NDArray[Any]) -> Any:
        return self.model.predict(_with_constant(X))


def _with_constant(X: NDArray[Any]) -> NDArray[np.float64]:
    rows: NDArray[np.float64] = np.hstack([X, np.ones((len(X), 1))]) / np.sqrt(2.0)
    return rows


def _logistic(
    records: Records, epsilon: float, delta: float, seed: int | None, *, C: float
) -> Trained:
    """Minimise a perturbed objective over rows of norm at most 1, which already have
    the constant feature.

    For longer rows, and therefore with the library's own intercept, its allowance for
    curvature, norm / 4, would be below the true curvature, norm^2 / 4. An empty record
    is a row of zeros, whose gradient is zero. One more row of zeros is added for each
    class, because the library reads the classes off the labels.
    """
    from diffprivlib.models import LogisticRegression

    X, codes = records.standing_in()
    empty = records.codes == len(records.classes)
    rows = np.where(empty[:, None], 0.0, _with_constant(X))
    classes = np.arange(len(records.classes))
    rows, codes = (
        np.vstack([rows, np.zeros((len(classes), rows.shape[1]))]),
        np.concatenate([codes, classes]),
    )
    fixed: dict[str, Any] = {
        "data_norm": 1.0,
        "fit_intercept": False,
        "max_iter": 1000,
        "random_state": seed,
    }
    model = LogisticRegression(epsilon=epsilon, C=C, **fixed).fit(rows, codes)
    source = (
        "Chaudhuri, Monteleoni and Sarwate (2011), Theorem 9;"
        " diffprivlib.models.LogisticRegression"
    )
    claim = pure(epsilon, adjacency="replace-one").for_adjacency(
        "zero-out", assumed=True
    )
    return _Constant(model), claim.with_(exactness="claimed", source=source)


def _boosting(
    records: Records, epsilon: float, delta: float, seed: int | None, **setting: Any
) -> Trained:
    """Fit an additive model by cyclic boosting on histograms; a tenth of epsilon pays
    for the bins.

    The library's sensitivities are for adding or removing one record, and it treats the
    number of rows as public.
    """
    from interpret.privacy import DPExplainableBoostingClassifier

    X, codes = records.labelled()
    d = X.shape[1]
    fixed: dict[str, Any] = {
        "feature_types": ["continuous"] * d,
        "privacy_bounds": np.tile([-1.0, 1.0], (d, 1)),
    }
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon, delta=delta, n_jobs=1, random_state=seed, **fixed, **setting
    ).fit(X, codes)
    claim = approximate(epsilon, delta, adjacency="add-remove").for_adjacency(
        "zero-out", assumed=True
    )
    source = (
        "Nori, Caruana, Bu, Shen and Kulkarni (2021);"
        " interpret.privacy.DPExplainableBoostingClassifier"
    )
    return model, claim.with_(exactness="claimed", status="assumption", source=source)


@dataclass(frozen=True)
class _Network:
    """A network that predicts codes."""

    layers: Any

    def predict(self, X: NDArray[Any]) -> Any:
        import torch

        with torch.no_grad():
            return (
                self.layers(torch.as_tensor(X, dtype=torch.float32)).argmax(1).numpy()
            )


def _network(
    records: Records,
    epsilon: float,
    delta: float,
    seed: int | None,
    *,
    steps: int,
    learning_rate: float,
) -> Trained:
    """Train a network of one hidden layer with opacus' per-example gradients and
    optimizer, on Poisson samples.

    The noise follows from our accounting. An empty record retains its place in the
    draws and is in no batch.
    """
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    rate = min(RATE, LARGEST / records.n)
    noise = _noise(epsilon, delta, rate, steps)
    generator = torch.Generator()
    # the first is the operating system's
    _ = generator.seed() if seed is None else generator.manual_seed(seed)
    k, d = len(records.classes), records.X.shape[1]
    layers = torch.nn.Sequential(
        torch.nn.Linear(d, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, k)
    )
    with torch.no_grad():
        for weights in layers.parameters():
            weights.normal_(
                0.0,
                weights.shape[-1] ** -0.5 if weights.ndim > 1 else 0.0,
                generator=generator,
            )
    X = torch.as_tensor(records.X, dtype=torch.float32)
    codes = torch.as_tensor(records.codes)
    module = GradSampleModule(layers, loss_reduction="sum")
    size = rate * records.n
    optimizer = DPOptimizer(
        torch.optim.SGD(layers.parameters(), lr=learning_rate / size),
        noise_multiplier=noise,
        max_grad_norm=1.0,
        expected_batch_size=None,
        loss_reduction="sum",
        generator=generator,
    )
    for _step in range(steps):
        drawn = (
            torch.rand(records.n, generator=generator, dtype=torch.float64) < rate
        ) & (codes < k)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            module(X[drawn]), codes[drawn], reduction="sum"
        ).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    module.remove_hooks()
    return _Network(layers), dp_sgd(
        noise_multiplier=noise, sample_rate=rate, steps=steps, adjacency="zero-out"
    )


@lru_cache(maxsize=1024)
def _noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    return float(dp_sgd_noise_multiplier(epsilon, delta, sample_rate=rate, steps=steps))


def _made(
    train: Callable[..., Trained],
    module: str,
    needs: Sequence[str],
    task: Task,
    **setting: Any,
) -> Any:
    """Make the unfitted classifier, if the library can be imported."""
    task.needs(*needs)
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise Unsuited(
            f"{module} cannot be imported with scikit-learn {sklearn.__version__}"
        ) from error
    return OtherClassifier(
        train, task.epsilon, task.delta, setting=setting, **task.common
    )


def _made_logistic(task: Task, *, strength: float) -> Any:
    return _made(_logistic, "diffprivlib.models", (), task, C=task.scale / strength)


OTHERS: tuple[Candidate, ...] = (
    Candidate(
        "diffprivlib forest",
        partial(_made, _forest, "diffprivlib.models", ()),
        each_of(
            n_estimators=(10, 20, 5, 10, 30, 3, 50, 10),
            max_depth=(5, 4, 6, 7, 4, 6, 5, 3),
        ),
        ball=False,
        module="diffprivlib",
    ),
    Candidate("diffprivlib logistic", _made_logistic, STRENGTHS, module="diffprivlib"),
    Candidate(
        "interpret boosting",
        partial(_made, _boosting, "interpret.privacy", ("delta", "two classes")),
        each_of(
            max_rounds=(300, 100, 30, 10, 100, 30, 10, 300),
            learning_rate=(0.01, 0.03, 0.1, 0.3, 0.03, 0.1, 0.3, 0.01),
            max_bins=(32, 32, 16, 8, 8, 8, 16, 8),
        ),
        ball=False,
        module="interpret",
    ),
    Candidate(
        "opacus network",
        partial(_made, _network, "opacus", ("delta",)),
        each_of(
            steps=(50, 20, 100, 200, 50, 20, 100, 50),
            learning_rate=(0.5, 1.0, 0.5, 0.25, 2.0, 0.25, 1.0, 0.1),
        ),
        module="opacus",
    ),
)
