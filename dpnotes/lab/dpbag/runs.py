"""One run of differentially private bagging: teachers are trained once and label for
many budgets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotes import _validation as check, data
from dpnotes.accounting import noisy_vote_answers
from dpnotes.accounting.papers import (
    personalised_epsilon,
    personalised_moments,
    squares_of_budget,
)
from dpnotes.lab import own_data
from dpnotes.mechanisms import draw_partitions, laplace_vote, stream

SPLITS = {"adult": "dpbag", "diabetes130": "dpbag", "breast_cancer": "original"}
QUERIES = 1024  # voted on at a time
# of the accountant of :func:`least_labels`; the best that were seen are below 30
ORDERS = np.arange(1.0, 33.0)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)  # of what the records pay
PAID = tuple(f"paid_{100 * quantile:g}" for quantile in QUANTILES)  # columns of a row

Budget = tuple[float, float]  # epsilon, delta
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Labelled(NamedTuple):
    """Records and their labels."""

    X: Floats
    y: Codes


class Thirds(NamedTuple):
    """Random thirds of a data set, which each run draws again."""

    private: Labelled
    public: Labelled
    test: Labelled
    digest: str


class Stop(NamedTuple):
    """Point at which the personalised accountant stops.

    ``labels`` is the number of labelled public rows. ``paid`` holds the quantiles, at
    :data:`QUANTILES`, of the private records' epsilon. ``spent`` is the largest
    epsilon, including the epsilon of a record that is not yet there.
    """

    labels: int
    paid: Floats
    spent: float


class Run(NamedTuple):
    """Noisy labels of the first public rows, enough for all budgets, and the seed
    and stops that a student needs.
    """

    thirds: Thirds
    labels: Codes
    student_seed: int
    stops: dict[Budget, Stop]


@lru_cache(maxsize=1)
def _all_records(dataset: str) -> tuple[Floats, Codes, str]:
    if own_data.is_own(dataset):
        # of several classes the first one against the others
        mine = own_data.load(dataset)
        codes = np.concatenate([mine.y_train, mine.y_test])
        return (
            np.concatenate([mine.X_train, mine.X_test]).astype(np.float64),
            np.minimum(codes, 1),
            mine.digest,
        )
    loaded = data.load(
        dataset, split=SPLITS[check.one_of("dataset", dataset, tuple(SPLITS))]
    )
    # splits of the data sets are undone: each run draws its own thirds
    public = [] if loaded.X_public is None else [(loaded.X_public, loaded.y_public)]
    rows = [(loaded.X_train, loaded.y_train), *public, (loaded.X_test, loaded.y_test)]
    X, y = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
    return X.astype(np.float64), y, loaded.digest


@cache
def affordable(
    epsilon: float, delta: float, n_teachers: int, analysis: str = "tight"
) -> int:
    """Count the labels that a budget allows at the paper's noise, lambda = 2 / n,
    whatever the data.
    """
    return noisy_vote_answers(
        epsilon, delta, inverse_scale=2 / n_teachers, analysis=analysis
    )


def thirds(dataset: str, seed: int) -> Thirds:
    """Split all records, in the order of ``default_rng(seed).permutation``, into
    private, public and test thirds.
    """
    X, y, digest = _all_records(dataset)
    # the remainder goes to the test third
    order = np.random.default_rng(seed).permutation(len(y))
    third = len(y) // 3
    private, public, test = (
        Labelled(X[rows], y[rows]) for rows in np.split(order, [third, 2 * third])
    )
    return Thirds(private, public, test, digest)


def learner(name: str, **settings: Any) -> Any:
    """Make scikit-learn's logistic regression or gradient boosting, with its defaults
    (C = 1; 100 trees of depth 3), or one of the learners that the paper may have used.

    ``"liblinear"`` is logistic regression by scikit-learn's default solver of 2019,
    which penalises the intercept too. ``"xgboost"`` is XGBoost with its own defaults
    (100 trees of depth 6, rate 0.3), grown by the exact method, as XGBoost did on small
    data in 2019. ``"lightgbm"`` is LightGBM with its own defaults (100 trees of 31
    leaves, rate 0.1), which are those of 2019. Other settings may be given. The setting
    ``early_stopping`` selects boosting on histograms, whose trees have 31 leaves.
    """
    if name == "xgboost":
        from xgboost import XGBClassifier

        # one thread: rows are run side by side
        return XGBClassifier(n_estimators=100, tree_method="exact", n_jobs=1)
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        # one thread, as above
        return LGBMClassifier(n_jobs=1, verbose=-1)
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
    )
    from sklearn.linear_model import LogisticRegression

    if name == "liblinear":
        # C = 1, as the default was
        return LogisticRegression(solver="liblinear")
    if name == "logistic":
        return LogisticRegression(max_iter=1000)
    boosting = (
        HistGradientBoostingClassifier
        if "early_stopping" in settings
        else GradientBoostingClassifier
    )
    return boosting(**settings)


class Votes(NamedTuple):
    """Models that were fitted one by one."""

    models: list[Any]

    def votes(self, X: Floats) -> Codes:
        """Class code of each model for each row of X, shape [n_models, n]."""
        return np.stack([model.predict(X) for model in self.models])


def teach(
    name: str,
    X: NDArray[Any],
    y: Codes,
    subsets: list[Codes],
    *,
    seed: int,
    device: str,
) -> Any:
    """Train a teacher on each subset."""
    from dpnotes.learners import BoostedTreesClassifier
    from dpnotes.methods import LogisticTeachers

    if name == "liblinear":
        return _liblinear(X, y, subsets, device)
    if name in ("xgboost", "lightgbm"):
        return Votes([learner(name).fit(X[rows], y[rows]) for rows in subsets])
    many: Any = LogisticTeachers if name == "logistic" else BoostedTreesClassifier
    return many(device=device).fit_many(X, y, subsets, n_classes=2, seed=seed)


def _liblinear(X: NDArray[Any], y: Codes, subsets: list[Codes], device: str) -> Any:
    """Minimise liblinear's objective: its intercept is the weight of a constant."""
    from dpnotes.learners import fit_binary_logistic

    # a penalised intercept is the weight of a constant feature
    constant = np.ones((len(X), 1))
    features = np.hstack([X, constant])
    sizes = np.array([len(rows) for rows in subsets])
    fitted = fit_binary_logistic(
        features, y, subsets, l2=1 / sizes, intercept=False, device=device
    )
    weights = fitted.weights
    return replace(fitted, weights=weights[:, :-1], intercept=weights[:, -1])


