"""The trainings on which audits are measured: each fault violates its claim, sound
ones do not; the kept rows.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks._faults import ATTAINED, FAULTS, SOUND, D, Descent, table
from dpnotes.accounting import clopper_pearson, gaussian
from dpnotes.auditing import audit_scores
from dpnotes.lab import audits
from dpnotes.lab.store import published_store

X, Y = table()
# along the axis where the records have least, and opposite to its class
QUIET = (np.eye(D)[-1], 0)
FAR = (-np.eye(D)[0], 1)
# longer in L1 than in L2
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
    "step from the count": (FAR, 400),
}


class Constant(np.random.Generator):
    """Normal numbers that are all the same."""

    value = 0.0

    def normal(self, loc=0.0, scale=1.0, size=None):
        return loc + scale * np.full(size, self.value)


def neighbours(claim, record):
    """Data sets with a record, and without it or with its mirror image."""
    x, label = record
    labels = np.append(label, Y)
    others = X, Y
    if claim.adjacency != "add-remove":
        others = np.vstack([-x, X]), labels
    return (np.vstack([x, X]), labels), others


def released(target, data, runs, first, record):
    """Numbers that runs give out, [runs, numbers], the shorter filled up; of many
    numbers, their length.
    """
    found = []
    for seed in range(first, first + runs):
        result = target.train(*data, seed)
        if target.score:
            result = target.score(result, *record)
        # a row for each class
        if np.ndim(result) == 2:
            result = result[1] - result[0]
        parts = result.values() if isinstance(result, dict) else [result]
        numbers = np.concatenate([np.ravel(part) for part in parts])
        if len(numbers) > 20:
            numbers = [np.linalg.norm(numbers)]
        # trainings that stop early, or answer less, give fewer
        row = np.full(20, -9.0)
        row[: len(numbers)] = numbers
        found.append(row)
    return np.stack(found)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_falls_to_an_attack_by_hand(name):
    target = FAULTS[name]
    record, runs = BY_HAND.get(name, (QUIET, 300 if target.score else 150))
    with_, without = neighbours(target.claim(), record)
    members = released(target, with_, runs, 0, record)
    # seeds that the others have not used
    others = released(target, without, runs, 10**6, record)
    assert audit_scores(members, others, claim=target.claim()).p_value < 2e-3


@pytest.mark.parametrize("name", ["full gradients", "momentum", "noisy sum", "votes"])
def test_one_step_of_a_sound_training_moves_as_far_as_is_accounted_for(name):
    draw = np.random.default_rng(0)
    train = SOUND[name].train
    if hasattr(train, "steps"):
        train = replace(train, steps=1)
    claim = train.claim()
    records = [QUIET, FAR, DENSE]
    for i in range(99):
        size = 10.0 ** draw.integers(-2, 3)
        records.append((draw.normal(size=D) * size, i % 2))

    def result(data, value):
        generator = Constant(np.random.PCG64(0))
        generator.value = value
        return train(*data, generator)

    mu = 0.0
    for record in records:
        with_, without = neighbours(claim, record)
        still = result(with_, 0.0)
        # in standard deviations of the noise, which a noise of 1 everywhere shows
        moved = (still - result(without, 0.0)) / (result(with_, 1.0) - still)
        mu = max(mu, float(np.linalg.norm(moved)))
    found = gaussian(sigma=1 / mu).delta(0.5)
    # some record moves it nearly so far
    assert 0.9 * claim.delta(0.5) < found <= claim.delta(0.5) * (1 + 1e-9)


def test_what_the_last_weights_show():
    epsilons = np.linspace(0, 3, 7)
    # of one step all is shown, and of five without samples
    for whole in (
        Descent(steps=1, rate=0.3, noise=1.0),
        Descent(rate=1.0, noise=1.0),
    ):
        expected = whole.claim().delta(epsilons)
        np.testing.assert_allclose(whole.shown(epsilons), expected, rtol=1e-4)
    # of ten sampled steps something is lost
    several = Descent(steps=10, rate=0.3, noise=1.0)
    assert several.shown(np.zeros(1)) < 0.95 * several.claim().advantage
    # an intercept hides a part of a gradient
    assert 0.5**0.5 < SOUND["Poisson samples"].train.length(X, Y) < 0.8
    assert ATTAINED["all steps"].train.length(X, Y) == pytest.approx(1.0, abs=0.01)


def kept(part):
    return pd.read_csv(published_store(f"audits_{part}"))


def test_kept_rows_are_of_these_trainings_and_claims():
    faults = kept("faults")
    sound = kept("sound")
    # as many as the page tells of
    assert (len(FAULTS), len(SOUND)) == (31, 10)
    for row in faults.to_dict("records"):
        target = FAULTS[row["training"]]
        assert row["words"] == target.words
        claimed = target.claim().epsilon(1e-5)
        assert row["epsilon_claimed"] == pytest.approx(claimed, rel=1e-4)
    assert set(sound["training"]) == set(SOUND)
    assert not sound.duplicated(["training", "random_state"]).any()
    for rows in (faults, sound):
        assert (rows["refuted"] == (rows["p_value"] <= 0.05)).all()
    # sound trainings are refuted no more often than a level allows
    for level in (0.05, 0.01):
        refuted = (sound["p_value"] <= level).sum()
        assert clopper_pearson(refuted, len(sound))[0] <= level
    # from what is claimed down to what can be seen
    seen = kept("visible").set_index("training")
    assert (seen["seen"] < seen["last"]).all()
    assert (seen["last"] < seen["accounted"]).all()


def test_tables_of_audits():
    asked = {"training": "sum", "words": "a sum"}
    # a strategy that is no longer there is left out
    rows = pd.DataFrame([asked, asked])
    rows = rows.assign(asked=["one run", "betting"], fraction=[0.9, 0.7])
    found = audits.by_strategy(rows).loc[0]
    assert (found["best"], found["betting"]) == (0.7, 0.7)
    assert np.isnan(found["many runs"])
    keys = {"mechanism": "Gaussian", "quantity": "mu", "size": 9, "repeats": 12}
    bounds = {"dpnotes": 0.9, "jax_privacy, split": 0.5, "jax_privacy, Bonferroni": 0.6}
    rows = pd.DataFrame([keys] * 3)
    rows = rows.assign(side=[*bounds], fraction=[*bounds.values()], above=1)
    near = audits.nearness(rows)
    assert near[["ours", "theirs", "above"]].to_numpy().tolist() == [[0.9, 0.6, 1]]
