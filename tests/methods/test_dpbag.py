"""DPBag: the paper's algorithm rebuilt by hand, its published counts, the
counter-example, sound accountants.
"""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from dpnotes.accounting import noisy_vote
from dpnotes.accounting.papers import (
    personalised_answers,
    personalised_epsilon,
    personalised_moments,
    squares_of_budget,
)
from dpnotes.learners import BoostedTreesClassifier
from dpnotes.mechanisms import draw_partitions, hash_chunks, stream
from dpnotes.methods import DPBag, _dpbag, secret_seed
from tests.methods.conftest import Votes

PERSONALISED = {"accountant": "personalised", "keep_votes": True}


def literal(X, y, public, *, cut, n, k, beta, epsilon, delta, generator):
    """Algorithm 1 record by record and moment by moment, with scikit-learn's
    teachers one at a time.
    """
    teachers = []
    for rows in cut.subsets():
        alone = DummyClassifier()
        if len(set(y[rows])) > 1:
            alone = LogisticRegression(tol=1e-12, max_iter=10_000)
        teachers.append(alone.fit(X[rows], y[rows]))
    moments = np.zeros((len(X) + 1, 100))
    orders = np.arange(1, 101)
    labels = []
    spent = 0.0
    for x in public:
        if spent >= epsilon:
            break
        votes = [teacher.predict(x[None])[0] for teacher in teachers]
        counts = [votes.count(c) / k for c in (0, 1)]
        noisy = [count + generator.laplace(0, 1 / beta) for count in counts]
        labels.append(int(noisy[1] > noisy[0]))
        for u, chunks in enumerate([*cut.chunk, cut.joining]):
            own = [votes[j * n + i] for j, i in enumerate(chunks)]
            m = max(1 - own.count(c) / k for c in (0, 1))
            moments[u] += 2 * beta**2 * m**2 * orders * (orders + 1)
        spent = ((moments.max(0) + math.log(1 / delta)) / orders).min()
    return labels, ((moments + math.log(1 / delta)) / orders).min(1), spent


@pytest.mark.parametrize("scheme", ["balanced", "independent"])
def test_equals_the_algorithm_by_hand(standardised, scheme):
    X, y = standardised
    X, y, public = X[:150], y[:150], X[150:]
    model = DPBag(
        2.0,
        1e-3,
        n_models=5,
        n_partitions=7,
        inverse_scale=0.05,
        partitions=scheme,
        device="cpu",
        noise_seed=5,
        **PERSONALISED,
    ).fit(X, y, public=public)
    seed = secret_seed(5)
    split = int.from_bytes(stream(seed, 2).bytes(16), "little")
    cut = draw_partitions(len(X), n_chunks=5, n_partitions=7, scheme=scheme, seed=split)
    labels, own, spent = literal(
        X,
        y,
        public,
        cut=cut,
        n=5,
        k=7,
        beta=0.05,
        epsilon=2.0,
        delta=1e-3,
        generator=stream(seed, 1),
    )
    assert 3 < len(labels) < len(public)
    assert model.labels_.tolist() == labels
    assert model.record_epsilons_ == pytest.approx(own[:-1], rel=1e-12)
    assert model.epsilon_spent_ == pytest.approx(spent, rel=1e-12)
    assert model.per_instance_profile_.epsilon(1e-3) == pytest.approx(spent, rel=1e-9)
    assert model.profile_.epsilon(1e-3) == math.inf
    assert "no guarantee" in repr(model.profile_)
    student = LogisticRegression(max_iter=1000).fit(public[: len(labels)], labels)
    assert (model.predict(X) == student.predict(X)).all()
    assert model.predict_proba(X) == pytest.approx(student.predict_proba(X))


def test_results_do_not_depend_on_how_queries_are_cut(standardised, monkeypatch):
    X, y = standardised
    model = DPBag(
        4.0,
        1e-3,
        n_models=10,
        n_partitions=4,
        inverse_scale=0.05,
        noise_seed=1,
        device="cpu",
        **PERSONALISED,
    )
    found = []
    for size in (1024, 16, 7):
        monkeypatch.setattr(_dpbag, "QUERIES", size)
        model.fit(X[:200], y[:200], public=X[200:])
        found.append((model.labels_.tolist(), model.record_epsilons_.tolist()))
    assert found[0] == found[1] == found[2]
    assert 16 < len(found[0][0]) < 369


