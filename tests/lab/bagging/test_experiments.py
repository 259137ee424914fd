"""Experiments of the bagging chapter: rows that can be recomputed, grids, the rule for settings, the paper's table."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.accounting import bagging as profile_of
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging.networks import load, load_public, network, public_weights, teacher_votes
from dpnotes.lab.store import read_store, sweep


def quick(**change):
    row = next(r for r in bagging.grids.table2a("quick", seeds=1) if r["subsample"] == 100)
    return {**row, "epochs": 3, "device": "cpu", **change}


def test_a_row_can_be_recomputed_and_carries_its_guarantee():
    row = bagging.experiments.ensemble(**quick())
    assert row == bagging.experiments.ensemble(**quick())
    assert row["accuracy"] != bagging.experiments.ensemble(**quick(seed=1))["accuracy"]
    assert row["delta"] == profile_of(n=row["n"], subsample=100).delta(0.0)
    assert (row["epsilon"], row["adjacency"], row["status"]) == (0.0, "add-remove", "proved")
    assert row["n"] == bagging.grids.RECORDS["quick"]
    assert row["data"].startswith("digits:original:")


def test_all_records_means_no_guarantee():
    row = bagging.experiments.ensemble(**quick(subsample=None))
    assert row["status"] == "none"
    assert row["delta"] is None


def test_case_2_scores_what_is_not_public_and_starts_from_public_weights():
    """A rate next to zero shows where training starts: all layers but the last are those of the public model."""
    arrays, X, _, X_score, _ = load("digits", "rest")
    public, labels = load_public("digits")
    assert len(X) + len(public) + len(X_score) == 1797
    np.testing.assert_array_equal(np.concatenate([public, X_score]), arrays.X_test)
    assert len(labels) == len(public) == 100
    start = {"width": 4, "kernel_size": 3, "padding": 1, "device": "cpu"}
    training = {"public": "digits", "public_epochs": 2, "public_rate": 3e-3, "learning_rate": 1e-12, "epochs": 1}
    tuned = network(arrays, **start, **training, random_state=0).fit(X, arrays.y_train).networks_.state_dict(0)
    given = public_weights("digits", 2, 3e-3, **start)
    moved = {name: bool((abs(tuned[name] - given[name]) > 1e-6).any()) for name in given}
    assert moved == {name: name.startswith("7.") for name in given}  # the linear layer


def test_pate_shares_its_teachers_and_counts_what_it_asks():
    rows = bagging.grids.pate("quick", seeds=2)
    short = {"epochs": 8, "student_epochs": 40, "device": "cpu"}
    done = pd.DataFrame([{**row, **bagging.experiments.pate(**{**row, **short})} for row in rows])
    assert done["plurality"].nunique() == done["agreement"].nunique() == 1  # one ensemble
    stops = done["answers"].notna()
    assert (done[stops]["answered"] <= done[stops]["answers"]).all()
    assert (done[stops]["asked"] > done[stops]["answered"]).all()
    assert (done[~stops]["asked"] == done[~stops]["queries"]).all()
    assert (done[~stops]["answered"] < done[~stops]["queries"]).all()
    assert done["accuracy"].between(0.3, 1).all()
    once = bagging.experiments.pate(**{**rows[0], **short})
    assert once["accuracy"] == done["accuracy"][0]
    other = bagging.experiments.pate(**{**rows[0], **short, "teachers_seed": 1})
    assert other["agreement"] != once["agreement"]
    logistic = bagging.experiments.pate(**{**rows[0], **short, "epochs": None, "l2": 0.01})
    assert logistic["plurality"] > 0.8


def test_teachers_are_rows_that_rows_of_pate_share(tmp_path, monkeypatch):
    """The votes of blocks are, bit for bit, those of all teachers at once; a sweep trains each block once."""
    rows = [{**row, "epochs": 3, "student_epochs": 2, "n_teachers": 14} for row in bagging.grids.pate("quick", seeds=2)]
    blocks = bagging.grids.blocks_of_teachers(rows[0])
    assert [(block["first"], block["n_models"]) for block in blocks] == [(0, 10), (10, 4)]
    assert len(bagging.grids.teachers("quick")) == 1
    assert len(bagging.grids.teachers("paper")) == 26  # 250 networks, and logistic regressions
    given = {name: value for name, value in blocks[0].items() if name not in ("first", "n_models")}
    l2 = {"l2": None, "device": "cpu"}
    whole = teacher_votes(**given, first=0, n_models=14, **l2)
    np.testing.assert_array_equal(np.concatenate([teacher_votes(**block, **l2) for block in blocks]), whole)
    made_of = []
    trained = bagging.experiments.teacher_votes
    monkeypatch.setattr(
        bagging.experiments, "teacher_votes", lambda *a, **k: made_of.append(k["first"]) or trained(*a, **k)
    )
    bagging.experiments._votes.cache_clear()
    store, options = tmp_path / "bagging_pate.csv", {"device": "cpu"}
    first = sweep(bagging.experiments.pate, rows[:1], store=store, options=options, progress=False)
    bagging.experiments._votes.cache_clear()  # as in another process
    second = sweep(bagging.experiments.pate, rows, store=store, options=options, progress=False)
    assert made_of == [0, 10]
    assert set(second["agreement"]) == set(first["agreement"])
    shared = read_store(tmp_path / "bagging_teachers.csv")
    assert shared["n_models"].tolist() == [10, 4]
    counts = np.stack([(whole == label).sum(axis=0) for label in range(10)])
    assert first["agreement"][0] == counts.max(axis=0).mean() / 14
    bagging.experiments._votes.cache_clear()


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="split must be one of 'test', 'validation', 'rest', got split='train'"):
        bagging.experiments.ensemble(**quick(split="train"))
    with pytest.raises(ValueError, match="unknown data set 'digit'"):
        bagging.experiments.ensemble(**quick(dataset="digit"))
    with pytest.raises(ValueError, match=r"scale must be one of 'paper', 'quick', .* got scale='papr'"):
        bagging.grids.table2a("papr")
    with pytest.raises(ValueError, match="unknown experiment 'bagging_table9'; known: bagging_table2a"):
        experiments.rows("bagging_table9")


def test_grids_are_those_of_the_paper():
    grid = bagging.grids.table2a("paper")
    sizes = pd.Series([r["subsample"] for r in grid if r["subsample"] is not None]).value_counts()
    assert sizes.to_dict() == dict.fromkeys((300, 500, 1000, 5000, 10_000), 5)
    assert all(r["epochs"] == 100 and r["replace"] and r["n_models"] == 1 and r["dataset"] == "mnist" for r in grid)
    other = bagging.grids.table2a("paper", subsamples=(200, 800), seeds=2)
    assert [(r["subsample"], r["seed"]) for r in other] == [
        (None, 0),
        (None, 1),
        (800, 0),
        (800, 1),
        (200, 0),
        (200, 1),
    ]
    for experiment in bagging.experiments.EXPERIMENTS:
        for scale in experiment.grids:
            rows = experiment.grids[scale]()
            assert len({tuple(sorted(r.items(), key=str)) for r in rows}) == len(rows)
            assert all(experiment.cost(r) > 0 for r in rows)
        assert experiment.name.startswith(experiment.chapter)


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
    (chosen,) = bagging.tables.network_candidates(experiments.rows("bagging_settings")).query("chosen").to_dict("records")
    used = {**bagging.grids.ARCHITECTURES["paper"], **bagging.grids.OPTIMIZERS["paper"]}
    assert {key: chosen[key] for key in bagging.tables.NETWORK}.items() <= used.items()


def test_table2a_puts_published_and_reproduced_side_by_side():
    rows = experiments.rows("bagging_table2a")
    table = bagging.tables.table2a(rows, "paper").set_index(["method", "subsample"])
    assert len(table) == 11
    row = table.loc[("bagging", 1000.0)]
    ours = rows.query("subsample == 1000")["accuracy"]
    assert row["published"] == 0.9460
    assert row["reproduced"] == pytest.approx(ours.mean())
    assert row["std"] == pytest.approx(ours.std())
    assert row["seeds"] == len(ours) >= 5
    assert row["difference"] == pytest.approx(ours.mean() - 0.9460)
    assert row["exact_delta"] == pytest.approx(row["delta"], abs=5e-4)  # the paper rounds to three digits
    gaps = table.loc["dp_sgd"]
    assert gaps["reproduced"].isna().all()
    assert (gaps["seeds"] == 0).all()
    assert gaps["published"].notna().all()


def test_reproduced_accuracies_are_those_of_the_paper():
    """The chapter says so: within 1.5 percentage points of Table 2a, at every size."""
    table = bagging.tables.table2a(experiments.rows("bagging_table2a"), "paper").query("method != 'dp_sgd'")
    assert table["difference"].abs().max() < 0.015


def test_nothing_is_published_for_other_data():
    rows = pd.DataFrame({"subsample": [50.0, 50.0, np.nan], "seed": [0, 1, 0], "accuracy": [0.7, 0.8, 0.9]})
    table = bagging.tables.table2a(rows, "quick")
    assert table["published"].isna().all()
    assert table.query("method == 'bagging'")["reproduced"].tolist() == [0.75]


def test_attack_sees_what_the_theorem_says():
    table = bagging.tables.memorising_attack(n=40, subsample=6, n_models=2, trials=300).set_index("rate")
    assert table.loc["false positives", "simulated"] == 0
    row = table.loc["true positives"]
    assert row["low"] < row["exact"] < row["high"]


def test_many_models_cost_no_more_than_drawing_at_once():
    table = bagging.tables.many_models(n=1000, drawn=100, n_models=(1, 4, 100))
    assert table["subsample"].tolist() == [100, 25, 1]
    assert table["dealt_out"].tolist() == [0.1, 0.1, 0.1]
    assert table["independent"].is_monotonic_decreasing
    np.testing.assert_allclose(table["independent"].iloc[-1], table["with_replacement"].iloc[-1])
