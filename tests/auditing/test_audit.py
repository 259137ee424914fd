"""Audits of whole trainings: refuted where the claim is false, consistent where it
is true, clear where neither is.
"""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import dpnotes
from dpnotes import ClassMeans, ModelSensitivity
from dpnotes.accounting import approximate, gaussian
from dpnotes.auditing import audit
from dpnotes.auditing._observing import Observer
from dpnotes.auditing._training import Runner, Training
from dpnotes.preprocessing import ClipNorm

X, Y = load_breast_cancer(return_X_y=True)
X = (X / np.linalg.norm(X, axis=1, keepdims=True))[:200]
Y = Y[:200]
CLAIM = gaussian(sigma=1.0)


def noisy_sum(X, y, seed, sigma=1.0):
    return X.sum(axis=0) + np.random.default_rng(seed).normal(0, sigma, X.shape[1])


def half_the_noise(X, y, seed):
    return noisy_sum(X, y, seed, 0.5)


def subsample(X, y, seed):
    return X[np.random.default_rng(seed).choice(len(X), 60, replace=False)]


def sometimes_nan(X, y, seed):
    return noisy_sum(X, y, seed) if seed % 3 else np.full(X.shape[1], np.nan)


def sometimes_infinite(X, y, seed):
    return noisy_sum(X, y, seed) if seed % 3 else np.full(X.shape[1], np.inf)


def as_a_function(X, y, seed):
    """A score of one's own: of the records that it is asked for."""
    released = half_the_noise(X, y, seed)
    return lambda records: records @ released


def test_a_true_claim_is_consistent_and_nearly_reached():
    report = dpnotes.audit(noisy_sum, X, Y, claim=CLAIM, domain=1.0, runs=12_000)
    assert not report.refuted
    assert 0.8 < report.mu <= 1.0
    assert report.runs <= 12_000
    assert np.linalg.norm(report.canary[0]) <= 1 + 1e-9


REPLACED = CLAIM.for_adjacency("replace-one")


@pytest.mark.parametrize(
    ("train", "settings", "refuted"),
    [
        (half_the_noise, {"domain": 1.0}, True),
        (half_the_noise, {"domain": (-1.0, 1.0)}, True),
        (half_the_noise, {"domain": [(np.eye(30)[0], 1)]}, True),
        (as_a_function, {"domain": 1.0}, True),
        # the noise is that of add-remove, which hides an exchange half as well
        (
            noisy_sum,
            {"domain": 1.0, "claim": gaussian(sigma=1.0, adjacency="replace-one")},
            True,
        ),
        (noisy_sum, {"domain": 1.0, "claim": REPLACED}, False),
        (noisy_sum, {"domain": [(np.eye(30)[0], 1)], "claim": REPLACED}, False),
        (
            half_the_noise,
            {"domain": 1.0, "claim": gaussian(sigma=1.0, adjacency="zero-out")},
            True,
        ),
        # n is public
        (
            lambda X, y, seed: len(X) + noisy_sum(X, y, seed),
            {"claim": gaussian(sigma=1.0, adjacency="zero-out")},
            False,
        ),
        # the same result comes again, but the same seed gives it each time
        (lambda X, y, seed: noisy_sum(X, y, seed % 40), {"domain": 1.0}, True),
        # numbers whose squares are no doubles, and infinite ones
        (lambda X, y, seed: 1e300 * half_the_noise(X, y, seed), {"domain": 1.0}, True),
        (sometimes_infinite, {}, False),
        # runs that fail count, as often with the canary as without
        (sometimes_nan, {"domain": 1.0}, False),
        (subsample, {"claim": approximate(1.0, 0.1)}, True),
        (lambda X, y, seed: "a", {}, False),
    ],
)
def test_verdicts(train, settings, refuted):
    report = audit(train, X, Y, **{"claim": CLAIM, "runs": 3_000} | settings)
    assert report.refuted == refuted
    assert not np.isnan(report.mu)
    assert report.runs < 1_500 or not refuted  # before the budget ends


def test_the_length_of_a_release_shows_the_number_of_records():
    """Steps that are divided by the number of records, as those of DPSGD under
    add-remove once were: no projection of the noise shows the number, but its length.
    """

    def train(X, y, seed):
        noise = np.random.default_rng(seed).normal(0, 4.0, (3, X.shape[1]))
        return (noise + X.sum(axis=0) / 100) / len(X)

    X = np.random.default_rng(0).normal(size=(4, 400))
    y = np.array([0, 1, 0, 1])
    for adjacency, refuted in (("add-remove", True), ("zero-out", False)):
        claim = gaussian(sigma=4.0, adjacency=adjacency)
        report = audit(train, X, y, claim=claim, runs=600)
        assert report.refuted == refuted
        assert ("length of the release" in report.strategy) == refuted


