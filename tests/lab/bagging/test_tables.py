"""Tables, cells and orderings of the bagging chapter: numbers, gaps, limits, judgements."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import cells
from dpnotes.lab.verdicts import NOBODY, Borrowed


def test_cells_are_those_that_are_printed():
    found = cells.cells()
    for name in ("2a", "2b", "3a", "3b"):
        printed = bagging.tables.published(name)["published"].tolist()
        assert sorted(cell.printed for cell in found if cell.table == f"Table {name}") == sorted(printed)
    for cell in found:
        assert bool(cell.why) >= (cell.outcome == "explained")
        assert bool(cell.why) <= (cell.outcome in ("explained", "unexplained"))
        assert math.isnan(cell.ours) == (cell.outcome == "gap" or cell.table.startswith("Figure"))
    explained = {
        cell.cell.replace("\N{NO-BREAK SPACE}", " "): cell.why for cell in found if cell.outcome == "explained"
    }
    sizes = [f"bagging, k = {size}" for size in ("500", "1,000", "5,000")]
    assert explained == dict.fromkeys(["no privacy", *sizes], "going on by Adam at rate 3e-05 (bagging_causes)")


def test_the_best_candidate_is_chosen_and_only_among_all():
    rows, private = map(experiments.rows, ("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings"))
    marks = {"adam": 0.3, "momentum": 0.2}
    rows = rows.assign(accuracy=rows["optimizer"].map(marks) + rows["learning_rate"])
    private = private.sort_values("learning_rate").assign(accuracy=np.linspace(0.1, 0.2, len(private)))
    least = private["noise_multiplier"].isna()
    private.loc[least & (private["learning_rate"] == 0.5), "accuracy"] = np.nan  # so the least sigma has no choice
    table = bagging.tables.cifar10_candidates(rows, private)
    chosen = table.query("chosen")
    assert chosen.query("architecture == 'vgg16'")["subsample"].tolist() == [500, 1000]
    kinds = set(chosen[["method", "architecture"]].itertuples(index=False, name=None))
    assert kinds == {("bagging", "vgg5"), ("bagging", "vgg16"), ("dp_sgd", "vgg5")}
    assert chosen["sigma"].dropna().tolist() == [11.5]
    assert set(chosen["learning_rate"]) == {1e-3, 5.0}


def case2():
    values = {(1, True): (0.90, 0.92, 0.94), (1, False): (0.91, 0.93, 0.92), (2, True): (0.88, 0.87, 0.86)}
    lines = [
        {"subsample": 100.0 / n_models, "n_models": n_models, "replace": replace, "seed": seed, "accuracy": accuracy}
        for (n_models, replace), seeds in values.items()
        for seed, accuracy in enumerate(seeds)
    ]
    return pd.DataFrame(lines)


def test_figures_1_and_2_average_over_seeds():
    points = bagging.tables.fixed_draws(case2(), "quick").set_index("n_models")
    assert points["accuracy"].tolist() == pytest.approx([0.92, 0.87])
    assert points.loc[2, ["low", "high", "seeds"]].tolist() == [0.86, 0.88, 3]
    assert points.loc[1, "std"] == pytest.approx(0.02)
    (pair,) = bagging.tables.replacement(case2(), "quick").to_dict("records")
    assert pair["difference"] == pytest.approx(0.0)
    one, other = 0.02**2 / 3, 0.01**2 / 3  # Welch and Satterthwaite, by hand
    freedom = (one + other) ** 2 / (one**2 / 2 + other**2 / 2)
    half = stats.t(freedom).ppf(0.975) * np.sqrt(one + other)
    assert [pair["low"], pair["high"]] == pytest.approx([-half, half])
    lone = bagging.tables.replacement(case2().query("seed == 0"), "quick")
    assert lone[["low", "high"]].abs().eq(np.inf).all(axis=None)


def test_figure_2_is_judged_by_seeds_that_its_rule_had_not_seen():
    more = case2().assign(seed=lambda rows: rows["seed"] + 1)  # 1 to 3
    (pair,) = bagging.tables.replacement(more, "paper").to_dict("records")
    assert [pair[name] for name in ("with_replacement", "without_replacement", "seeds")] == [0.94, 0.92, 1]
    assert bagging.tables.replacement(case2(), "paper").empty


def table(*lines):
    """Lines of a table: method, variant, block, subsample, accuracy, standard deviation, seeds, published."""
    names = ["method", "variant", "block", "subsample", "reproduced", "std", "seeds", "published"]
    return pd.DataFrame(lines, columns=names)


LENT = Borrowed(0.01, 20)


def ordered(turned=1, noisy=LENT):
    """Verdicts on tables in which the paper is right, or, turned, wrong."""
    few = 0.005, 3
    x = turned

    def bagged(block, size, value, published=0.9):
        return ("bagging", "", block, size, 0.5 + x * value, *few, published)

    def noise(variant, block, value, published=0.1):
        return ("dp_sgd", variant, block, np.nan, 0.5 + x * value, np.nan, 1, published)

    table2a = table(
        bagged(0.1, 300, 0.1),
        bagged(0.2, 500, 0.2),
        noise("", 0.1, -0.2),
        noise("", 0.2, 0.0),
        noise("least_noise", 0.1, -0.1),
        noise("least_noise", 0.2, 0.1),
        ("none", "", np.nan, np.nan, 0.99, np.nan, 1, 0.99),
    )
    table3a = table(
        ("pate", "", 0.1, np.nan, 0.5, *few, 0.5),
        ("pate", "logistic_teachers", 0.1, np.nan, np.nan, np.nan, 0, np.nan),
        bagged(0.1, 300, 0.05),
        bagged(0.2, 500, 0.1),
    )
    points = pd.DataFrame(
        {"drawn": 100, "n_models": [1, 2, 5], "accuracy": [0.5 + x * 0.1, 0.5, 0.5 - x * 0.1], "std": 0.005, "seeds": 3}
    )
    empty = table().astype({"seeds": int})
    pairs = bagging.tables.replacement(case2(), "quick")
    given = {"table2b": empty, "table3b": empty, "noisy": noisy}
    return cells.orderings(table2a, table3a, points, pairs, **given).set_index("claim")


def test_orderings_judge_only_what_was_run_and_are_turned_with_the_rows():
    found = ordered()
    right = found.query("verdict == 'holds'").index
    assert set(right) == {
        "2a_above_dp_sgd",
        "2a_above_least",
        "2a_grows",
        "3a_above_pate",
        "mnist_public_is_no_gain",
        "figure1_falls",
    }
    assert found.loc["2a_as_far", ["compared", "verdict"]].tolist() == [2, "reversed"]
    assert found.loc["2a_as_far", "ours"] == pytest.approx(-70)
    assert found.loc["2a_above_least", ["compared", "ours"]].tolist() == [2, pytest.approx(10)]
    assert found.loc["figure2_equal", "verdict"] == "undecided"
    assert set(found.query("compared == 0")["verdict"]) == {"not testable here"}
    assert found.loc["3a_above_logistic", "compared"] == 0
    turned = ordered(turned=-1)
    assert (turned.loc[right, "verdict"] == "reversed").all()


def test_a_single_run_that_nobody_lends_to_decides_nothing():
    found = ordered(noisy=NOBODY)["verdict"]
    assert set(found[["2a_above_dp_sgd", "2a_above_least", "2a_as_far"]]) == {"undecided"}
    assert found["2a_grows"] == "holds"


def test_lent_standard_deviations_are_pooled_within_settings():
    rows = pd.DataFrame({"width": 16.0, "epsilon": [0, 0, 0, 1, 1, 2], "accuracy": [0.8, 0.9, 0.7, 0.5, 0.7, 0.1]})
    pooled = cells.pooled(rows, ["epsilon"])
    assert pooled == (pytest.approx(np.sqrt((2 * 0.01 + 0.02) / 3)), 3.0)
    assert cells.noisy(rows.assign(delta=None, tpr_at_fpr_1e3=None)) == pooled
    assert cells.noisy(rows.assign(width=np.nan)).freedom == 0
    lent = cells.borrowed(0.5, pooled)
    assert (lent.variance, lent.freedom) == (pytest.approx(pooled.std**2), pytest.approx(3))


def test_attack_limits_are_clopper_pearson_and_dispersion_is_relative():
    row = {"attack": "loss", "mislabelled": True, "false_positive_rate": 0.01, "n_networks": 20, "true_positives": 30}
    row |= {"members": 100, "false_positives": 9, "nonmembers": 1000, "tpr_std": np.sqrt(0.3 * 0.7 / 10)}
    (line,) = bagging.tables.attacks(pd.DataFrame([row])).to_dict("records")
    limits = accounting.clopper_pearson(30, 100)
    assert (line["low"], line["high"], line["fpr"]) == (limits.low, limits.high, 0.009)
    assert line["dispersion"] == pytest.approx(1.0)
    assert len(bagging.tables.attacks(pd.DataFrame([row]).drop(columns="true_positives"))) == 0


def test_equal_exposure_sets_means_and_stds_at_the_same_exposure_side_by_side():
    n = bagging.grids.RECORDS["quick"]
    exposed = {size: accounting.bagging(n=n, subsample=size).advantage for size in (50, 100)}
    bagged = pd.DataFrame({"subsample": [50, 50, 100, None], "accuracy": [0.5, 0.7, 0.8, 0.9]})
    equal = pd.DataFrame(
        {
            "width": [None, None, 16, None],
            "delta": [exposed[50], exposed[50], None, None],
            "tpr_at_fpr_1e3": [None, None, exposed[100], exposed[100]],
            "accuracy": [0.2, 0.4, 0.6, None],
        }
    )
    table = bagging.tables.equal_exposure(bagged, equal, "quick").set_index("subsample")
    assert table.index.tolist() == [50, 100]
    assert table["advantage"].to_dict() == exposed
    assert table.loc[50, ["bagging", "softmax_advantage"]].tolist() == pytest.approx([0.6, 0.3])
    assert table.loc[50, "softmax_advantage_std"] == pytest.approx(0.2 / np.sqrt(2))
    assert table.loc[100, "network_tpr"] == 0.6
    assert table.loc[100, "network_tpr_seeds"] == 1
    assert table.loc[100].isna().sum() == 14  # bagging has one seed; one run of DP-SGD is known, of six


def exposed_lines(**sides):
    """A line of equal_exposure: mean, standard deviation and seeds of each side; the others were not run."""
    names = [
        "bagging",
        "bagging_hog",
        *(f"{model}_{sense}" for model in ("softmax", "network", "hog") for sense in ("advantage", "tpr")),
    ]
    line = {"subsample": 300}
    for name in names:
        value, std, seeds = sides.get(name, (np.nan, np.nan, 0))
        line |= {name: value, f"{name}_std": std, f"{name}_seeds": seeds}
    return pd.DataFrame([line])


def test_standings_follow_the_one_rule_and_turn_with_the_rows():
    sides = {"bagging": (0.9, 0.005, 5), "softmax_advantage": (0.85, 0.005, 3), "network_tpr": (0.95, 0.005, 3)}
    sides |= {"network_advantage": (0.899, 0.005, 3), "bagging_hog": (0.94, 0.0005, 5), "hog_tpr": (0.9405, 0.0005, 3)}
    (line,) = bagging.tables.standings(exposed_lines(**sides)).to_dict("records")
    assert line["softmax_advantage"] == "ahead"
    assert line["network_tpr"] == "behind"
    assert line["network_advantage"] == "undecided"
    assert line["hogs_tpr"] == "equal"
    assert line["hog_tpr"] == "behind"
    assert line["hogs_advantage"] == "not run"
    sides["softmax_advantage"], sides["bagging"] = sides["bagging"], sides["softmax_advantage"]
    assert bagging.tables.standings(exposed_lines(**sides))["softmax_advantage"].tolist() == ["behind"]
