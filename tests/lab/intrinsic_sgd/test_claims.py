"""The evidence on the intrinsic privacy of SGD notices wrong parts."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.lab.intrinsic_sgd import literal_sgd, printed
from dpnotes.lab.intrinsic_sgd.claims import distances, noise
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon
from dpnotes.lab.ledger import LEDGER

CLAIMS = {claim.number: claim for claim in LEDGER}


def failing(number):
    return [finding.quantity for finding in CLAIMS[number].evidence().findings if not finding.supports]


def as_published(**kwargs):
    """A wrong accountant: it counts a broken-off pass as a fraction of a visit."""
    return accounting.papers.sgd_sensitivity(**{**kwargs, "analysis": "published"})


def as_proved(**kwargs):
    return accounting.papers.sgd_sensitivity(**{**kwargs, "analysis": "tight"})


def test_a_bound_with_fractional_visits_is_exceeded(monkeypatch):
    for module in (distances, printed):
        monkeypatch.setattr(module, "sgd_sensitivity", as_published)
    assert failing(30) == [
        "largest distance / (2 ceil(k) L eta / B), random pairs",
        "distance that one record makes, MNIST-binary",
        "distance that one record makes, Forest",
        "distance that one record makes, Adult",
        "the same if rows have norm 9, MNIST-binary",
        "largest distance over all orders, k = 3/2",
    ]


def test_runs_that_take_half_steps_are_noticed(monkeypatch):
    def lazy(*data, learning_rate, initial):
        return literal_sgd.logistic_sgd(*data, learning_rate=learning_rate / 2, initial=initial)

    monkeypatch.setattr(distances, "logistic_sgd", lazy)
    assert len(failing(30)) == 5
    assert failing(33)


@pytest.mark.parametrize(
    ("module", "name", "wrong", "number"),
    [
        # one order instead of all: the seed makes no difference
        (distances, "all_orders", lambda n, **kwargs: [next(literal_sgd.all_orders(n, **kwargs))], 31),
        (distances, "hockey_stick", lambda p, q, factor: accounting.hockey_stick(p, p, factor), 31),
        (distances, "permutations", lambda order: [tuple(order)], 31),
        # the bound with whole visits is not the one that the mean obeys
        (printed, "sgd_sensitivity", as_proved, 32),
        (
            noise,
            "intrinsic_epsilon",
            lambda **kwargs: intrinsic_epsilon(**{**kwargs, "analysis": "published"}),
            32,
        ),
        (
            noise,
            "intrinsic_epsilon",
            lambda **kwargs: intrinsic_epsilon(**{**kwargs, "analysis": "tight"}),
            32,
        ),
        # training that leaves the weights where they start
        (noise, "logistic_sgd", lambda features, *_, initial, **__: np.tile(initial, (len(features), 1)), 32),
        (
            distances,
            "gaussian_sigma",
            lambda epsilon, delta, **kwargs: 2 * accounting.gaussian_sigma(epsilon, delta, **kwargs),
            33,
        ),
        (
            distances,
            "intrinsic_epsilon",
            lambda **kwargs: intrinsic_epsilon(**{**kwargs, "sigma": 1.2 * kwargs["sigma"]}),
            33,
        ),
        # noise that forgets what is there already, and noise that is one part in a thousand too small
        (
            noise,
            "augmenting_sigma",
            lambda *target, **kwargs: accounting.papers.augmenting_sigma(*target, **{**kwargs, "intrinsic_sigma": 0.0}),
            34,
        ),
        (
            noise,
            "augmenting_sigma",
            lambda *target, **kwargs: 0.999 * accounting.papers.augmenting_sigma(*target, **kwargs),
            34,
        ),
        # an audit that believes every third run only
        (
            noise,
            "audit_epsilon",
            lambda *, delta, **counts: accounting.audit_epsilon(
                **{name: count // 3 for name, count in counts.items()}, delta=delta
            ),
            34,
        ),
        (noise, "hockey_stick", lambda p, q, factor: accounting.hockey_stick(p, p, factor), 34),
        (
            noise,
            "intrinsic_epsilon",
            lambda *, sigma, sensitivity, delta, analysis="tight": (
                math.sqrt(2 * math.log(1.25) / delta) * (sensitivity / sigma)
            ),
            35,
        ),
        (
            noise,
            "gaussian_sigma",
            lambda epsilon, delta, **kwargs: accounting.gaussian_sigma(epsilon, delta, **kwargs, analysis="classical"),
            36,
        ),
        (
            noise,
            "augmenting_sigma",
            lambda *target, **kwargs: accounting.papers.augmenting_sigma(*target, **{**kwargs, "analysis": "tight"}),
            36,
        ),
        (
            noise,
            "augmenting_sigma",
            lambda *target, **kwargs: accounting.papers.augmenting_sigma(*target, **{**kwargs, "intrinsic_sigma": 0.0}),
            36,
        ),
    ],
)
def test_evidence_notices_a_wrong_part(module, name, wrong, number, monkeypatch):
    monkeypatch.setattr(module, name, wrong)
    assert failing(number)


def test_printed_digits_follow_from_the_settings():
    for task in printed.tasks():
        assert round(task.bound("published"), 3) == task.sensitivity
        assert task.delta == pytest.approx(1 / task.n, rel=1e-3)
        assert task.n % task.batch_size  # every pass has a short batch


def test_literal_training_is_the_textbook_loop():
    """Runs side by side against one run at a time, record by record."""
    generator = np.random.default_rng(3)
    n, d = 7, 3
    features, labels = generator.normal(size=(2, n, d)), generator.integers(2, size=(2, n)).astype(np.float64)
    initial = generator.normal(size=(2, d))
    batches = literal_sgd.shuffled_batches(n, batch_size=2, steps=8, generator=generator)
    together = literal_sgd.logistic_sgd(features, labels, batches, learning_rate=0.3, initial=initial)
    for run in range(2):
        weights = initial[run].copy()
        for batch in batches:
            gradient = np.zeros(d)
            for record in batch:
                x = features[run, record]
                gradient += (1 / (1 + math.exp(-float(x @ weights))) - labels[run, record]) * x / len(batch)
            weights = weights - 0.3 * gradient
        np.testing.assert_allclose(together[run], weights, rtol=1e-12)


def test_batches_visit_each_record_once_in_a_pass():
    batches = literal_sgd.shuffled_batches(10, batch_size=3, steps=7, generator=np.random.default_rng(4), place=0)
    assert batches.shape == (7, 3)
    for start in (0, 3):
        assert len(np.unique(batches[start : start + 3])) == 9
    assert batches[[0, 3, 6], 0].tolist() == [0, 0, 0]
    at_the_end = literal_sgd.shuffled_batches(10, batch_size=3, steps=7, generator=np.random.default_rng(4), place=8)
    assert (at_the_end == 0).sum(axis=1).tolist() == [0, 0, 1, 0, 0, 1, 0]


def test_whole_numbers_are_the_exact_weights():
    thirds = np.array([1, -3, 3, -3])
    numerators = noise._end_numerators(thirds, 5, seed=0)
    orders = np.random.default_rng(0).permuted(np.tile(thirds.astype(object), (5, 1)), axis=1)
    for numerator, order in zip(numerators, orders, strict=True):
        records = [Fraction(int(third), 3) for third in order]
        exact = literal_sgd.end_weight(
            records, [(0,), (1,), (2,), (3,)], learning_rate=Fraction(1, 32), gradient=literal_sgd.quadratic
        )
        assert Fraction(int(numerator), 3 * 32**4) == exact


def test_textbook_condition_is_that_of_the_profile():
    assert noise.gaussian_delta(1.0, 1.0) == pytest.approx(0.126936737507, abs=1e-12)
    assert noise.gaussian_delta(0.5, 2.0) == pytest.approx(accounting.gaussian(sigma=0.5).delta(0.5), rel=1e-12)
