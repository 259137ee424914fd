"""Queries at scales where noise in proportion to their norm is lost, and queries that
are not paid for.

The target is a function (X, y, **parameters) that fits a method which answers queries
with noise on the logits. What is attacked is the exact weight vector of class 1 of 3.
"""

import numpy as np

from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import estimator, queries, table

X, Y = table(200, 20)
Y = (X[:, 0] + 0.2 * X[:, 1] > 0).astype(int)  # some weights are above 1
L2 = 1e-3


def _answers(**parameters):
    return lambda X, y: estimator("PredictionSensitivity")(
        X, y, l2=L2, classes=[0, 1, 2], **parameters
    )


PREDICTION = {
    "PredictionSensitivity": _answers(),
    "PredictionSensitivity, published": _answers(
        analysis="published", adjacency="replace-one"
    ),
    "PredictionSensitivity, pure": _answers(delta=0.0),
}


def _asked(fitted, rows):
    with np.errstate(over="ignore", invalid="ignore"):
        answered = np.asarray(fitted.decision_function(rows))
    return answered[:, 1] if answered.ndim == 2 else answered


def _weights():
    return broken.minimiser(X, Y, L2, n_classes=3).weights[1]


def _recovery(answered, scale):
    exact = _weights()
    with np.errstate(over="ignore"):
        recovered = answered / scale
    error = np.median(np.abs(recovered - exact)) / np.abs(exact).max()
    return Evidence(
        bool(error < 0.02),
        f"median error of the weights: {error:.2g} of the largest weight",
    )


@attack(broken=broken.fit(broken.NoisyAnswers), ours=PREDICTION)
def tiny_queries(target):
    """Ask one query 1e-170 e_j for each feature j. The squares in the query's norm
    underflow.
    """
    return _recovery(_asked(target(X, Y), 1e-170 * np.eye(X.shape[1])), 1e-170)


@attack(broken=broken.fit(broken.NoisyAnswers), ours=PREDICTION)
def subnormal_queries(target):
    """Ask queries so small that the noise is rounded to 0, whereas the logits are
    not.
    """
    step, steps = 5e-324, 64
    return _recovery(
        _asked(target(X, Y), step * steps * np.eye(X.shape[1])), step * steps
    )


@attack(broken=broken.fit(broken.NoisyAnswers), ours=PREDICTION)
def huge_queries(target):
    """Ask queries whose logits and noise overflow. Answers that are not NaN may show
    the exact logit's sign.
    """
    fitted, exact = target(X, Y), _weights()
    large = np.flatnonzero(np.abs(exact) > 1.1)
    try:
        answered = _asked(
            fitted, np.repeat(1.7e308 * np.eye(X.shape[1])[large], 24, axis=0)
        )
    except ValueError:
        return Evidence(False, "refused")
    known = ~np.isnan(answered)
    correct = np.sign(answered) == np.repeat(np.sign(exact[large]), 24)
    success = known.sum() >= 6 and correct[known].all() and not known.all()
    figure = (
        f"{correct[known].sum()} of {known.sum()} answers have the exact sign,"
        f" {(~known).sum()} are NaN"
    )
    return Evidence(bool(success), figure)


@attack(broken=broken.fit(broken.NoisyAnswers), ours=PREDICTION)
def bisection_by_overflow(target):
    """Scale a query until an answer is NaN. The scale at which a logit overflows
    gives the weight.
    """
    fitted, exact = target(X, Y), _weights()
    feature, query = int(np.abs(exact).argmax()), np.eye(X.shape[1])
    low, high = 1.0, 64.0  # the weight's absolute value is between
    for _ in range(16):
        middle = (low * high) ** 0.5
        try:
            answered = _asked(
                fitted,
                np.repeat(np.finfo(float).max / middle * query[[feature]], 20, axis=0),
            )
        except ValueError:
            return Evidence(False, "refused")
        low, high = (middle, high) if np.isnan(answered).any() else (low, middle)
    error = abs(low / abs(exact[feature]) - 1)
    return Evidence(
        bool(error < 1e-3), f"the largest weight, with a relative error of {error:.1g}"
    )


@attack(broken=lambda X, y: _Float32Norms().fit(X, y), ours=PREDICTION)
def tiny_float32_queries(target):
    """Ask float32 queries whose squares underflow in float32, but would not in
    float64.
    """
    return _recovery(
        _asked(target(X, Y), np.float32(1e-25) * np.eye(X.shape[1], dtype=np.float32)),
        1e-25,
    )


class _Float32Norms(broken.NoisyAnswers):
    def decision_function(self, X):
        noise = (
            self.generator_.normal(size=len(X))
            * self.scale_
            * np.sqrt(np.square(X).sum(axis=1))
        )
        return X @ self.exact_ + noise


@attack(broken=lambda X, y: _NoiselessAtZero().fit(X, y), ours=PREDICTION)
def query_without_length(target):
    """Ask queries of 0.0 and -0.0. The answer, even its sign, must not depend on the
    data.
    """
    zeros = np.zeros((40, X.shape[1]))
    answered = np.concatenate(
        [
            _asked(target(X, labels), sign * zeros)
            for labels in (Y, 1 - Y)
            for sign in (1, -1)
        ]
    )
    signs = np.signbit(answered).reshape(2, -1)
    constant = (signs == signs[:, :1]).all() and signs[0, 0] != signs[1, 0]
    return Evidence(
        bool(constant or (answered.any() and len(set(answered)) < 8)),
        f"distinct answers: {len(set(answered))}",
    )


class _NoiselessAtZero(broken.NoisyAnswers):
    def decision_function(self, X):
        return np.copysign(super().decision_function(X), self.exact_[0])


@attack(broken=lambda X, y: _ForgetsRepeats().fit(X, y), ours=PREDICTION)
def repeated_queries(target):
    """Ask one query 400 times in one call, and then once more."""
    fitted = target(X, Y)
    _asked(fitted, np.repeat(queries(1), 400, axis=0))
    try:
        further = len(_asked(fitted, queries(1)))
    except RuntimeError:
        further = 0
    return Evidence(further > 0, f"{400 + further} answers for a guarantee of 400")


class _ForgetsRepeats(broken.NoisyAnswers):
    def decision_function(self, X):
        answered = super().decision_function(X)
        self.left += len(X) - len(np.unique(X, axis=0))
        return answered


@attack(broken=lambda X, y: _AnswersFirst().fit(X, y), ours=PREDICTION)
def answers_of_a_refused_call(target):
    """Ask a batch that is too large. After the refusal, does the estimator or the
    error hold any answers?
    """
    fitted = target(X, Y)
    try:
        _asked(fitted, np.repeat(queries(1), 401, axis=0))
    except RuntimeError as error:
        found = [*error.args, *vars(fitted).values()]
        kept = [
            value
            for value in found
            if isinstance(value, np.ndarray | list) and np.shape(value)[:1] == (401,)
        ]
        return Evidence(
            bool(kept), f"arrays of answers that are still there: {len(kept)}"
        )
    return Evidence(True, "the batch was answered")


class _AnswersFirst(broken.NoisyAnswers):
    def decision_function(self, X):
        self.last_ = X @ self.exact_
        return super().decision_function(X)
