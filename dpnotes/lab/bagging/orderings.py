"""The ordering claims of the bagging paper against our rows, by the one rule of :mod:`dpnotes.lab.verdicts`."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from dpnotes.lab.bagging.means import gaps, judged, mean, shown, steps
from dpnotes.lab.tables import Table
from dpnotes.lab.verdicts import NEGLIGIBLE, NOBODY, Borrowed, Mean, Question, level, not_behind

STATEMENTS = {
    "2a_above_dp_sgd": "Table 2a: bagging is above DP-SGD with the paper's noise",
    "2a_above_least": "the same, DP-SGD with the least noise of the pair",
    "2a_as_far": "and as far above it as published",
    "2a_grows": "Table 2a: accuracy grows with k",
    "3a_above_dp_sgd": "Table 3a: bagging is above DP-SGD with the paper's noise",
    "3a_above_least": "the same, DP-SGD with the least noise of the pair",
    "3a_above_pate": "Table 3a: bagging is above PATE",
    "3a_above_logistic": "the same, PATE with logistic teachers",
    "mnist_public_is_no_gain": "Tables 2a, 3a: the public model does not help bagging",
    "figure1_falls": "Figure 1, MNIST: accuracy falls with N at fixed N k",
    "figure2_equal": "Figure 2, MNIST: with or without replacement is negligible",
    "2b_above_dp_sgd": "Table 2b: bagging is above DP-SGD with the paper's noise",
    "2b_above_least": "the same, DP-SGD with the least noise of the pair",
    "2b_grows": "Table 2b: accuracy grows with k",
    "3b_above_dp_sgd": "Table 3b: bagging is above DP-SGD with the paper's noise",
    "3b_above_pate": "Table 3b: bagging is above PATE",
    "cifar10_public_helps": "Tables 2b, 3b: the public model helps bagging",
}
REDUCED_STATEMENTS = {
    "above_dp_sgd": "from scratch: bagging with k = 5,000 is above DP-SGD with the paper's noise",
    "above_least": "the same, DP-SGD with the least noise",
    "small_above_least": "bagging with k = 1,000 is above DP-SGD with the least noise",
    "tuned_above_dp_sgd": "from CIFAR-100: bagging with k = 5,000 is above DP-SGD with the paper's noise",
    "tuned_above_least": "the same, DP-SGD with the least noise",
    "tuned_small_above_least": "bagging with k = 1,000 is above DP-SGD with the least noise",
    "public_helps_small": "CIFAR-100 helps bagging with k = 1,000",
    "public_helps": "CIFAR-100 helps bagging with k = 5,000",
    "public_helps_least": "CIFAR-100 helps DP-SGD with the least noise",
}
QUESTIONS: dict[str, Callable[[Mean], Question]] = {
    "2a_as_far": not_behind,
    "mnist_public_is_no_gain": not_behind,
    "figure2_equal": lambda difference: level(difference, margin=NEGLIGIBLE),
}


def orderings(
    table2a: pd.DataFrame,
    table3a: pd.DataFrame,
    fixed_draws: pd.DataFrame,
    replacement: pd.DataFrame,
    *,
    table2b: pd.DataFrame,
    table3b: pd.DataFrame,
    noisy: Borrowed = NOBODY,
) -> pd.DataFrame:
    """What the paper says is larger than what, and whether it is so here, in every pair that was run.

    Parameters
    ----------
    table2a, table3a, fixed_draws, replacement, table2b, table3b : DataFrame
        As the functions of :mod:`dpnotes.lab.bagging.tables` give them; ``table2b`` and ``table3b`` as ``cifar10``.
    noisy : Borrowed
        What single runs of DP-SGD borrow. Without it comparisons with them are undecided.

    Returns
    -------
    DataFrame
        As :func:`dpnotes.lab.bagging.means.judged` gives it, for :data:`STATEMENTS`.
    """
    tables = {"2a": table2a, "3a": table3a, "2b": table2b, "3b": table3b}
    bagged = {name: method(table, "bagging") for name, table in tables.items()}
    found: dict[str, list[Mean]] = {}
    for name, table in tables.items():
        others = {"dp_sgd": ("dp_sgd", ""), "least": ("dp_sgd", "least_noise")}
        others |= {"pate": ("pate", ""), "logistic": ("pate", "logistic_teachers")}
        for other, which in others.items():
            found[f"{name}_above_{other}"] = leads(table, *which, to=noisy)
        series = bagged[name].query("seeds > 0").sort_values("subsample").to_dict("records")
        found[f"{name}_grows"] = steps([mean(line) for line in series])
    found["2a_as_far"] = further_than_published(table2a, noisy)
    found["mnist_public_is_no_gain"] = gaps(bagged["2a"], bagged["3a"], on="subsample")
    found["cifar10_public_helps"] = gaps(bagged["3b"], bagged["2b"], on="subsample")
    found["figure1_falls"] = [
        gap * -1.0
        for _, curve in fixed_draws.sort_values("n_models").groupby("drawn")
        for gap in steps([mean(line, "accuracy") for line in curve.to_dict("records")])
    ]
    found["figure2_equal"] = differences(replacement)
    return judged(STATEMENTS, found, QUESTIONS)


def differences(replacement: pd.DataFrame) -> list[Mean]:
    """Accuracy with less accuracy without replacement, at each size of Figure 2."""
    return [
        mean(line, "with_replacement", std="with_std") - mean(line, "without_replacement", std="without_std")
        for line in replacement.to_dict("records")
    ]


def reduced_orderings(table: pd.DataFrame) -> pd.DataFrame:
    """What the rows of the reduced scale say; :func:`dpnotes.lab.bagging.means.judged`, :data:`REDUCED_STATEMENTS`."""
    lines = {
        "small": "method == 'bagging' and subsample == 1000",
        "large": "method == 'bagging' and subsample == 5000",
        "dp_sgd": "method == 'dp_sgd' and variant == ''",
        "least": "variant == 'least_noise'",
    }
    found = {name: table.query(line).to_dict("records") for name, line in lines.items()}

    def gap(upper: tuple[str, str], lower: tuple[str, str]) -> list[Mean]:
        sides = [(line, start) for name, start in (upper, lower) for line in found[name]]
        ran = [line[f"seeds_{start}"] > 0 for line, start in sides]
        if sum(ran) < 2:
            return []
        one, other = (
            mean(line, f"reproduced_{start}", std=f"std_{start}", seeds=f"seeds_{start}") for line, start in sides
        )
        return [one - other]

    scratch, tuned = "scratch", "tuned"
    answers = {
        f"{prefix}{name}": gap((size, start), (other, start))
        for prefix, start in (("", scratch), ("tuned_", tuned))
        for name, size, other in (
            ("above_dp_sgd", "large", "dp_sgd"),
            ("above_least", "large", "least"),
            ("small_above_least", "small", "least"),
        )
    }
    for name, who in (("public_helps_small", "small"), ("public_helps", "large"), ("public_helps_least", "least")):
        answers[name] = gap((who, tuned), (who, scratch))
    return judged(REDUCED_STATEMENTS, answers)


def method(table: pd.DataFrame, name: str, variant: str = "") -> pd.DataFrame:
    """Lines of a table that are of one method."""
    return table[(table["method"] == name) & (table["variant"] == variant)]


def leads(table: pd.DataFrame, other: str, variant: str = "", *, to: Borrowed = NOBODY) -> list[Mean]:
    """Accuracy of bagging less that of another method, at each pair of the table for which both were run."""
    return gaps(method(table, "bagging").dropna(subset=["block"]), method(table, other, variant), on="block", to=to)


def further_than_published(table2a: pd.DataFrame, noisy: Borrowed) -> list[Mean]:
    """Our distance between bagging and DP-SGD with the least noise, less the printed distance, at each pair."""
    bagged, given = (method(table2a, name).dropna(subset=["block"]) for name in ("bagging", "dp_sgd"))
    printed = bagged.merge(given, on="block", suffixes=("", "_given"))
    distances: list[float] = (printed["published"] - printed["published_given"]).tolist()
    ours = leads(table2a, "dp_sgd", "least_noise", to=noisy)
    return [gap - far for gap, far in zip(ours, distances, strict=True)] if len(ours) == len(distances) else []


ORDERINGS = Table("Ordering claims of the paper against our rows, by the one rule.", shown(STATEMENTS))
REDUCED_ORDERINGS = Table("What the reduced scale says, by the same rule.", shown(REDUCED_STATEMENTS))
