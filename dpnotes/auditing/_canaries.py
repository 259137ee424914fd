"""Canaries, which are records that a claim allows, and the neighbouring data sets
that they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Features, Floats

# distinct labels; with more of them, numbers are targets of a regression
FEW_LABELS = 50
OWN = "own record"
RELABELLED = "own features, another label"
CONSTRUCTED = "constructed"
GIVEN = "given"
QUIET = 16  # directions in which the records have least, of which one is taken
Record = tuple[NDArray[Any], Any]  # features and label
Data = tuple[NDArray[Any], NDArray[Any]]
Allowed = float | tuple[ArrayLike, ArrayLike] | Sequence[Record] | None


class Canary(NamedTuple):
    """A record whose membership is tested, and its opposite, which is the record
    that replaces it under replace-one.
    """

    kind: str
    x: NDArray[Any]  # of the shape of one record
    label: Any
    origin: str
    opposite: Record

    @property
    def record(self) -> Record:
        """Features and label."""
        return self.x, self.label


@dataclass(frozen=True, eq=False)
class Domain:
    """Records that may be constructed: their features are in a box and in a ball around
    0, their labels in a list.

    Attributes
    ----------
    low, high : ndarray of float, shape [d]
    norm : float
    labels : ndarray
        Classes, or the least and the largest target of a regression.
    words : str
        Origin of the bounds, in words.
    given : sequence of tuple
        If there are any, only these records may be planted.
    """

    low: Floats
    high: Floats
    norm: float
    labels: NDArray[Any]
    words: str
    given: Sequence[Record] = ()

    @classmethod
    def of(
        cls,
        X: Features,
        y: NDArray[Any],
        allowed: Allowed,
        *,
        norm: float | None = None,
        classes: Any,
    ) -> Self:
        """Make the domain that ``allowed`` gives, within an estimator's ``norm``; by
        default, the records' bounds.
        """
        labels = np.unique(y if classes is None else np.asarray(classes))
        if classes is None and y.dtype.kind == "f" and len(labels) > FEW_LABELS:
            labels = labels[[0, -1]]
        d = X.shape[1]
        low = np.full(d, -np.inf)
        high = np.full(d, np.inf)
        longest = np.inf if norm is None else norm
        given: list[Record] = []
        if isinstance(allowed, list):
            words = "only the given records"
            given = _given(allowed, d)
        elif isinstance(allowed, tuple):
            words = "features within bounds"
            if norm is not None:
                words += f", norm at most {longest:g}"
            low, high = _box(allowed, d)
        elif allowed is None and norm is None:
            words = (
                "features within the ranges of the records, and norm at most the"
                " largest norm of a record; set domain= to the records that the claim"
                " allows"
            )
            low = X.min(axis=0)
            high = X.max(axis=0)
            longest = float(np.linalg.norm(X, axis=1).max())
            if not (high > low).any():
                raise ValueError(
                    "X must have a feature that differs between records; otherwise give"
                    " domain="
                )
        else:
            if allowed is not None:
                longest = check.positive("domain", allowed)  # type: ignore[arg-type]
            words = f"norm at most {longest:g}"
        return cls(low, high, float(longest), labels, words, given)

    def within(self, x: Floats) -> Floats:
        """Move x into the domain: clip it to the box, and shorten it towards the
        point of the box nearest to 0.
        """
        x = np.clip(x, self.low, self.high)
        least = np.clip(0.0, self.low, self.high)
        if np.linalg.norm(x) <= self.norm:
            return x
        # from the box's nearest point to 0, which is in the ball if any point is
        along = x - least  # |least + t along| = norm
        a = along @ along
        b = least @ along
        c = least @ least - self.norm**2
        t = (np.sqrt(max(0.0, b * b - a * c)) - b) / a * (1 - 1e-9)
        return np.asarray(least + max(0.0, t) * along)

    @property
    def reach(self) -> float:
        """Largest norm of a record."""
        # the farthest corner of the box
        corner = float(np.linalg.norm(np.maximum(np.abs(self.low), np.abs(self.high))))
        return min(self.norm, corner)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Data sets with and without a canary at one place; the larger data set has as many
    records as the audit was given.

    Attributes
    ----------
    X, y : ndarray
        The other records, shape [n - 1, ...].
    adjacency : {"add-remove", "zero-out", "replace-one"}
    empty : tuple or None
        Features and label of the record that contributes nothing, for zero-out. Under
        add-remove a removed record leaves no place: the number of records changes.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    adjacency: str
    empty: Record | None = None

    def with_(self, x: NDArray[Any], label: Any) -> Data:
        """Data set with the given record as its first record."""
        return np.concatenate(
            [np.asarray(x, self.X.dtype)[None], self.X]
        ), np.concatenate([[label], self.y])

    def without(self, canary: Canary) -> Data:
        """Data set without the canary; its place is removed, or holds an empty
        record or the opposite record.
        """
        if self.adjacency == "replace-one":
            return self.with_(*canary.opposite)
        return (self.X, self.y) if self.empty is None else self.with_(*self.empty)


def find_canaries(
    X: NDArray[Any], y: NDArray[Any], domain: Domain
) -> tuple[list[Canary], int]:
    """Find canaries, and the place for all of them: the place of the record farthest
    from the mean of its class.

    Parameters
    ----------
    X : ndarray, shape [n, ...]
    y : ndarray, shape [n]
    domain : Domain
    """
    flat = np.asarray(X.reshape(len(X), -1), dtype=np.float64)
    labels = domain.labels
    if y.dtype.kind == "f":
        # targets of a regression are of the nearer end
        codes = np.abs(y[:, None] - labels.astype(np.float64)).argmin(axis=1)
    else:
        codes = (y[:, None] == labels).argmax(axis=1)
    means = np.tile(flat.mean(axis=0), (len(labels), 1))  # [C, d]
    for code in np.unique(codes):
        means[code] = flat[codes == code].mean(axis=0)
    # the record that stands out most is a canary itself; all canaries take its place
    from_own = np.linalg.norm(flat - means[codes], axis=1)
    place = int(from_own.argmax())
    shape = X.shape[1:]
    if domain.given:
        found = []
        for x, label in domain.given:
            planted = np.asarray(x).reshape(shape)
            found.append(Canary(GIVEN, planted, label, GIVEN, (X[place], y[place])))
        return found, place
    # a label that few records share with the canary
    rarest = labels[np.bincount(codes, minlength=len(labels)).argmin()]
    farthest = np.linalg.norm(means[:, None] - flat, axis=2)  # [C, n]
    if len(labels) > 1:
        # not the record's own label
        farthest[codes, np.arange(len(flat))] = -1.0
    relabelled = labels[farthest.argmax(axis=0)]  # of each record
    typical = int(from_own.argmin())
    longest = int(np.linalg.norm(flat, axis=1).argmax())
    boundary, beyond = _at_the_boundary(flat, codes, means)
    quiet = _quiet(flat, domain)
    far = _far_away(flat, domain)

    def opposed(x: Floats) -> Any:
        """Label whose mean is farthest from x."""
        return labels[np.linalg.norm(means - x, axis=1).argmax()]

    zeros = domain.within(np.zeros(flat.shape[1]))
    rare = _rare_feature(flat, domain)
    records = [
        ("outlier", OWN, flat[place], y[place]),
        ("gradient-aligned", CONSTRUCTED, quiet, opposed(quiet)),
        ("mislabelled", RELABELLED, flat[typical], relabelled[typical]),
        ("mislabelled, long", RELABELLED, flat[longest], relabelled[longest]),
        ("boundary", RELABELLED, boundary, labels[beyond]),
        ("rare feature", CONSTRUCTED, rare, rarest),
        ("out of distribution", CONSTRUCTED, far, opposed(far)),
        ("zeros", CONSTRUCTED, zeros, rarest),
    ]
    found = []
    for kind, origin, x, label in records:
        planted = x.reshape(shape).astype(X.dtype)
        # the opposite gradient, if the domain allows it
        mirrored = domain.within(-x).reshape(shape).astype(X.dtype)
        opposite = mirrored, label
        others = labels[labels != label]
        # not both at once: the gradient of a linear model is the same for the mirror
        # image with the opposite label
        same = np.array_equal(mirrored, planted)
        if len(others) and (origin != CONSTRUCTED or same):
            opposite = planted, others[0]
        found.append(Canary(kind, planted, label, origin, opposite))
    return found, place


def _at_the_boundary(
    X: Floats, codes: NDArray[Any], means: Floats
) -> tuple[Floats, int]:
    """Features of the record nearest to a class boundary, and the code of the class
    beyond it.
    """
    distance = np.square(means).sum(axis=1) - 2 * X @ means.T  # squared, less |x|^2
    own = np.take_along_axis(distance, codes[:, None], axis=1)[:, 0]
    np.put_along_axis(distance, codes[:, None], np.inf, axis=1)
    row = int((distance.min(axis=1) - own).argmin())
    return X[row], int(distance[row].argmin())


def _far_away(X: Floats, domain: Domain) -> Floats:
    """Features in the direction opposite to the mean of all records, of the largest
    norm that the domain allows.
    """
    mean = X.mean(axis=0)
    return domain.within(-mean / max(np.linalg.norm(mean), 1e-300) * domain.reach)


def _quiet(X: Floats, domain: Domain) -> Floats:
    """Features of largest leverage, in a direction in which records, and so other
    gradients, have least.
    """
    moving = np.flatnonzero(domain.high > domain.low)
    # directions of little second moment: eigenvectors of the smallest eigenvalues
    second = X[:, moving].T @ X[:, moving] / len(X)
    vectors = np.linalg.eigh(second)[1][:, :QUIET].T
    ends = np.zeros((2 * len(vectors), X.shape[1]))
    ends[:, moving] = domain.reach * np.concatenate([vectors, -vectors])
    ends = np.stack([domain.within(end) for end in ends])
    # as small as one record's share, so that empty directions stay finite
    ridge = (np.trace(second) / len(moving) + 1e-300) / len(X) * np.eye(len(moving))
    leverage = (
        ends[:, moving] * np.linalg.solve(second + ridge, ends[:, moving].T).T
    ).sum(axis=1)
    return np.asarray(ends[int(leverage.argmax())])


def _rare_feature(X: Floats, domain: Domain) -> Floats:
    """Features of 0, or as near to it as the domain allows, except in the feature in
    which the records have least.
    """
    # how far the domain lets each feature go
    extent = np.minimum(np.maximum(-domain.low, domain.high), domain.reach)
    held = np.where(
        extent > 0, np.square(X).sum(axis=0) / np.maximum(extent, 1e-300) ** 2, np.inf
    )
    j = int(held.argmin())
    sign = 1.0 if domain.high[j] >= -domain.low[j] else -1.0
    return domain.within(sign * domain.reach * np.eye(X.shape[1])[j])


def _box(allowed: Any, d: int) -> tuple[Floats, Floats]:
    try:
        low, high = allowed
        low = np.broadcast_to(np.asarray(low, dtype=np.float64), (d,))
        high = np.broadcast_to(np.asarray(high, dtype=np.float64), (d,))
    except (TypeError, ValueError):
        raise ValueError(
            f"domain must be a pair (low, high) of bounds, got domain={allowed!r}"
        ) from None
    if not (low <= high).all():
        raise ValueError(
            f"domain must be (low, high) with low <= high, got domain={allowed!r}"
        )
    return low, high


def _given(records: Sequence[Any], d: int) -> list[Record]:
    try:
        found = [(np.asarray(x, dtype=np.float64), label) for x, label in records]
    except (TypeError, ValueError):
        found = []
    if not found or any(x.size != d for x, _ in found):
        raise ValueError(
            f"domain must be a list of records (x, label) with {d} features each, got"
            f" domain={records!r}"
        )
    return found
