"""Beyond the paper's tables: sound variants at equal budgets, who pays, and labels by better accounting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.dpbag.runs import SHARES, quantile_names
from dpnotes.lab.dpbag.tables import DELTAS

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


def sound(rows: pd.DataFrame, filters: pd.DataFrame) -> pd.DataFrame:
    """Variants at equal (epsilon, 1e-5), for each number of teachers: labels, their quality, and the student's.

    Columns: variant, guarantee, n_teachers, k, epsilon, labels, label_accuracy, accuracy, auroc, auprc (means over
    seeds) and "<metric> spread". Variants of many partitions are shown at the most partitions there are.
    """
    keys = ["variant", "guarantee", "n_teachers", "k", "epsilon"]
    metrics = ["labels", "label_accuracy", "accuracy", "auroc", "auprc"]
    most = int(rows["n_partitions"].max())
    ours = rows[(rows["delta"] == DELTAS["stated"]) & rows["n_partitions"].isin([1, most])]
    many = ours["n_partitions"] > 1
    kinds = {
        "SAA, the paper's accounting": (ours["accountant"] == "naive") & ~many,
        "DPBag, personalised": (ours["accountant"] == "personalised") & many,
        "SAA, tight": (ours["accountant"] == "tight") & ~many,
        "many partitions, tight": (ours["accountant"] == "tight") & many,
    }
    parts = [ours[chosen].assign(variant=name) for name, chosen in kinds.items()]
    names = [
        "filter: votes on all" if confidence == 0 else f"filter: {confidence:g} sure, votes on {share:g}"
        for confidence, share in zip(filters["confidence"], filters["share"], strict=True)
    ]
    parts.append(filters.assign(variant=names))
    every = pd.concat(parts, ignore_index=True).rename(columns={"n_partitions": "k", "status": "guarantee"})
    for metric in set(metrics) - set(every.columns):
        every[metric] = np.nan
    every = every.dropna(subset=["accuracy"]).astype(dict.fromkeys(["n_teachers", "k", "epsilon", *metrics], float))
    every["guarantee"] = every["guarantee"].astype(str)
    groups = every.groupby(keys, sort=False)[metrics]
    table = groups.mean().join(groups.std().add_suffix(" spread")).reset_index()
    rank = {name: i for i, name in enumerate(dict.fromkeys(table["variant"]))}
    table = table.assign(rank=table["variant"].map(rank)).sort_values(["n_teachers", "epsilon", "rank", "k"])
    return table.drop(columns="rank").reset_index(drop=True)


def sound_view(table: pd.DataFrame, *, caption: str) -> Styler:
    """A table of :func:`sound` as the chapter shows it."""

    def each(metric: str) -> list[str]:
        pairs = zip(table[metric], table[f"{metric} spread"], strict=True)
        return [f"{m:.3f}" + ("" if np.isnan(s) else f"{tables.PLUS_MINUS}{s:.3f}") for m, s in pairs]

    shown = pd.DataFrame(
        {
            "variant": table["variant"],
            "guarantee": table["guarantee"].replace("per-instance", "none"),
            "n": table["n_teachers"].map("{:.0f}".format),
            "k": table["k"].map("{:.0f}".format),
            "epsilon": table["epsilon"].map("{:g}".format),
            "labels": table["labels"],
            "label_accuracy": table["label_accuracy"],
            "accuracy": each("accuracy"),
            "auroc": each("auroc"),
        }
    )
    return tables.show(
        shown,
        caption=caption,
        formats={"labels": "{:.0f}", "label_accuracy": "{:.1%}"},
        names={"label_accuracy": "right", "auroc": "AUROC"},
    )


def partitions_effect(rows: pd.DataFrame) -> pd.DataFrame:
    """What the most partitions add to one, at the same budget, labels and noise: runs paired by seed.

    Columns: n_teachers, epsilon, labels; right (share of labels that are right with one partition); "many more" and
    "AUROC, many more" (mean difference, percentage points); "error" and "AUROC, error" (standard errors over seeds).
    """
    keys = ["n_teachers", "epsilon", "seed"]
    tight = rows[(rows["accountant"] == "tight") & (rows["delta"] == DELTAS["stated"])]
    metrics = ["labels", "label_accuracy", "auroc"]
    tight = tight.reindex(columns=[*keys, "n_partitions", *metrics]).astype(float).dropna()
    one, many = (tight[tight["n_partitions"] == k] for k in (1, tight["n_partitions"].max()))
    both = one.merge(many, on=keys, suffixes=("", " of many"))
    gains = both[keys[:2]].assign(
        labels=both["labels"],
        right=both["label_accuracy"],
        gain=100 * (both["label_accuracy of many"] - both["label_accuracy"]),
        auroc=100 * (both["auroc of many"] - both["auroc"]),
    )
    table = gains.groupby(keys[:2]).agg(
        labels=("labels", "mean"), right=("right", "mean"), more=("gain", "mean"), error=("gain", "sem"),
        auroc=("auroc", "mean"), auroc_error=("auroc", "sem"),
    )  # fmt: skip
    names = {"more": "many more", "auroc": "AUROC, many more", "auroc_error": "AUROC, error"}
    table = table.rename(columns=names).reset_index()
    return table.assign(n_teachers=table["n_teachers"].astype(int))


def paid(rows: pd.DataFrame) -> pd.DataFrame:
    """Epsilon of the private records when the personalised accountant stops, as a share of the largest one.

    One row for each n_teachers, n_partitions and epsilon at delta = 1e-5; the other columns are quantiles over records,
    means over seeds.
    """
    ours = rows[(rows["accountant"] == "personalised") & (rows["delta"] == DELTAS["stated"])]
    keys, names = ["n_teachers", "n_partitions", "epsilon"], list(quantile_names())
    numbers = ours.reindex(columns=[*keys, "epsilon_spent", *names]).astype(float).dropna()
    shares = pd.DataFrame(
        {share: numbers[name] / numbers["epsilon_spent"] for share, name in zip(SHARES, names, strict=True)}
    )
    return pd.concat([numbers[keys], shares], axis=1).groupby(keys).mean().reset_index()


class _FixedVotes:
    """A learner whose model of a set of records votes as a table says, whatever it is asked."""

    def __init__(self, votes: dict[str, int]) -> None:
        self.votes_of = votes

    def fit_many(self, X: Any, codes: Any, subsets: Any, *, n_classes: int, seed: int) -> Any:
        names = ["".join(chr(ord("a") + int(record)) for record in X[rows, 0]) for rows in subsets]
        given = np.array([self.votes_of[name] for name in names])
        return SimpleNamespace(votes=lambda queries: np.repeat(given[:, None], len(queries), axis=1))


def counterexample() -> pd.DataFrame:
    """Run :class:`dpnotes.methods.DPBag` on the records a, b, c, d, and on the same with a record e.

    Two partitions, {ab | cd} and {ac | bd}; e joins ab and ac. The learner votes 1 on ab and cd, else 0. Noise 0.04,
    budget (1, 1e-5). Columns: records, labels, epsilon spent.
    """
    from sklearn.linear_model import LogisticRegression

    from dpnotes.methods import DPBag

    learner = _FixedVotes({"ab": 1, "cd": 1, "ac": 0, "bd": 0, "abe": 0, "ace": 0})
    chunks = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]])  # of a to e, and of a sixth
    found = []
    for n in (4, 5):
        model = DPBag(
            learner, n_teachers=2, n_partitions=2, noise=0.04, epsilon=1.0, delta=1e-5, student=LogisticRegression(),
            device="cpu", random_state=0,
        ).fit(np.arange(n)[:, None], np.arange(n) % 2, public=np.zeros((60, 1)), chunks=chunks[: n + 1])  # fmt: skip
        found.append({"records": ", ".join("abcde"[:n]), "labels": model.n_labels_, "epsilon": model.epsilon_spent_})
    return pd.DataFrame(found)


def counts(teachers: tuple[int, ...] = (50, 100, 150, 250)) -> pd.DataFrame:
    """Labels of subsample-and-aggregate at lambda = 2 / n: published, by the paper's loop at both deltas, and tight.

    Columns: n, epsilon, published, loop 1e-3, loop 1e-5, tight 1e-5 (bounded range), gain (tight over the most that the
    paper's own bound allows, one label less than its loop).
    """
    table = paper_table("dpbag_labels").query("method == 'SAA'").sort_values("table", ascending=False)
    cells = zip(table["n_teachers"], table["epsilon"], table["value"], strict=True)
    values = {(int(n), float(epsilon)): int(value) for n, epsilon, value in cells}  # of the first table that has it
    rows: list[dict[str, Any]] = []
    for n in teachers:
        for epsilon in (1.0, 3.0, 5.0):
            loop = {
                delta: accounting.noisy_vote_answers(epsilon, delta, noise=2 / n, analysis="published")
                for delta in DELTAS.values()
            }
            tight = accounting.noisy_vote_answers(epsilon, 1e-5, noise=2 / n)
            rows.append(
                {
                    "n": n,
                    "epsilon": epsilon,
                    "published": values[n, epsilon],
                    "loop 1e-3": loop[1e-3],
                    "loop 1e-5": loop[1e-5],
                    "tight 1e-5": tight,
                    "gain": tight / (loop[1e-5] - 1),
                }
            )
    return pd.DataFrame(rows)
