"""Membership attacks of the bagging chapter: moments by another road, error rates, exposure, bad input."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.lab.bagging import attack
from dpnotes.lab.bagging import experiments as bagging


def test_moments_are_those_of_the_networks_that_did_not_draw_the_record():
    generator = np.random.default_rng(0)
    confidence, undrawn = generator.normal(size=(9, 40)), generator.random((9, 40)) < 0.7
    undrawn[:2] = True
    mean, deviation = attack._moments(confidence, undrawn)
    for record in range(40):
        known = confidence[undrawn[:, record], record]
        assert mean[record] == pytest.approx(known.mean())
        assert deviation[record] == pytest.approx(known.std(ddof=1))
    alone = attack._standardised(confidence, undrawn, 0)
    mean, deviation = attack._moments(confidence[1:], undrawn[1:])
    np.testing.assert_allclose(alone, (confidence[0] - mean) / deviation)


def rigged(memory):
    """Networks whose confidence in a record is noise, and ``memory`` where they drew it; every tenth is mislabelled."""

    def networks(dataset, subsample, n_networks, flipped, others, seed, device, **how):
        generator = np.random.default_rng(seed)
        drawn = generator.random((n_networks, 3000)) < 0.05
        level = generator.normal(scale=5.0, size=3000)  # some records are easy, some are hard
        confidence = level + generator.normal(size=drawn.shape) + memory * drawn
        return confidence, drawn, np.arange(3000) % 10 == 0, "rigged", 3000

    return networks


def row(**change):
    first = bagging.membership_grid("quick")[0]
    return {**first, "n_networks": 40, "false_positive_rate": 0.01, "device": "cpu", **change}


@pytest.mark.parametrize("mislabelled", [False, True])
def test_false_alarms_are_as_set_and_only_memory_is_found(monkeypatch, mislabelled):
    """3,000 records and 20 networks; a rate is off by five of its standard errors with chance below 1e-6."""
    for memory, found in ((0.0, 0.01), (5.0, 0.9)):
        monkeypatch.setattr(attack, "_networks", rigged(memory))
        counts = bagging.membership(**row(attack="likelihood-ratio", mislabelled=mislabelled))
        false = counts["alarms"] / counts["nonmembers"]
        assert abs(false - 0.01) < 5 * np.sqrt(0.01 / counts["nonmembers"]) + 0.003  # the quantile is estimated, too
        true = counts["hits"] / counts["members"]
        assert abs(true - found) < 0.03 if memory == 0 else true > found
    one = bagging.membership(**row(attack="loss", mislabelled=mislabelled))
    assert one["hits"] / one["members"] < 0.3  # one threshold for easy and hard records sees far less


def test_networks_expose_whom_they_drew_and_nobody_else():
    rows = [r for r in bagging.membership_grid("quick") if r["false_positive_rate"] == 0.1]
    found = pd.DataFrame([{**r, **bagging.membership(**r, device="cpu")} for r in rows])
    found = found.assign(true=found["hits"] / found["members"], false=found["alarms"] / found["nonmembers"])
    odd = found.query("attack == 'likelihood-ratio' and mislabelled").iloc[0]
    assert odd["true"] > 0.4 > 0.2 > odd["false"]
    assert found["members"].sum() == 2 * found.query("attack == 'loss'")["members"].sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attack": "shadow"}, "attack must be 'loss' or 'likelihood-ratio', got attack='shadow'"),
        ({"n_networks": 7}, "n_networks must be even and >= 6"),
        ({"n_networks": 4}, "n_networks must be even and >= 6"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        bagging.membership(**row(**change))
