"""Data that several tests of methods use."""

import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits():
    """The digits, scaled by a public constant: no row of 64 pixels up to 16 is longer than 128."""
    X, y = load_digits(return_X_y=True)
    return X / 128, y
