"""Tables and figures of Case II, of exposure and of the ordering claims: cells, gaps, limits, judgements."""

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting, experiments
from dpnotes.experiments import bagging


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


def test_cifar10_has_every_cell_as_a_gap_with_its_hours():
    for name, cells in (("2b", 11), ("3b", 10)):
        gaps = bagging.cifar10_gaps(name)
        assert len(gaps) == cells
        assert (gaps["hours"] > 0).all()
        assert gaps["reproduced"].str.match(r"not run: \d+\.\d\d h on a GPU").all()


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
    assert pair["standard error"] == pytest.approx(np.sqrt((0.02**2 + 0.01**2) / 3))


def test_orderings_judge_only_what_was_run():
    columns = ["method", "subsample", "published epsilon", "published delta", "reproduced"]
    lines = [("Bagging", 300, 0.1, 0.1, 0.9), ("Bagging", 500, 0.2, 0.2, 0.95), ("DPSGD", np.nan, 0.1, 0.1, 0.96)]
    lines += [("DPSGD", np.nan, 0.2, 0.2, np.nan), ("No Privacy", np.nan, np.nan, np.nan, 0.99)]
    table2a = pd.DataFrame(lines, columns=columns)
    table3a = pd.DataFrame({"method": ["PATE, 100 answers", "bagging, k = 500"], "reproduced": [0.8, 0.94]})
    found = bagging.orderings(
        table2a, table3a, bagging.fixed_draws(case2(), "quick"), bagging.replacement(case2())
    ).set_index("claim")
    judged = found["holds"].tolist()
    assert judged == ["no", "yes", "not run", "yes", "not run", "yes", "yes", "yes"]
    assert found["ours"].tolist()[:2] == pytest.approx([-6.0, 5.0])
    assert found["compared"].tolist() == [1, 1, 0, 1, 0, 1, 1, 1]


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
