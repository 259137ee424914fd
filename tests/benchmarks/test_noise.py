"""Accuracy with exact noise beside seeded noise: when a comparison stops, and what its two sides are."""

import numpy as np
import pytest

from benchmarks import noise


def test_a_comparison_goes_on_until_its_standard_error_is_small():
    """Accuracies of standard deviation 0.02 need 2 * 400 releases of each for an error of 0.001."""
    streams = {side: np.random.default_rng(side) for side in (0, 1)}

    def accuracies(count, seed):
        return (0.8 if seed is None else 0.9) + 0.02 * streams[int(seed is None)].normal(size=count)

    found = noise.compared(accuracies, enough=0.001, seconds=1e9)
    assert found["standard_error"] <= 0.001
    assert 400 < found["releases"] < 1600
    assert found["difference"] == pytest.approx(found["exact"] - found["seeded"]) == pytest.approx(-0.1, abs=0.01)
    assert noise.compared(accuracies, enough=1e-9, seconds=0.0)["releases"] == 8  # what is affordable


def test_one_side_repeats_and_the_other_does_not():
    """Methods that are fitted fast; batches of one side have seeds of their own."""
    split = noise.prepared("breast_cancer")
    sides = [
        noise.descents(split, steps=3, learning_rate=4.0),
        noise.releases(noise.ModelSensitivity(3.0, 1e-5, l2=0.01, **noise.LINEAR), split),
        noise.answers(split, 0.01),
        noise.trainings(split, sample_rate=1.0, steps=3, learning_rate=1.0),
        noise.fits(noise.AugmentedSGD(3.0, 1e-5, batch_size=100, steps=4, learning_rate=4.0, device="cpu"), split),
    ]
    for accuracies in sides:
        first = accuracies(30, 0)
        np.testing.assert_array_equal(first, accuracies(30, 0))
        for other in (accuracies(30, 1), accuracies(30, None)):
            assert (first != other).any()
            assert 0.3 < other.mean() < 1
