"""Checks of exercises refuse typical wrong answers with a hint, and nothing else."""

import numpy as np
import pytest
from scipy import stats

from dpnotes import exercises


def clipped(gradients, clipping_norm, noise):
    norms = np.linalg.norm(gradients, axis=1)
    return np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)) @ gradients + noise


def of_the_mean(gradients, clipping_norm, noise):
    return clipped(gradients, clipping_norm, noise) / len(gradients)


def of_the_batch(gradients, clipping_norm, noise):
    total = gradients.sum(axis=0)
    return total * min(1, clipping_norm / np.linalg.norm(total)) + noise


def always_scaled(gradients, clipping_norm, noise):
    return (clipping_norm * gradients / np.linalg.norm(gradients, axis=1, keepdims=True)).sum(axis=0) + noise


def noise_for_each(gradients, clipping_norm, noise):
    return clipped(gradients, clipping_norm, noise) + (len(gradients) - 1) * noise


def delta_of(p, q, factor):
    return np.maximum(p - factor * q, 0).sum()


def ranked(p, q, fpr, *, coins=True, by=lambda p, q: -p / q):
    """The greedy test, right or with a fault."""
    found = p[q == 0].sum()
    p, q = p[q > 0], q[q > 0]
    for i in np.argsort(by(p, q)):
        part = min(1.0, fpr / q[i]) if coins else float(fpr >= q[i])
        found, fpr = found + part * p[i], max(0.0, fpr - q[i])
    return found


def converted(orders, divergences, delta, *, best=np.min):
    return max(0.0, best(divergences + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)))


def product(p, q, times):
    """Probabilities of all combinations of outputs."""
    both = np.ones(1), np.ones(1)
    for _ in range(times):
        both = np.outer(both[0], p).ravel(), np.outer(both[1], q).ravel()
    return both


def softmax(scores, epsilon, sensitivity):
    exponents = epsilon * (scores - np.max(scores)) / (2 * sensitivity)
    return np.exp(exponents) / np.exp(exponents).sum()


def unshifted(scores, epsilon, sensitivity):
    weights = np.exp(epsilon * scores / (2 * sensitivity))
    return weights / weights.sum()


def noisy_mean(values, low, high, scale):
    return np.clip(values, low, high).mean() + scale


def limits(successes, trials, alpha, *, low=0, high=1):
    """Limits by the beta distribution, with given tails, and counts that are off by some."""
    bottom = stats.beta.ppf(alpha, successes + low, trials - successes + 1 - low) if successes else 0.0
    top = stats.beta.ppf(1 - alpha, successes + high, trials - successes + 1 - high) if successes < trials else 1.0
    return bottom, top


def wald(successes, trials, confidence):
    p = successes / trials
    width = stats.norm.ppf((1 + confidence) / 2) * np.sqrt(p * (1 - p) / trials)
    return p - width, p + width


