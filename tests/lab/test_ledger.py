"""Every claim of the ledger has evidence that supports its status, and evidence that
could fail.
"""

import dataclasses
import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from dpnotes import accounting
from dpnotes.lab import _claim, ledger
from dpnotes.lab.bagging import cells
from dpnotes.lab.bagging import claims as bagging
from dpnotes.lab.dpbag import claims as dpbag
from dpnotes.lab.dpbag import votes
from dpnotes.lab.intrinsic_sgd import claims as intrinsic_sgd
from dpnotes.lab.ledger import LEDGER, STATUSES, Finding
from dpnotes.lab.private_prediction.claims import minimiser

PAPERS = {
    "liu2021intrinsic": (*range(1, 9), 37),
    "vandermaaten2020tradeoffs": range(9, 22),
    "jordon2019bagging": range(22, 30),
    "hyland2019intrinsic": range(30, 37),
}


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: f"claim-{claim.number}")
def test_evidence_supports_the_status(claim):
    evidence = claim.evidence()
    assert evidence.findings
    assert [
        finding for finding in evidence.findings if finding.supports is not True
    ] == []
    assert evidence.supports is True


def test_ledger_is_complete_and_leads_somewhere(repository):
    assert [claim.number for claim in LEDGER] == list(range(1, 38))
    text = "".join(
        "".join(cell["source"])
        for path in sorted((repository / "book").glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    )
    bibliography = (repository / "book" / "references.bib").read_text(encoding="utf-8")
    for claim in LEDGER:
        assert claim.status in STATUSES
        assert f"({claim.section})=" in text, (
            f"claim {claim.number}: no section {claim.section!r} in the book"
        )
        assert re.search(rf"{{{claim.paper},", bibliography)
        assert claim.statement.endswith(".")
        assert claim.reason.endswith(".")
    for paper, numbers in PAPERS.items():
        assert [claim.number for claim in ledger.of_paper(paper)] == list(numbers)


def scaled(factor):
    """A wrong accountant: its number is off by a factor."""
    return lambda function: lambda *args, **kwargs: factor * function(*args, **kwargs)


def told(**factors):
    """A wrong accountant: it is asked with multiples of its arguments."""

    def wrong(function):
        def asked(*args, **given):
            changed = {
                name: type(given[name])(factor * given[name])
                for name, factor in factors.items()
            }
            return function(*args, **given | changed)

        return asked

    return wrong


def instead(**values):
    """A wrong accountant: it is asked with other arguments."""
    return lambda function: lambda *args, **given: function(*args, **given | values)


def gives(**changes):
    """A wrong accountant: fields of its answer are changed, each by a function."""

    def wrong(function):
        def answered(*args, **kwargs):
            answer = function(*args, **kwargs)
            old = {name: getattr(answer, name) for name in changes}
            new = {
                name: changes[name](value)
                for name, value in old.items()
                if value is not None
            }
            return dataclasses.replace(answer, **new)

        return answered

    return wrong


def times(factor):
    return lambda value: factor * value


def one_less(function):
    """A wrong sampler: it draws one record less than it says."""
    return lambda **given: function(**{**given, "subsample": given["subsample"] - 1})


# claim, name of a function or constant that it rests on, and a wrong version of it
WRONG = [
    *((number, "sample_distribution", one_less) for number in (1, 2, 4)),
    *((number, "bagging", told(n=2)) for number in (3, 5, 6, 7)),
    (7, "dp_sgd", told(noise_multiplier=1.05)),
    (7, "dp_sgd", told(steps=0.9)),
    (7, "dp_sgd", told(sample_rate=0.5)),
    (
        7,
        "SGD_RUNS",
        lambda runs: tuple((e, d, 2 * sigma, k) for e, d, sigma, k in runs),
    ),
    (
        8,
        "PATE_RUNS",
        lambda runs: tuple((e, d, p, 4 * queries) for e, d, p, queries in runs),
    ),
    (37, "dp_sgd", told(noise_multiplier=1.05)),
    (9, "minimiser_sensitivity", scaled(2.0)),
    (10, "norm_noise_rate", scaled(2 / 3)),
    (17, "norm_noise_rate", scaled(2 / 3)),
    (11, "gaussian_sigma", scaled(0.99)),
    (12, "gaussian", told(sigma=1.01)),
    (13, "objective_perturbation", gives(rate=times(2.5))),
    (13, "objective_perturbation", gives(rate=times(0.5))),
    (13, "objective_perturbation", gives(regulariser=times(0.2))),
    (14, "objective_perturbation", gives(sigma=lambda _: 15.0)),
    (14, "gradient_quantile", scaled(0.95)),
    (14, "gradient_quantile", scaled(1.05)),
    (15, "objective_perturbation", gives(rate=times(0.5))),
    (16, "subsampled", lambda function: lambda profile, **sample: profile),
    (16, "hockey_stick", lambda function: lambda p, q, factor: function(p, q, 1)),
    (18, "prediction_sensitivity_sigma", scaled(1.01)),
    (19, "soft_vote_beta", scaled(1.01)),
    (20, "soft_vote", told(beta=2)),
    (21, "logistic_constants", gives(lipschitz=lambda _: 1.0)),
    (21, "logistic_constants", gives(smoothness=lambda _: 0.25)),
    (21, "logistic_constants", gives(rank=lambda _: 2)),
    (21, "logistic_constants", gives(trace=lambda _: 0.5)),
    (22, "noisy_vote_pure_level", told(beta=0.9)),
    (23, "largest_fraction", lambda _: lambda cut: 1.0),
    (24, "personalised_moments", instead(m=1.0)),  # of records whose models all agree
    (25, "noisy_vote_answers", told(inverse_scale=0.9)),
    (26, "noisy_vote_answers", told(inverse_scale=0.5)),
    (27, "balanced_partitions", lambda _: votes.assigned),
    (28, "answer_distribution", told(scale=0.5)),
    (29, "personalised_answers", lambda _: lambda *_, **__: 7),
    (30, "logistic_sgd", told(learning_rate=0.5)),
    # the seed has no part
    (
        31,
        "all_orders",
        lambda function: lambda n, **given: [next(function(n, **given))],
    ),
    (32, "intrinsic_epsilon", instead(analysis="published")),
    (33, "logistic_sgd", told(learning_rate=0.5)),
    (34, "augmenting_sigma", instead(intrinsic_sigma=0.0)),
    (35, "intrinsic_epsilon", instead(analysis="tight")),
    (36, "gaussian_sigma", instead(analysis="classical")),
]
PLACES = (
    dict.fromkeys(range(1, 9), bagging)
    | dict.fromkeys(range(9, 22), accounting)
    | {37: bagging}
)
PLACES |= dict.fromkeys((22, 25, 26, 29), dpbag) | dict.fromkeys(
    (23, 24, 27, 28), votes
)
PLACES |= dict.fromkeys(range(30, 37), intrinsic_sgd)


@pytest.mark.parametrize(("number", "name", "wrong"), WRONG)
def test_evidence_notices_a_wrong_formula(number, name, wrong, monkeypatch):
    monkeypatch.setattr(PLACES[number], name, wrong(getattr(PLACES[number], name)))
    assert not LEDGER[number - 1].evidence().supports


@pytest.mark.parametrize(
    ("store", "points"),
    [("bagging_table2a", -2.0), ("bagging_dp_sgd", 80.0), ("bagging_case2", 5.0)],
)
def test_evidence_notices_other_accuracies(store, points, monkeypatch):
    """The order is that of the rows: where it is lost, or is as large as printed,
    the claim has another status.
    """
    published = cells.rows

    def moved(name, *grid):
        frame = published(name, *grid)
        return (
            frame.assign(accuracy=frame["accuracy"].astype(float) + points / 100)
            if name == store
            else frame
        )

    monkeypatch.setattr(cells, "rows", moved)
    assert not LEDGER[36].evidence().supports


def test_minimiser_equals_a_library_minimiser():
    generator = np.random.default_rng(7)
    x, y, often = (
        generator.normal(size=(5, 2)),
        generator.integers(3, size=5),
        generator.integers(1, 4, size=5),
    )
    found = minimiser(x, y, often.astype(float), n_classes=3, regulariser=0.1)

    def value(flat):
        logits = x @ flat.reshape(2, 3)
        loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), y]
        return (often * loss).sum() / often.sum() + 0.05 * (flat**2).sum()

    expected = optimize.minimize(
        value, np.zeros(6), tol=1e-12, options={"gtol": 1e-8}
    ).x
    # of the library, whose gradient is by differences
    assert np.abs(found.ravel() - expected).max() < 1e-6


