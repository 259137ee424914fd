"""Every claim of the ledger has evidence that supports its status, and evidence that
could fail.
"""

import ast
import dataclasses
import json
import math
import re
from fractions import Fraction

import pytest

from dpnotes import accounting
from dpnotes.accounting import papers
from dpnotes.lab import exact_votes, ledger
from dpnotes.lab.bagging import results
from dpnotes.lab.ledger import LEDGER, Finding, claim

NUMBERS = {
    "bagging": (*range(1, 9), 37),
    "private_prediction": range(9, 22),
    "dpbag": range(22, 30),
    "intrinsic_sgd": range(30, 37),
}
STORE = ledger._store
PAGE = {number: chapter for chapter in NUMBERS for number in NUMBERS[chapter]}


class Evidence:
    """The cells of a page of evidence, from its claims on, as one program."""

    def __init__(self, path):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
        # everything before it shows rows, which other tests check
        (start,) = (i for i, (_, text) in enumerate(texts) if "-ev-claims)=" in text)
        self.names = {}
        self.claims = {}
        for kind, text in texts[:start]:  # what the page has imported by then
            if kind == "code":
                tree = ast.parse(text)
                tree.body = [node for node in tree.body if hasattr(node, "names")]
                exec(compile(tree, path.name, "exec"), self.names)
        for kind, text in texts[start:]:
            if kind == "code":
                exec(text, self.names)
                for number in re.findall(r"^claim\(\s*(\d+)", text, re.MULTILINE):
                    self.claims[int(number)] = text

    def compute(self, number):
        """The evidence of one claim again, with the names as they are now."""
        exec(self.claims[number], self.names)


@pytest.fixture(scope="module")
def stored():
    """Claims that would be stored, because their findings differ from the stored."""
    changed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_store", lambda own, found: changed.append(own.number))
        yield changed


@pytest.fixture(scope="module")
def pages(stored, repository):
    folder = repository / "book" / "evidence"
    return {name: Evidence(folder / f"{name}_evidence.ipynb") for name in NUMBERS}


def test_evidence_is_computed_and_stored(pages, stored):
    # what the notebooks compute is what is published
    assert stored == []
    for name, numbers in NUMBERS.items():
        assert sorted(pages[name].claims) == list(numbers)
        assert [each.number for each in LEDGER if each.chapter == name] == [*numbers]
    for each in LEDGER:
        assert each.supports


def test_ledger_is_complete(repository):
    assert [each.number for each in LEDGER] == list(range(1, 38))
    bibliography = (repository / "book" / "references.bib").read_text(encoding="utf-8")
    for each in LEDGER:
        assert re.search(rf"{{{each.paper},", bibliography)
        assert each.statement.endswith(".")
        assert each.reason.endswith(".")


def scaled(factor):
    """A wrong accountant: its number is off by a factor."""
    return lambda function: lambda *args, **kwargs: factor * function(*args, **kwargs)


def told(**factors):
    """A wrong accountant: it is asked with multiples of its arguments."""

    def wrong(function):
        def asked(*args, **given):
            for name, factor in factors.items():
                given[name] = type(given[name])(factor * given[name])
            return function(*args, **given)

        return asked

    return wrong


def instead(**values):
    """A wrong accountant: it is asked with other arguments."""
    return lambda function: lambda *args, **given: function(*args, **given | values)


def gives(**changes):
    """A wrong accountant: fields of its answer are multiplied."""

    def wrong(function):
        def answered(*args, **kwargs):
            answer = function(*args, **kwargs)
            new = {}
            for name, factor in changes.items():
                old = getattr(answer, name)
                new[name] = None if old is None else type(old)(factor * old)
            return dataclasses.replace(answer, **new)

        return answered

    return wrong


def one_less(function):
    """A wrong sampler: it draws one record less than it says."""
    return lambda **given: function(**{**given, "subsample": given["subsample"] - 1})


def one_too_many(function):
    """A wrong sampler: a partition that is not balanced is drawn, too."""
    return lambda records, n: [*function(records, n), (frozenset(records),) * n]


def first_order(function):
    """The seed has no part."""
    return lambda n, **given: [next(function(n, **given))]