WRONG = {
    "votes-6": [
        (lambda scores, epsilon, sensitivity: softmax(scores, 2 * epsilon, sensitivity), "the sum of the weights does"),
        (lambda scores, epsilon, sensitivity: softmax(scores, epsilon / 2, sensitivity), "grow exponentially"),
        (lambda scores, epsilon, sensitivity: softmax(scores, epsilon, 1.0), "flatter"),
        (lambda scores, epsilon, sensitivity: np.exp(epsilon * scores / 2), "add up to 1"),
        (lambda scores, epsilon, sensitivity: softmax(-scores, epsilon, sensitivity), "likelier"),
        (lambda scores, epsilon, sensitivity: int(np.argmax(scores)), "one probability"),
        (unshifted, "also if it is large"),
    ],
    "mechanisms-6": [
        (lambda v, low, high, e, noise: v.mean() + (high - low) / len(v) / e * noise, "moved to them"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, np.ptp(v) / len(v) / e * noise), "what is public"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, (high - low) / e * noise), "part of the range"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, 1 / len(v) / e * noise), "width of the bounds over"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, (high - low) / len(v) * e * noise), "/ epsilon"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, high / len(v) / e * noise), "with the width"),
        (lambda v, low, high, e, noise: noisy_mean(v, low, high, 0.0), "noise is added"),
        (lambda v, low, high, e, noise: v.sum() + noise, "averaged"),
    ],
    "attacks-6": [
        (lambda k, m, c: limits(k, m, (1 - c) / 2)[::-1], "lower one first"),
        (lambda k, m, c: limits(k, m, 1 - c), "on either side"),
        (wald, "on either side|have half"),
        (lambda k, m, c: limits(k, m, 0.025), "confidence is an argument"),
        (lambda k, m, c: limits(k, m, (1 - c) / 2, high=0), "so few successes|raised|half"),
        (lambda k, m, c: limits(k, m, (1 - c) / 2, low=1), "on either side|so many successes"),
    ],
    "composition-4": [
        (lambda orders, d, delta: d - np.log(delta) / (orders - 1), "one number"),
        (lambda orders, d, delta: np.min(d - np.log(delta) / (orders - 1)), "two more logarithms"),
        (lambda orders, d, delta: converted(orders, d, delta, best=np.max), "smallest"),
        (lambda orders, d, delta: converted(orders, orders / 2, 1e-5), "arguments"),
        (lambda orders, d, delta: converted(orders, d, delta) or -0.7, "not negative"),
    ],
    "composition-5": [
        (lambda p, q, times, epsilon: times * np.abs(p - np.exp(epsilon) * q).sum(), "positive part"),
        (lambda p, q, times, epsilon: times * delta_of(p, q, np.exp(epsilon)), "need not add"),
        (lambda p, q, times, epsilon: 1 - (1 - delta_of(p, q, np.exp(epsilon))) ** times, "multiply"),
        (lambda p, q, times, epsilon: delta_of(*product(p, q, times), np.exp(times * epsilon)), "not of each"),
        (lambda p, q, times, epsilon: delta_of(*product(p[q > 0], q[q > 0], times), np.exp(epsilon)), "impossible"),
    ],
    "dp-sgd-6": [
        (of_the_mean, "a sum, not a mean"),
        (of_the_batch, "by itself"),
        (always_scaled, "as they are"),
        (noise_for_each, "noise alone"),
        (lambda gradients, clipping_norm, noise: clipped(gradients, 1.0, noise), "is an argument"),
        (lambda gradients, clipping_norm, noise: gradients, "one number for each weight"),
        (lambda gradients: gradients, "raised TypeError"),
    ],
    "guarantee-5": [
        (lambda p, q, epsilon: np.abs(p - np.exp(epsilon) * q).sum(), "total variation"),
        (lambda p, q, epsilon: delta_of(p, q, 1 + epsilon), "exponential"),
        (lambda p, q, epsilon: (p - np.exp(epsilon) * q)[p > q].sum(), "take nothing off"),
        (lambda p, q, epsilon: delta_of(p, q, np.exp(epsilon)), "both directions"),
        (lambda p, q, epsilon: delta_of(q, p, np.exp(epsilon)), "both directions"),
    ],
    "guarantee-6": [
        (lambda p, q, fpr: ranked(p, q, fpr, by=lambda p, q: p / q), "largest"),
        (lambda p, q, fpr: ranked(p, q, fpr, coins=False), "toss a coin"),
        (lambda p, q, fpr: ranked(p[q > 0], q[q > 0], fpr), "impossible without Ada"),
        (lambda p, q, fpr: ranked(p, q, fpr, by=lambda p, q: -p), "not by p alone"),
        (lambda p, q, fpr: 3 * fpr, "both rates 1"),
    ],
}


@pytest.mark.parametrize(("name", "function", "hint"), [(n, f, h) for n, cases in WRONG.items() for f, h in cases])
def test_wrong_answers_get_a_hint(name, function, hint):
    with np.errstate(all="ignore"), pytest.raises(exercises.Wrong, match=hint):
        exercises.check(name, function)


def test_each_exercise_has_wrong_answers():
    assert sorted(WRONG) == exercises.names()


def test_unknown_exercise():
    with pytest.raises(ValueError, match=r"unknown exercise 'dp-sgd-99'; known: .*dp-sgd-6"):
        exercises.check("dp-sgd-99", clipped)
