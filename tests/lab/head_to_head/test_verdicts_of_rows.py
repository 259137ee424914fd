"""Verdicts of the head-to-head, from rows whose answers are known."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.comparing import OURS
from dpnotes.lab.head_to_head import tables
from dpnotes.lab.head_to_head.experiments import NO_PRIVACY, column

UNSUITED = {"PATE", "DPBag", NO_PRIVACY}  # need public rows, or have no guarantee


def row(gap, error):
    cells = {"behind_ClassMeans": 0.0, "error_ClassMeans": 0.0, "behind_DPSGD": gap, "error_DPSGD": error}
    return {"best": "ClassMeans", "repeats": 5, **cells}


def test_every_method_that_can_be_compared_has_one_family():
    assert set(tables.FAMILY) == {candidate.name for candidate in OURS} - UNSUITED
    assert sum(map(len, tables.FAMILIES.values())) == len(tables.FAMILY)


@pytest.mark.parametrize(
    ("gap", "error", "choice"),
    [(0.1, 0.01, "class means"), (0.02, 0.01, "undecided"), (0.0, 0.0001, "tie")],
)
def test_a_family_is_the_right_choice_only_where_it_is_ahead(gap, error, choice):
    found = tables.right_choice(pd.DataFrame([row(gap, error), {"best": None, "repeats": 5}]))
    assert found["choice"].tolist() == [choice]
    assert found["family"].tolist() == ["class means"]
    assert (found["left"].tolist() == [1]) == (choice == "class means")


def test_two_methods_of_one_family_do_not_undo_it():
    both = {"behind_NoisySGD": 0.0, "error_NoisySGD": 0.0, "behind_AugmentedSGD": 0.001, "error_AugmentedSGD": 0.05}
    cells = {"best": "NoisySGD", "repeats": 5, **both, "behind_DPSGD": 0.2, "error_DPSGD": 0.01}
    assert tables.right_choice(pd.DataFrame([cells]))["choice"].tolist() == ["noisy SGD"]


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [((0.001, 0.002, 0.003), "holds"), ((0.1, 0.11, 0.12), "reversed"), ((0.0, 0.0, 0.5), "undecided")],
)
def test_regret_is_a_mean_over_data_sets(gaps, expected):
    common = {"best": "DPSGD", "hindsight": "ClassMeans"}
    rows = [  # what the best in hindsight, found on other cuts, is behind the highest mean is no regret
        {**common, "dataset": place, "behind_chosen": gap + 0.01, "behind_ClassMeans": 0.01}
        for place, gap in enumerate(gaps)
        for _ in range(1 + place)  # tasks that are made of a set share its weight
    ]
    (found,) = tables.regrets(pd.DataFrame(rows), ["chosen"]).itertuples()
    assert (found.sets, found.verdict) == (3, expected)
    assert found.regret == pytest.approx(sum(gaps) / 3)
    assert found.low <= found.regret <= found.high
    ahead = tables.ahead_of(pd.DataFrame(rows).assign(behind_other=0.0), "chosen", "other")
    assert ahead.value == pytest.approx(-0.01 - sum(gaps) / 3)


@pytest.mark.parametrize(
    ("ahead", "error", "found"), [(0.05, 0.01, "holds"), (-0.05, 0.01, "reversed"), (0.0, 0.05, "undecided")]
)
def test_ours_may_not_be_behind_the_best_of_others(ahead, error, found):
    cells = {"dataset": "wine", "epsilon": 1.0, "delta": 0.0, "ours": "ClassMeans", "theirs": "another"}
    both = {"accuracy_ours": 0.9, "accuracy_theirs": 0.9 - ahead, "ahead": ahead, "error": error, "repeats": 15}
    (line,) = tables.beside_others(pd.DataFrame([cells | both, {"ours": None}])).to_dict("records")
    assert line["verdict"] == found
    assert line["low"] < ahead < line["high"]


def test_which_families_are_left_holds_those_that_are_not_behind():
    near, far = row(0.001, 0.02), row(0.3, 0.001)
    of_near, of_far = tables.right_choice(pd.DataFrame([near, far]))["left"]
    assert of_far == 1
    assert of_near == len({tables.FAMILY[name] for name in tables.FAMILY if f"behind_{column(name)}" in near})


def test_tables_of_a_kind_are_repeats_of_one_row():
    kind = {
        "dataset": "synthetic",
        "target": "",
        "rows": 200,
        "columns": 5,
        "margin": 0.5,
        "epsilon": 1.0,
        "delta": 0.0,
    }
    accuracies = [(0.9, 0.8), (0.8, 0.6), (0.85, 0.85)]
    rows = [
        {**kind, "seed": seed, "best": "DPSGD", "repeats": 3, "accuracy_DPSGD": one, "accuracy_ClassMeans": other}
        for seed, (one, other) in enumerate(accuracies)
    ]
    (found,) = tables.pooled(pd.DataFrame([*rows, {**kind, "seed": 9, "best": None}])).to_dict("records")
    gaps = np.subtract(*np.transpose(accuracies))
    assert (found["best"], found["repeats"], found["behind_DPSGD"]) == ("DPSGD", 3, 0)
    assert found["behind_ClassMeans"] == pytest.approx(gaps.mean())
    assert found["error_ClassMeans"] == pytest.approx(gaps.std(ddof=1) / 3**0.5)
    leader, left = tables.map_of(tables.right_choice(pd.DataFrame([found])), ["rows", "margin"])["delta = 0"]
    assert leader.loc["n = 200, margin 0.5", 1.0] == "DP-SGD"
    assert left.loc["n = 200, margin 0.5", 1.0] == 2
