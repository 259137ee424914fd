"""The learning rates of DP-SGD in the bagging chapter: chosen on held-out rows, carried to runs of other length."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import rates

N = 60_000


def run(**changes):
    given = {"noise_multiplier": 8.0, "epsilon": None, "delta": None, "epochs": 10, "batch_size": 256}
    return {**given, **changes}


@pytest.mark.parametrize("model", rates.RATES)
def test_rates_are_those_that_held_out_rows_choose(model):
    table = bagging.tables.rate_candidates(experiments.rows("bagging_dp_sgd_settings"), model)
    assert tuple(table["noise_multiplier"]) == rates.NOISES
    assert tuple(table["chosen"]) == rates.CHOSEN[model]
    assert {f"accuracy_{rate:g}" for rate in rates.RATES[model]} == set(table) - {"noise_multiplier", "chosen"}


def test_more_noise_never_takes_a_larger_rate():
    for chosen in rates.CHOSEN.values():
        assert list(chosen) == sorted(chosen, reverse=True)


@pytest.mark.parametrize("noise", rates.NOISES)
def test_a_longer_run_drifts_and_wanders_as_far_as_the_short_one(noise):
    short = rates.dp_sgd_rate("network", run(noise_multiplier=noise), n=N)
    assert short == rates.CHOSEN["network"][rates.NOISES.index(noise)]
    sigma = noise * math.sqrt(10)
    long = rates.dp_sgd_rate("network", run(noise_multiplier=sigma, epochs=100), n=N)
    assert 100 * long == pytest.approx(10 * short)  # rate x steps
    assert long * sigma * math.sqrt(100) == pytest.approx(short * noise * math.sqrt(10))


def test_other_batches_and_records_drift_and_wander_as_far():
    noise, batch, steps = 72.0, 128, 100 * 50_000 / 128  # Table 2b
    rate = rates.dp_sgd_rate("network", run(noise_multiplier=noise, epochs=100, batch_size=batch), n=50_000)
    short, short_steps = rates.CHOSEN["network"][-1], 10 * 60_000 / 256
    assert rate * steps == pytest.approx(short * short_steps)
    same = rate * noise * math.sqrt(steps) / batch / (short * math.sqrt(short_steps) / 256)  # noise of the short run
    assert 16 < same < 64  # so that 32 is the nearest


@pytest.mark.parametrize(("epsilon", "delta"), [(0.005, 0.005), (0.0, 0.08)])
def test_the_noise_of_a_budget_is_known_closely_enough_to_choose(epsilon, delta):
    row = run(noise_multiplier=None, epsilon=epsilon, delta=delta)
    rounds = {"sample_rate": 256 / N, "steps": 2343, "accountant": "pld"}
    exact = accounting.dp_sgd_noise_multiplier(epsilon, delta, **rounds)
    assert rates.about_sigma(row, n=N) == pytest.approx(exact, rel=0.1)


def test_every_row_of_the_tables_has_the_rate_of_its_noise():
    for row in [*bagging.grids.dp_sgd("paper"), *bagging.grids.equal("paper")]:
        model = "network" if row["width"] else "linear"
        assert row["learning_rate"] == pytest.approx(rates.dp_sgd_rate(model, row, n=N))
    for row in bagging.grids.case2_dp_sgd("paper"):
        assert row["learning_rate"] == pytest.approx(rates.dp_sgd_rate("network", row, n=N) / 10)
    assert {row["learning_rate"] for row in bagging.grids.one_rate()} == {0.15}
    tuned, tenth = bagging.grids.case2_dp_sgd("paper"), bagging.grids.one_rate("3a")
    assert [row | {"learning_rate": 0.015} for row in tuned if row["noise_multiplier"]] == tenth


def test_cifar10_takes_the_rates_of_its_noise_and_a_tenth_from_a_public_model():
    for row in bagging.grids.cifar10_dp_sgd():
        factor = 0.1 if "public" in row else 1.0
        assert row["learning_rate"] == pytest.approx(factor * rates.dp_sgd_rate("network", row, n=50_000))


def test_the_rate_that_mnist_gives_is_the_one_that_images_of_cifar10_choose():
    table = bagging.tables.carried_rates(experiments.rows("bagging_reduced_dp_sgd_settings"))
    assert table["sigma"].tolist() == pytest.approx([11.5, np.nan], nan_ok=True)
    assert table["nearest"].tolist() == table["chosen"].tolist()


def test_both_rates_stand_beside_the_paper_and_gaps_stay_gaps():
    one = pd.DataFrame({"noise_multiplier": [19.0, None], "learning_rate": 0.15, "accuracy": [0.1, 0.9]})
    table = bagging.tables.two_rates(one, pd.DataFrame({"noise_multiplier": [8.0], "learning_rate": 0.05}))
    assert table["sigma"].tolist() == [200, 150, 100, 19, 8]
    at = table.set_index("sigma")
    assert at.loc[19, ["published", "one_rate"]].tolist() == [0.8791, 0.1]
    assert (at.loc[8, "rate"], at["accuracy"].notna().any()) == (0.05, np.False_)
    assert "not run yet" in bagging.tables.TWO_RATES(table).to_html()


def test_a_noise_with_a_candidate_missing_has_no_choice():
    rows = pd.DataFrame(
        {
            "width": 16.0,
            "noise_multiplier": [2.0, 2.0, 8.0],
            "learning_rate": [0.5, 0.15, 0.15],
            "accuracy": [0.9, 0.8, 0.7],
        }
    )
    assert bagging.tables.rate_candidates(rows, "network")["chosen"].fillna(0).tolist() == [0.5, 0]
