"""The chapter on differentially private bagging: tables from rows whose answers are known; votes of its evidence."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting
from dpnotes.lab.dpbag import grids, tables, votes
from dpnotes.lab.experiments import paper_table


def made(dataset="adult", teachers="logistic", seeds=3, shift=0.0, step=0.01, **change):
    """Rows of the paper's grid whose values are the published ones plus a shift, plus (seed - 1) steps."""
    grid = pd.DataFrame(grids.student(dataset, teachers, seeds=seeds)).astype({"epsilon": float, "delta": float})
    rows = tables.of_method(grid)
    for metric in tables.METRICS:
        printed = tables.cells(grid, metric)[[*tables.SETTING, "published"]]
        found = rows.merge(printed, on=tables.SETTING, how="left")["published"]
        grid[metric] = found * np.where(grid["delta"] == 1e-5, 0.5, 1.0) + shift + (grid["seed"] - 1) * step
    grid["accuracy"] = grid["accuracy"].fillna(0.5)  # of tight accounting, which has no published value
    quantiles = {"paid_0": 0.1, "paid_5": 0.2, "paid_25": 0.3, "paid_50": 0.4, "paid_75": 0.6, "paid_95": 0.8}
    one = {**quantiles, "paid_100": 0.9, "label_accuracy": 0.7, "status": "proved", "epsilon_spent": 1.0}
    return grid.assign(check="x", **one).assign(**change)


def test_published_and_ours_stand_side_by_side():
    rows = made(shift=0.02)
    table = tables.cells(rows, "accuracy")
    assert len(table) == 49  # (9 DPBag + 4 DPBag- + 3 SAA) x 3 budgets, and NPB
    cell = table.query("method == 'dpbag' and n_teachers == 250 and k == 100 and epsilon == 3").iloc[0]
    assert cell["published"] == 0.8207
    assert cell["reproduced"] == pytest.approx(0.8407)
    assert cell["std"] == pytest.approx(0.01)
    assert cell["difference"] == pytest.approx(0.02)
    assert cell["stated"] == pytest.approx(0.8207 / 2 + 0.02)
    npb = table.query("method == 'npb'").iloc[0]
    assert npb["published"] == 0.8472
    assert npb["reproduced"] == pytest.approx(0.8672)
    assert np.isnan(npb["stated"])
    counts = tables.cells(rows, "labels")
    assert len(counts) == 36
    assert set(counts["method"]) == {"dpbag", "saa"}
    assert (counts["seeds"] == 3).all()


def test_orderings_of_the_paper_are_counted():
    """The published side by another road, where nothing varies but by rounding; ours are the same there."""
    order = tables.orderings(made(step=1e-7)).set_index("ordering")
    printed = paper_table("cells_dpbag").query("dataset == 'adult' and teachers == 'logistic' and metric != 'labels'")
    wide = printed.pivot_table("printed", ["n_teachers", "epsilon", "metric"], ["method", "k"])
    leads = (wide["dpbag_naive"].to_numpy() - wide["saa"].to_numpy())[wide["dpbag_naive"].notna().all(axis=1)].ravel()
    counted = {"holds": (leads > 0.002).sum(), "reversed": (leads < -0.002).sum(), "tie": (abs(leads) < 0.002).sum()}
    assert sum(counted.values()) == 36
    for answer, count in counted.items():
        assert order.loc["naive_above_saa", f"published_{answer}"] == count > 0
    assert order.loc["naive_above_saa", "published"] == "reversed"  # not in all cells
    assert order.loc["more_labels", ["published_holds", "published_cells", "published"]].tolist() == [27, 27, "holds"]
    assert order.loc["labels_rise", ["published_cells", "published_reversed"]].tolist() == [18, 0]
    for answer in ("holds", "reversed", "tie", "undecided", "cells"):
        assert (order[f"published_{answer}"] == order[f"ours_{answer}"]).all()
    noisy = tables.orderings(made(step=0.1)).set_index("ordering")
    assert noisy.loc["naive_above_saa", "ours"] == noisy.loc["naive_above_saa", "published"] == "undecided"


def test_settings_that_may_be_best_and_implied_fractions():
    best = tables.best(made(step=1e-7), "accuracy")
    assert best["published_n"].tolist() == best["ours_n"].tolist() == ["250", "250", "250"]
    assert best["published_k"].tolist() == ["100", "100", "50"]
    assert best["ours"].tolist() == [1, 1, 1]
    noisy = tables.best(made(step=0.1), "accuracy")
    assert noisy["ours"].tolist() == [9, 9, 9]
    implied = tables.implied_fractions(tables.cells(made(), "labels"))
    fractions = implied.set_index(["n_teachers", "k"])
    assert fractions.loc[(50, 100), "published_1"] == 11 / 22
    assert fractions.loc[(250, 10), "published_5"] == pytest.approx(5269 / 5917)
    assert fractions.shape == (9, 6)


def test_partitions_are_compared_run_by_run():
    rows = made(seeds=4)
    gain = np.where(rows["n_partitions"] == 100, 0.01 * rows["seed"], 0.0)
    effect = tables.partitions_effect(rows.assign(label_accuracy=0.7 + gain, labels=5, auroc=0.8 - gain))
    assert len(effect) == 9
    assert effect["label_gain"].tolist() == pytest.approx([1.5] * 9)  # seeds 0 to 3: 0, 1, 2, 3 percentage points
    assert effect["label_gain_se"].tolist() == pytest.approx([np.std([0, 1, 2, 3], ddof=1) / 2] * 9)
    assert effect["auroc_gain"].tolist() == pytest.approx([-1.5] * 9)