# claims, where a function is that they rest on (None: on their page), its name, and a
# wrong version of it
WRONG = [
    ((1, 2, 4), None, "sample_distribution", one_less),
    ((3, 5, 6, 7), accounting, "bagging", told(n=2)),
    ((7, 37), accounting, "dp_sgd", told(noise_multiplier=1.05)),
    ((7,), accounting, "dp_sgd", told(steps=0.9)),
    ((7,), accounting, "dp_sgd", told(sample_rate=0.5)),
    ((8,), accounting, "confident_gnmax", told(queries=4, answers=4)),
    ((9,), accounting, "minimiser_sensitivity", scaled(2.0)),
    ((10, 17), accounting, "norm_noise_rate", scaled(2 / 3)),
    ((11,), accounting, "gaussian_sigma", scaled(0.99)),
    ((12,), accounting, "gaussian", told(sigma=1.01)),
    ((13,), accounting, "objective_perturbation", gives(rate=2.5)),
    ((13, 15), accounting, "objective_perturbation", gives(rate=0.5)),
    ((13,), accounting, "objective_perturbation", gives(regulariser=0.2)),
    ((14,), accounting, "objective_perturbation", gives(sigma=1.05)),
    ((14,), accounting, "gradient_quantile", scaled(0.95)),
    ((14,), accounting, "gradient_quantile", scaled(1.05)),
    ((16,), accounting, "subsampled", lambda _: lambda profile, **sample: profile),
    ((16,), accounting, "hockey_stick", lambda right: lambda p, q, _: right(p, q, 1)),
    ((18,), accounting, "prediction_sensitivity_sigma", scaled(1.01)),
    ((19,), accounting, "soft_vote_beta", scaled(1.01)),
    ((20,), accounting, "soft_vote", told(beta=2)),
    ((21,), accounting, "logistic_constants", gives(lipschitz=0.7)),
    ((21,), accounting, "logistic_constants", gives(smoothness=0.5)),
    ((21,), accounting, "logistic_constants", gives(rank=0.7)),
    ((21,), accounting, "logistic_constants", gives(trace=0.7)),
    ((22,), exact_votes, "noisy_vote_pure_level", told(beta=0.9)),
    ((23,), None, "largest_fraction", lambda _: lambda cut: 1.0),
    # of records whose models all agree
    ((24,), papers, "personalised_moments", instead(m=1.0)),
    ((25,), accounting, "noisy_vote_answers", told(inverse_scale=0.9)),
    ((26,), accounting, "noisy_vote_answers", told(inverse_scale=0.5)),
    ((27,), None, "balanced_partitions", one_too_many),
    ((28,), None, "answer_distribution", told(scale=0.5)),
    ((29,), papers, "personalised_answers", lambda _: lambda *_, **__: 7),
    ((30, 33), None, "logistic_sgd", told(learning_rate=0.5)),
    # a bound with a fraction of a visit
    ((30,), papers, "sgd_sensitivity", instead(analysis="published")),
    ((31,), None, "all_orders", first_order),
    ((32,), None, "intrinsic_epsilon", instead(analysis="published")),
    ((34,), papers, "augmenting_sigma", instead(intrinsic_sigma=0.0)),
    ((35,), None, "intrinsic_epsilon", instead(analysis="tight")),
    ((36,), accounting, "gaussian_sigma", instead(analysis="classical")),
]


@pytest.mark.parametrize(("numbers", "place", "name", "wrong"), WRONG)
def test_evidence_notices_a_wrong_formula(
    numbers, place, name, wrong, monkeypatch, pages
):
    for number in numbers:
        page = pages[PAGE[number]]
        names = page.names if place is None else vars(place)
        with monkeypatch.context() as patch:
            # where the notebook looks the function up
            patch.setitem(names, name, wrong(names[name]))
            with pytest.raises(AssertionError):
                page.compute(number)


@pytest.mark.parametrize(
    ("store", "points"),
    [("bagging_table2a", -2.0), ("bagging_dp_sgd", 80.0), ("bagging_case2", 5.0)],
)
def test_evidence_notices_other_accuracies(store, points, monkeypatch, pages):
    """The order is that of the rows: where it is lost, or is as large as printed,
    the claim has another status.
    """
    published = results.rows

    def moved(name, *grid):
        frame = published(name, *grid)
        if name != store:
            return frame
        return frame.assign(accuracy=frame["accuracy"].astype(float) + points / 100)

    monkeypatch.setattr(results, "rows", moved)
    with pytest.raises(AssertionError):
        pages["bagging"].compute(37)


@pytest.mark.parametrize(
    ("found", "low", "high", "supports"),
    [
        (1 / 3, 0.3, 0.4, True),
        (1.0, 1.0, 1.0, True),
        (1.0 + 1e-9, 0.5, 1.0, False),
        (0.4, 0.5, 1.0, False),
        (math.nan, 0.0, 1.0, False),
        (2.0, 1.0, math.inf, False),  # a bound on one side is none
    ],
)
def test_what_a_finding_supports(found, low, high, supports):
    assert Finding("q", "–", found, low, high).supports is supports


def test_findings_are_stored_where_they_changed(monkeypatch, tmp_path):
    folder = tmp_path / "book" / "results" / "published"
    folder.mkdir(parents=True)
    path = folder / "findings_bagging.csv"
    before = "claim,quantity,claimed,found,low,high\n2,a,–,1.0,0.0,2.0\n"
    path.write_text(before, encoding="utf-8")
    monkeypatch.setattr(ledger, "_store", STORE)
    monkeypatch.setattr(ledger, "paper_file", lambda name: folder / name)
    monkeypatch.setattr(ledger, "book_folder", lambda: tmp_path)
    with pytest.raises(AssertionError, match=r"claim 2: b is 3, .* in \[0, 2\]"):
        claim(2, ("b", 1, 3, 0, 2))
    claim(2, ("a", "–", 1 + 1e-9, 0, 2))  # differs by rounding
    assert path.read_text(encoding="utf-8") == before
    claim(1, ("b", Fraction(1, 2), 0.5, 0.5, 0.5))
    claim(2, ("a", "–", 1, 0, 2), ("c", 0, 1, 0, 2))
    assert LEDGER[0].findings == [Finding("b", 0.5, 0.5, 0.5, 0.5)]
    assert [found.quantity for found in LEDGER[1].findings] == ["a", "c"]
    assert not LEDGER[2].supports
