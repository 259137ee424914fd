"""Tables and figures of Case II, of exposure and of the ordering claims: cells, gaps, limits, judgements."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import means, orderings


def stored(name):
    return experiments.rows(name)


def test_table3a_has_every_cell_of_the_paper_as_number_or_named_gap():
    rows, pate, tuned = stored("bagging_case2"), stored("bagging_pate"), stored("bagging_case2_dp_sgd")
    table = bagging.tables.table3a(rows, pate, tuned, "paper")
    assert table["published"].notna().sum() == 10
    row = table.query("subsample == 1000").squeeze()
    ours = rows.query("subsample == 1000 and n_models == 1 and replace")["accuracy"].dropna().astype(float)
    assert row["published"] == 0.9359
    assert row["seeds"] == len(ours) >= 3
    assert row["reproduced"] == pytest.approx(ours.mean())
    assert row["difference"] == pytest.approx(ours.mean() - 0.9359)
    assert row["advantage"] == accounting.bagging(n=60_000, subsample=1000).advantage
    empty = bagging.tables.table3a(rows.drop(columns="accuracy"), pate, tuned, "paper")
    assert empty["reproduced"].isna().sum() >= 4
    unrun = empty["seeds"] == 0
    assert (empty[unrun]["cpu_seconds"] > 0).all()
    assert bagging.tables.TABLE_3A(empty).to_html().count("not run: ") == unrun.sum()


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


@pytest.mark.parametrize(
    ("with_", "without", "verdict"),
    [
        ([0.930, 0.932, 0.931, 0.933], [0.931, 0.930, 0.932, 0.933], "holds"),
        ([0.930, 0.932, 0.931, 0.933], [0.951, 0.950, 0.952, 0.953], "reversed"),
        ([0.951, 0.950, 0.952, 0.953], [0.930, 0.932, 0.931, 0.933], "reversed"),
        ([0.91, 0.93, 0.95, 0.93], [0.94, 0.92, 0.91, 0.95], "undecided"),
    ],
)
def test_equality_is_shown_refuted_or_left_open(with_, without, verdict):
    lines = [
        {"subsample": 500.0, "n_models": 1, "replace": replace, "seed": seed, "accuracy": accuracy}
        for replace, values in ((True, with_), (False, without))
        for seed, accuracy in enumerate(values)
    ]
    pairs = orderings.differences(bagging.tables.replacement(pd.DataFrame(lines), "quick"))
    judged = means.judged({"figure2_equal": ""}, {"figure2_equal": pairs}, orderings.QUESTIONS)
    assert judged["verdict"].tolist() == [verdict]


def table(*lines):
    """Lines of a table: method, variant, block, subsample, accuracy, standard deviation, seeds, published."""
    names = ["method", "variant", "block", "subsample", "reproduced", "std", "seeds", "published"]
    return pd.DataFrame(lines, columns=names)


LENT = means.Borrowed(0.01, 20)


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
    return orderings.orderings(table2a, table3a, points, pairs, **given).set_index("claim")


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
    shown = orderings.ORDERINGS(found.reset_index()).to_html()
    assert "negligible" in shown


def test_a_single_run_that_nobody_lends_to_decides_nothing():
    found = ordered(noisy=means.NOBODY)["verdict"]
    assert set(found[["2a_above_dp_sgd", "2a_above_least", "2a_as_far"]]) == {"undecided"}
    assert found["2a_grows"] == "holds"


def test_lent_standard_deviations_are_pooled_within_settings():
    rows = pd.DataFrame({"width": 16.0, "epsilon": [0, 0, 0, 1, 1, 2], "accuracy": [0.8, 0.9, 0.7, 0.5, 0.7, 0.1]})
    pooled = means.pooled(rows, ["epsilon"])
    assert pooled == (pytest.approx(np.sqrt((2 * 0.01 + 0.02) / 3)), 3.0)
    assert means.noisy(rows.assign(delta=None, tpr_at_fpr_1e3=None)) == pooled
    assert means.noisy(rows.assign(width=np.nan)).freedom == 0
    lent = means.borrowed(0.5, pooled)
    assert (lent.variance, lent.freedom) == (pytest.approx(pooled.std**2), pytest.approx(3))


def test_the_reduced_scale_is_judged_by_the_same_rule():
    rows = {
        "method": ["bagging", "bagging", "dp_sgd", "dp_sgd"],
        "variant": ["", "", "", "least_noise"],
        "subsample": [1000, 5000, np.nan, np.nan],
        "reproduced_scratch": [0.3, 0.4, 0.1, 0.35],
        "reproduced_tuned": [0.35, 0.38, 0.2, 0.3],
    }
    ends = {f"{name}_{end}": value for end in ("scratch", "tuned") for name, value in (("std", 0.005), ("seeds", 3))}
    found = orderings.reduced_orderings(pd.DataFrame(rows).assign(**ends))
    assert found["verdict"].tolist() == ["holds", "holds", "reversed"] + ["holds"] * 4 + ["reversed"] * 2
    lone = orderings.reduced_orderings(pd.DataFrame(rows).assign(**{**ends, "seeds_tuned": 0}))
    assert lone["compared"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_attack_limits_are_clopper_pearson_and_dispersion_is_relative():
    row = {"attack": "loss", "mislabelled": True, "false_positive_rate": 0.01, "n_networks": 20, "true_positives": 30}
    row |= {"members": 100, "false_positives": 9, "nonmembers": 1000, "tpr_std": np.sqrt(0.3 * 0.7 / 10)}
    (line,) = bagging.tables.attacks(pd.DataFrame([row])).to_dict("records")
    limits = accounting.clopper_pearson(30, 100)
    assert (line["low"], line["high"], line["fpr"]) == (limits.low, limits.high, 0.009)
    assert line["dispersion"] == pytest.approx(1.0)
    assert len(bagging.tables.attacks(pd.DataFrame([row]).drop(columns="true_positives"))) == 0


def test_exposures_are_those_of_the_profiles():
    rows = experiments.rows("bagging_table2a")
    equal = experiments.rows("bagging_equal").query("width.isna()").iloc[:1]
    points = bagging.tables.exposures(rows, rows.head(0), equal, rows.head(0), "paper").set_index("setting")
    assert len(points) == 6
    assert points.loc[300, "advantage"] == accounting.bagging(n=60_000, subsample=300).advantage
    assert points.loc[300, "tpr_at_fpr_1e3"] == pytest.approx(points.loc[300, "advantage"] + 0.001)
    linear = points.query("method == 'dp_sgd' and variant == 'softmax'").squeeze()
    assert linear["tpr_at_fpr_1e3"] <= equal["tpr_at_fpr_1e3"].item() < 1.01 * linear["tpr_at_fpr_1e3"]
