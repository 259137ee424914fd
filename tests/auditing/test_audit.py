"""Audits of whole trainings: refuted where the claim is false, consistent where it is true, clear where neither is."""

from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import dpnotes
from dpnotes import Bagging, ModelSensitivity
from dpnotes.accounting import approximate, bagging, gaussian, pure
from dpnotes.auditing import _runner, audit
from dpnotes.auditing._observing import Observer
from dpnotes.auditing._runner import Runner
from dpnotes.auditing._training import Training

X, Y = load_breast_cancer(return_X_y=True)
X = (X / np.linalg.norm(X, axis=1, keepdims=True))[:200]
Y = Y[:200]
CLAIM = gaussian(sigma=1.0)


def noisy_sum(X, y, seed, sigma=1.0):
    return X.sum(axis=0) + np.random.default_rng(seed).normal(0, sigma, X.shape[1])


def half_the_noise(X, y, seed):
    return noisy_sum(X, y, seed, 0.5)


def test_a_true_claim_is_consistent_and_nearly_reached():
    report = dpnotes.audit(noisy_sum, X, Y, claim=CLAIM, norm=1.0, runs=12_000)
    assert not report.refuted
    assert 0.8 < report.mu <= 1.0
    assert report.runs <= 12_000
    assert "many runs" in report.strategy


@pytest.mark.parametrize("strategy", ["auto", "betting"])
def test_too_little_noise_is_refuted_before_the_budget_ends(strategy):
    report = audit(half_the_noise, X, Y, claim=CLAIM, norm=1.0, runs=12_000, strategy=strategy)
    assert report.refuted
    assert report.runs < 6_000


def test_the_same_audit_twice_is_the_same():
    first, second = (audit(half_the_noise, X, Y, claim=CLAIM, runs=800).p_value for _ in range(2))
    assert first == second


def test_sound_bets_lose():
    assert not audit(noisy_sum, X, Y, claim=CLAIM, norm=1.0, runs=2_000, strategy="betting").refuted


def released(X, y, seed):
    """All records in the clear but for a little noise."""
    return np.hstack([X, y[:, None]]) + np.random.default_rng(seed).normal(0, 1e-3, (len(X), X.shape[1] + 1))


def nearest(result, x, label):
    return -np.abs(result - np.append(x, label)).max(axis=1).min()


@pytest.mark.parametrize("strategy", ["one run", "lira"])
def test_many_canaries_in_few_runs(strategy):
    report = audit(released, X, Y, claim=pure(1.0), score=nearest, runs=40, strategy=strategy)
    assert report.refuted
    assert report.runs <= 40
    sound = audit(noisy_sum, X, Y, claim=CLAIM, norm=1.0, runs=40, strategy=strategy)
    assert not sound.refuted


def test_few_trainings_are_shared_by_many_canaries():
    report = audit(noisy_sum, X, Y, claim=gaussian(sigma=0.5), runs=30)
    assert report.strategy.startswith("lira")
    assert any("runs must be at least" in remark for remark in report.remarks)


def test_replace_one_counts_twice():
    """The noise is that of add-remove, which hides an exchange half as well."""
    claim = gaussian(sigma=1.0, adjacency="replace-one")
    assert audit(noisy_sum, X, Y, claim=claim, norm=1.0, runs=8_000).refuted
    assert not audit(noisy_sum, X, Y, claim=CLAIM.for_adjacency("replace-one"), norm=1.0, runs=4_000).refuted


def test_zero_out_needs_to_know_the_empty_record():
    claim = gaussian(sigma=1.0, adjacency="zero-out")
    with pytest.raises(ValueError, match="empty must be given"):
        audit(noisy_sum, X, Y, claim=claim, runs=1000)
    empty = (np.zeros(X.shape[1]), 0)
    assert audit(half_the_noise, X, Y, claim=claim, norm=1.0, runs=8_000, empty=empty).refuted


def subsample(X, y, seed):
    return X[np.random.default_rng(seed).choice(len(X), 60, replace=False)]


