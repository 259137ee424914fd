"""Grids of Figures 1 to 6: which settings of which methods each of them shows."""

from __future__ import annotations

from itertools import product
from typing import Any

from dpnotes.lab._experiment import Grid, once, product as rows_of

NAMES = {
    "model_sensitivity": "model sensitivity",
    "loss_perturbation": "loss perturbation",
    "dp_sgd": "DP-SGD",
    "prediction_sensitivity": "prediction sensitivity",
    "subsample_aggregate": "subsample and aggregate",
}
METHODS = tuple(NAMES)
# what they release grows with the number of answers
ANSWERING = ("prediction_sensitivity", "subsample_aggregate")
ANALYSES = ("tight", "published")
EPSILONS = {0.0: (0.1, 0.25, 0.5, 1.0, 2.0, 5.0), 1e-5: (0.05, 0.1, 0.25, 0.5, 1.0)}
# dense near 80, where the paper's curves cross
BUDGETS = (1, 2, 5, 10, 20, 40, 60, 80, 100, 150, 200, 300, 500, 1000)
DELTAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2)  # and 1e-5, which Figure 1 has
# and 60,000, as above
RECORDS = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DIMENSIONS = (5, 10, 20, 50, 100, 200, 400)  # and 784
CLASSES = (2, 4, 6, 8)  # and 10
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 5e-1)
# Of the published constants: what takes a minute a point or less, and the million records
# on which three sentences about Figure 4 turn.
SIZED: dict[str, dict[str, tuple[int, ...]]] = {
    "tight": {"n_classes": CLASSES, "d": DIMENSIONS, "n": RECORDS},
    "published": {"n_classes": (2, 4), "d": (10, 20), "n": (1000, 10_000, 1_000_000)},
}
SETTING_EPSILONS = (0.5, 1.0, 5.0)
# The paper prints no range. The last two were added, before their rows were computed, for
# its sentence on very large numbers: models of 14 and of 7 records.
MODELS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
N_MODELS = 256
CLIPPING_NORMS = (0.03, 0.1, 0.3, 1.0)  # candidates of Figure 7
# of Figure 7's DP-SGD: the best of the candidates, once their rows are published
CLIPPING_NORM = 0.1
VOTERS = 16  # networks of Figure 7's votes
# The paper has 500 and 100. These were chosen, before any network was trained, for what
# fifteen minutes of a GPU have room for.
NETWORK_EPOCHS = 100
DP_SGD_EPOCHS = 30
# each of theirs is a fit; of the others 100, as in the paper
REPEATS = {"loss_perturbation": 20, "dp_sgd": 20}
FEW = {"subsample_aggregate": {"n_models": 30, "repeats": 20}}  # of small data sets
ONCE = {"repeats": 5}
FEW_EPSILONS = (1.0, 5.0, 20.0)
# where each point needs models of its own
PARTITIONED = {"subsample_aggregate": {"repeats": 30}}


def repeats_in_words() -> str:
    """How often each method is released for a point."""
    few = ", ".join(f"{count} for {NAMES[method]}" for method, count in REPEATS.items())
    own = PARTITIONED["subsample_aggregate"]["repeats"]
    return (
        f"100 releases ({few}, and {own} for votes where each point needs its own"
        " models)"
    )


def points(
    method: str, *, epsilon: Any, delta: Any, answers: Any = 100, **changed: Any
) -> Grid:
    """Points of a method at a value, or at each of several values, of each parameter.

    What a method does not depend on is None, so that figures share their points.
    """
    # a released model answers any number
    asked = answers if method in ANSWERING else None
    parameters: dict[str, Any] = {
        "method": method,
        "dataset": "mnist",
        "epsilon": epsilon,
        "delta": delta,
        "answers": asked,
        "analysis": "tight",
        "n": None,
        "d": None,
        "n_classes": None,
        "l2": None,
        "n_models": N_MODELS if method == "subsample_aggregate" else None,
        "seed": 0,
        "repeats": REPEATS.get(method, 100),
    }
    return rows_of(**{**parameters, **changed})


def methods_at(delta: float) -> tuple[str, ...]:
    """Those that can give this delta."""
    return tuple(method for method in METHODS if delta > 0 or method != "dp_sgd")


def privacy() -> Grid:
    """Figure 1: epsilon varied at 100 answers; delta 0 and 1e-5."""
    rows: Grid = []
    for (delta, epsilons), analysis in product(EPSILONS.items(), ANALYSES):
        for method in methods_at(delta):
            rows += points(method, epsilon=epsilons, delta=delta, analysis=analysis)
    return rows


def budget() -> Grid:
    """Figure 2: the number of answers varied at epsilon = 1; the methods of private
    training are in Figure 1.
    """
    rows: Grid = []
    for delta, analysis, method in product(EPSILONS, ANALYSES, ANSWERING):
        asked = {"answers": BUDGETS, "analysis": analysis}
        rows += points(method, epsilon=1.0, delta=delta, **asked)
    return rows


def failure() -> Grid:
    """Figure 3: delta varied at epsilon = 1 and 100 answers."""
    rows: Grid = []
    for analysis, method in product(ANALYSES, METHODS):
        rows += points(method, epsilon=1.0, delta=DELTAS, analysis=analysis)
    return rows


def size() -> Grid:
    """Figures 4, 5a and 5b: training rows, principal axes and classes varied, at (1,
    0) and 100 answers.
    """
    rows: Grid = []
    for analysis, varied in SIZED.items():
        for (name, values), method in product(varied.items(), methods_at(0.0)):
            # votes need new models at each size
            own: dict[str, Any] = {**PARTITIONED.get(method, {}), name: values}
            rows += points(method, epsilon=1.0, delta=0.0, analysis=analysis, **own)
    return rows