def test_the_counter_example_to_theorem_6():
    """Records a to d in {ab | cd} and {ac | bd}, and e that joins ab and ac: 27
    labels against 7, with certainty.
    """
    # a to e are 0 to 4
    votes = {(0, 1): 1, (2, 3): 1, (0, 2): 0, (1, 3): 0, (0, 1, 4): 0, (0, 2, 4): 0}
    learner = Votes(lambda own, _: votes[tuple(sorted(own))])
    # of a to e, and of a sixth
    chunks = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]]
    counts = []
    for n in (4, 5):
        model = DPBag(
            estimator=learner,
            n_models=2,
            n_partitions=2,
            inverse_scale=0.04,
            epsilon=1.0,
            delta=1e-5,
            device="cpu",
            student=LogisticRegression(),
            noise_seed=0,
            **PERSONALISED,
        ).fit(
            np.arange(n)[:, None],
            np.arange(n) % 2,
            public=np.zeros((60, 1)),
            chunks=chunks[: n + 1],
        )
        counts.append(model.n_labels_)
        assert (model.profile_.status, model.per_instance_profile_.status) == (
            "refuted",
            "per-instance",
        )
        for words in (model.profile_.remark, model.per_instance_profile_.assumption):
            assert "number of labels alone" in words
        with pytest.raises(TypeError, match="DPBag cannot be published: no guarantee"):
            model.publish()
    assert tuple(counts) == (27, 7)


@pytest.mark.parametrize(("accountant", "labels"), [("tight", 38), ("naive", 7)])
def test_sound_accountants_do_not_look_at_the_votes(accountant, labels):
    """Between two classes at lambda = 2/50, (1, 1e-5): the counts of the chapter,
    whatever the number of partitions.
    """
    X = np.arange(200.0)[:, None]
    y = np.arange(200) % 2
    found = set()
    for k, vote in (
        (1, lambda own, _: 0),
        (3, lambda own, _: max(own) % 2),
        (3, lambda own, _: len(own) % 2),
    ):
        model = DPBag(
            1.0,
            1e-5,
            estimator=Votes(vote),
            n_models=50,
            n_partitions=k,
            accountant=accountant,
            device="cpu",
            student=LogisticRegression(),
            noise_seed=0,
        ).fit(X, y, public=np.zeros((400, 1)))
        found.add(model.n_labels_)
        assert model.profile_.status == "proved"
        assert model.profile_.adjacency == "zero-out"
        analysis = "tight" if accountant == "tight" else "published"
        assert model.epsilon_spent_ == noisy_vote(
            inverse_scale=0.04, answers=labels, analysis=analysis
        ).epsilon(1e-5)
        assert not hasattr(model, "record_epsilons_")
    assert found == {labels}
    for partitions, adjacency in (
        ("balanced", "zero-out"),
        ("balanced", "replace-one"),
        ("independent", "add-remove"),
    ):
        other = clone(model).set_params(partitions=partitions, adjacency=adjacency)
        other.fit(X, y, public=np.zeros((labels, 1)))
        assert (other.profile_.adjacency, other.n_labels_) == (adjacency, labels)


def test_public_rows_run_out():
    X = np.arange(40.0)[:, None]
    y = np.arange(40) % 2
    model = DPBag(
        50.0,
        estimator=Votes(lambda own, _: 0),
        n_models=4,
        n_partitions=2,
        device="cpu",
        noise_seed=0,
        **PERSONALISED,
    )
    model.set_params(student=LogisticRegression()).fit(X, y, public=np.zeros((5, 1)))
    assert model.n_labels_ == 5
    assert 0 < model.epsilon_spent_ < 50
    # all agree: m = 1 for everyone
    assert (model.record_epsilons_ == model.epsilon_spent_).all()


