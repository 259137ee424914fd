"""PATE: one record moves one vote, guarantees, students, aggregators; test_votes.py
rebuilds its votes by hand.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from dpnotes import accounting, mechanisms
from dpnotes.methods import PATE
from tests.methods.conftest import repeated


@pytest.mark.parametrize(
    "estimator", [KNeighborsClassifier(1), DecisionTreeClassifier(random_state=0)]
)
def test_one_record_moves_one_vote(pixels, estimator):
    """The premise of the accounting, on every query: a record made empty, left out
    or replaced, also a shard's only.
    """
    X = pixels[0][:200]
    y = pixels[1][:200]
    public = pixels[0][200:300]
    shards = np.random.default_rng(0).integers(1, 9, size=200)
    shards[17] = 0

    model = PATE(
        estimator=estimator,
        classes=range(10),
        n_models=9,
        sigma_answer=40.0,
        keep_votes=True,
        noise_seed=1,
    )

    def counts(X, y, shards):
        return model.fit(X, y, public=public, shards=shards).votes_

    whole = counts(X, y, shards)
    moved = 0
    for i in [*range(0, 200, 23), 17]:
        kept = np.arange(200) != i
        replaced = np.where(kept, y, (y + 5) % 10)
        left_out = counts(X[kept], y[kept], shards[kept])
        emptied = counts(X, np.where(kept, y, -1), shards)
        # a label that is no class makes the record empty
        np.testing.assert_array_equal(emptied, left_out)
        for other in (left_out, counts(X, replaced, shards)):
            change = other - whole
            assert np.abs(change).max() <= 1
            assert (change**2).sum(axis=1).max() <= 2
            assert np.abs(other.max(axis=1) - whole.max(axis=1)).max() <= 1
            moved = max(moved, (change**2).sum(axis=1).max())
    assert moved == 2  # the bound is attained


def test_guarantees_are_those_of_what_was_released(pixels):
    X, y = pixels
    fit = {"X": X[:600], "y": y[:600], "public": X[600:800]}
    common = {"n_models": 50, "keep_votes": True, "noise_seed": 0}
    gnmax = PATE(aggregator="gnmax", sigma_answer=5.0, **common).fit(**fit)
    assert gnmax.profile_.to_dict() == repeated(
        accounting.gnmax(sigma=5.0, answers=200, adjacency="zero-out")
    )
    assert gnmax.per_instance_profile_.status == "per-instance"
    assert gnmax.per_instance_profile_.epsilon(1e-5) <= gnmax.profile_.epsilon(1e-5)
    assert gnmax.answered_.all()

    laplace = PATE(
        aggregator="laplace", scale=8.0, queries=30, adjacency="add-remove", **common
    ).fit(**fit)
    assert laplace.profile_.to_dict() == repeated(
        accounting.noisy_vote(inverse_scale=1 / 8, answers=30, n_classes=10)
    )
    assert not hasattr(laplace, "per_instance_profile_")
    assert laplace.labels_.shape == laplace.answered_.shape == (30,)

    asked = {"queries": 120, "answers": 40}
    noise = {"sigma_threshold": 10.0, "sigma_answer": 4.0}
    confident = PATE(
        aggregator="confident", threshold=25.0, **asked, **noise, **common
    ).fit(**fit)
    claimed = accounting.confident_gnmax(adjacency="zero-out", **asked, **noise)
    assert confident.profile_.to_dict() == repeated(claimed)
    assert confident.answered_.shape == confident.agreement_.shape == (120,)
    assert 0 < confident.answered_.sum() <= 40
    assert len(confident.labels_) == confident.answered_.sum()
    private = confident.per_instance_profile_
    assert private.parameters["answers"] == confident.answered_.sum()
    assert private.status == "per-instance"
    assert private.epsilon(1e-5) < claimed.epsilon(1e-5)
    # what is set later changes nothing
    confident.set_params(sigma_answer=400.0, scale=1.0, aggregator="laplace")
    assert confident.per_instance_profile_.to_dict() == private.to_dict()


def test_student_without_answers_is_constant(pixels):
    X, y = pixels
    model = PATE(
        1.0,
        1e-5,
        n_models=20,
        aggregator="confident",
        threshold=1e6,
        keep_votes=True,
        noise_seed=0,
    ).fit(X[:200], y[:200] + 3, public=X[200:250])
    assert not model.answered_.any()
    assert model.labels_.shape == (0,)
    assert (model.predict(X) == 3).all()
    assert model.predict_proba(X)[0].tolist() == [1.0] + [0.0] * 9
    # the comparisons were still made
    own = model.per_instance_profile_
    assert own.epsilon(1e-5) == model.profile_.epsilon(1e-5)
    assert model.profile_.epsilon(1e-5) > 0


def test_student_of_one_class_always_predicts_it():
    X = np.arange(60.0)[:, None]
    y = np.array(["cat"] * 3 + ["dog"] * 57)
    learner = LogisticRegression()
    model = PATE(estimator=learner, n_models=6, sigma_answer=0.1, noise_seed=0)
    model.fit(X, y, public=X[30:] + 0.25)
    assert set(model.labels_) == {"dog"}
    assert (model.predict(X) == "dog").all()
    assert model.predict_proba(X[:1]).tolist() == [[0.0, 1.0]]


def test_probabilities_are_there_if_the_student_has_them(pixels):
    X, y = pixels
    model = PATE(n_models=5, sigma_answer=0.5, student=RidgeClassifier(), noise_seed=0)
    assert not hasattr(model, "predict_proba")
    assert model.fit(X[:900], y[:900], public=X[900:]).score(X[900:], y[900:]) > 0.6


@pytest.mark.parametrize(
    ("aggregator", "noise", "mechanism", "given"),
    [
        (
            "confident",
            {
                "threshold": 5.0,
                "sigma_threshold": 2.0,
                "sigma_answer": 1.5,
                "answers": 7,
            },
            "confident_vote",
            {},
        ),
        ("gnmax", {"sigma_answer": 1.5}, "gaussian_vote", {"sigma": 1.5}),
        ("laplace", {"scale": 2.5}, "laplace_vote", {"scale": 2.5}),
    ],
)
def test_aggregator_is_the_mechanism(
    pixels, monkeypatch, aggregator, noise, mechanism, given
):
    """The released labels are the mechanism's, for the votes and parameters as
    given, and nothing else is.
    """
    X, y = pixels
    seen = []

    def recorded(counts, **parameters):
        seen.append((counts, parameters))
        return getattr(mechanisms, mechanism)(counts, **parameters)

    monkeypatch.setattr(f"dpnotes.methods._pate.{mechanism}", recorded)
    model = PATE(
        n_models=9,
        aggregator=aggregator,
        queries=50,
        keep_votes=True,
        noise_seed=0,
        **noise,
    )
    model.fit(X[:300], y[:300], public=X[300:400])
    ((counts, parameters),) = seen
    del parameters["seed"]
    assert parameters == (given or noise)
    assert counts.shape == (50, 10)
    np.testing.assert_array_equal(counts, model.votes_)
    assert (counts.sum(axis=1) == 9).all()
