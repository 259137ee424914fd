"""``dpnotes.compare``: private classifiers beside ordinary ones, on a public table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnotes import _extras

_extras.require("learn", part="dpnotes.comparing")

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit

from dpnotes import _gate as gate, _validation as check, methods
from dpnotes.preprocessing import PublicOneHot, PublicScaler

MEASURES = (
    *("accuracy", "balanced accuracy", "AUC"),
    *("log loss", "calibration error"),
)
TEST = 0.25  # fraction of the records that models are tested on
FEWEST = 8  # records of a class, so that each test has two of them
BINS = 15  # of confidence, for the calibration error
LEVEL = 0.05  # at which an interval may be wrong

MODELS = (
    methods.NoisyBoosting,
    methods.ClassMeans,
    methods.LossPerturbation,
    methods.ModelSensitivity,
    methods.DPSGD,
    methods.NoisySGD,
    methods.AugmentedSGD,
    methods.Bagging,
)
ANSWERS = (
    methods.PredictionSensitivity,
    methods.SubsampleAggregate,
    methods.FilteredVote,
)


def estimators(
    epsilon: float,
    delta: float = 0.0,
    *,
    classes: Any,
    answers: int,
    noise_seed: int | None = None,
) -> dict[str, Any]:
    """Make the private classifiers that need no public records, all with the same
    budget and otherwise with their defaults.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
    classes : sequence
        All labels.
    answers : int, >= 1
        Number of queries, for estimators that release only answers.
    noise_seed : int, optional
        See :class:`dpnotes.methods.PrivateClassifier`.

    Returns
    -------
    dict
        Unfitted estimators by the name of their class. Some of them raise a
        ValueError at ``fit`` for some budgets or numbers of classes.
    """
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "classes": classes,
        "noise_seed": noise_seed,
    }
    found: dict[str, Any] = {kind.__name__: kind(**given) for kind in MODELS}
    for kind in ANSWERS:
        found[kind.__name__] = kind(answers=answers, **given)
    return found


def compare(
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    bounds: tuple[Any, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    repeats: int = 10,
    random_state: int = 0,
    n_jobs: int = 1,
    summarise: bool = True,
) -> pd.DataFrame:
    """Compare all private classifiers on a PUBLIC table, at the same guarantee.

    No guarantee covers the result: it is computed from the records without noise. Use
    this function only for a table that everyone may see, for example an older table of
    the same kind. For a private table, take
    :class:`~dpnotes.methods.NoisyBoosting` without a comparison: choosing between
    estimators privately costs more than it gains on tables of ordinary size.

    The table is split at random into records to fit and to test, again and again, and
    all models see the same splits. Beside the private classifiers with their defaults
    there are three models without privacy: the majority class, logistic regression and
    gradient boosting. PATE and DPBag are left out because they need public records
    without labels.

    Parameters
    ----------
    X : array_like or data frame, shape [n, d]
        Columns of numbers are mapped from their bounds to [-1, 1], and a missing number
        counts as the middle. Other columns become indicators of their values.
    y : array_like, shape [n]
        Labels, with at least 8 records of each class.
    epsilon : float, > 0
    delta : float, in [0, 1)
        The budget of each estimator, for one record made empty.
    bounds : tuple, optional
        Pair (low, high) of the columns of numbers; each is one number or has one number
        for each of these columns. By default, the smallest and the largest value.
    others : mapping of str to classifier, optional
        Further unfitted classifiers of scikit-learn's form, by name.
    repeats : int, >= 2
        Number of splits. A quarter of the records is for testing.
    random_state : int, >= 0
        Seed of the splits and of the noise.
    n_jobs : int
        Number of joblib workers.
    summarise : bool
        If False, the scores on each split are returned, in columns of the same names.

    Returns
    -------
    DataFrame
        One row for each model, by rising log loss. For each of the measures there are
        two columns: the mean, and half of the width of its 95 % interval (``"± AUC"``).
        The measures are accuracy, balanced accuracy (the mean accuracy of the classes),
        AUC (of several classes: the mean over each class against the rest), log loss,
        and calibration error: the mean difference between the probability of the
        predicted class and the fraction of correct predictions, over 15 bins of this
        probability. A model without probabilities has only the first two. The column
        "released" tells what a model releases: "model", "answers" (to one part of test
        records) or "no privacy". The column "note" has the reason if a model could not
        be fitted.

    Raises
    ------
    ValueError
        If X is no table, y has a missing label, fewer than two classes, or too few
        records of a class, or a number is outside its range.
    TypeError
        If X is sparse, X or y is masked, or a number has the wrong type.

    Source
    ------
    Nadeau and Bengio (2003) for the intervals; Guo et al. (2017) for the calibration
    error.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> table = compare(X, y, epsilon=1.0, delta=1e-5, repeats=2)
    >>> bool(table.loc["NoisyBoosting", "AUC"] > table.loc["majority class", "AUC"])
    True
    """
    epsilon = check.positive("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0, below="nothing is hidden")
    repeats = check.at_least("repeats", repeats, 2)
    labels, codes = gate.read_off(y)
    if len(labels) < 2 or np.bincount(codes).min() < FEWEST:
        raise ValueError(
            f"y must have at least two classes, each with at least {FEWEST} records"
        )
    rows = _prepared(X, bounds)
    # both parts have all classes in the same proportions
    splitter = StratifiedShuffleSplit(
        repeats, test_size=TEST, random_state=random_state
    )
    calls = []
    for place, (train, test) in enumerate(splitter.split(rows, codes)):
        # seeds differ between splits, so that the noise does, too
        models = {
            **_without_privacy(random_state + place),
            **estimators(
                epsilon,
                delta,
                classes=range(len(labels)),
                answers=len(test),
                noise_seed=random_state + place,
            ),
            **(others or {}),
        }
        for name, model in models.items():
            about = {"method": name, "split": place, "released": _released(model)}
            calls.append(delayed(_scored)(about, model, rows, codes, train, test))
    scores = pd.DataFrame(Parallel(n_jobs=check.jobs("n_jobs", n_jobs))(calls))
    return summary(scores) if summarise else scores


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Means of scores on each split, with intervals; see :func:`compare`."""
    groups = scores.groupby("method", sort=False)
    table = groups["released"].first().to_frame()
    for measure in MEASURES:
        table[measure] = groups[measure].mean()
        table[f"± {measure}"] = groups[measure].agg(half_width)
    table["note"] = groups["note"].first()
    # models without probabilities come last, by their accuracy
    return table.sort_values(["log loss", "accuracy"], ascending=[True, False])


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Text of a comparison, without the models that could not be fitted."""
    fitted = table[table["note"] == ""]
    text = fitted[["released"]].copy()
    for measure in MEASURES:
        pairs = zip(fitted[measure], fitted[f"± {measure}"], strict=True)
        text[measure] = [f"{mean:.3f} ± {half:.3f}" for mean, half in pairs]
    return text.replace("nan ± nan", "")


def half_width(values: Any) -> float:
    """Half of the width of the 95 % interval of a mean over splits of one table.

    The splits share records, so the variance of the mean is ``1 / splits + 1 / 3``
    times the variance of the values: a third as many records test as fit.

    Parameters
    ----------
    values : array_like, shape [splits >= 2]
        A measure on each split, or the difference of two models.

    Source
    ------
    Nadeau and Bengio (2003).

    Examples
    --------
    >>> round(half_width([0.8, 0.9, 0.7]), 3)
    0.351
    """
    found = np.asarray(values, dtype=np.float64)
    error = np.std(found, ddof=1) * np.sqrt(1 / len(found) + TEST / (1 - TEST))
    return float(error * stats.t.isf(LEVEL / 2, len(found) - 1))


def calibration_error(codes: NDArray[Any], probabilities: NDArray[Any]) -> float:
    """Expected calibration error over 15 bins of the predicted class's probability.

    Parameters
    ----------
    codes : ndarray of int, shape [n]
        Class codes.
    probabilities : ndarray, shape [n, n_classes]

    Source
    ------
    Guo et al. (2017).

    Examples
    --------
    >>> sure = np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> calibration_error(np.array([1, 0]), sure)
    0.5
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == codes
    # a probability of 1 is in the last bin
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    # sums over each bin: right predictions less their probability
    gaps = np.bincount(place, weights=right - confidence)
    return float(np.abs(gaps).sum() / len(codes))


