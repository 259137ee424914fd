"""Grids of the bagging chapter: the paper's cells, and settings that are those which held-out rows choose."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import grids

N = 60_000
TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]
TUNED = ["batch_size", "clipping_norm", "learning_rate"]


def test_grids_are_those_of_the_paper():
    grid = grids.table2a("paper")
    sizes = pd.Series([r["subsample"] for r in grid if r["subsample"] is not None]).value_counts()
    assert sizes.to_dict() == dict.fromkeys((300, 500, 1000, 5000, 10_000), 5)
    assert all(r["epochs"] == 100 and r["replace"] and r["n_models"] == 1 and r["dataset"] == "mnist" for r in grid)
    other = grids.table2a("paper", subsamples=(200, 800), seeds=2)
    assert [(r["subsample"], r["seed"]) for r in other] == [(k, seed) for k in (None, 800, 200) for seed in range(2)]
    for experiment in bagging.experiments.EXPERIMENTS:
        for scale in experiment.grids:
            rows = experiment.grids[scale]()
            assert len({tuple(sorted(r.items(), key=str)) for r in rows}) == len(rows)
            assert all(experiment.cost(r) > 0 for r in rows)
        assert experiment.name.startswith(experiment.chapter)


def test_grids_hold_every_cell_of_the_paper():
    sizes = {"test": {1000, 5000, 10_000, 20_000, 30_000, None}, "rest": {1000, 5000, 10_000, None}}
    for public in grids.PUBLIC["cifar10"]:
        grid = grids.cifar10(public)
        assert {split: {row["subsample"] for row in grid if row["split"] == split} for split in sizes} == sizes
        assert {row["epochs"] for row in grid} == {100}
        rates = {split: {row["learning_rate"] for row in grid if row["split"] == split} for split in sizes}
        assert max(rates["rest"]) == pytest.approx(max(rates["test"]) / 10)
        assert {row.get("public") for row in grid if row["split"] == "rest"} == {public}
        private = grids.cifar10_dp_sgd(public)
        sigmas = [row["noise_multiplier"] for row in private if row["split"] == "test"]
        assert sorted(sigma for sigma in sigmas if sigma) == [1.4, 2.18, 4.9, 11.5, 72.0]
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
    assert whole == pytest.approx(50_000 * 1000 + 3 * 1000 * (100 + 130 + 170))  # teachers once, nine students


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
                {"width": w, "optimizer": o, "learning_rate": 0.1, "subsample": k, "seed": s, "accuracy": a + 0.01 * s}
                for w, o, a in ((16, "adam", 0.90), (16, "momentum", 0.89), (32, "adam", 0.90 + gain))
                for k in (300, 1000)
                for s in range(3)
            ]
        )

    # three seeds in steps of 0.01: standard error 0.01 / sqrt(3) at a size, divided by sqrt(2) for their mean: 0.0041
    for gain, width in ((0.004, 16), (0.0045, 32)):
        chosen = bagging.tables.network_candidates(rows(gain)).query("chosen")
        assert chosen[["width", "optimizer"]].to_numpy().tolist() == [[width, "adam"]]


def test_settings_in_use_are_those_that_the_stored_rows_choose():
    (chosen,) = (
        bagging.tables.network_candidates(experiments.rows("bagging_settings")).query("chosen").to_dict("records")
    )
    used = {**grids.ARCHITECTURES["paper"], **grids.OPTIMIZERS["paper"]}
    assert {key: chosen[key] for key in bagging.tables.NETWORK}.items() <= used.items()


def test_settings_on_cifar10_are_those_that_the_stored_rows_choose():
    names = ("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings")
    tried = bagging.tables.cifar10_candidates(*map(experiments.rows, names))
    used = {
        ("bagging", "vgg16"): grids.OPTIMIZERS["cifar10"],
        ("bagging", "vgg5"): grids.OPTIMIZERS["reduced"],
        ("dp_sgd", "given"): {"optimizer": "sgd", "learning_rate": grids.REDUCED_RATES["given"]},
        ("dp_sgd", "least"): {"optimizer": "sgd", "learning_rate": grids.REDUCED_RATES["least"]},
    }
    chosen = (
        tried.query("chosen").sort_values("subsample").drop_duplicates(["method", "architecture", "sigma"], keep="last")
    )
    assert len(chosen) == len(used)
    for line in chosen.itertuples():  # of VGG16 those of the larger sample, once they were run
        kind = line.architecture if line.method == "bagging" else "least" if np.isnan(line.sigma) else "given"
        settings = used[line.method, kind]
        assert (line.optimizer, line.learning_rate) == (settings["optimizer"], settings["learning_rate"])


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
        same = [tried[name].isna() if row[name] is None else tried[name] == row[name] for name in TARGET]
        own = tried[np.logical_and.reduce(same)].astype({"accuracy": float})
        best = own[own["accuracy"] == own["accuracy"].max()]
        assert len(own) == (20 if row["tpr_at_fpr_1e3"] is None else 16)
        assert tuple(row[name] for name in TUNED) in best[TUNED].itertuples(index=False, name=None)


def run(**changes):
    given = {"noise_multiplier": 8.0, "epsilon": None, "delta": None, "epochs": 10, "batch_size": 256}
    return {**given, **changes}


@pytest.mark.parametrize("model", grids.RATES)
def test_rates_are_those_that_held_out_rows_choose(model):
    table = bagging.tables.rate_candidates(experiments.rows("bagging_dp_sgd_settings"), model)
    assert tuple(table["noise_multiplier"]) == grids.NOISES
    assert tuple(table["chosen"]) == grids.CHOSEN[model]
    assert {f"accuracy_{rate:g}" for rate in grids.RATES[model]} == set(table) - {"noise_multiplier", "chosen"}


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
        assert row["learning_rate"] == pytest.approx(grids.dp_sgd_rate("network", row, n=N) / 10)
    assert {row["learning_rate"] for row in grids.one_rate()} == {0.15}
    tuned, tenth = grids.case2_dp_sgd("paper"), grids.one_rate("3a")
    assert [row | {"learning_rate": 0.015} for row in tuned if row["noise_multiplier"]] == tenth