@pytest.mark.parametrize("labels", [Y, np.where(Y, "yes", "no")])
def test_an_estimator_and_labels_as_they_are(labels):
    model = ModelSensitivity(20.0, 1e-3, l2=0.1, noise_seed=0, device="cpu")
    report = audit(model, X, labels, runs=600)
    assert not report.refuted
    assert 0.1 * report.claim.mu < report.mu < report.claim.mu
    assert report.canary[1] in labels


def test_the_label_of_the_empty_record_is_an_integer_where_no_larger_one_is():
    labels = np.where(Y, 2**63 - 1, 0)

    def train(X, y, seed):
        assert y.dtype == labels.dtype
        return noisy_sum(X, y, seed)

    claim = gaussian(sigma=1.0, adjacency="zero-out")
    report = audit(train, X, labels, claim=claim, runs=300)
    assert not any("failed" in remark for remark in report.remarks)


class Answers:
    """A result that gives three answers."""

    def __init__(self, released):
        self.released, self.budget_ = released, SimpleNamespace(left=3)

    def predict(self, at):
        self.budget_.left -= len(at)
        assert self.budget_.left >= 0
        return (at @ self.released > self.released.mean()).astype(int)


def test_a_budget_of_answers_is_used_up_for_each_canary():
    report = audit(
        lambda X, y, seed: Answers(noisy_sum(X, y, seed)), X, Y, claim=CLAIM, runs=300
    )
    assert not any("failed" in remark for remark in report.remarks)
    assert report.tried["chosen"].sum() == 1


def fails(X, y, seed):
    raise KeyError("no such column")


def fails_with_more(X, y, seed):
    if len(X) == len(Y):
        raise KeyError("too many")
    return noisy_sum(X, y, seed)


def kept(X, y, seed, found=[]):  # noqa: B006
    if not found:
        found.append(noisy_sum(X, y, 0))
    return found[0]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda X, y, seed: None, "train must return what is released .* got None"),
        (fails, "train must run on the records .* got KeyError: 'no such column'"),
        (fails_with_more, "with a canary, too, got KeyError: 'too many'"),
        (lambda X, y, seed: noisy_sum(X, y, 0), "ignores its seed, or has no random"),
        (LogisticRegression(), "ignores its seed, or has no randomness"),
        (kept, "does it use its seed and its records"),
        (lambda X, y, seed: np.full(30, np.nan), "got NaN in all of the first"),
        (lambda X, y, seed: object(), "train must return a result that yields a score"),
        (lambda X, y, seed: lambda records: len(2), r"\(in the score of its result\)"),
        ("train", "train must be a function"),
    ],
)
def test_what_cannot_be_audited_is_said(train, message):
    with pytest.raises((TypeError, ValueError), match=message):
        audit(train, X, Y, claim=CLAIM, runs=400)


GIVEN = "domain must be a list of records .* with 30 features"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"claim": gaussian(sigma=1e-3)},
            "claim must be a guarantee that runs can ref",
        ),
        ({"claim": 1.0}, "claim must be a PrivacyProfile"),
        ({"domain": -3.0}, "domain must be > 0"),
        ({"domain": (1, 0)}, "domain must be .* low <= high"),
        ({"domain": (1, 0, 2)}, "domain must be a pair"),
        ({"domain": []}, GIVEN),
        ({"domain": [(np.zeros(4), 1)]}, GIVEN),
        ({"random_state": -1}, "random_state must be >= 0"),
        ({"y": Y[:-1]}, "X and y must be finite numbers"),
        ({"X": np.ones_like(X)}, "X must have a feature that differs"),
        ({"runs": 50}, r"runs must be at least \d+ .* got runs=50"),
        (
            {"runs": None, "seconds": 0.01},
            r"seconds must be at least about \d+, for \d+ training runs of .*=0.01",
        ),
    ],
)
def test_bad_settings_are_named(given, message):
    settings = {"X": X, "y": Y, "claim": gaussian(sigma=0.5), "runs": 400}
    with pytest.raises((TypeError, ValueError), match=message):
        audit(noisy_sum, **settings | given)