def test_a_published_subsample_reveals_a_record_with_its_probability():
    pi = 60 / len(X)
    claim = bagging(n=len(X), subsample=60, replace=False)
    report = audit(subsample, X, Y, claim=claim, runs=2_000)
    assert not report.refuted
    assert 0.7 * pi < report.delta(1.0) <= pi
    assert audit(subsample, X, Y, claim=approximate(1.0, 0.1), runs=2_000).refuted


def test_bagged_trees_reveal_most_of_that():
    model = Bagging(subsample=60, estimator=DecisionTreeClassifier(), noise_seed=0)
    report = audit(model, X, Y, runs=300, canaries=["mislabelled"])
    assert not report.refuted
    assert report.delta(0.0) > 0.02  # of 0.26


def test_many_fits_in_one_call():
    model = ModelSensitivity(20.0, 1e-3, l2=0.1, noise_seed=0, device="cpu")
    report = audit(model, X, Y, runs=1_200, canaries=["gradient-aligned", "boundary"])
    assert not report.refuted
    assert 0.2 * report.claim.mu < report.mu < report.claim.mu


def test_canaries_of_the_users_own():
    x = np.eye(X.shape[1])[0]
    report = audit(noisy_sum, X, Y, claim=CLAIM, norm=1.0, runs=1_000, canaries=[(x, 1)])
    assert "given" in report.strategy
    with pytest.raises(ValueError, match="canaries must be records that the claim allows"):
        audit(noisy_sum, X, Y, claim=CLAIM, norm=1.0, runs=1_000, canaries=[(2 * x, 1)])
    with pytest.raises(ValueError, match=r"canaries must be records .* or of the kinds"):
        audit(noisy_sum, X, Y, claim=CLAIM, runs=1_000, canaries=["loud"])


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


class Forgetful:
    """Keeps forty results of each data set, and then gives these again."""

    def __init__(self):
        self.kept = {}

    def __call__(self, X, y, seed):
        found = self.kept.setdefault(X.tobytes(), [])
        if len(found) < 40:
            found.append(noisy_sum(X, y, seed))
            return found[-1]
        return found[seed % 40]


def few_seeds(X, y, seed):
    return noisy_sum(X, y, seed % 40)


def sometimes_nan(X, y, seed):
    return noisy_sum(X, y, seed) if seed % 3 else np.full(X.shape[1], np.nan)


@pytest.mark.parametrize(
    ("train", "error", "message"),
    [
        (lambda X, y, seed: None, TypeError, "train must return what is released .* got None"),
        (fails, ValueError, "train must run on the records less one, got KeyError: 'no such column'"),
        (lambda X, y, seed: noisy_sum(X, y, 0), ValueError, "ignores its seed, or has no randomness"),
        (lambda X, y, seed: X.mean(axis=0), ValueError, "ignores its seed, or has no randomness"),
        (LogisticRegression(), ValueError, "ignores its seed, or has no randomness"),
        (kept, ValueError, "does it use its seed and its records"),
        (fails_with_more, ValueError, "train must run on records with a canary, too, got KeyError: 'too many'"),
        (lambda X, y, seed: np.full(30, np.nan), ValueError, "got NaN in all of the first"),
        (lambda X, y, seed: object(), ValueError, "score= must be given"),
        ("train", TypeError, "train must be a function"),
    ],
)
def test_what_cannot_be_audited_is_said(train, error, message):
    with pytest.raises(error, match=message):
        audit(train, X, Y, claim=CLAIM, runs=400)


def test_a_score_that_fails_is_named():
    with pytest.raises(ValueError, match=r"got ValueError: .* \(in the score of its result\)"):
        audit(noisy_sum, X, Y, claim=CLAIM, runs=400, score=lambda result, x, label: "high")


@pytest.mark.parametrize("strategy", ["many runs", "betting"])
def test_results_that_are_kept_are_no_runs(strategy):
    with pytest.raises(ValueError, match=r"got one again in \d+ of \d+ runs, .* does it keep results"):
        audit(Forgetful(), X, Y, claim=CLAIM, norm=1.0, runs=1_500, strategy=strategy)


def test_few_seeds_are_a_fault_and_no_cache():
    """The same result comes again, but the same seed gives it each time."""
    assert audit(few_seeds, X, Y, claim=CLAIM, norm=1.0, runs=2_000).refuted


