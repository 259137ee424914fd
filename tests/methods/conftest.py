"""Data and learners that several tests of methods use."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits


@pytest.fixture(scope="session")
def digits():
    """The digits, scaled by a public constant: no row of 64 pixels up to 16 is longer than 128."""
    X, y = load_digits(return_X_y=True)
    return X / 128, y


@pytest.fixture(scope="session")
def pixels():
    """The digits with pixels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="session")
def cancer():
    """Two classes, of rows of norm 1."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.fixture(scope="session")
def standardised():
    """Two classes in random order, of columns of mean 0 and deviation 1."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return ((X - X.mean(0)) / X.std(0))[order], y[order]


class Votes:
    """A learner whose model of a subset votes as a function of its records' first feature and the query says."""

    def __init__(self, vote):
        self.vote = vote

    def fit_many(self, X, codes, subsets, *, n_classes, seed):
        owners = [frozenset(X[rows, 0].astype(int).tolist()) for rows in subsets]

        def votes(_, queries):
            return np.array([[self.vote(own, int(query)) for query in queries[:, 0]] for own in owners])

        return type("Fixed", (), {"votes": votes})()