class Setting(NamedTuple):
    """What decides the teachers of one run: parameters of
    :func:`dpnotes.lab.dpbag.experiments.student`.
    """

    dataset: str
    teachers: str
    n_teachers: int
    n_partitions: int
    seed: int
    device: str


class Taught(NamedTuple):
    """Teachers of one run: the thirds, the models, their records, and the seeds of
    what follows.

    ``membership``, shape [D + 1, k], is the teacher of each record in each partition;
    the last row stands for a record that is yet to come.
    """

    thirds: Thirds
    fitted: Any
    membership: Codes
    secret: int
    student_seed: int
    dtype: Any


def _taught(setting: Setting) -> Taught:
    """Train the teachers of one run; random streams as :class:`dpnotes.methods.DPBag`
    with ``noise_seed=seed`` and balanced partitions.
    """
    from dpnotes.methods import secret_seed

    records = thirds(setting.dataset, setting.seed)
    secret = secret_seed(setting.seed)
    # streams in the order in which DPBag draws them
    learn_seed, student_seed = stream(secret, 0).integers(2**31, size=2).tolist()
    cut = draw_partitions(
        len(records.private.y),
        n_chunks=setting.n_teachers,
        n_partitions=setting.n_partitions,
        scheme="balanced",
        seed=int.from_bytes(stream(secret, 2).bytes(16), "little"),
    )
    # as trees take it
    linear = setting.teachers in ("logistic", "liblinear")
    dtype = np.float64 if linear else np.float32
    X = records.private.X.astype(dtype, copy=False)
    fitted = teach(
        setting.teachers,
        X,
        records.private.y,
        cut.subsets(),
        seed=learn_seed,
        device=setting.device,
    )
    membership = np.vstack([cut.chunk, cut.joining])
    return Taught(records, fitted, membership, secret, student_seed, dtype)


def _votes(taught: Taught) -> Iterator[tuple[int, Codes]]:
    """Votes on the public rows in parts, since votes of all at once would fill the
    memory: the first row of each part, and the votes [models, rows].
    """
    public = taught.thirds.public.X
    for start in range(0, len(public), QUERIES):
        rows = public[start : start + QUERIES].astype(taught.dtype, copy=False)
        yield start, taught.fitted.votes(rows)


@lru_cache(maxsize=1)  # rows of a grid that share teachers follow each other
def run(
    setting: Setting,
    budgets: tuple[Budget, ...],
) -> Run:
    """Train the teachers of one run, and label public rows until all budgets are spent.

    The random streams and the labels are the same as for :class:`dpnotes.methods.DPBag`
    with ``noise_seed=seed`` and balanced partitions. Budgets that share labels also
    share the noise of these labels.
    """
    from dpnotes.learners import TouchedVotes

    taught = _taught(setting)
    n_teachers = setting.n_teachers
    n_partitions = setting.n_partitions
    # lambda = 2 / n, the paper's noise
    beta = 2 / n_teachers
    touched = TouchedVotes(
        taught.membership, n_teachers=n_teachers, device=setting.device
    )
    # the smallest budget is spent first
    limits = []
    for budget in budgets:
        squares = squares_of_budget(*budget, n_partitions=n_partitions, beta=beta)
        limits.append((squares, budget))
    limits.sort()
    # accountants that do not look at the votes need as many labels
    fixed = 0
    for budget in budgets:
        for analysis in ("tight", "published"):
            fixed = max(fixed, affordable(*budget, n_teachers, analysis))
    stops: dict[Budget, Stop] = {}
    counts: list[Codes] = []
    answered = 0  # public rows that the accountant has seen

    def stop(delta: float) -> Stop:
        # of all records and of the one to come, which is last
        own = personalised_epsilon(
            touched.totals, n_partitions=n_partitions, beta=beta, delta=delta
        )
        return Stop(answered, np.quantile(own[:-1], QUANTILES), float(own.max()))

    for start, votes in _votes(taught):
        ones = np.count_nonzero(votes, axis=0)
        counts.append(np.stack([len(votes) - ones, ones], axis=1))
        left = votes.reshape(n_partitions, n_teachers, -1)
        # several budgets may end within one part
        while left.shape[2] and limits:
            largest = touched.add(left, limit=limits[0][0])
            answered = answered + len(largest)
            left = left[:, :, len(largest) :]
            while limits and largest[-1] >= limits[0][0]:
                _, budget = limits.pop(0)
                stops[budget] = stop(budget[1])
        # every accountant has its labels
        if not limits and start + QUERIES >= fixed:
            break
    stops |= {budget: stop(budget[1]) for _, budget in limits}  # public rows ran out
    labels = laplace_vote(
        np.concatenate(counts) / n_partitions,
        scale=1 / beta,
        seed=stream(taught.secret, 1),
    )
    return Run(taught.thirds, labels, taught.student_seed, stops)