def test_runs_that_fail_count():
    report = audit(sometimes_nan, X, Y, claim=CLAIM, norm=1.0, runs=2_000)
    assert not report.refuted  # as often with the canary as without
    assert not np.isnan(report.mu)


def test_a_constant_score_proves_nothing():
    report = audit(noisy_sum, X, Y, claim=CLAIM, runs=400, score=lambda result, x, label: 1.0)
    assert report.p_value == 1
    assert report.mu == 0
    assert any("same scores" in remark for remark in report.remarks)


def test_a_claim_of_other_neighbours_is_refused():
    with pytest.raises(ValueError, match="claim must be for the adjacency of the runs"):
        audit(noisy_sum, X, Y, claim=CLAIM, adjacency="zero-out", runs=400)


def test_too_small_a_budget_says_how_much_it_needs():
    with pytest.raises(ValueError, match=r"runs must be at least \d+ for 'many runs' .* got runs=50"):
        audit(noisy_sum, X, Y, claim=gaussian(sigma=0.5), runs=50, strategy="many runs")
    with pytest.raises(ValueError, match=r"seconds must be at least about \d+ .* trainings of .* got seconds=0.01"):
        audit(noisy_sum, X, Y, claim=gaussian(sigma=0.2), seconds=0.01, strategy="many runs")


def test_bad_records_are_refused():
    with pytest.raises(ValueError, match="X and y must be finite numbers"):
        audit(noisy_sum, X, Y[:-1], claim=CLAIM)
    with pytest.raises(ValueError, match="bounds must be"):
        audit(noisy_sum, X, Y, claim=CLAIM, bounds=(1, 0))


def test_an_interrupted_audit_goes_on():
    """What was counted is not run again, and the verdict is that of an audit that was never interrupted."""
    settings = {"claim": CLAIM, "runs": 1_000, "canaries": ["boundary"]}
    whole = audit(noisy_sum, X, Y, **settings)
    memory, calls = {}, []

    def watched(X, y, seed):
        calls.append(seed)
        if len(calls) == 700:
            raise KeyboardInterrupt
        return noisy_sum(X, y, seed)

    with pytest.raises(KeyboardInterrupt):
        audit(watched, X, Y, **settings, memory=memory)
    resumed = audit(watched, X, Y, **settings, memory=memory)
    assert len(calls) < 1_000
    assert (resumed.p_value, resumed.mu) == (whole.p_value, whole.mu)
    assert len(memory) > 2


class Keeps:
    """Noise from a generator of its own, whatever the seed; of the operating system's when it is ``made`` anew."""

    def __init__(self, made):
        self.made, self.generator = made, np.random.default_rng()

    def __call__(self, X, y, seed):
        generator = np.random.default_rng() if self.made else self.generator
        return X.sum(axis=0) + 2 * generator.normal(size=X.shape[1])


def global_noise(X, y, seed):
    return X.sum(axis=0) + 2 * np.random.normal(size=X.shape[1])  # noqa: NPY002


def test_a_generator_that_workers_would_copy_is_refused():
    """Otherwise runs with and without the record have the same noise, and a sound training is refuted."""
    settings = {"claim": CLAIM, "norm": 1.0, "runs": 1_000}
    with pytest.raises(ValueError, match=r"keeps a generator .* with n_jobs=2 each worker gets a copy"):
        audit(Keeps(made=False), X, Y, **settings, n_jobs=2)
    assert audit(Keeps(made=False), X, Y, **settings).p_value > 1e-4
    for train in (Keeps(made=True), lambda X, y, seed: np.clip(Keeps(made=True)(X, y, seed), 0, 1)):
        assert audit(train, X, Y, **settings, n_jobs=2).p_value > 1e-4