def _prepared(X: Any, bounds: tuple[Any, Any] | None) -> NDArray[np.float64]:
    """Numbers in [-1, 1], then indicators; constant columns are left out."""
    values = gate.table(BaseEstimator(), X, reset=True)
    table = X
    if not isinstance(X, pd.DataFrame):
        # the table is public, so its cells may say which columns are numbers
        table = pd.DataFrame(values).infer_objects()
    numbers = table.select_dtypes("number").replace([np.inf, -np.inf], np.nan)
    # a scaler needs a range, whatever is missing
    numbers = numbers.loc[:, numbers.nunique().gt(1)]
    others = table.select_dtypes(exclude="number").astype(str)
    others = others.loc[:, others.nunique().gt(1)]
    parts = []
    if numbers.shape[1]:
        low, high = (numbers.min(), numbers.max()) if bounds is None else bounds
        values = numbers.to_numpy(np.float64, na_value=np.nan)
        parts.append(PublicScaler(np.array(low), np.array(high)).fit_transform(values))
    if others.shape[1]:
        known = [sorted(set(others[name])) for name in others]
        parts.append(PublicOneHot(known).fit_transform(others.to_numpy()))
    if not parts:
        raise ValueError("X must have at least one column that is not constant")
    return np.hstack(parts)


def _without_privacy(seed: int) -> dict[str, Any]:
    return {
        "majority class": DummyClassifier(strategy="prior"),
        "logistic regression": LogisticRegression(max_iter=1000),
        "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
    }


def _released(model: Any) -> str:
    if not isinstance(model, methods.PrivateClassifier):
        return "no privacy"
    return "answers" if isinstance(model, ANSWERS) else "model"


def _scored(
    about: dict[str, Any],
    model: Any,
    X: NDArray[Any],
    codes: NDArray[Any],
    train: NDArray[Any],
    test: NDArray[Any],
) -> dict[str, Any]:
    """Fit a model and measure it on one split."""
    try:
        fitted = clone(model).fit(X[train], codes[train])
    # no budget or number of classes stops the comparison
    except ValueError as error:
        return {**about, "note": str(error)}
    truth = codes[test]
    predicted = fitted.predict(X[test])
    found = {
        **about,
        "accuracy": metrics.accuracy_score(truth, predicted),
        "balanced accuracy": metrics.balanced_accuracy_score(truth, predicted),
        "note": "",
    }
    if hasattr(fitted, "predict_proba"):
        chances = fitted.predict_proba(X[test])
        # of two classes, the probability of the second
        scores = chances if chances.shape[1] > 2 else chances[:, 1]
        found["AUC"] = metrics.roc_auc_score(truth, scores, multi_class="ovr")
        found["log loss"] = metrics.log_loss(truth, chances)
        found["calibration error"] = calibration_error(truth, chances)
    return found