def setting() -> Grid:
    """Figure 6: lambda of loss perturbation and the number of models of
    subsample-and-aggregate, delta = 0.
    """
    vote = "subsample_aggregate"
    loss = "loss_perturbation"
    few = PARTITIONED["subsample_aggregate"]
    tight: Grid = []
    at = {"epsilon": SETTING_EPSILONS, "delta": 0.0}
    # one number of models after the other, as all epsilons share their votes
    for models in MODELS:
        tight += points(vote, **at, n_models=models, **few)
    tight += points(loss, **at, l2=PENALTIES)
    published = [row for row in tight if row["l2"] != PENALTIES[0]]
    return tight + rows_of(published, analysis="published")


def bias() -> Grid:
    """Points of Figures 1, 2 and 4 to 6 at delta = 0 with the paper's constants, with a
    bias as in the authors' code; votes have one in all rows.
    """
    rows: Grid = []
    for grid in (privacy, budget, size, setting):
        for row in grid():
            theirs = row["analysis"] == "published" and not row["delta"]
            if theirs and row["method"] != "subsample_aggregate":
                rows.append({**row, "analysis": "in_code"})
    # figures share points
    return once(rows)


def quick(dataset: str = "digits") -> Grid:
    """Figure 1 on scikit-learn's digits; of DP-SGD, a row of which takes seconds, one
    point by the published analysis.

    The tight accounting of DP-SGD takes seconds a point by itself.
    """
    rows: Grid = []
    for delta, analysis in product(EPSILONS, ANALYSES):
        for row in _small(dataset, delta):
            row["analysis"] = analysis
            one = analysis == "published" and row["epsilon"] == 5.0
            # half a minute for all of the quick scale
            if row["method"] != "dp_sgd" or one:
                rows.append(row)
    return rows


def own(dataset: str) -> Grid:
    """Figure 1 on a reader's file, by sound noise alone; see
    :func:`dpnotes.lab.own_data.reference`.
    """
    return [row for delta in EPSILONS for row in _small(dataset, delta)]


def _small(dataset: str, delta: float) -> Grid:
    """Each method at a few epsilons and fewer repeats, on a small data set."""
    rows: Grid = []
    for method in methods_at(delta):
        own: dict[str, Any] = {"dataset": dataset, **FEW.get(method, ONCE)}
        rows += points(method, epsilon=FEW_EPSILONS, delta=delta, **own)
    return rows


def times() -> Grid:
    """Times of the qualitative table: one hyperparameter varied at a time, five
    seeds each.
    """
    base: dict[str, Any] = {
        "n": 6000,
        "d": 784,
        "n_classes": 10,
        "answers": 1000,
        "n_models": 64,
        "l2": 1e-2,
    }
    released = ("loss_perturbation", "loss_perturbation_in_code")
    voted = ("subsample_aggregate", "subsample_aggregate_in_code")
    # constant factors between neighbours, so that a trend shows
    varied: list[tuple[str, tuple[float, ...], tuple[str, ...]]] = [
        ("n", (3000, 6000, 12_000, 24_000), released + voted),
        ("d", (98, 196, 392, 784), released + voted),
        ("n_classes", (2, 4, 8), released + voted),
        ("answers", (10, 100, 1000), voted),
        ("n_models", (16, 32, 64, 128), voted),
        ("l2", (1e-3, 1e-2, 1e-1), released),
    ]
    rows: Grid = []
    for name, values, methods in varied:
        own: dict[str, Any] = {"method": methods, "varied": name, **base, name: values}
        rows += rows_of(**own, seed=range(5))
    return rows


def networks() -> Grid:
    """Figure 7: epsilon varied at 10 answers, the number of answers at epsilon = 1,
    and one network without privacy.
    """
    epsilons = (0.5, 1.0, 2.0, 5.0)
    budgets = (1, 2, 5, 20, 50, 100)
    asked: list[tuple[str, float | None, int | None]] = [
        ("non_private", None, None),
        *(("dp_sgd", epsilon, None) for epsilon in epsilons),
        *(("subsample_aggregate", epsilon, 10) for epsilon in epsilons),
        *(("subsample_aggregate", 1.0, answers) for answers in budgets),
    ]
    rows: Grid = [
        {"method": m, "epsilon": e, "answers": b, "dataset": "cifar10", "seed": 0}
        for m, e, b in asked
    ]
    for row in rows:
        # only DP-SGD clips, and its epochs cost privacy
        private = row["method"] == "dp_sgd"
        row["clipping_norm"] = CLIPPING_NORM if private else None
        row["epochs"] = DP_SGD_EPOCHS if private else NETWORK_EPOCHS
    return rows


def vote_networks(
    dataset: str = "cifar10", seed: int = 0, epochs: int = NETWORK_EPOCHS
) -> Grid:
    """The networks of Figure 7's votes, which all epsilons and numbers of answers
    share.
    """
    shared = {"dataset": dataset, "n_models": VOTERS, "epochs": epochs, "seed": seed}
    return rows_of(**shared, model=range(VOTERS))


def network_settings() -> Grid:
    """Candidates for the clipping norm of Figure 7's DP-SGD, with the noise of
    epsilon = 1, on held-out rows.
    """
    return rows_of(
        dataset="cifar10",
        clipping_norm=CLIPPING_NORMS,
        epsilon=1.0,
        epochs=10,
        whole_epochs=DP_SGD_EPOCHS,
        seed=range(3),
    )


GRIDS = {
    "privacy": privacy,
    "budget": budget,
    "delta": failure,
    "size": size,
    "setting": setting,
}