@pytest.mark.parametrize(
    ("found", "low", "high", "also", "supports"),
    [
        (1 / 3, 0.3, 0.4, True, True),
        (1.0, 1.0, 1.0, True, True),
        (1.0 + 1e-9, 0.5, 1.0, True, False),
        (0.4, 0.5, 1.0, True, False),
        (0.5, 0.5, 1.0, False, False),
        (math.nan, 0.0, 1.0, True, False),
        (2.0, 1.0, math.inf, True, False),  # a bound on one side is none
    ],
)
def test_what_a_finding_supports(found, low, high, also, supports):
    assert Finding("q", "–", found, low, high, also).supports is supports


def test_findings_are_lines_of_a_table(monkeypatch, tmp_path):
    lines = "claim,quantity,claimed,low,high\n3,a,–,1,2\n3,b,0.5,0.5,0.5\n4,c,1,1,1\n"
    (tmp_path / "findings_one.csv").write_text(lines)
    monkeypatch.setattr(_claim, "paper_file", lambda name: tmp_path / name)
    found = _claim.judged("one", 3, 1.5, (Fraction(1, 2), False))
    assert found == [
        Finding("a", "–", 1.5, 1, 2),
        Finding("b", 0.5, 0.5, 0.5, 0.5, False),
    ]
    with pytest.raises(ValueError, match="shorter"):
        _claim.judged("one", 3, 1.5)
