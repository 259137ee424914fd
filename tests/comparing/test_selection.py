import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpnotes import accounting
from dpnotes.comparing import Candidate, Task, _compare, compare
from dpnotes.comparing._selection import (
    COST,
    blocks_for,
    choice_profile,
    private_choice,
)
from dpnotes.comparing._tables import codes_of, synthetic
from dpnotes.mechanisms import soft_vote

K = 2


class Constant(LogisticRegression):
    """Always the class ``C``, whatever the records are."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), int(self.C))


SHORTLIST = [
    (Candidate(f"always {c}", lambda task, c=c: Constant(C=c)), {}) for c in range(K)
]
CRASHING = (Candidate("crash", lambda task: LogisticRegression(C=-1.0)), {})


def choose(codes, monkeypatch=None, shortlist=SHORTLIST, **given):
    codes = np.asarray(codes)
    settings = {
        "epsilon": 1.0,
        "n_blocks": 20,
        "random_state": 0,
        "noise_seed": 0,
        "n_jobs": 1,
    } | given
    task = Task(len(codes), 2, range(K), 1.0, 0.0, None, None)
    return private_choice(shortlist, np.zeros((len(codes), 2)), codes, task, **settings)


@pytest.fixture
def counts(monkeypatch):
    """Votes that reach the mechanism."""
    seen = []

    def spy(counts, *, beta, seed):
        seen.append((np.array(counts[0]), beta))
        return soft_vote(counts, beta=beta, seed=seed)

    monkeypatch.setattr("dpnotes.comparing._selection.draw_soft_vote", spy)
    return seen


def test_one_record_made_empty_or_exchanged_moves_one_vote(counts):
    generator = np.random.default_rng(0)
    codes = generator.integers(K, size=200)
    choose(codes)
    for place in generator.permutation(200)[:12]:
        for other in (K, 1 - codes[place]):  # empty, or of the other class
            changed = codes.copy()
            changed[place] = other
            choose(changed)
    first = counts[0][0]
    moves = np.array([votes - first for votes, _ in counts[1:]])
    assert (np.abs(moves).sum(axis=1) <= 2).all()
    assert (moves.max(axis=1) <= 1).all()
    assert (moves != 0).any()  # the search sees votes move
    assert {beta for _, beta in counts} == {0.5}


def test_training_that_fails_is_a_vote_and_no_error(counts):
    codes = np.zeros(200, dtype=int)
    codes[:60] = K
    choose(codes, shortlist=[CRASHING, SHORTLIST[1]])
    assert counts[0][0].sum() == 20
    assert choose(np.full(200, K)) in (0, 1)  # nothing but empty records
    assert counts[1][0].tolist() == [0, 0]


def test_the_profile_is_that_of_the_cost_and_composes_to_the_budget():
    profile = choice_profile(0.2, None)
    assert profile.epsilon(0.0) == pytest.approx(0.2)
    assert (profile.adjacency, profile.implementation) == ("zero-out", "exact")
    assert choice_profile(0.2, 1).implementation == "reproducible"
    whole = accounting.compose(profile, accounting.pure(0.8, adjacency="zero-out"))
    assert whole.epsilon(0.0) == pytest.approx(1.0)


def test_blocks_are_a_public_number_and_none_where_they_would_be_noise():
    assert blocks_for(500, 60, 0.2) == 0
    assert blocks_for(6000, 60, 0.2) == 6000 // 60
    assert blocks_for(10**6, 60, 0.2) == 130  # three times the lead that decides


def test_a_private_comparison_finds_what_the_table_asks_for_and_pays():
    split = synthetic(6000, 4, 2, 3)
    X, y = split.X, split.codes
    right = Candidate("right", lambda task: LogisticRegression(C=1.0), profile=claimed)
    wrong = Candidate("wrong", lambda task: LogisticRegression(C=1e-9), profile=claimed)
    given = {
        "epsilon": 5.0,
        "bounds": (-1, 1),
        "methods": [wrong, right],
        "repeats": 2,
        "noise_seed": 0,
    }
    memory = {}
    result = compare(X, y, data="private", memory=memory, **given)
    assert result.chosen == "right"
    assert result.profile.epsilon(0.0) == pytest.approx(COST * 5.0)
    assert result.task.epsilon == pytest.approx(4.0)
    assert "costs a part of epsilon" in str(result).splitlines()[0]
    public = compare(X, y, data="shape", **given | {"epsilon": 4.0})
    assert result.scores.equals(public.scores)  # nothing shown comes from the table
    again = compare(
        X,
        y,
        data="private",
        memory={**memory, "choice": "wrong"},
        **given | {"repeats": 3},
    )
    assert (memory["choice"], again.chosen) == ("right", "wrong")  # not drawn anew
    for changed in (
        {"epsilon": 4.0},
        {"delta": 1e-5},
        {"random_state": 1},
        {"data": "shape"},
    ):
        with pytest.raises(
            ValueError, match="memory must be empty or of the same comparison"
        ):
            compare(X, y, memory=memory, **{"data": "private", **given, **changed})
    few = compare(X[:300], y[:300], data="private", **given | {"epsilon": 1.0})
    assert (few.profile, few.data) == (None, "shape")
    assert str(few).startswith(
        "A vote needs 9250 records at epsilon 1. The choice was made on synthetic"
    )
    tiny = compare(X, y, data="private", **given | {"epsilon": 0.1})
    assert str(tiny).startswith("A vote is too noisy at epsilon 0.1. ")


def claimed(task):
    return accounting.pure(task.epsilon, adjacency="zero-out").with_(
        exactness="claimed"
    )


def test_one_label_of_another_type_changes_no_other_record():
    """A list of labels is no array: that would turn all into text."""
    labels = [0, 1] * 50
    for odd in ("", None, [1], 2.5):
        codes = codes_of([odd, *labels[1:]], [0, 1])
        assert codes.tolist() == [2, *labels[1:]]


def test_choice_and_fit_together_keep_to_the_budget(monkeypatch):
    """Whatever the rounding of the two parts."""
    monkeypatch.setattr(_compare, "blocks_for", lambda *given, **more: 2)
    monkeypatch.setattr(_compare, "private_choice", lambda *given, **more: 0)
    X, y = np.zeros((40, 2)), np.arange(40) % 2
    for epsilon in np.linspace(0.1, 3, 12):
        given = {
            "epsilon": float(epsilon),
            "bounds": (-1, 1),
            "methods": ["ClassMeans"],
            "repeats": 1,
        }
        found = compare(X, y, data="private", **given)
        assert found.task.epsilon + found.profile.epsilon(0.0) <= epsilon
        assert found.task.epsilon + found.profile.epsilon(0.0) == pytest.approx(epsilon)


def test_for_want_of_time_fewer_blocks_vote_but_as_many_as_noise_asks():
    assert [
        _compare.Budget(t, None, False).affords(1.0, 44, 130)
        for t in (1e-9, 100.9, 1e6)
    ] == [44, 90, 130]


def test_where_nothing_can_be_chosen_nothing_is_paid():
    X, y = np.random.default_rng(0).uniform(-1, 1, (4000, 2)), np.arange(4000) % 2
    found = compare(
        X, y, data="private", epsilon=3.0, bounds=(-1, 1), methods=["DPSGD"], repeats=2
    )
    assert (found.chosen, found.profile, found.data) == (
        "majority class",
        None,
        "shape",
    )
    assert "no method to choose" in str(found).replace("\n", " ")


def test_the_statement_says_what_was_read_off_and_the_delta():
    X, y = np.random.default_rng(0).uniform(-1, 1, (200, 3)), np.arange(200) % 2
    given = {"epsilon": 1.0, "delta": 1e-5, "methods": ["ClassMeans"], "repeats": 2}
    result = compare(X, y, data="public", **given)
    told = result.statement(result.best.fit(X, y), declared={"tuning": "none"}).content
    assert {"the labels that occur", "the bounds of the columns"} <= set(
        told["protection"]["unprotected"]
    )
    assert "read off the records" in str(told)
    assert "declared public" in str(told)  # its own word about the choice stays
    declared = compare(X, y, bounds=(-1, 1), classes=[0, 1], **given)
    told = declared.statement(declared.best.fit(X, y)).content
    assert not {"the labels that occur", "the bounds of the columns"} & set(
        told["protection"]["unprotected"]
    )
    assert "read off the records" not in str(told)