def test_fractions_of_the_largest_epsilon():
    table = tables.paid(made(epsilon_spent=2.0))
    assert len(table) == 27
    assert table[0.5].tolist() == pytest.approx([0.2] * 27)
    assert table[1.0].tolist() == pytest.approx([0.45] * 27)


def test_the_price_of_a_run():
    names = ["teachers", "n_teachers", "n_partitions", "teachers_seconds", "students_seconds", "peak_memory"]
    of_two = [("boosting", n, k, 10.0 * k, 2.0, 2048.0) for n in (100, 150) for k in (1, 50, 100)]
    rows = pd.DataFrame([("boosting", 1, 1, 0.0, 7.0, 3072.0), *of_two], columns=names)
    assert tables.run_seconds(rows, "boosting") == 7 + 2 * (10 * 151 + 3 * 2)
    assert np.isnan(tables.run_seconds(rows.iloc[:-1], "boosting"))
    assert np.isnan(tables.run_seconds(rows, "logistic"))
    table = tables.costs(rows.iloc[:-1]).set_index(["teachers", "n_teachers"])
    assert table.loc[("boosting", 100), ["seconds_1", "seconds_50", "memory"]].tolist() == [12, 502, 2]
    assert table.loc[("boosting", 1), "memory"] == 3
    assert np.isnan(table.loc[("boosting", 150), "seconds_100"])


def test_labels_of_one_partition():
    table = tables.counts().set_index(["n_teachers", "epsilon"])
    assert (table["published"] == table["loop_reproduced"]).all()
    # theory: rho = lambda^2 / 2 and the sharper conversion at delta = 1e-5
    assert table.loc[(50, 1.0), "tight"] == 38
    assert table.loc[(100, 5.0), "tight"] == 2754
    assert table.loc[(250, 3.0), "tight"] == 7007
    assert table.loc[(250, 3.0), "loop_stated"] == 1355


def test_the_counter_example_runs_the_estimator():
    assert votes.counterexample()["labels"].tolist() == [27, 7]


@pytest.mark.parametrize("gap", [0, 1, 7, 60])
def test_distribution_of_two_classes_is_that_of_a_difference_of_laplace_variables(gap):
    scale = 2.5
    expected = (2 + gap / scale) / 4 * math.exp(-gap / scale)
    assert math.isclose(votes.answer_distribution(np.array([gap, 0]), scale=scale)[1], expected, rel_tol=1e-12)


def test_distribution_of_three_classes_agrees_with_draws():
    counts, scale, runs = np.array([3, 1, 0]), 2.0, 100_000
    expected = votes.answer_distribution(counts, scale=scale)
    assert math.isclose(expected.sum(), 1.0, abs_tol=1e-12)
    noisy = counts + np.random.default_rng(22).laplace(scale=scale, size=(runs, 3))
    seen = np.bincount(noisy.argmax(-1), minlength=3) / runs
    assert (np.abs(seen - expected) < 4 * np.sqrt(expected * (1 - expected) / runs)).all()
    other = votes.answer_distribution(counts, scale=1.05 * scale)  # power: a scale 5% off is noticed
    assert (np.abs(seen - other) > 4 * np.sqrt(expected * (1 - expected) / runs)).any()


def test_neighbouring_votes_are_all_there_and_sum_to_one():
    pairs = votes.neighbouring_votes(n_classes=3, k=2, n=2, noise=0.5)
    assert len(pairs.before) == 6**3  # own votes, the same changed, votes of the others
    assert (pairs.change.sum(-1) == 0).all()
    assert pairs.m.min() == 1  # two models leave one of three classes without a vote
    np.testing.assert_allclose(pairs.before.sum(-1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("n", "size"), [(2, 2), (3, 1), (3, 2)])
def test_a_record_is_seldom_in_the_chunk_that_grew(n, size):
    """Counted over all balanced partitions; the epsilon of the one learner is that of its votes on them."""
    noise = 0.7
    records = "abcdefgh"[: n * size + 1]
    cuts = votes.balanced_partitions(records, n)
    ones = [sum("a" in chunk or len(chunk) > size for chunk in cut) for cut in cuts]
    assert Fraction(ones.count(1), len(ones)) == Fraction(size + 1, n * size + 1)
    answers = [votes.answer_distribution(np.array([n - one, one]), scale=1 / noise)[1] for one in range(3)]
    epsilon = math.log(np.mean([answers[one] for one in ones]) / answers[0])
    assert math.isclose(votes.balanced_epsilon(n=n, size=size, noise=noise), epsilon, rel_tol=1e-12)


def test_the_example_is_a_pair_of_neighbours():
    """The record joins the first smallest chunk of each partition, and no other chunk changes."""
    for cut, grown in zip(votes.EXAMPLE, votes.WITH_RECORD, strict=True):
        smallest = min(map(len, cut))
        first = next(index for index, chunk in enumerate(cut) if len(chunk) == smallest)
        assert grown == tuple(chunk + "e" * (index == first) for index, chunk in enumerate(cut))


@pytest.mark.parametrize(("first", "second", "tolerance"), [(0.0, 0.4, 1e-13), (0.3, 0.4, 1e-13), (0.3, 0.0, 1e-5)])
def test_two_rounds_without_a_choice_are_one_gaussian(first, second, tolerance):
    """Without a second shift the integrand has a kink, which the quadrature feels."""
    epsilons = np.array([0.0, 0.2, 1.0])
    total = votes.two_rounds(epsilons, (first, second, second), threshold=0.5)
    expected = accounting.gaussian(sigma=1 / math.hypot(first, second)).delta(epsilons)
    np.testing.assert_allclose(total, expected, rtol=0, atol=tolerance)
