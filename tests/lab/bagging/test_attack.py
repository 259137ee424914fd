"""Membership attacks of the bagging chapter: moments by another road, error rates, exposure, bad input."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.lab import bagging
from dpnotes.lab.bagging import attack


def test_moments_are_those_of_the_networks_that_did_not_draw_the_record():
    generator = np.random.default_rng(0)
    confidence, undrawn = generator.normal(size=(9, 40)), generator.random((9, 40)) < 0.7
    undrawn[:2] = True
    mean, std = attack.moments(confidence, undrawn)
    for record in range(40):
        known = confidence[undrawn[:, record], record]
        assert mean[record] == pytest.approx(known.mean())
        assert std[record] == pytest.approx(known.std(ddof=1))
    alone = attack.standardised(confidence, undrawn, 0)
    mean, std = attack.moments(confidence[1:], undrawn[1:])
    np.testing.assert_allclose(alone, (confidence[0] - mean) / std)


def rigged(memory):
    """Networks whose confidence in a record is noise, and ``memory`` where they drew it; every tenth is mislabelled."""

    def networks(dataset, subsample, n_networks, flipped, others, seed, **training):
        generator = np.random.default_rng(seed)
        drawn = generator.random((n_networks, 3000)) < 0.05
        ease = generator.normal(scale=5.0, size=3000)  # some records are easy, some are hard
        confidence = ease + generator.normal(size=drawn.shape) + memory * drawn
        return attack.Confidences(confidence, drawn, np.arange(3000) % 10 == 0, 3000, "rigged")

    return networks


def row(**change):
    first = bagging.grids.membership("quick")[0]
    return {**first, "n_networks": 40, "false_positive_rate": 0.01, "device": "cpu", **change}


@pytest.mark.parametrize("mislabelled", [False, True])
def test_false_positives_are_as_set_and_only_memory_is_recognised(monkeypatch, mislabelled):
    """3,000 records and 20 networks; a rate is off by five of its standard errors with chance below 1e-6."""
    for memory, power in ((0.0, 0.01), (5.0, 0.9)):
        monkeypatch.setattr(bagging.experiments, "confidences", rigged(memory))
        counts = bagging.experiments.membership(**row(attack="likelihood-ratio", mislabelled=mislabelled))
        false = counts["false_positives"] / counts["nonmembers"]
        assert abs(false - 0.01) < 5 * np.sqrt(0.01 / counts["nonmembers"]) + 0.003  # the quantile is estimated, too
        true = counts["true_positives"] / counts["members"]
        assert abs(true - power) < 0.03 if memory == 0 else true > power
    one = bagging.experiments.membership(**row(attack="loss", mislabelled=mislabelled))
    assert one["true_positives"] / one["members"] < 0.3  # one threshold for easy and hard records sees far less


def test_networks_expose_the_records_that_they_drew_and_no_others():
    rows = [r for r in bagging.grids.membership("quick") if r["false_positive_rate"] == 0.1]
    found = pd.DataFrame([{**r, **bagging.experiments.membership(**r, device="cpu")} for r in rows])
    odd = found.query("attack == 'likelihood-ratio' and mislabelled").squeeze()
    assert odd["true_positives"] / odd["members"] > 0.4 > 0.2 > odd["false_positives"] / odd["nonmembers"]
    assert found["members"].sum() == 2 * found.query("attack == 'loss'")["members"].sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attack": "shadow"}, "attack must be one of 'loss', 'likelihood-ratio', got attack='shadow'"),
        ({"n_networks": 7}, "n_networks must be even and >= 6"),
        ({"n_networks": 4}, "n_networks must be even and >= 6"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        bagging.experiments.membership(**row(**change))
