"""The evidence on what bagging was compared with: a wrong accountant, or another run, makes it object."""

import pytest

from dpnotes import accounting
from dpnotes.lab.bagging import cells, claims
from dpnotes.lab.ledger import LEDGER

CLAIMS = {claim.number: claim for claim in LEDGER}


def changed(name, **factors):
    """An accountant that takes some of its arguments for another multiple."""

    def wrong(**arguments):
        scaled = {key: type(arguments[key])(factor * arguments[key]) for key, factor in factors.items()}
        return getattr(accounting, name)(**{**arguments, **scaled})

    return wrong


WRONG = {  # wrong versions of the formulas themselves are in tests/claims
    "7, more noise than there is": (7, "dp_sgd", {"noise_multiplier": 1.05}),
    "7, fewer steps": (7, "dp_sgd", {"steps": 0.9}),
    "7, half the sample rate": (7, "dp_sgd", {"sample_rate": 0.5}),
    "7, twice the records": (7, "bagging", {"n": 2}),
    "37, more noise than there is": (37, "dp_sgd", {"noise_multiplier": 1.05}),
}


@pytest.mark.parametrize("case", WRONG)
def test_evidence_notices_a_wrong_accountant(case, monkeypatch):
    number, name, factors = WRONG[case]
    monkeypatch.setattr(claims, name, changed(name, **factors))
    assert not CLAIMS[number].evidence().supports


@pytest.mark.parametrize("number", [7, 8])
def test_evidence_notices_another_run(number, monkeypatch):
    """The published numbers are tied to the runs: with other noise or queries they do not fit."""
    monkeypatch.setattr(claims, "SGD_RUNS", tuple((e, d, 2 * sigma, k) for e, d, sigma, k in claims.SGD_RUNS))
    monkeypatch.setattr(claims, "PATE_RUNS", tuple((e, d, p, 4 * queries) for e, d, p, queries in claims.PATE_RUNS))
    assert not CLAIMS[number].evidence().supports


@pytest.mark.parametrize(
    ("store", "points"), [("bagging_table2a", -2.0), ("bagging_dp_sgd", 80.0), ("bagging_case2", 5.0)]
)
def test_evidence_notices_other_accuracies(store, points, monkeypatch):
    """The order is that of the rows: where it is lost, or is as large as printed, the claim has another status."""
    published = cells.rows

    def moved(name, *grid):
        frame = published(name, *grid)
        return frame.assign(accuracy=frame["accuracy"].astype(float) + points / 100) if name == store else frame

    monkeypatch.setattr(cells, "rows", moved)
    assert not CLAIMS[37].evidence().supports


def test_moments_by_summation_agree_with_the_curve():
    """At a small delta, where an integer order is near the best, the conversion exceeds the tighter one a little."""
    sigma, delta = 1.4, 1e-5
    tight = claims._sgd(sigma).epsilon(delta)
    assert tight < claims._classical_epsilon(sigma, delta, claims.BATCH) < 1.4 * tight


def test_numbers_of_queries_are_the_largest():
    epsilon, delta = 0.1, 0.095
    number = claims._queries_within(epsilon, delta)
    assert claims._pate(number, number).delta(epsilon) <= delta < claims._pate(number + 1, number + 1).delta(epsilon)
