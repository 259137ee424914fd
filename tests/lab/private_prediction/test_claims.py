"""Claims 9 to 21: the evidence no longer supports the status when what it rests on is wrong."""

import dataclasses

import numpy as np
import pytest
from scipy import optimize

from dpnotes import accounting
from dpnotes.lab.ledger import LEDGER
from dpnotes.lab.private_prediction.claims import minimiser

BY_NUMBER = {claim.number: claim for claim in LEDGER}


def scaled(function, factor):
    """A wrong accountant: its number is off by a factor."""

    def wrong(*args, **kwargs):
        return factor * function(*args, **kwargs)

    return wrong


def replaced(function, **changes):
    """A wrong accountant: fields of its answer are changed, each by a function."""

    def wrong(*args, **kwargs):
        answer = function(*args, **kwargs)
        fields = {name: change(getattr(answer, name)) for name, change in changes.items()}
        return dataclasses.replace(answer, **{name: value for name, value in fields.items() if value is not None})

    return wrong


def told(function, **changes):
    """A wrong accountant: it is asked with other arguments, each changed by a function."""

    def wrong(**arguments):
        return function(**{**arguments, **{name: change(arguments[name]) for name, change in changes.items()}})

    return wrong


def times(factor):
    return lambda value: None if value is None else factor * value


def test_claim_19_notices_a_beta_that_is_a_hundredth_too_large(monkeypatch):
    """Wrong versions of the formulas themselves are in ``tests/claims``."""
    monkeypatch.setattr(accounting, "soft_vote_beta", scaled(accounting.soft_vote_beta, 1.01))
    assert not BY_NUMBER[19].evidence().supports


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (13, {"rate": times(2.5)}),  # noise too small
        (13, {"rate": times(0.5)}),  # noise for an exchanged record: nothing would be wrong
        (13, {"regulariser": times(0.2)}),
        (14, {"sigma": lambda value: value and 15.0}),  # the same for every number of classes
        (15, {"rate": times(0.5)}),
    ],
)
def test_evidence_notices_wrong_objective_noise(number, changes, monkeypatch):
    monkeypatch.setattr(accounting, "objective_perturbation", replaced(accounting.objective_perturbation, **changes))
    assert not BY_NUMBER[number].evidence().supports


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_claim_14_notices_a_wrong_quantile(factor, monkeypatch):
    monkeypatch.setattr(accounting, "gradient_quantile", scaled(accounting.gradient_quantile, factor))
    assert not BY_NUMBER[14].evidence().supports


def test_claim_12_notices_a_wrong_profile(monkeypatch):
    monkeypatch.setattr(accounting, "gaussian", told(accounting.gaussian, sigma=times(1.01)))
    assert not BY_NUMBER[12].evidence().supports


def test_claim_16_notices_sampling_that_is_forgotten(monkeypatch):
    monkeypatch.setattr(accounting, "subsampled", lambda profile, **sample: profile)
    assert not BY_NUMBER[16].evidence().supports


def test_claim_16_notices_a_wrong_divergence(monkeypatch):
    exact = accounting.hockey_stick
    monkeypatch.setattr(accounting, "hockey_stick", lambda p, q, factor: exact(p, q, 1))
    assert not BY_NUMBER[16].evidence().supports


def test_claim_20_notices_a_vote_that_moves_one_count(monkeypatch):
    """As the proof has it: range beta instead of 2 beta."""

    monkeypatch.setattr(accounting, "soft_vote", told(accounting.soft_vote, beta=times(2)))
    assert not BY_NUMBER[20].evidence().supports


@pytest.mark.parametrize("changes", [{"lipschitz": 1.0}, {"smoothness": 0.25}, {"rank": 2}, {"trace": 0.5}])
def test_claim_21_notices_a_wrong_constant(changes, monkeypatch):
    wrong = {name: lambda _, value=value: value for name, value in changes.items()}
    monkeypatch.setattr(accounting, "logistic_constants", replaced(accounting.logistic_constants, **wrong))
    assert not BY_NUMBER[21].evidence().supports


def test_minimiser_equals_a_library_minimiser():
    generator = np.random.default_rng(7)
    x, y, often = generator.normal(size=(5, 2)), generator.integers(3, size=5), generator.integers(1, 4, size=5)
    found = minimiser.minimiser(x, y, often.astype(float), n_classes=3, regulariser=0.1)

    def value(flat):
        logits = x @ flat.reshape(2, 3)
        loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), y]
        return (often * loss).sum() / often.sum() + 0.05 * (flat**2).sum()

    expected = optimize.minimize(value, np.zeros(6), tol=1e-12, options={"gtol": 1e-8}).x
    assert np.abs(found.ravel() - expected).max() < 1e-6  # of the library, whose gradient is by differences


def test_claimed_numbers_are_the_papers():
    """The reasons quote what the evidence computes."""
    found = {finding.quantity: finding.found for number in (13, 18, 19, 20) for finding in findings(number)}
    assert found["2 L C / epsilon, 10 classes, over the least regulariser by rank and trace"] == pytest.approx(
        5.7, abs=0.05
    )
    assert found["published sigma over the exact one"] == pytest.approx(5.3, abs=0.05)
    assert found["epsilon of 100 answers, beta = 1/100"] == pytest.approx(1.54, abs=0.005)
    assert found["B from which beta'' is taken"] == 25


def findings(number):
    return BY_NUMBER[number].evidence().findings
