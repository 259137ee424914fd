"""Data and learners that several tests of methods use."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits

from dpnotes.accounting import audit_epsilon
from dpnotes.methods import _private, fit_minimiser


@pytest.fixture(scope="session")
def digits():
    """The digits, scaled by a public constant: no row of 64 pixels up to 16 is
    longer than 128.
    """
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


@pytest.fixture(scope="session")
def minimiser(digits):
    """Of the digits' classes, before any noise."""
    return fit_minimiser(*digits, n_classes=10, l2=0.05, device="cpu")


def follows(drawn, law, off=1.05):
    """Whether numbers follow a law at 1e-3, by Kolmogorov-Smirnov, so well that a
    scale that is off is noticed.
    """
    drawn = np.ravel(drawn)
    return (
        stats.kstest(drawn, law.cdf).pvalue
        > 1e-3
        > stats.kstest(drawn / off, law.cdf).pvalue
    )


def is_normal(drawn, sigma):
    """Whether numbers are normal at 1e-3, and their squares have a mean by which a
    scale 5% off is noticed.
    """
    squares = (drawn**2).sum() / sigma**2
    law = stats.chi2(drawn.size)
    right = (
        5e-4 < law.cdf(squares) < 1 - 5e-4
        and stats.kstest(drawn.ravel(), stats.norm(scale=sigma).cdf).pvalue > 1e-3
    )
    return (
        right and law.sf(squares * 1.05**2) < 1e-3 and law.cdf(squares / 1.05**2) < 1e-3
    )


def repeated(profile):
    """A guarantee as that of a fit with a noise seed, which read the classes off y."""
    assumption = "; ".join(
        filter(None, (profile.assumption, _private.PREPARED, _private.READ_OFF))
    )
    return profile.with_(implementation="reproducible", assumption=assumption).to_dict()


def proved(member, outsider, delta, confidence=0.999):
    """Lower bound on epsilon from decisions for "member" with and without the
    record.
    """
    return audit_epsilon(
        true_positives=int(np.sum(member)),
        positives=len(member),
        false_positives=int(np.sum(outsider)),
        negatives=len(outsider),
        delta=delta,
        confidence=confidence,
    )


class Votes:
    """A learner whose model of a subset votes as a function of its records' first
    feature and the query says.
    """

    def __init__(self, vote):
        self.vote = vote

    def fit_many(self, X, codes, subsets, *, n_classes, seed):
        owners = [frozenset(X[rows, 0].astype(int).tolist()) for rows in subsets]

        def votes(_, queries):
            return np.array(
                [
                    [self.vote(own, int(query)) for query in queries[:, 0]]
                    for own in owners
                ]
            )

        return type("Fixed", (), {"votes": votes})()
