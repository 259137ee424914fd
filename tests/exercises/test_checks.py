"""Checks of exercises refuse typical wrong answers with a hint, and nothing else."""

import numpy as np
import pytest

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


WRONG = {
    "dp-sgd-6": [
        (of_the_mean, "a sum, not a mean"),
        (of_the_batch, "by itself"),
        (always_scaled, "as they are"),
        (noise_for_each, "noise alone"),
        (lambda gradients, clipping_norm, noise: clipped(gradients, 1.0, noise), "is an argument"),
        (lambda gradients, clipping_norm, noise: gradients, "one number for each weight"),
        (lambda gradients: gradients, "raised TypeError"),
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
