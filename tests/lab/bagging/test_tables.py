"""Tables and figures of Case II, of exposure and of the ordering claims: cells, gaps, limits, judgements."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging.orderings import equality, no_gain


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
    (pair,) = bagging.tables.replacement(case2()).to_dict("records")
    assert pair["difference"] == pytest.approx(0.0)
    one, other = 0.02**2 / 3, 0.01**2 / 3  # Welch and Satterthwaite, by hand
    freedom = (one + other) ** 2 / (one**2 / 2 + other**2 / 2)
    half = stats.t(freedom).ppf(0.95) * np.sqrt(one + other)
    assert [pair["low"], pair["high"]] == pytest.approx([-half, half])
    lone = bagging.tables.replacement(case2().query("seed == 0"))
    assert lone[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("limits", "verdict", "least"),
    [
        ([(-0.004, 0.007), (-0.002, 0.001)], "yes", 0.3),
        ([(-0.004, 0.007), (0.011, 0.02)], "no", -1.0),
        ([(-0.004, 0.007), (-0.02, -0.01)], "no", -1.0),
        ([(-0.004, 0.013), (-0.002, 0.001)], "undecided", -0.3),
        ([(np.nan, np.nan)], "not run", np.nan),
    ],
)
def test_equality_is_shown_refuted_or_left_open(limits, verdict, least):
    pairs, ours, holds = equality(pd.DataFrame(limits, columns=["low", "high"]))
    assert (pairs, holds) == (0 if verdict == "not run" else len(limits), verdict)
    assert ours == pytest.approx(least, nan_ok=True)


def table(*lines):
    """Lines of a table: method, variant, block, subsample, accuracy."""
    return pd.DataFrame(lines, columns=["method", "variant", "block", "subsample", "reproduced"])


def test_orderings_judge_only_what_was_run():
    table2a = table(
        ("bagging", "", 0.1, 300, 0.9),
        ("bagging", "", 0.2, 500, 0.95),
        ("dp_sgd", "", 0.1, np.nan, 0.96),
        ("dp_sgd", "", 0.2, np.nan, np.nan),
        ("none", "", np.nan, np.nan, 0.99),
    )
    table3a = table(("pate", "", 0.1, np.nan, 0.8), ("bagging", "", 0.1, 500, 0.94))
    table2b = table(
        ("dp_sgd", "", 0.02, np.nan, 0.2),
        ("dp_sgd", "least_noise", 0.02, np.nan, 0.9),
        ("bagging", "", 0.02, 1000, 0.4),
        ("dp_sgd", "", 0.1, np.nan, np.nan),
        ("bagging", "", 0.1, 5000, 0.39),
        ("none", "", np.nan, np.nan, 0.8),
    )
    table3b = table(("pate", "", 0.02, np.nan, 0.5), ("bagging", "", 0.02, 1000, 0.45))
    reduced = pd.DataFrame(
        {
            "method": ["bagging", "bagging", "dp_sgd", "dp_sgd"],
            "variant": ["", "", "", "least_noise"],
            "subsample": [1000, 5000, np.nan, np.nan],
            "reproduced_scratch": [0.3, 0.4, 0.1, 0.3],
            "reproduced_tuned": [0.35, 0.38, 0.2, 0.39],
        }
    )
    found = bagging.orderings.orderings(
        table2a,
        table3a,
        bagging.tables.fixed_draws(case2(), "quick"),
        bagging.tables.replacement(case2()),
        table2b=table2b,
        table3b=table3b,
        reduced=reduced,
    ).set_index("claim")
    judged = found["holds"].tolist()
    assert judged[:6] == ["no", "yes", "not run", "yes", "not run", "yes"]
    assert judged[6:] == ["yes", "no", "not run", "no", "yes", "yes", "no", "no", "not run", "undecided"]
    assert found["ours"].tolist()[:2] == pytest.approx([-6.0, 5.0])
    assert found["ours"].tolist()[6:-2] == pytest.approx([20.0, -1.0, np.nan, -5.0, 5.0, 18.0, -1.0, -2.0], nan_ok=True)
    assert found["compared"].tolist() == [1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1, 2, 2, 2, 0, 1]
    shown = bagging.orderings.ORDERINGS(found.reset_index()).to_html()
    assert "less than 1 point apart" in shown
    assert "does not help" in shown


def test_no_gain_is_refuted_by_a_one_sided_test_alone():
    rng = np.random.default_rng(0)
    alone, tuned = rng.normal(0.93, 0.01, 5), rng.normal(0.935, 0.01, 8)
    ends = {"": tuned, "_alone": alone}
    line = {
        f"{name}{end}": value
        for end, x in ends.items()
        for name, value in (("reproduced", x.mean()), ("seeds", len(x)))
    }
    line |= {f"std{end}": x.std(ddof=1) for end, x in ends.items()}
    pairs, ours, holds = no_gain(pd.DataFrame([line]))
    limits = stats.ttest_ind(tuned, alone, equal_var=False, alternative="greater").confidence_interval(0.95)
    assert (pairs, ours, holds) == (1, pytest.approx(-100 * limits.low), "yes")
    gain = pd.DataFrame([line]).assign(reproduced=line["reproduced"] + 0.02)
    assert no_gain(gain)[1:] == (pytest.approx(ours - 2), "no")
    assert no_gain(gain.assign(std=np.nan)).holds == "not run"


def test_attack_limits_are_clopper_pearson_and_dispersion_is_relative():
    row = {"attack": "loss", "mislabelled": True, "false_positive_rate": 0.01, "n_networks": 20, "true_positives": 30}
    row |= {"members": 100, "false_positives": 9, "nonmembers": 1000, "tpr_std": np.sqrt(0.3 * 0.7 / 10)}
    (line,) = bagging.comparisons.attacks(pd.DataFrame([row])).to_dict("records")
    limits = accounting.clopper_pearson(30, 100)
    assert (line["low"], line["high"], line["fpr"]) == (limits.low, limits.high, 0.009)
    assert line["dispersion"] == pytest.approx(1.0)
    assert len(bagging.comparisons.attacks(pd.DataFrame([row]).drop(columns="true_positives"))) == 0


def test_exposures_are_those_of_the_profiles():
    rows = experiments.rows("bagging_table2a")
    equal = experiments.rows("bagging_equal").query("width.isna()").iloc[:1]
    points = bagging.comparisons.exposures(rows, rows.head(0), equal, rows.head(0), "paper").set_index("setting")
    assert len(points) == 6
    assert points.loc[300, "advantage"] == accounting.bagging(n=60_000, subsample=300).advantage
    assert points.loc[300, "tpr_at_fpr_1e3"] == pytest.approx(points.loc[300, "advantage"] + 0.001)
    linear = points.query("method == 'dp_sgd' and variant == 'softmax'").squeeze()
    assert linear["tpr_at_fpr_1e3"] <= equal["tpr_at_fpr_1e3"].item() < 1.01 * linear["tpr_at_fpr_1e3"]