def test_one_record_changes_one_vote_of_each_partition(monkeypatch):
    """Largest search over learners' whims: normalised counts move by at most 1 on
    two classes, and it is attained.
    """
    tables = []
    monkeypatch.setattr(
        _dpbag,
        "laplace_vote",
        lambda counts, scale, seed: (tables.append(counts), np.zeros(len(counts), int))[
            1
        ],
    )
    n = 30
    k = 4
    chunks = hash_chunks(
        [str(i) for i in range(n + 2)], n_chunks=20, n_partitions=k, key=b""
    )
    largest = 0.0
    whims = [lambda own, _: int(n in own)]
    whims += [lambda own, _, salt=salt: hash((salt, own)) % 2 for salt in range(39)]
    model = DPBag(
        n_models=20, n_partitions=k, student=LogisticRegression(), noise_seed=0
    )
    for whim in whims:
        model.set_params(estimator=Votes(whim))
        pair = []
        for records in (n, n + 1):
            X = np.arange(float(records))[:, None]
            y = np.arange(records) % 2
            own = chunks[: records + 1]
            model.fit(X, y, public=np.zeros((1, 1)), chunks=own)
            pair.append(tables.pop()[0])
        moved = pair[1] - pair[0]
        largest = max(largest, float(np.abs(moved).max()))
        assert np.abs(moved).max() <= 1
    assert largest == 1


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=2),
        BoostedTreesClassifier(n_trees=2),
    ],
)
def test_a_chunk_of_one_class_votes_for_it(estimator):
    """Records of class 1 all sit in one chunk of the only partition: three teachers
    vote 0, one votes 1.
    """
    X = np.arange(16.0)[:, None]
    y = np.array([0] * 12 + [1] * 4)
    chunks = np.append(np.arange(16) // 4, 0)[:, None]
    model = DPBag(
        1e9,
        0.5,
        estimator=estimator,
        n_models=4,
        n_partitions=1,
        inverse_scale=100.0,
        device="cpu",
        noise_seed=0,
        keep_votes=True,
    )
    model.fit(X, y, public=X, chunks=chunks)
    assert set(model.labels_) == {0}
    assert (model.agreement_ == 0.75).all()


def test_more_than_two_classes(pixels):
    X, y = pixels
    model = DPBag(
        n_models=10,
        n_partitions=4,
        inverse_scale=3.0,
        epsilon=1e6,
        delta=0.1,
        device="cpu",
        noise_seed=0,
    )
    model.fit(X[:900], y[:900], public=X[900:1400])
    assert model.labels_.shape == (500,)
    assert model.score(X[1400:], y[1400:]) > 0.75
    assert model.predict_proba(X[:3]).shape == (3, 10)


noises = st.floats(1e-3, 3.0)
deltas = st.floats(1e-12, 0.5)
epsilons = st.floats(0.05, 30.0)


def labels_of(largest, epsilon, delta, **setting):
    """Labels that a budget pays for, one more than it covers, from the largest sum
    of squares after each query.
    """
    limit = squares_of_budget(epsilon, delta, **setting)
    return min(len(largest), int(np.searchsorted(largest, limit)) + 1)


@given(squares=st.integers(1, 10**9), k=st.integers(1, 500), beta=noises, delta=deltas)
def test_epsilon_is_the_least_of_all_moments(squares, k, beta, delta):
    orders = np.arange(1.0, 101.0)
    moments = squares / k**2 * personalised_moments(orders, inverse_scale=beta)
    plain = ((moments - np.log(delta)) / orders).min()
    found = personalised_epsilon(squares, n_partitions=k, beta=beta, delta=delta)
    assert found == pytest.approx(plain, rel=1e-12)


@given(
    epsilon=epsilons,
    delta=deltas,
    beta=noises,
    k=st.integers(1, 200),
    own=st.integers(0, 200),
)
def test_labels_of_a_constant_share_are_those_of_the_accounting(
    epsilon, delta, beta, k, own
):
    # of k models that vote between two classes
    against = max(own % (k + 1), k - own % (k + 1))
    labels = personalised_answers(epsilon, delta, inverse_scale=beta, m=against / k)
    sums = np.arange(1, 40) * against**2
    assert labels_of(sums, epsilon, delta, n_partitions=k, beta=beta) == min(labels, 39)


@given(epsilon=epsilons, delta=deltas, beta=noises, k=st.integers(1, 200))
def test_the_budget_is_reached_at_its_sum_and_not_before(epsilon, delta, beta, k):
    limit = squares_of_budget(epsilon, delta, n_partitions=k, beta=beta)
    before, at = personalised_epsilon(
        [limit - 1, limit], n_partitions=k, beta=beta, delta=delta
    )
    assert before < epsilon * (1 + 1e-9)
    assert at > epsilon * (1 - 1e-9) or limit == 1


def test_no_query_costs_nothing_and_shapes_are_kept():
    found = personalised_epsilon([[0, 1], [2, 3]], n_partitions=1, beta=0.1, delta=1e-5)
    assert found.shape == (2, 2)
    assert found[0, 0] == 0
    assert (np.diff(found.ravel()) > 0).all()
    assert labels_of([], 1.0, 1e-5, n_partitions=1, beta=0.1) == 0
    # a student of no label predicts the first class
    X = np.arange(20.0)[:, None]
    y = np.repeat([3, 8], 10)
    model = DPBag(1e-3, 1e-9, n_models=2, n_partitions=2, device="cpu")
    model.fit(X, y, public=X)
    assert (model.n_labels_, model.epsilon_spent_) == (0, 0)
    assert set(model.predict(X)) == {3}