def other_answer(gap: Any, beta: float) -> Any:
    """Equation 2 of the supplement for two classes: probability that the class behind
    by ``gap`` votes wins.
    """
    return (2 + beta * gap) / (4 * np.exp(beta * gap))


def conjectured_moments(order: Any, *, beta: float, m: Any, q: Any) -> Any:
    """Equation 3 of the supplement: bound on the log-moment of one vote, by the
    probability q that the likeliest class loses; infinite where it is not defined.

    Per-instance, and of one direction.
    """
    level = 2 * beta * m
    kept = np.log1p(-q)
    with np.errstate(invalid="ignore", divide="ignore"):
        likely = kept + order * (kept - np.log1p(-q * np.exp(level)))
    bound = np.logaddexp(likely, np.log(q) + order * level)
    return np.where(q * np.exp(level) < 1, bound, np.inf)


@lru_cache(maxsize=1)  # rows of a grid that share teachers follow each other
def least_labels(
    setting: Setting,
    epsilons: tuple[float, ...],
    delta: float,
) -> dict[float, int]:
    """Count the labels of one run at which each epsilon is reached, if a query costs a
    record at each order the smaller of Theorem 4 and :func:`conjectured_moments`.
    """
    taught = _taught(setting)
    n_teachers = setting.n_teachers
    n_partitions = setting.n_partitions
    beta = 2 / n_teachers
    models = n_teachers * n_partitions
    # m of a record by how many of its models vote for class 1
    ones = np.arange(n_partitions + 1)
    m = np.maximum(ones, n_partitions - ones)[:, None] / n_partitions
    by_theorem = personalised_moments(ORDERS, inverse_scale=beta, m=m)
    paid = np.zeros((len(taught.membership), len(ORDERS)))
    found: dict[float, int] = {}
    left = sorted(epsilons)
    for start, votes in _votes(taught):
        by_partition = votes.reshape(n_partitions, n_teachers, -1)
        own = np.zeros((votes.shape[1], len(paid)), dtype=np.int32)
        for models_of, teacher in zip(by_partition, taught.membership.T, strict=True):
            own += models_of[teacher].T
        gaps = np.abs(2 * np.count_nonzero(votes, axis=0) - models) / n_partitions
        for query, gap in enumerate(gaps.tolist()):
            q = other_answer(gap, beta)
            conjectured = conjectured_moments(ORDERS, beta=beta, m=m, q=q)
            paid += np.minimum(by_theorem, conjectured)[own[query]]
            spent = ((paid.max(axis=0) - np.log(delta)) / ORDERS).min()
            # the label that reaches the budget counts, as in the paper's loop
            while left and spent >= left[0]:
                found[left.pop(0)] = start + query + 1
            if not left:
                return found
    return found | dict.fromkeys(left, len(taught.thirds.public.y))


def student(teachers: str, X: Floats, labels: Codes, seed: int, **settings: Any) -> Any:
    """Train a student on labelled rows: if all labels agree, it predicts them;
    without labels it predicts class 0.
    """
    from sklearn.dummy import DummyClassifier

    # scikit-learn's learners refuse one class
    if len(np.unique(labels)) < 2:
        return DummyClassifier().fit([[0.0]], labels[:1] if len(labels) else [0])
    return learner(teachers, **settings).set_params(random_state=seed).fit(X, labels)


def scores(model: Any, test: Labelled) -> dict[str, float]:
    """Compute accuracy, AUROC and AUPRC of a student; a constant student gives all
    rows the same score.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    # a constant student has one column
    score = model.predict_proba(test.X)[:, -1]
    return {
        "accuracy": float(np.mean(model.predict(test.X) == test.y)),
        "auroc": float(roc_auc_score(test.y, score)),
        "auprc": float(average_precision_score(test.y, score)),
    }
