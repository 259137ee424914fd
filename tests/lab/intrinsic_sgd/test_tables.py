"""Tables and figures of the chapter on intrinsic SGD, from the published rows: what the text says of them."""

import math

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


def test_tables_are_reproduced(stored):
    """What the chapter says of Table III: sigma on Adult within 5 %, delta and bounds to the printed digits."""
    table = tables.table3(stored["summary"]).set_index(["dataset", "quantity"])
    assert abs(table.loc[("adult", "sigma_intrinsic"), "relative"]) < 0.05
    assert abs(table.loc[("covertype", "sigma_intrinsic"), "relative"]) < 0.05
    assert abs(table.loc[("adult", "sensitivity_empirical"), "difference"]) < 0.002
    for dataset in ("mnist", "covertype", "adult"):
        assert abs(table.loc[(dataset, "sensitivity_theoretical"), "difference"]) <= 5.1e-4
    # rows of norm 1 do not give what is printed, unscaled rows nearly do
    assert table.loc[("mnist", "sigma_intrinsic"), "relative"] > 3
    assert abs(table.loc[("mnist-unscaled", "sigma_intrinsic"), "relative"]) < 0.1


def test_table4_reproduces_fractions_of_the_gap_and_not_gains(stored):
    table = tables.table4(stored["utility"]).set_index(["dataset", "sensitivity", "entry"])
    noiseless = table.xs("noiseless", level="entry")["difference"]
    assert abs(noiseless["adult", "none"]) < 0.002
    assert abs(noiseless["covertype", "none"]) < 0.01
    for dataset, sensitivity in (
        ("mnist-unscaled", "theoretical"),
        ("covertype", "theoretical"),
        ("mnist-unscaled", "observed"),
        ("adult", "observed"),
    ):
        closed, gain = (table.loc[(dataset, sensitivity, entry)] for entry in ("gap_closed", "gain"))
        assert closed["reproduced"] == pytest.approx(closed["published"], rel=0.25)
        assert gain["reproduced"] < gain["published"] / 5
        assert gain["t"] > 5  # the gain is small and certain


def test_table4_is_one_draw_for_all_models(stored):
    """Means and standard deviations as printed, to their last digit on Adult, with a shared draw, not with own ones."""
    table = tables.draws(stored["draws"]).set_index(["dataset", "sensitivity", "entry"])
    for sensitivity, digit in (("theoretical", 0.01), ("observed", 0.006)):  # the printed standard deviations
        accuracy, std = (table.loc[("adult", sensitivity, entry)] for entry in ("noisy", "std"))
        assert accuracy["published"] == pytest.approx(accuracy["shared"], abs=digit / 2)
        assert accuracy["published"] != pytest.approx(accuracy["own"], abs=digit)
        assert std["published"] == pytest.approx(std["shared"], rel=0.25)
        assert std["published"] != pytest.approx(std["own"], rel=0.5)
    std = table.loc[("covertype", "theoretical", "std")]
    assert std["published"] == pytest.approx(std["shared"], rel=0.1) != pytest.approx(std["own"])
    none = tables.draws(stored["draws"].iloc[:0])
    assert len(none) == 0
    assert {"dataset", "entry", "published", "shared", "own"} <= set(none)
    assert tables.DRAWS(none).to_html()
    assert tables.shown(none, "shared", "{:.3f}", dataset="adult") == "not run yet"


def test_two_readings_of_the_rows_of_mnist_fit_what_is_printed(stored):
    found = tables.studies(stored["scaling"], stored["repeats"], stored["summary"])
    table = tables.scaled_digits(found).set_index("scaling")
    assert table["projections"].iloc[1:].eq(10).all()
    fits = table["fits"].to_dict()
    assert fits["none"] == fits["features"] == "sigma, observed, accuracy"
    assert fits["rows"] == fits["rows before projection"] == fits["largest row"] == ""
    own = stored["scaling"].query("scaling == 'features'")
    assert table.loc["features", "sigma"] == pytest.approx(own["sigma"].mean())
    assert table.loc["features", "accuracy_std"] == pytest.approx(own["accuracy"].std())
    none = {name: stored[name].iloc[:0] for name in ("scaling", "repeats")}
    assert len(tables.scaled_digits(tables.studies(**none, summary=stored["summary"]))) == 1


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


def test_noise_in_each_step_is_ahead_on_two_tasks(stored):
    table = tables.calibrations(stored["utility"], stored["last_iterate"])
    ahead = {"mnist": "ahead", "covertype": "behind", "adult": "ahead"}
    turned = {"ahead": "behind", "behind": "ahead"}
    for other in ("classical", "counted", "exact", "proved"):
        assert tables.standings(table, "last_iterate", other) == ahead
        assert tables.standings(table, other, "last_iterate") == {name: turned[word] for name, word in ahead.items()}
    assert tables.standings(table, "last_iterate", "none") == {**ahead, "adult": "behind"}
    assert set(tables.standings(table, "counted", "counted").values()) <= {"equal", "undecided"}


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


def test_audits_show_no_more_than_they_can(stored):
    """The only holder of a feature is given away; fixed starts expose quiet directions, no start a typical record."""
    table = tables.audits(stored["audit"], stored["summary"])
    assert len(table) == 22
    assert table["record"].drop_duplicates().tolist() == ["typical", "only holder", "quiet direction", "own feature"]
    certain = table[table["record"].isin(["only holder", "own feature"])]
    assert len(certain) == 6
    assert (certain["fpr"] == 0).all()
    assert (certain["epsilon_low"] == math.inf).all()
    assert (certain[certain["initial"] == "fixed"]["tpr"] == 1).all()
    # over 1/n = 3.4e-5 and 2.6e-6, and no more than what was seen
    assert certain["delta_low"].gt(0.001).all()
    assert (certain["delta_low"] < certain["tpr"]).all()
    quiet, typical = (table[table["record"] == record] for record in ("quiet direction", "typical"))
    exposed = quiet[quiet["initial"] == "fixed"]
    assert (exposed["mu_low"] > exposed["mu_observed_exact"]).all()
    assert (typical["mu_low"] < typical[["mu_exact", "mu_observed_exact"]].min(axis=1)).all()
    assert (table["tpr"].between(0, 1) & table["epsilon_low"].ge(0)).all()
    beaten = {name: table["epsilon_low"] > table[name] for name in ("epsilon_exact", "epsilon_observed_exact")}
    assert [int(found.sum()) for found in beaten.values()] == [6, 11]
    assert [int((found & ~table["constructed"]).sum()) for found in beaten.values()] == [2, 2]


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


def test_figures_are_drawn(stored):
    logistic = stored["distances"][stored["distances"]["hidden"].isna()].dropna(subset=["q50"])
    assert len(figures.distances(logistic, {"adult": 0.177}).axes) == 4
    varied = stored["utility"].query("initial == 'varied'").dropna(subset=["accuracy"])
    assert len(figures.utility(varied, stored["last_iterate"]).axes) == 4
    scales = {("adult", "varied"): 42.0}
    (panel,) = figures.pairwise_epsilons(logistic.query("quantity == 'data'"), scales).axes
    assert [len(line.get_xdata()) > 0 for line in panel.lines] == [True, False]  # a density, and its name in the legend
    tested = logistic.query("quantity == 'p-value' and initial == 'varied'")
    assert figures.p_values(tested, dict.fromkeys(tested["dataset"], 51)).axes
    assert figures.paths(stored["trajectories"]).axes
    measured = tables.hyperparameters(stored["hyperparameters"])
    assert figures.batch_sizes(measured.query("schedule == 'constant'")).axes
