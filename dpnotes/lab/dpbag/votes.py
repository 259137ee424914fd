"""The example that refutes Theorem 6, run by the estimator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab.tables import Column, Table

# of a chunk's model, on every question
VOTES = {"ab": 1, "cd": 1, "ac": 0, "bd": 0, "abe": 0, "ace": 0}


class _FixedVotes:
    """A learner whose model of a chunk gives the votes of the example, whatever it
    is asked.
    """

    def fit_many(
        self, X: Any, codes: Any, subsets: Any, *, n_classes: int, seed: int
    ) -> Any:
        votes = []
        for rows in subsets:
            # the model is named by the records that it was given
            chunk = "".join("abcde"[int(record)] for record in X[rows, 0])
            votes.append(VOTES[chunk])
        given = np.array(votes)
        return SimpleNamespace(
            votes=lambda queries: np.repeat(given[:, None], len(queries), axis=1)
        )


def counterexample() -> pd.DataFrame:
    """Run :class:`dpnotes.methods.DPBag` on the records a, b, c, d of the example, and
    on the same with a record e.

    The noise has inverse scale 0.04, and the budget is (1, 1e-5). The columns are
    records, labels and epsilon (spent).
    """
    from sklearn.linear_model import LogisticRegression

    from dpnotes.methods import DPBag

    # of a to e, and of a sixth
    chunks = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]])
    found = []
    for n in (4, 5):
        model = DPBag(
            estimator=_FixedVotes(),
            n_models=2,
            n_partitions=2,
            inverse_scale=0.04,
            epsilon=1.0,
            delta=1e-5,
            student=LogisticRegression(),
            device="cpu",
            noise_seed=0,
            accountant="personalised",
        ).fit(
            np.arange(n)[:, None],
            np.arange(n) % 2,
            public=np.zeros((60, 1)),
            chunks=chunks[: n + 1],
        )
        found.append(
            {
                "records": ", ".join("abcde"[:n]),
                "labels": model.n_labels_,
                "epsilon": model.epsilon_spent_,
            }
        )
    return pd.DataFrame(found)


COUNTEREXAMPLE = Table(
    "Algorithm 1 on two neighbouring data sets, with noise of inverse scale 0.04 and"
    " the budget (1, 0.00001).",
    (
        "records",
        Column("labels", "labels given out"),
        Column("epsilon", "epsilon by the personalised account"),
    ),
)
