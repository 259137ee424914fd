"""Tables and figures of Case II, of exposure and of the ordering claims: cells, gaps, limits, judgements."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes import accounting
from dpnotes.lab import experiments
from dpnotes.lab.bagging import experiments as bagging
from dpnotes.lab.bagging.orderings import _equal, _no_gain


def stored(name):
    return experiments.rows(name)


def test_table3a_has_every_cell_of_the_paper_as_number_or_named_gap():
    rows, pate, tuned = stored("bagging_case2"), stored("bagging_pate"), stored("bagging_case2_dp_sgd")
    table = bagging.table3a(rows, pate, tuned, "paper")
    assert table["published"].notna().sum() == 10
    row = table.set_index("method").loc["bagging, k = 1,000"]
    ours = rows.query("subsample == 1000 and n_models == 1 and replace")["accuracy"].dropna().astype(float)
    assert row["published"] == 0.9359
    assert row["seeds"] == len(ours) >= 3
    assert row["reproduced"] == pytest.approx(ours.mean())
    assert row["difference"] == pytest.approx(ours.mean() - 0.9359)
    assert row["advantage"] == accounting.bagging(n=60_000, subsample=1000).advantage
    empty = bagging.table3a(rows.drop(columns="accuracy"), pate, tuned, "paper")
    assert empty["reproduced"].isna().sum() >= 4
    assert empty["gap"].str.contains("not run").all()
    assert "not run: " in bagging.table3a_view(empty).to_html()


def case2():
    values = {(1, True): (0.90, 0.92, 0.94), (1, False): (0.91, 0.93, 0.92), (2, True): (0.88, 0.87, 0.86)}
    lines = [
        {"subsample": 100.0 / n_models, "n_models": n_models, "replace": replace, "seed": seed, "accuracy": accuracy}
        for (n_models, replace), seeds in values.items()
        for seed, accuracy in enumerate(seeds)
    ]
    return pd.DataFrame(lines)


def test_figures_1_and_2_average_over_seeds():
    points = bagging.fixed_draws(case2(), "quick").set_index("n_models")
    assert points["accuracy"].tolist() == pytest.approx([0.92, 0.87])
    assert points.loc[2, ["low", "high", "seeds"]].tolist() == [0.86, 0.88, 3]
    (pair,) = bagging.replacement(case2()).to_dict("records")
    assert pair["difference"] == pytest.approx(0.0)
    one, other = 0.02**2 / 3, 0.01**2 / 3  # Welch and Satterthwaite, by hand
    freedom = (one + other) ** 2 / (one**2 / 2 + other**2 / 2)
    half = stats.t(freedom).ppf(0.95) * np.sqrt(one + other)
    assert [pair["low"], pair["high"]] == pytest.approx([-half, half])
    lone = bagging.replacement(case2().query("seed == 0")).iloc[0]
    assert lone[["low", "high"]].isna().all()


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
    claim, pairs, ours, holds = _equal(pd.DataFrame(limits, columns=["low", "high"]))
    assert "less than 1 point apart" in claim
    assert (pairs, holds) == (0 if verdict == "not run" else len(limits), verdict)
    assert ours == pytest.approx(least, nan_ok=True)


def test_orderings_judge_only_what_was_run():
    columns = ["method", "subsample", "published epsilon", "published delta", "reproduced"]
    lines = [("Bagging", 300, 0.1, 0.1, 0.9), ("Bagging", 500, 0.2, 0.2, 0.95), ("DPSGD", np.nan, 0.1, 0.1, 0.96)]
    lines += [("DPSGD", np.nan, 0.2, 0.2, np.nan), ("No Privacy", np.nan, np.nan, np.nan, 0.99)]
    table2a = pd.DataFrame(lines, columns=columns)
    table3a = pd.DataFrame({"method": ["PATE, 100 answers", "bagging, k = 500"], "reproduced": [0.8, 0.94]})
    lines = [("DP-SGD, sigma = 72", 0.2), ("the same with the least sigma", 0.9), ("bagging, k = 1,000", 0.4)]
    lines += [("DP-SGD, sigma = 11.5", np.nan), ("bagging, k = 5,000", 0.39), ("no privacy", 0.8)]
    table2b = pd.DataFrame(lines, columns=["method", "reproduced"])
    table3b = pd.DataFrame({"method": ["PATE, 100 answers", "bagging, k = 1,000"], "reproduced": [0.5, 0.45]})
    names = ["bagging, k = 1,000", "bagging, k = 5,000", "DP-SGD, sigma = 11.5", "DP-SGD, sigma = 0.7, the least"]
    reduced = pd.DataFrame({"method": names, "scratch": [0.3, 0.4, 0.1, 0.3], "tuned": [0.35, 0.38, 0.2, 0.39]})
    found = bagging.orderings(
        table2a,
        table3a,
        bagging.fixed_draws(case2(), "quick"),
        bagging.replacement(case2()),
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


def test_no_gain_is_refuted_by_a_one_sided_test_alone():
    rng = np.random.default_rng(0)
    alone, tuned = rng.normal(0.93, 0.01, 5), rng.normal(0.935, 0.01, 8)
    ends = {"": tuned, " alone": alone}
    line = {
        f"{name}{end}": value
        for end, x in ends.items()
        for name, value in (("reproduced", x.mean()), ("seeds", len(x)))
    }
    line |= {f"spread{end}": x.std(ddof=1) for end, x in ends.items()}
    claim, pairs, ours, holds = _no_gain(pd.DataFrame([line]))
    limits = stats.ttest_ind(tuned, alone, equal_var=False, alternative="greater").confidence_interval(0.95)
    assert "does not help" in claim
    assert (pairs, ours, holds) == (1, pytest.approx(-100 * limits.low), "yes")
    gain = pd.DataFrame([line]).assign(reproduced=line["reproduced"] + 0.02)
    assert _no_gain(gain)[2:] == (pytest.approx(ours - 2), "no")
    assert _no_gain(gain.assign(spread=np.nan))[3] == "not run"


def test_attack_limits_are_clopper_pearson_and_dispersion_is_relative():
    row = {"attack": "loss", "mislabelled": True, "false_positive_rate": 0.01, "n_networks": 20, "hits": 30}
    row |= {"members": 100, "alarms": 9, "nonmembers": 1000, "deviation": np.sqrt(0.3 * 0.7 / 10)}
    (line,) = bagging.attacks(pd.DataFrame([row])).to_dict("records")
    limits = accounting.clopper_pearson(30, 100)
    assert (line["low"], line["high"], line["false"]) == (limits.low, limits.high, 0.009)
    assert line["dispersion"] == pytest.approx(1.0)
    assert len(bagging.attacks(pd.DataFrame([row]).drop(columns="hits"))) == 0


def test_exposures_are_those_of_the_profiles():
    rows = experiments.rows("bagging_table2a")
    equal = experiments.rows("bagging_equal").query("width.isna()").iloc[:1]
    points = bagging.exposures(rows, rows.iloc[:0], equal, rows.iloc[:0], "paper").set_index("setting")
    assert len(points) == 6
    assert points.loc["k = 300", "advantage"] == accounting.bagging(n=60_000, subsample=300).advantage
    assert points.loc["k = 300", "found"] == pytest.approx(points.loc["k = 300", "advantage"] + 0.001)
    linear = points.query("method == 'DP-SGD, softmax regression'").iloc[0]
    assert linear["found"] <= equal["found"].iloc[0] < 1.01 * linear["found"]