def test_workers_that_are_forked_share_no_global_generator():
    with parallel_config(backend="multiprocessing"):
        found = audit(global_noise, X, Y, claim=CLAIM, norm=1.0, runs=4_000, n_jobs=2)
    assert found.p_value > 1e-4
    runner = Runner(Training.of(global_noise, np.unique(Y)), 1.0, 4_000, 2, 0, False)
    with parallel_config(backend="multiprocessing"):
        (runs,) = runner.run((X, Y), [Observer(X[0], Y[0], np.unique(Y), None, None)], 512)
    scores = next(iter(runs.scores.values()))
    assert len(np.unique(scores)) == len(scores) == 512


def test_memory_is_of_one_audit():
    memory, settings = {}, {"claim": CLAIM, "norm": 1.0, "runs": 1_000}
    first = audit(half_the_noise, X, Y, **settings, memory=memory)
    again = audit(half_the_noise, X, Y, **settings, memory=memory)
    assert (again.p_value, again.refuted) == (first.p_value, True)
    assert 0 < again.runs < first.runs  # those that were counted, without the pilot's
    others = [(noisy_sum, X, settings), (half_the_noise, X + 0.1, settings)]
    others += [(half_the_noise, X, settings | changed) for changed in (
        {"claim": CLAIM.for_adjacency("replace-one")}, {"random_state": 1}, {"strategy": "betting"}, {"norm": 2.0},
        {"score": lambda result, x, label: float(np.sum(result))})]  # fmt: skip
    for train, table, given in others:
        with pytest.raises(ValueError, match="memory must be empty or of the same audit"):
            audit(train, table, Y, **given, memory=memory)


@pytest.mark.parametrize("strategy", ["one run", "lira"])
def test_many_canaries_keep_to_data_sets_that_the_claim_is_about(strategy):
    """A claim for at most n records: a training that drops its noise beyond them is none of its business."""
    sizes = []

    def capped(X, y, seed):
        sizes.append(len(X))
        return noisy_sum(X, y, seed)

    assert not audit(capped, X, Y, claim=CLAIM, norm=1.0, runs=60, strategy=strategy).refuted
    assert max(sizes) <= len(X)


@pytest.mark.parametrize("strategy", ["one run", "lira"])
def test_runs_one_by_one_are_planned_by_their_own_time(monkeypatch, strategy):
    """Not by that of batches: what is planned and not made counts as wrong, and nothing would be refuted."""
    clock, run = [0.0], Runner.run

    def slow_to_begin(*given, **more):
        clock[0] += 0.05
        return run(*given, **more)

    def timed(X, y, seed):
        clock[0] += 0.001
        return released(X, y, seed)

    monkeypatch.setattr(_runner, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(Runner, "run", slow_to_begin)
    report = audit(timed, X, Y, claim=pure(1.0), score=nearest, seconds=8.0, strategy=strategy)
    assert report.refuted
    assert report.seconds < 8.0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"claim": gaussian(sigma=1e-3)}, ValueError, "no number of runs refutes this claim"),
        ({"claim": 1.0}, TypeError, "claim must be a PrivacyProfile"),
        ({"canaries": []}, ValueError, "canaries must be records"),
        ({"classes": []}, ValueError, "classes must name all labels"),
        ({"bounds": 3}, ValueError, "bounds must be a pair"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a number of workers"),
        ({"random_state": -1}, ValueError, "random_state must be >= 0"),
        ({"empty": (np.zeros(X.shape[1]), 0)}, ValueError, "empty must be given for zero-out alone"),
    ],
)
def test_bad_settings_are_named(given, error, message):
    with pytest.raises(error, match=message):
        audit(noisy_sum, X, Y, **{"claim": CLAIM, "runs": 400} | given)


def test_records_that_are_all_alike_need_bounds():
    with pytest.raises(ValueError, match="X must have a feature that differs"):
        audit(noisy_sum, np.ones_like(X), Y, claim=CLAIM, runs=400)


def test_workers_give_what_one_process_gives():
    with parallel_config(backend="threading"):
        one, two = (audit(half_the_noise, X, Y, claim=CLAIM, runs=600, n_jobs=jobs).p_value for jobs in (1, 2))
    assert one == two


def test_seeds_differ(monkeypatch):
    runner = Runner(None, 1.0, 10, 1, 0, False)
    assert len(set(runner.seeds(5_000)) | set(runner.seeds(5_000))) == 10_000
