"""Tables of the head-to-head, of rows whose answers are known."""

import pandas as pd
import pytest

from dpnotes.lab.head_to_head import tables


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ((0.001, 0.002, 0.003), "holds"),
        ((0.1, 0.11, 0.12), "reversed"),
        ((0.0, 0.0, 0.5), "undecided"),
    ],
)
def test_regret_is_a_mean_over_data_sets(gaps, expected):
    common = {"best": "DPSGD", "hindsight": "ClassMeans"}
    # what the best in hindsight, found on other cuts, is behind the highest mean is no
    # regret
    rows = [
        {
            **common,
            "dataset": place,
            "behind_chosen": gap + 0.01,
            "behind_ClassMeans": 0.01,
        }
        for place, gap in enumerate(gaps)
        for _ in range(1 + place)  # tasks that are made of a set share its weight
    ]
    (found,) = tables.regrets(pd.DataFrame(rows), ["chosen"]).itertuples()
    assert (found.sets, found.verdict) == (3, expected)
    assert found.regret == pytest.approx(sum(gaps) / 3)
    assert found.low <= found.regret <= found.high


@pytest.mark.parametrize(
    ("ahead", "error", "found"),
    [(0.05, 0.01, "holds"), (-0.05, 0.01, "reversed"), (0.0, 0.05, "undecided")],
)
def test_ours_may_not_be_behind_the_best_of_others(ahead, error, found):
    cells = {
        "dataset": "wine",
        "epsilon": 1.0,
        "delta": 0.0,
        "ours": "ClassMeans",
        "theirs": "another",
        "accuracy_ours": 0.9,
        "accuracy_theirs": 0.9 - ahead,
        "ahead": ahead,
        "error": error,
        "repeats": 15,
    }
    rows = pd.DataFrame([cells, {"ours": None}])
    (line,) = tables.beside_others(rows).to_dict("records")
    assert line["verdict"] == found
    assert line["low"] < ahead < line["high"]