def test_an_interrupted_audit_goes_on():
    """What was counted is not run again, and the verdict is that of an audit that
    was never interrupted.
    """
    settings = {"claim": CLAIM, "runs": 1_500}
    whole = audit(noisy_sum, X, Y, **settings)
    memory, calls = {}, []

    def watched(X, y, seed):
        calls.append(seed)
        if len(calls) == 900:
            raise KeyboardInterrupt
        return noisy_sum(X, y, seed)

    with pytest.raises(KeyboardInterrupt):
        audit(watched, X, Y, **settings, memory=memory)
    resumed = audit(watched, X, Y, **settings, memory=memory)
    assert len(calls) < 1_500
    assert (resumed.p_value, resumed.mu) == (whole.p_value, whole.mu)
    assert len(memory) > 2


def test_memory_is_of_one_audit():
    memory, settings = {}, {"claim": CLAIM, "domain": 1.0, "runs": 1_000}
    first = audit(half_the_noise, X, Y, **settings, memory=memory)
    again = audit(half_the_noise, X, Y, **settings, memory=memory)
    assert (again.p_value, again.refuted) == (first.p_value, True)
    assert 0 < again.runs < first.runs  # those that were counted, without the pilot's
    changes = {
        "train": noisy_sum,
        "X": X + 0.1,
        "claim": REPLACED,
        "random_state": 1,
        "domain": 2.0,
    }
    for name, value in changes.items():
        given = {"train": half_the_noise, "X": X, "y": Y, **settings, name: value}
        with pytest.raises(ValueError, match=f"from the same audit, .* another {name}"):
            audit(**given, memory=memory)


class Keeps:
    """Noise from a generator of its own, whatever the seed; of the operating
    system's when it is ``made`` anew.
    """

    def __init__(self, made):
        self.made, self.generator = made, np.random.default_rng()

    def __call__(self, X, y, seed):
        generator = np.random.default_rng() if self.made else self.generator
        return X.sum(axis=0) + 2 * generator.normal(size=X.shape[1])


def global_noise(X, y, seed):
    return X.sum(axis=0) + 2 * np.random.normal(size=X.shape[1])  # noqa: NPY002


def test_a_generator_that_workers_would_copy_is_refused():
    """Otherwise runs with and without the record have the same noise, and a sound
    training is refuted.
    """
    settings = {"claim": CLAIM, "domain": 1.0, "runs": 1_000}
    assert audit(Keeps(made=False), X, Y, **settings).p_value > 1e-4
    with parallel_config(n_jobs=2):
        with pytest.raises(
            ValueError, match=r"retains a generator .* each of 2 workers gets a copy"
        ):
            audit(Keeps(made=False), X, Y, **settings)
        for train in (
            Keeps(made=True),
            lambda X, y, seed: np.clip(Keeps(made=True)(X, y, seed), 0, 1),
        ):
            assert audit(train, X, Y, **settings).p_value > 1e-4


def test_workers_that_are_forked_share_no_global_generator():
    with parallel_config(backend="multiprocessing", n_jobs=2):
        runner = Runner(Training.of(global_noise, np.unique(Y)), 1.0, 4_000, 0)
        (runs,) = runner.run((X, Y), [Observer(X[0], Y[0], np.unique(Y))], 512)
    scores = runs.matrix(runs.names[:1])
    assert len(np.unique(scores)) == len(scores) == 512


def test_workers_give_what_one_process_gives_and_progress_is_logged(caplog):
    caplog.set_level(logging.INFO, "dpnotes.auditing")
    one = audit(half_the_noise, X, Y, claim=CLAIM, runs=600).p_value
    with parallel_config(backend="threading", n_jobs=2):
        assert one == audit(half_the_noise, X, Y, claim=CLAIM, runs=600).p_value
    assert " runs, " in caplog.text


def test_seeds_differ():
    runner = Runner(None, 1.0, 10, 0)
    assert len(set(runner.seeds(5_000)) | set(runner.seeds(5_000))) == 10_000


def test_the_claim_of_a_pipeline_is_that_of_its_last_step_and_records_that_all_count_as_empty_are_refused():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    report = audit(
        make_pipeline(ClipNorm(), ClassMeans(1.0, noise_seed=0)), X, y, runs=200
    )
    assert (report.claim.epsilon(0.0), report.refuted) == (1.0, False)
    with pytest.raises(
        ValueError, match="y must have labels among the classes of train"
    ):
        audit(ClassMeans(1.0, classes=["Yes", "No"]), X, y, runs=60)
    with pytest.raises(ValueError, match="y must hold labels, got a number to predict"):
        audit(ClassMeans(1.0), X, X[:, 0], runs=60)
