"""Scores of one run about a canary, derived from whatever a training procedure
returns.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import methods
from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile

MOST_ENTRIES = 20  # of a small array, and of classes: each is a score
MOST_NUMBERS = 100_000  # of a result of which a direction is learned
SURE = 1e-12  # probabilities nearer to 0 or 1 count as so near
SEEDS = ("random_state", "noise_seed")
LENGTH = "length of the release"
Scores = Iterator[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Observer:
    """Derives scores of one record from the result of a run.

    Attributes
    ----------
    x : ndarray, shape of one record
    label : object
    labels : ndarray
        All labels that can occur.
    direction : ndarray of float, shape [numbers], optional
        Direction onto which the result's numbers are projected, for one more score.
    """

    x: NDArray[Any]
    label: Any
    labels: NDArray[Any]
    direction: Floats | None = None

    def scores(self, result: Any) -> dict[str, float]:
        """Scores by name; empty if the result shows nothing about the record."""
        with np.errstate(all="ignore"):
            found = dict(self._read(result))
            if self.direction is not None:
                values = _all_numbers(result)
                found["learned direction"] = math.nan
                if len(values) == len(self.direction):
                    found["learned direction"] = float(values @ self.direction)
        return found

    @property
    def _code(self) -> int:
        return int((np.asarray(self.labels) == self.label).argmax())

    def _read(self, result: Any) -> Scores:
        """Scores of a number, an array, a collection, a network, an estimator or a
        function of records.
        """
        items = _items(result)
        if items is not None:
            for name, item in items[:MOST_ENTRIES]:
                for own, value in self._read(item):
                    yield f"{name}: {own}", value
            return
        # in many numbers the scale of the noise shows that no projection shows
        values = _all_numbers(result)
        if len(values) > 1:
            yield LENGTH, float(np.linalg.norm(values))
        if isinstance(result, str | bytes):
            yield "is the label", float(result == self.label)
        elif isinstance(result, numbers.Real | np.bool_):
            yield "value", float(result)
        elif _is_array(result):
            yield from self._array(_plain(result))
        elif hasattr(result, "coef_") and np.shape(result.coef_)[-1:] == (self.x.size,):
            coef = np.atleast_2d(_plain(result.coef_)).astype(np.float64)
            intercept = _plain(getattr(result, "intercept_", 0.0))
            yield from self._linear(coef, intercept + np.zeros(len(coef)))
        elif hasattr(result, "predict"):
            yield from self._predicted(result)
        elif callable(result):
            yield from self._outputs(_outputs_of(result, self.x))

    def _linear(self, coef: Floats, intercept: Floats) -> Scores:
        """Scores of a linear model: coef [C, d] (C = 1 for two classes or a
        regression), intercept [C].
        """
        along = coef @ np.asarray(self.x, dtype=np.float64).ravel()
        if len(along) == 1:
            # of class 1
            sign = -1.0 if len(self.labels) == 2 and self._code == 0 else 1.0
            yield "along the canary", sign * along[0]
            yield "intercept", sign * intercept[0]
            yield "margin", sign * (along + intercept)[0]
            return
        yield "margin", _margin(along + intercept, self._code)
        yield "along the canary", along[self._code] - along.mean()
        if len(along) <= MOST_ENTRIES:
            yield from _entries("along, class", along)
            yield from _entries("intercept, class", intercept)

    def _array(self, values: NDArray[Any]) -> Scores:
        """Scores of an array: as weights, along the canary; as points, by the
        distance to it; or as a few numbers.
        """
        if values.dtype.kind not in "biuf":
            if values.size:
                yield "entries that are the label", float((values == self.label).mean())
            return
        values = values.astype(np.float64)
        x = np.asarray(self.x, dtype=np.float64).ravel()
        d = len(x)
        if values.ndim == 1 and len(values) in (d, d + 1) and len(values) > 1:
            yield "along the canary", float(values[:d] @ x)
            if len(values) > d:
                yield "intercept", float(values[d])
        if values.ndim == 2 and values.shape[1] in (d, d + 1) and len(values):
            if len(values) == len(self.labels):
                yield from self._linear(values[:, :d], values[:, d:].sum(axis=1))
            else:
                distance = np.linalg.norm(values[:, :d] - x, axis=1)
                yield "distance of the nearest row", -float(distance.min())
        if values.size <= MOST_ENTRIES:
            yield from _entries("entry", values.ravel())

    def _outputs(self, values: NDArray[Any]) -> Scores:
        """Scores of the output of a network or a function for the canary."""
        if values.dtype.kind not in "biuf":
            yield from self._array(values)
            return
        values = values.astype(np.float64).ravel()
        if values.size == len(self.labels) > 1:
            yield "margin", _margin(values, self._code)
        yield from _entries("output", values[:MOST_ENTRIES])

    def _predicted(self, result: Any) -> Scores:
        """Scores of a fitted estimator; an estimator with a budget of answers is
        asked until the budget is spent.
        """
        budget = getattr(result, "budget_", None)
        if budget is not None:
            # each answer has noise of its own, so the mean of all tells most
            asked = np.repeat(self.x[None], max(1, int(budget.left)), axis=0)
            answers = np.asarray(result.predict(asked))
            yield "answers with the label", float((answers == self.label).mean())
            return
        at = self.x[None]
        classes = list(getattr(result, "classes_", ()))
        code = classes.index(self.label) if self.label in classes else None
        if hasattr(result, "predict_proba"):
            of = 0.0 if code is None else np.ravel(result.predict_proba(at))[code]
            # log-odds of 0 and 1 are infinite
            of = np.clip(of, SURE, 1 - SURE)
            yield "log-odds of the label", math.log(of) - math.log1p(-of)
        elif hasattr(result, "decision_function"):
            values = np.ravel(result.decision_function(at)).astype(np.float64)
            # one margin for two classes is that of the second class
            if len(values) == 1 and len(classes) == 2:
                yield "margin", float(values[0] if code == 1 else -values[0])
            elif code is not None and len(values) == len(classes):
                yield "margin", _margin(values, code)
        else:
            predicted = np.ravel(result.predict(at))[0]
            if isinstance(predicted, numbers.Real) and not classes:
                yield "prediction", float(predicted)
            yield "predicted as labelled", float(predicted == self.label)


def numbers_of(result: Any) -> Floats | None:
    """All numbers of a result, in a fixed order; None if there are none or too many."""
    values = _all_numbers(result)
    return values if 0 < len(values) <= MOST_NUMBERS else None


def fingerprint(result: Any, X: NDArray[Any]) -> Any:
    """Fingerprint that equal results share; it does not contain the seed that an
    estimator retains.

    None if it is unknown, or if all numbers are whole, because answers and counts are
    often equal by chance.
    """
    values = numbers_of(result)
    if values is not None:
        return None if (values == np.round(values)).all() else values.tobytes()
    try:
        for name in ("predict_proba", "decision_function", "predict"):
            if hasattr(result, name) and not hasattr(result, "budget_"):
                return np.asarray(getattr(result, name)(X)).tobytes()
    except Exception:  # a result that cannot be compared
        return None
    return None


def _all_numbers(result: Any) -> Floats:
    return np.concatenate([np.empty(0), *_numbers(result)])


def _numbers(result: Any) -> Iterator[Floats]:
    if isinstance(result, methods.PrivateClassifier):
        try:
            released = vars(result.publish())
        except TypeError:  # it only answers
            return
        for values in _inside(released):
            # a number that no fit sets
            yield np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return
    # a network's weights by their names
    items = _items(result.state_dict() if hasattr(result, "state_dict") else result)
    if items is not None:
        for _, item in items:
            yield from _numbers(item)
    elif isinstance(result, numbers.Real | np.bool_):
        yield np.array([float(result)])
    elif hasattr(result, "coef_"):
        for name in ("coef_", "intercept_"):
            if hasattr(result, name):
                yield _plain(getattr(result, name)).astype(np.float64).ravel()
    elif _is_array(result):
        values = _plain(result)
        if values.dtype.kind in "biuf":
            yield values.astype(np.float64).ravel()


def _inside(part: Any) -> Iterator[Floats]:
    """Numbers of a part of a release, those within its objects too."""
    items = _items(part)
    if items is None:
        plain = _is_array(part) or hasattr(part, "state_dict")
        if plain or not hasattr(part, "__dict__"):
            yield from _numbers(part)
            return
        # code is no number, and the guarantee is public
        if callable(part) or isinstance(part, PrivacyProfile):
            return
        items = list(vars(part).items())
    for name, item in items:
        if name not in SEEDS:
            yield from _inside(item)


def _items(result: Any) -> list[tuple[Any, Any]] | None:
    """Named parts of a collection; None if the result is not a collection, for
    example a list of numbers.
    """
    if isinstance(result, Mapping):
        return list(result.items())
    if isinstance(result, list | tuple) and not _is_array(result):
        return list(enumerate(result))
    return None


def _is_array(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return bool(result) and all(isinstance(value, numbers.Real) for value in result)
    return isinstance(result, np.ndarray) or hasattr(result, "detach")


def _plain(values: Any) -> NDArray[Any]:
    """Convert values, which may be a tensor, to an array of NumPy."""
    return np.asarray(
        values.detach().cpu().numpy() if hasattr(values, "detach") else values
    )


def _margin(logits: Floats, code: int) -> float:
    return float(logits[code] - np.delete(logits, code).max())


def _entries(name: str, values: Floats) -> Scores:
    for i, value in enumerate(values):
        yield f"{name} {i}", float(value)


def _outputs_of(result: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Output of a network of PyTorch, or of a function of records, for one record."""
    if not hasattr(result, "parameters"):
        return _plain(result(x[None]))
    import torch

    weight = next(iter(result.parameters()), torch.zeros(()))
    with torch.no_grad():
        return _plain(result(torch.as_tensor(x[None]).to(weight)))
