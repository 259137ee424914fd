"""Tuning within one budget: what is chosen, what it guarantees, an audit of it, and
what is refused.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import dpnotes
from dpnotes import PATE, ClassMeans, RandomTrees, tuned
from dpnotes.accounting import audit_epsilon
from dpnotes.comparing import _selection
from dpnotes.preprocessing import PublicScaler

LABELS = ["no", "yes"]


def table(n):
    X = np.random.default_rng(0).uniform(0, 1, (n, 4))
    return (
        pd.DataFrame(X, columns=list("abcd")),
        np.array(LABELS)[(X[:, 0] > 0.5).astype(int)],
    )


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_useful_setting_is_chosen_and_paid_for(delta):
    X, y = table(3000)
    model = make_pipeline(
        PublicScaler(0, 1), RandomTrees(1.0, n_trees=8, classes=LABELS, noise_seed=1)
    )
    found = tuned(
        model,
        {"randomtrees__bounds": [(5, 6), (-1, 1)]},
        X,
        y,
        epsilon=3.0,
        delta=delta,
    )
    last = found[-1]
    assert (last.bounds, last.epsilon, last.delta, model[-1].epsilon) == (
        (-1, 1),
        pytest.approx(2.4),
        delta,
        1.0,
    )
    assert last.profile_.epsilon(delta) == pytest.approx(3.0, rel=1e-9)
    assert found.score(X, y) > 0.8
    stated = last.publish().statement_()
    assert stated.content["process"]["tuning"].endswith("epsilon 0.6, counted.")
    stated.verify()
    assert (
        "spends epsilon again"
        in last.fit(X, y).statement_().content["process"]["tuning"]
    )


@pytest.mark.parametrize(
    ("model", "grid", "message"),
    [
        (LogisticRegression(), {}, "estimator must be private"),
        (
            ClassMeans(1.0, adjacency="add-remove"),
            {"norm": [1.0]},
            "adjacency must be one of 'zero-out', 'replace-one'",
        ),
        (
            ClassMeans(1.0),
            {"delta": [0.1]},
            r"grid must name tunable parameters of ClassMeans, got \['delta'\]",
        ),
        (ClassMeans(1.0), {"norm": [0.0]}, "norm must be > 0"),
        (PATE(), {"n_models": [2]}, "public must hold the unlabelled rows"),
        (
            dpnotes.DPBag(accountant="naive"),
            {"n_partitions": [1]},
            "public must hold the unlabelled rows",
        ),
        (
            RandomTrees(1.0),
            {"depth": [1, 2]},
            "epsilon must be larger to choose among 2 settings with 300 records",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_a_record_is_looked_at(
    model, grid, message
):
    with pytest.raises((TypeError, ValueError), match=message):
        tuned(model, grid, *table(300), epsilon=0.5, delta=1e-5)


def test_an_audit_refutes_the_choice_only_if_its_vote_has_too_little_noise(monkeypatch):
    """One record among empty ones, or none: the settings that 200 runs choose, by
    chance wrong once in 1,000.
    """
    monkeypatch.setattr(_selection, "blocks_for", lambda *public: 10)
    model, claimed, refuted = (
        ClassMeans(1.0, classes=[0, 1]),
        _selection.soft_vote_beta,
        [],
    )
    for factor in (1, 40):
        monkeypatch.setattr(
            _selection,
            "soft_vote_beta",
            lambda *given, f=factor, **asked: f * claimed(*given, **asked),
        )
        firsts = [
            sum(
                tuned(
                    model, {"norm": [1.0, 2.0]}, np.ones((60, 1)), labels, epsilon=1.0
                ).norm
                == 1
                for _ in range(200)
            )
            for labels in ([0] + [2] * 59, [2] * 60)
        ]
        counts = {
            "true_positives": firsts[0],
            "positives": 200,
            "false_positives": firsts[1],
            "negatives": 200,
        }
        refuted.append(audit_epsilon(**counts, delta=0.0, confidence=0.999) > 0.2)
    assert refuted == [False, True]
