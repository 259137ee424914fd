"""Grids, tables, cells and orderings of the bagging chapter: the paper's cells,
chosen settings, gaps, judgements.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import cells, grids
from dpnotes.lab.verdicts import NOBODY, Borrowed


def test_cells_are_those_that_are_printed():
    found = cells.cells()
    for name in ("2a", "2b", "3a", "3b"):
        printed = bagging.tables.published(name)["published"].tolist()
        assert sorted(
            cell.printed for cell in found if cell.table == f"Table {name}"
        ) == sorted(printed)
    for cell in found:
        assert math.isnan(cell.ours) == (
            cell.outcome == "could be run" or cell.table.startswith("Figure")
        )
    explained = {
        cell.cell.replace("\N{NO-BREAK SPACE}", " "): cell.why
        for cell in found
        if cell.outcome == "explained"
    }
    sizes = [f"bagging, k = {size}" for size in ("500", "1,000", "5,000")]
    why = (
        "going on by Adam at rate 3e-05 (bagging_causes), which agrees in 4 of 4 cells"
        " of Table 3a, bagging and no privacy"
    )
    assert explained == dict.fromkeys(["no privacy", *sizes], why)


def test_the_best_candidate_is_chosen_and_only_among_all():
    rows, private = map(
        experiments.rows,
        ("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings"),
    )
    marks = {"adam": 0.3, "momentum": 0.2}
    rows = rows.assign(accuracy=rows["optimizer"].map(marks) + rows["learning_rate"])
    private = private.sort_values("learning_rate").assign(
        accuracy=np.linspace(0.1, 0.2, len(private))
    )
    least = private["noise_multiplier"].isna()
    # so the least sigma has no choice
    private.loc[least & (private["learning_rate"] == 0.5), "accuracy"] = np.nan
    table = bagging.tables.cifar10_candidates(rows, private)
    chosen = table.query("chosen")
    assert chosen.query("architecture == 'vgg16'")["subsample"].tolist() == [500, 1000]
    kinds = set(chosen[["method", "architecture"]].itertuples(index=False, name=None))
    assert kinds == {("bagging", "vgg5"), ("bagging", "vgg16"), ("dp_sgd", "vgg5")}
    assert chosen["sigma"].dropna().tolist() == [11.5]
    assert set(chosen["learning_rate"]) == {1e-3, 5.0}


def case2():
    values = {
        (1, True): (0.90, 0.92, 0.94),
        (1, False): (0.91, 0.93, 0.92),
        (2, True): (0.88, 0.87, 0.86),
    }
    lines = [
        {
            "subsample": 100.0 / n_models,
            "n_models": n_models,
            "replace": replace,
            "seed": seed,
            "accuracy": accuracy,
        }
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
    assert [
        pair[name] for name in ("with_replacement", "without_replacement", "seeds")
    ] == [0.94, 0.92, 1]
    assert bagging.tables.replacement(case2(), "paper").empty


def table(*lines):
    """Lines of a table: method, variant, block, subsample, accuracy, standard
    deviation, seeds, published.
    """
    names = [
        "method",
        "variant",
        "block",
        "subsample",
        "reproduced",
        "std",
        "seeds",
        "published",
    ]
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
        {
            "drawn": 100,
            "n_models": [1, 2, 5],
            "accuracy": [0.5 + x * 0.1, 0.5, 0.5 - x * 0.1],
            "std": 0.005,
            "seeds": 3,
        }
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
    assert found.loc["2a_above_least", ["compared", "ours"]].tolist() == [
        2,
        pytest.approx(10),
    ]
    assert found.loc["figure2_equal", "verdict"] == "undecided"
    assert set(found.query("compared == 0")["verdict"]) == {"not testable here"}
    assert found.loc["3a_above_logistic", "compared"] == 0
    turned = ordered(turned=-1)
    assert (turned.loc[right, "verdict"] == "reversed").all()


def test_a_single_run_that_nobody_lends_to_decides_nothing():
    found = ordered(noisy=NOBODY)["verdict"]
    assert set(found[["2a_above_dp_sgd", "2a_above_least", "2a_as_far"]]) == {
        "undecided"
    }
    assert found["2a_grows"] == "holds"


def test_lent_standard_deviations_are_pooled_within_settings():
    rows = pd.DataFrame(
        {
            "width": 16.0,
            "epsilon": [0, 0, 0, 1, 1, 2],
            "accuracy": [0.8, 0.9, 0.7, 0.5, 0.7, 0.1],
        }
    )
    pooled = cells.pooled(rows, ["epsilon"])
    assert pooled == (pytest.approx(np.sqrt((2 * 0.01 + 0.02) / 3)), 3.0)
    assert cells.noisy(rows.assign(delta=None, tpr_at_fpr_1e3=None)) == pooled
    assert cells.noisy(rows.assign(width=np.nan)).freedom == 0
    lent = cells.borrowed(0.5, pooled)
    assert (lent.variance, lent.freedom) == (
        pytest.approx(pooled.std**2),
        pytest.approx(3),
    )


def test_attack_limits_are_clopper_pearson_and_dispersion_is_relative():
    row = {
        "attack": "loss",
        "mislabelled": True,
        "false_positive_rate": 0.01,
        "n_networks": 20,
        "true_positives": 30,
    }
    row |= {
        "members": 100,
        "false_positives": 9,
        "nonmembers": 1000,
        "tpr_std": np.sqrt(0.3 * 0.7 / 10),
    }
    (line,) = bagging.tables.attacks(pd.DataFrame([row])).to_dict("records")
    limits = accounting.clopper_pearson(30, 100)
    assert (line["low"], line["high"], line["fpr"]) == (limits.low, limits.high, 0.009)
    assert line["dispersion"] == pytest.approx(1.0)
    assert (
        len(bagging.tables.attacks(pd.DataFrame([row]).drop(columns="true_positives")))
        == 0
    )


def test_equal_exposure_sets_means_and_stds_at_the_same_exposure_side_by_side():
    n = bagging.grids.RECORDS["quick"]
    exposed = {
        size: accounting.bagging(n=n, subsample=size).advantage for size in (50, 100)
    }
    bagged = pd.DataFrame(
        {"subsample": [50, 50, 100, None], "accuracy": [0.5, 0.7, 0.8, 0.9]}
    )
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
    assert table.loc[50, ["bagging", "softmax_advantage"]].tolist() == pytest.approx(
        [0.6, 0.3]
    )
    assert table.loc[50, "softmax_advantage_std"] == pytest.approx(0.2 / np.sqrt(2))
    assert table.loc[100, "network_tpr"] == 0.6
    assert table.loc[100, "network_tpr_seeds"] == 1
    # bagging has one seed; one run of DP-SGD is known, of six
    assert table.loc[100].isna().sum() == 14


def exposed_lines(**sides):
    """A line of equal_exposure: mean, standard deviation and seeds of each side; the
    others were not run.
    """
    names = [
        "bagging",
        "bagging_hog",
        *(
            f"{model}_{sense}"
            for model in ("softmax", "network", "hog")
            for sense in ("advantage", "tpr")
        ),
    ]
    line = {"subsample": 300}
    for name in names:
        value, std, seeds = sides.get(name, (np.nan, np.nan, 0))
        line |= {name: value, f"{name}_std": std, f"{name}_seeds": seeds}
    return pd.DataFrame([line])


def test_standings_follow_the_one_rule_and_turn_with_the_rows():
    sides = {
        "bagging": (0.9, 0.005, 5),
        "softmax_advantage": (0.85, 0.005, 3),
        "network_tpr": (0.95, 0.005, 3),
    }
    sides |= {
        "network_advantage": (0.899, 0.005, 3),
        "bagging_hog": (0.94, 0.0005, 5),
        "hog_tpr": (0.9405, 0.0005, 3),
    }
    (line,) = bagging.tables.standings(exposed_lines(**sides)).to_dict("records")
    assert line["softmax_advantage"] == "ahead"
    assert line["network_tpr"] == "behind"
    assert line["network_advantage"] == "undecided"
    assert line["hogs_tpr"] == "equal"
    assert line["hog_tpr"] == "behind"
    assert line["hogs_advantage"] == "not run"
    sides["softmax_advantage"], sides["bagging"] = (
        sides["bagging"],
        sides["softmax_advantage"],
    )
    assert bagging.tables.standings(exposed_lines(**sides))[
        "softmax_advantage"
    ].tolist() == ["behind"]


N = 60_000
TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]
TUNED = ["batch_size", "clipping_norm", "learning_rate"]


def test_grids_are_those_of_the_paper():
    grid = grids.table2a("paper")
    sizes = pd.Series(
        [r["subsample"] for r in grid if r["subsample"] is not None]
    ).value_counts()
    assert sizes.to_dict() == dict.fromkeys((300, 500, 1000, 5000, 10_000), 5)
    assert all(
        r["epochs"] == 100
        and r["replace"]
        and r["n_models"] == 1
        and r["dataset"] == "mnist"
        for r in grid
    )
    other = grids.table2a("paper", subsamples=(200, 800), seeds=2)
    assert [(r["subsample"], r["seed"]) for r in other] == [
        (k, seed) for k in (None, 800, 200) for seed in range(2)
    ]
    for experiment in bagging.experiments.EXPERIMENTS:
        for scale in experiment.grids:
            rows = experiment.grids[scale]()
            assert len({tuple(sorted(r.items(), key=str)) for r in rows}) == len(rows)
            assert all(experiment.cost(r) > 0 for r in rows)
        assert experiment.name.startswith(experiment.chapter)


def test_grids_hold_every_cell_of_the_paper():
    sizes = {
        "test": {1000, 5000, 10_000, 20_000, 30_000, None},
        "rest": {1000, 5000, 10_000, None},
    }
    for public in grids.PUBLIC["cifar10"]:
        grid = grids.cifar10(public)
        assert {
            split: {row["subsample"] for row in grid if row["split"] == split}
            for split in sizes
        } == sizes
        assert {row["epochs"] for row in grid} == {100}
        rates = {
            split: {row["learning_rate"] for row in grid if row["split"] == split}
            for split in sizes
        }
        assert max(rates["rest"]) == pytest.approx(max(rates["test"]) / 10)
        assert {row.get("public") for row in grid if row["split"] == "rest"} == {public}
        private = grids.cifar10_dp_sgd(public)
        sigmas = [row["noise_multiplier"] for row in private if row["split"] == "test"]
        assert sorted(sigma for sigma in sigmas if sigma) == [
            1.4,
            2.18,
            4.9,
            11.5,
            72.0,
        ]
        assert sigmas.count(None) == 5
        assert {row["answers"] for row in grids.cifar10_pate(public)} == {100, 130, 170}


def test_costs_count_the_images():
    row = next(row for row in grids.cifar10() if row["subsample"] == 30_000)
    assert grids.images(row) == 3_000_000
    assert grids.gpu_hours(row) == pytest.approx(3_000_000 / 5000 / 3600)
    private = grids.cifar10_dp_sgd()[0]
    assert grids.gpu_hours(private) == pytest.approx(5_000_000 / 2000 / 3600)
    voted = grids.cifar10_pate()
    whole = sum(map(grids.gpu_hours, voted)) * 3600 * 5000
    # teachers once, nine students
    assert whole == pytest.approx(50_000 * 1000 + 3 * 1000 * (100 + 130 + 170))


def test_causes_differ_from_the_cell_in_optimiser_and_rate_alone():
    of_sizes, whole = (
        {key: row[key] for key in ("split", "public", "epochs", "width", "n_models")}
        for row in (grids.table3a("paper")[0], grids.table3a("paper")[-1])
    )
    for row in grids.causes():
        assert (whole if row["subsample"] is None else of_sizes).items() <= row.items()
        assert (row["optimizer"], row["learning_rate"]) != ("adam", 1e-4)
    assert experiments.rows("bagging_causes")["accuracy"].notna().sum() == 16


def test_rule_for_settings_prefers_the_small_network_within_one_standard_error():
    def rows(gain):
        return pd.DataFrame(
            [
                {
                    "width": w,
                    "optimizer": o,
                    "learning_rate": 0.1,
                    "subsample": k,
                    "seed": s,
                    "accuracy": a + 0.01 * s,
                }
                for w, o, a in (
                    (16, "adam", 0.90),
                    (16, "momentum", 0.89),
                    (32, "adam", 0.90 + gain),
                )
                for k in (300, 1000)
                for s in range(3)
            ]
        )

    # three seeds in steps of 0.01: standard error 0.01 / sqrt(3) at a size, divided by
    # sqrt(2) for their mean: 0.0041
    for gain, width in ((0.004, 16), (0.0045, 32)):
        chosen = bagging.tables.network_candidates(rows(gain)).query("chosen")
        assert chosen[["width", "optimizer"]].to_numpy().tolist() == [[width, "adam"]]


def test_settings_in_use_are_those_that_the_stored_rows_choose():
    (chosen,) = (
        bagging.tables.network_candidates(experiments.rows("bagging_settings"))
        .query("chosen")
        .to_dict("records")
    )
    used = {**grids.ARCHITECTURES["paper"], **grids.OPTIMIZERS["paper"]}
    assert {key: chosen[key] for key in bagging.tables.NETWORK}.items() <= used.items()


def test_settings_on_cifar10_are_those_that_the_stored_rows_choose():
    names = ("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings")
    tried = bagging.tables.cifar10_candidates(*map(experiments.rows, names))
    used = {
        ("bagging", "vgg16"): grids.OPTIMIZERS["cifar10"],
        ("bagging", "vgg5"): grids.OPTIMIZERS["reduced"],
        ("dp_sgd", "given"): {
            "optimizer": "sgd",
            "learning_rate": grids.REDUCED_RATES["given"],
        },
        ("dp_sgd", "least"): {
            "optimizer": "sgd",
            "learning_rate": grids.REDUCED_RATES["least"],
        },
    }
    chosen = (
        tried.query("chosen")
        .sort_values("subsample")
        .drop_duplicates(["method", "architecture", "sigma"], keep="last")
    )
    assert len(chosen) == len(used)
    # of VGG16 those of the larger sample, once they were run
    for line in chosen.itertuples():
        kind = (
            line.architecture
            if line.method == "bagging"
            else "least"
            if np.isnan(line.sigma)
            else "given"
        )
        settings = used[line.method, kind]
        assert (line.optimizer, line.learning_rate) == (
            settings["optimizer"],
            settings["learning_rate"],
        )


def test_the_penalty_of_private_bases_is_those_that_held_out_rows_choose():
    rows = experiments.rows("bagging_private_base_settings")
    best = rows.groupby("l2")["accuracy"].mean().idxmax()
    assert {r["l2"] for r in grids.private_base("paper")} == {best}


def test_settings_on_features_are_those_that_held_out_rows_choose():
    rows = experiments.rows("bagging_hog_settings")
    means = rows.astype({"accuracy": float}).pivot_table("accuracy", "subsample", "l2")
    assert means.notna().all(axis=None)
    assert means.idxmax(axis=1).to_dict() == grids.PENALTY
    tried = experiments.rows("bagging_hog_dp_sgd_settings")
    final = grids.hog_dp_sgd()
    assert {row["split"] for row in [*final, *grids.hog()]} == {"test"}
    for row in final:
        same = [
            tried[name].isna() if row[name] is None else tried[name] == row[name]
            for name in TARGET
        ]
        own = tried[np.logical_and.reduce(same)].astype({"accuracy": float})
        best = own[own["accuracy"] == own["accuracy"].max()]
        assert len(own) == (20 if row["tpr_at_fpr_1e3"] is None else 16)
        assert tuple(row[name] for name in TUNED) in best[TUNED].itertuples(
            index=False, name=None
        )


def run(**changes):
    given = {
        "noise_multiplier": 8.0,
        "epsilon": None,
        "delta": None,
        "epochs": 10,
        "batch_size": 256,
    }
    return {**given, **changes}


@pytest.mark.parametrize("model", grids.RATES)
def test_rates_are_those_that_held_out_rows_choose(model):
    table = bagging.tables.rate_candidates(
        experiments.rows("bagging_dp_sgd_settings"), model
    )
    assert tuple(table["noise_multiplier"]) == grids.NOISES
    assert tuple(table["chosen"]) == grids.CHOSEN[model]
    assert {f"accuracy_{rate:g}" for rate in grids.RATES[model]} == set(table) - {
        "noise_multiplier",
        "chosen",
    }


@pytest.mark.parametrize("noise", grids.NOISES)
def test_a_longer_run_drifts_and_wanders_as_far_as_the_short_one(noise):
    short = grids.dp_sgd_rate("network", run(noise_multiplier=noise), n=N)
    assert short == grids.CHOSEN["network"][grids.NOISES.index(noise)]
    sigma = noise * math.sqrt(10)
    long = grids.dp_sgd_rate("network", run(noise_multiplier=sigma, epochs=100), n=N)
    assert 100 * long == pytest.approx(10 * short)  # rate x steps
    assert long * sigma * math.sqrt(100) == pytest.approx(short * noise * math.sqrt(10))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.005, 0.005), (0.0, 0.08)])
def test_the_noise_of_a_budget_is_known_closely_enough_to_choose(epsilon, delta):
    row = run(noise_multiplier=None, epsilon=epsilon, delta=delta)
    rounds = {"sample_rate": 256 / N, "steps": 2343, "accountant": "pld"}
    exact = accounting.dp_sgd_noise_multiplier(epsilon, delta, **rounds)
    assert grids.about_sigma(row, n=N) == pytest.approx(exact, rel=0.1)


def test_every_row_of_the_tables_has_the_rate_of_its_noise():
    for row in [*grids.dp_sgd("paper"), *grids.equal("paper")]:
        model = "network" if row["width"] else "linear"
        assert row["learning_rate"] == pytest.approx(grids.dp_sgd_rate(model, row, n=N))
    for row in grids.case2_dp_sgd("paper"):
        assert row["learning_rate"] == pytest.approx(
            grids.dp_sgd_rate("network", row, n=N) / 10
        )
    assert {row["learning_rate"] for row in grids.one_rate()} == {0.15}
    tuned, tenth = grids.case2_dp_sgd("paper"), grids.one_rate("3a")
    assert [
        row | {"learning_rate": 0.015} for row in tuned if row["noise_multiplier"]
    ] == tenth
