"""Statements of estimators: what is released, what is not said of private records, what an audit adds."""

import json

import numpy as np
import pytest

from dpnotes import ClassMeans, DPBag
from dpnotes.accounting import PrivacyStatement, gaussian, statement
from dpnotes.auditing import audit_scores
from tests.methods.test_estimators import ESTIMATORS, OTHER, PUBLIC, PUBLISHED, QUERIES, X, Y, fitted, rows

NAMES = [name for name in ESTIMATORS if name != "DPSGD of a network"]  # whose guarantee is that of DPSGD
ANSWERS = {"PredictionSensitivity": "at most 100 answers", "SubsampleAggregate": "at most 100 answers"}


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_says_what_is_released(name):
    model = fitted(name)
    stated = model.statement_(declared={"name": name})
    release = stated.content["release"]
    assert release["method"] == f"dpnotes.{type(model).__name__}"
    if name in PUBLISHED:
        assert release["released"].endswith("as publish() gives it, and any number of its predictions")
        assert model.publish().statement_(declared={"name": name}) == stated
    else:
        assert release["released"].startswith(ANSWERS.get(name, "any number of answers"))
        model.predict(QUERIES)
        assert model.statement_(declared={"name": name}) == stated
    assert release["access_type"] == ("Non-interactive" if name in PUBLISHED else "Interactive")
    assert stated.content["guarantee"]["profile"] == json.loads(json.dumps(model.profile_.to_dict()))
    assert PrivacyStatement.from_json(stated.to_json()).to_html() == stated.to_html()
    stated.verify()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_same_for_other_records_and_after_other_parameters(name):
    """Nothing of private records is in it: a function of their number and of the parameters alone."""
    stated = fitted(name).statement_(delta=1e-5)
    other = rows(len(X), seed=9)
    again = fitted(name, 0.5 * other, (other[:, 1] > 0.3).astype(int))
    assert again.statement_(delta=1e-5) == stated
    for parameter in ("classes", "noise_seed", "epsilon", "adjacency", "answers"):
        if parameter in again.get_params():
            again.set_params(**{parameter: OTHER[parameter]})
    assert again.statement_(delta=1e-5) == stated


def test_no_label_is_shown_and_labels_read_off_are_named_as_unprotected():
    labels = np.array(["healthy", "gravely ill"])[Y]
    model = ClassMeans(1.0, noise_seed=0)
    for classes, quantities in ((None, 2), (["gravely ill", "healthy"], 1)):
        stated = model.set_params(classes=classes).fit(X, labels).statement_()
        assert "ill" not in stated.to_json().replace("still", "")
        assert len(stated.content["protection"]["unprotected"]) == quantities
    assert "seed" in stated.to_html().partition("<h2>")[0]  # and no number of it
    assert "noise_seed" not in stated.to_json()


@pytest.mark.parametrize("name", ["Bagging", "LossPerturbation"])  # a parameter, and an assumption, shows it
def test_the_number_of_records_is_protected_unless_it_is_said_to_be_public(name):
    model = fitted(name, adjacency="add-remove")
    with pytest.raises(ValueError, match="shows the number of records, which adjacency='add-remove' pr") as caught:
        model.statement_()
    assert "40" not in str(caught.value)
    for public in (model.statement_(n_public=True), fitted(name).statement_()):
        assert public.content["protection"]["records"] == "40"


def test_what_is_refuted_says_so_first():
    model = DPBag(n_teachers=5, accountant="personalised", epsilon=9.0, delta=1e-3, device="cpu", noise_seed=0)
    stated = model.fit(X, Y, public=PUBLIC).statement_()
    assert "This guarantee is refuted" in stated.to_html().partition("<h2>")[0]
    assert "true positives." not in stated.to_html().partition("<h2>")[0]


@pytest.mark.parametrize(("sigma", "claim", "verdict", "about"), [
    (1.0, 1.0, "not refuted, which is no proof", "this guarantee"), (0.1, 1.0, "REFUTED", "this guarantee"),
    (1.0, 0.5, "not refuted", "another one: PrivacyProfile of gaussian(sigma=0.5"),
    (1.0, 9.0, "refuted", "another one"), (1.0, None, "no claim was tested", "none"),
])  # fmt: skip
def test_an_audit_is_told_with_its_claim(sigma, claim, verdict, about):
    noise = np.random.default_rng(0).normal(size=(2, 500))
    noise *= sigma
    claimed = None if claim is None else gaussian(sigma=claim)
    report = audit_scores(1 + noise[0], noise[1], claim=claimed)
    stated = statement(gaussian(sigma=1.0), audit=report)
    audit = stated.content["audit"]
    assert audit["verdict"].startswith(verdict)
    assert audit["claim"].startswith(about)
    assert f"epsilon at least {report.epsilon(1e-5):.3g} at delta 1e-05" in audit["bounds"]
    assert "public or stand in" in audit["evidence"]
    assert ("An audit refuted this guarantee" in stated.to_html()) == (verdict == "REFUTED")
