"""Tables of the chapter on intrinsic SGD, from the published rows, and where there are none."""

import pandas as pd
import pytest

from dpnotes.lab import experiments
from dpnotes.lab.intrinsic_sgd import figures, grids, tables
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon


@pytest.fixture(scope="module")
def stored():
    """Published rows of each experiment; a row that is not there yet is a gap."""
    names = ("summary", "distances", "utility", "audit", "hyperparameters", "last_iterate", "trajectories")
    names += ("draws", "scaling", "repeats", "cost")
    return {name: experiments.rows(f"intrinsic_sgd_{name}") for name in names}


def test_studies_have_the_epsilons_of_the_paper_s_formula(stored):
    found = tables.studies(stored["scaling"], stored["repeats"], stored["summary"])
    assert found.groupby("dataset").size().to_dict() == {"adult": 5, "covertype": 3, "mnist": 50}
    row = found[found["dataset"] == "covertype"].iloc[0]
    kwargs = {"sigma": row["sigma"], "delta": 1 / 378_783, "analysis": "published"}
    bound = 0.06272400780359202
    assert row["epsilon"] == pytest.approx(intrinsic_epsilon(sensitivity=bound, **kwargs))
    assert row["epsilon_observed"] == pytest.approx(intrinsic_epsilon(sensitivity=row["observed"], **kwargs))
    more = tables.another_study(pd.Series([1.0, 2.0, 3.0]))
    assert (more.value, more.variance, more.freedom) == pytest.approx((2.0, 1 + 1 / 3, 2.0))


def test_the_paper_s_study_takes_less_than_twenty_minutes(stored):
    assert len(tables.costs(stored["cost"].iloc[:0])) == 0
    table = tables.costs(stored["cost"])
    runs = table.set_index("dataset")["runs"]
    assert (runs["adult"], runs["covertype"], runs["mnist"]) == (2 * 160 * 81, 2 * 126 * 64, 2 * 99 * 50)
    total, tasks = table.set_index("dataset").loc[""], table[table["dataset"] != ""]
    assert total["runs"] == tasks["runs"].sum()
    seconds = tasks["training_seconds"] + tasks["statistics_seconds"]
    assert total["minutes"] == pytest.approx(seconds.sum() / 60)
    assert total["minutes"] < 20


def test_epsilons_are_those_of_the_library(stored):
    rows = tables.with_epsilons(stored["summary"])
    row = rows.query("dataset == 'covertype' and initial == 'varied'").iloc[0]
    assert row["delta"] == 1 / 378_783
    exact = intrinsic_epsilon(sigma=row["sigma"], sensitivity=row["proved"], delta=row["delta"])
    assert row["epsilon_proved"] == exact
    assert row["proved"] == pytest.approx(0.11313708)
    assert row["published"] == pytest.approx(0.06272401)
    assert rows.query("dataset == 'mnist-unscaled'")["proved"].isna().all()


def test_no_pair_is_farther_apart_than_proved(stored):
    rows = pd.concat([stored["summary"], stored["hyperparameters"]]).dropna(subset=["proved", "neighbours"])
    assert len(rows) >= 8
    assert (rows["neighbours"] <= rows["proved"]).all()


def test_gaps_are_shown_as_gaps():
    """A task of which nothing is stored: empty tables, figures that say so, words in the place of numbers."""
    grid = grids.settings("quick")
    summary = experiments.rows("intrinsic_sgd_summary", grid)
    utility = experiments.rows("intrinsic_sgd_utility", grids.utilities(grid))
    sound = experiments.rows("intrinsic_sgd_last_iterate", grids.last_iterates(grid))
    assert len(tables.table3(summary)) == 0
    assert tables.table4(utility)["reproduced"].isna().all()
    assert tables.calibrations(utility, sound)["accuracy"].isna().all()
    assert tables.shown(tables.table4(utility), "reproduced", "{:.2f}", entry="gain") == "not run yet"
    assert figures.distances(summary[summary["sigma"].notna()], {}).texts[0].get_text() == "not run yet"


def test_tables_and_figures_of_the_pages_have_no_gaps(stored):
    summary, utility, sound = (stored[name] for name in ("summary", "utility", "last_iterate"))
    calibrations = tables.calibrations(utility, sound)
    digits = tables.scaled_digits(tables.studies(stored["scaling"], stored["repeats"], summary))
    for table, rows, length in (
        (tables.SIZES, tables.sizes(summary), 28),
        (tables.NOISE_SOURCES, tables.noise_sources(summary), 4),
        (tables.TABLE3, tables.table3(summary), 24),
        (tables.STUDY, tables.study(summary), 4),
        (tables.SCALED_DIGITS, digits, 6),
        (tables.TABLE4, tables.table4(utility), 28),
        (tables.DRAWS, tables.draws(stored["draws"]), 32),
        (tables.READINGS, tables.with_epsilons(summary), 8),
        (tables.RULES_BESIDE, tables.beside(calibrations), 4),
        (tables.AUDITS, tables.audits(stored["audit"], summary), 22),
    ):
        assert len(rows) == length
        assert "not run yet" not in table(rows).to_html()
    logistic = stored["distances"][stored["distances"]["hidden"].isna()].dropna(subset=["q50"])
    tested, pairs = (logistic.query("quantity == @quantity") for quantity in ("p-value", "data"))
    measured = tables.hyperparameters(stored["hyperparameters"]).query("schedule == 'constant'")
    for figure, panels in (
        (figures.distances(logistic, {"adult": 0.177}), 4),
        (figures.utility(utility.query("initial == 'varied'").dropna(subset=["accuracy"]), sound), 4),
        (figures.pairwise_epsilons(pairs, {("adult", "varied"): 42.0}, published={"adult": (18, 61.9)}), 1),
        (figures.p_values(tested.query("initial == 'varied'"), dict.fromkeys(tested["dataset"], 51)), 1),
        (figures.paths(stored["trajectories"]), 1),
        (figures.batch_sizes(measured), 2),
    ):
        assert len(figure.axes) == panels
    assert tables.standings(calibrations, "counted", "counted").keys() == {
        "mnist",
        "covertype",
        "adult",
        "mnist-unscaled",
    }
