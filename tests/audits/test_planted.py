"""Every planted fault violates its claim: a hand-made attack shows it, or the noise against what one record moves."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpnotes.accounting import clopper_pearson, dp_sgd, gaussian
from dpnotes.auditing import audit_scores
from dpnotes.auditing._canaries import Domain, find_canaries, opposite
from dpnotes.lab.faults import ATTAINED, FAULTS, SOUND, descent, tables
from dpnotes.lab.faults.catalogue import NORM, D, table
from tests.audits.__main__ import DELTA, kept

X, Y = table()
QUIET, FAR = (np.eye(D)[-1], 0), (-np.eye(D)[0], 1)
DENSE = (np.array([-1, 1, 1, 1, 1, 1]) / D**0.5, 1)
BY_HAND = {  # canary and runs, where another canary or more runs than most need
    "early stopping": (FAR, 150),
    "clipped late": (FAR, 600),
    "best of ten": (QUIET, 1500),
    "bounds from the data": (FAR, 400),
    "rate twice": (FAR, 400),
    "Laplace for L2": (DENSE, 4000),
    "low entropy": (FAR, 4000),
    "one step more": (QUIET, 800),
    "budget counted once": (QUIET, 800),
    "replace-one as add-remove": (DENSE, 1000),
}
GAUSSIAN = [  # one step of these is Gaussian noise on a sum
    "noise of the mean on the sum",
    "sum in place of the mean",
    "no clipping",
    "batch clipped",
    "bias not clipped",
    "rate twice",
    "clipped late",
    "standardised",
    "replace-one as add-remove",
]


class Constant(np.random.Generator):
    """Normal numbers that are all the same."""

    value = 0.0

    def normal(self, loc=0.0, scale=1.0, size=None):
        return loc + scale * np.full(size, self.value)


def neighbours(claim, record):
    """Data sets with a record, and without it or with its mirror image."""
    x, label = record
    with_ = np.vstack([x, X]), np.append(label, Y)
    return with_, ((X, Y) if claim.adjacency == "add-remove" else (np.vstack([-x, X]), with_[1]))


def released(target, data, runs, first, record):
    """Numbers that runs give out, [runs, numbers], the shorter filled up."""
    found = []
    for seed in range(first, first + runs):
        result = target.train(*data, seed)
        if target.score:
            result = target.score(result, *record)
        if np.ndim(result) == 2:  # a row for each class
            result = result[1] - result[0]
        parts = result.values() if isinstance(result, dict) else [result]
        numbers = np.concatenate([np.ravel(part) for part in parts])
        found.append(np.pad(np.asarray(numbers, float), (0, 20 - len(numbers)), constant_values=-9))
    return np.stack(found)


def ratio(train, pair):
    """By how many standard deviations of its noise one step moves between two data sets."""
    values = []
    for data, value in ((pair[0], 0.0), (pair[1], 0.0), (pair[0], 1.0)):
        generator = Constant(np.random.PCG64(0))
        generator.value = value
        values.append(train(*data, generator))
    return float(np.linalg.norm((values[0] - values[1]) / (values[2] - values[0])))


def one_step(train):
    return replace(train, steps=1) if hasattr(train, "steps") else train


def test_thirty_faults_and_ten_sound_trainings_say_what_they_are():
    assert (len(FAULTS), len(SOUND)) == (30, 10)
    assert not set(FAULTS) & set(SOUND)
    words = [target.words for target in (FAULTS | SOUND).values()]
    assert len(set(words)) == 40
    assert all(text[0].isupper() and text.endswith(".") for text in words[:30])
    for name, target in (FAULTS | SOUND).items():
        claim = target.claim()
        assert claim.status in ("proved", "assumption"), name
        assert claim.delta(1.0) < 0.6 or name == "shuffled as Poisson", name
    assert np.linalg.norm(X, axis=1).max() < 1


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_falls_to_an_attack_by_hand(name):
    target = FAULTS[name]
    record, runs = BY_HAND.get(name, (QUIET, 300 if target.score else 150))
    with_, without = neighbours(target.claim(), record)
    members = released(target, with_, runs, 0, record)
    others = released(target, without, runs, 10**6, record)
    found = audit_scores(members, others, claim=target.claim())
    assert found.p_value < 2e-3


@pytest.mark.parametrize("name", GAUSSIAN)
def test_one_step_of_a_fault_moves_too_far_for_its_noise(name):
    train = one_step(FAULTS[name].train)
    claim = train.claim()
    mu = max(ratio(train, neighbours(claim, record)) for record in (QUIET, FAR, DENSE))
    assert gaussian(sigma=1 / mu).delta(0.5) > 1.4 * claim.delta(0.5)


@pytest.mark.parametrize("name", ["full gradients", "momentum", "noisy sum", "votes"])
def test_one_step_of_a_sound_training_moves_as_far_as_is_accounted_for(name):
    train = one_step(SOUND[name].train)
    claim, draw = train.claim(), np.random.default_rng(0)
    records = [QUIET, FAR, DENSE] + [(draw.normal(size=D) * 10.0 ** draw.integers(-2, 3), i % 2) for i in range(100)]
    mu = max(ratio(train, neighbours(claim, record)) for record in records)
    assert gaussian(sigma=1 / mu).delta(0.5) <= claim.delta(0.5) * (1 + 1e-9)
    assert gaussian(sigma=1 / mu).delta(0.5) > 0.9 * claim.delta(0.5)  # and some record moves it nearly so far


def test_one_step_shows_what_is_claimed_and_the_sum_of_several_less():
    one = descent.Descent(steps=1, rate=0.3, noise=1.0)
    np.testing.assert_allclose(one.shown(np.linspace(0, 3, 7)), one.claim().delta(np.linspace(0, 3, 7)), rtol=1e-4)
    several = descent.Descent(steps=10, rate=0.3, noise=1.0)
    assert several.shown(np.zeros(1)) < 0.95 * several.claim().advantage
    assert descent.Descent(rate=1.0, noise=1.0).shown(np.zeros(1)) == pytest.approx(
        dp_sgd(noise_multiplier=1.0, sample_rate=1.0, steps=5).advantage, rel=1e-4
    )  # without samples nothing is lost


def test_an_intercept_hides_a_part_of_a_gradient():
    training = SOUND["Poisson samples"].train
    assert 0.5**0.5 < training.length(X, Y) < 0.8
    assert ATTAINED["all steps"].train.length(X, Y) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("label", [0, 1])
def test_all_steps_show_nearly_what_is_claimed(label):
    target = ATTAINED["all steps"]
    data = neighbours(target.claim(), (np.eye(D)[4], label))
    found = [released(target, each, 3000, 10**6 * i, (np.eye(D)[4], label)) for i, each in enumerate(data)]
    report = audit_scores(*found, claim=target.claim())
    assert 0.8 * target.claim().advantage < report.delta(0.0) <= target.claim().advantage


def test_an_exchanged_record_moves_what_a_linear_model_sums():
    domain = Domain.of(X, Y, norm=NORM, bounds=None, classes=None)
    for canary in find_canaries(X, Y, domain, None)[0]:
        x, label = opposite(canary, domain)
        with_, without = ((2 * y - 1) * np.append(at, 1.0) for at, y in ((canary.x, canary.label), (x, label)))
        assert domain.allows(x, label)
        assert np.linalg.norm(with_ - without) >= 2 * max(np.linalg.norm(canary.x), 0.2) * (1 - 1e-6), canary.kind


def test_kept_audits_refute_nearly_all_faults_in_time():
    rows = {row["training"]: row for row in kept("audits_faults")}
    assert set(rows) <= set(FAULTS)
    assert sum(row["refuted"] == "False" for row in rows.values()) <= 4
    for name, row in rows.items():
        assert row["words"] == FAULTS[name].words
        assert float(row["epsilon_claimed"]) == pytest.approx(FAULTS[name].claim().epsilon(DELTA), rel=1e-4)
        assert (row["refuted"] == "True") == (float(row["p_value"]) <= 0.05)
        assert row["refuted"] == "False" or float(row["seconds"]) <= 130


def test_kept_audits_of_sound_trainings_refute_no_more_than_allowed():
    rows = pd.DataFrame(kept("audits_sound"))
    assert set(rows["training"]) <= set(SOUND)
    assert not rows.duplicated(["training", "random_state"]).any()
    p_values = rows["p_value"].astype(float)
    assert (rows["refuted"] == "True").tolist() == (p_values <= 0.05).tolist()
    for level in (0.05, 0.01):
        assert clopper_pearson(int((p_values <= level).sum()), len(rows))[0] <= level


def test_what_is_seen_of_dp_sgd_is_less_than_its_last_weights_show():
    found = tables.visible()
    assert (found["seen"] < found["last"]).all()
    assert (found["last"] < found["accounted"]).all()
    assert found.loc["Poisson samples", "accounted"] == pytest.approx(1.0)


def test_kept_audits_in_more_and_more_time_stay_below_what_can_be_seen():
    rows = pd.DataFrame(kept("audits_curve"))
    assert not rows.duplicated(["training", "budget"]).any()
    assert (rows["refuted"] == "False").all()
    fractions = rows.set_index("training")["fraction"].astype(float)
    assert fractions["Poisson samples"].max() < tables.visible().loc["Poisson samples", "seen"]
    assert fractions.max() < 1


def test_tables_of_audits():
    asked = {"training": "sum", "words": "a sum"}
    rows = pd.DataFrame([{**asked, "asked": "lira", "fraction": 0.1}, {**asked, "asked": "betting", "fraction": 0.7}])
    found = tables.by_strategy(rows).loc[0]
    assert (found["best"], found["lira"]) == (0.7, 0.1)
    assert math.isnan(found["many runs"])
    keys = {"mechanism": "Gaussian", "quantity": "mu", "runs_kind": "many", "size": 9, "repeats": 12}
    bounds = {"dpnotes": 0.9, "jax_privacy, split": 0.5, "jax_privacy, Bonferroni": 0.6}
    lines = [{**keys, "side": side, "fraction": bound, "above": 1} for side, bound in bounds.items()]
    near = tables.nearness(pd.DataFrame(lines))
    assert near[["ours", "theirs", "above"]].to_numpy().tolist() == [[0.9, 0.6, 1]]
