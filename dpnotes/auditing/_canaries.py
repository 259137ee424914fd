"""Records to audit with, within the public bounds of a claim, and the neighbouring data sets that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Features, Floats, Integers

FEW_LABELS = 50  # distinct labels; with more of them, numbers are targets of a regression
OWN, RELABELLED, CONSTRUCTED, GIVEN = "own record", "own features, another label", "constructed", "given"
QUIET = 16  # directions in which the records have least, of which one is taken
Record = tuple[NDArray[Any], Any]  # features and label


@dataclass(frozen=True, eq=False)
class Canary:
    """A record whose membership is tested.

    Attributes
    ----------
    kind : str
    x : ndarray, of the shape of one record
    label : object
    origin : {"own record", "own features, another label", "constructed", "given"}
    """

    kind: str
    x: NDArray[Any]
    label: Any
    origin: str


@dataclass(frozen=True, eq=False)
class Domain:
    """Which records a claim allows: features in a box and in a ball around 0, labels of a list.

    Attributes
    ----------
    low, high : ndarray of float, shape [d]
    norm : float
    labels : ndarray
        Classes, or the least and the largest target of a regression.
    words : str
        Where the bounds come from.
    """

    low: Floats
    high: Floats
    norm: float
    labels: NDArray[Any]
    words: str

    @classmethod
    def of(
        cls,
        X: Features,
        y: NDArray[Any],
        *,
        norm: float | None,
        bounds: tuple[ArrayLike, ArrayLike] | None,
        classes: Sequence[Any] | None,
    ) -> Self:
        """Bounds that are given; without any, those that the records keep: a claim about an L1 ball allows less."""
        d = X.shape[1]
        low, high, longest, words = np.full(d, -np.inf), np.full(d, np.inf), np.inf, []
        if norm is not None:
            longest = check.positive("norm", norm)
            words.append(f"norm at most {longest:g}")
        if bounds is not None:
            if not isinstance(bounds, Sequence) or len(bounds) != 2:
                raise ValueError(f"bounds must be a pair (low, high), got bounds={bounds!r}")
            low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), (d,)) for side in bounds)
            if not (low <= high).all():
                raise ValueError(f"bounds must be (low, high) with low <= high, got bounds={bounds!r}")
            words.append("features within bounds")
        if not words:
            low, high, longest = X.min(axis=0), X.max(axis=0), float(np.linalg.norm(X, axis=1).max())
            words = ["features within the ranges, and no longer than the longest, of the records; norm= or bounds= say"]
            words[0] += " what the claim allows"
            if not (high > low).any():
                raise ValueError("X must have a feature that differs between records, or norm= or bounds= be given")
        if classes is not None and len(classes) == 0:
            raise ValueError("classes must name all labels that can occur, got none")
        labels = np.unique(y) if classes is None else np.unique(np.asarray(classes))
        if classes is None and y.dtype.kind == "f" and len(labels) > FEW_LABELS:
            labels = labels[[0, -1]]
        return cls(np.asarray(low, np.float64), np.asarray(high, np.float64), longest, labels, "; ".join(words))

    def within(self, x: Floats) -> Floats:
        """A record of the domain, as near to x as its box allows, and shortened towards the box's least point."""
        x, least = np.clip(x, self.low, self.high), np.clip(0.0, self.low, self.high)
        if np.linalg.norm(x) <= self.norm:
            return x
        along = x - least  # |least + t along| = norm
        a, b, c = along @ along, least @ along, least @ least - self.norm**2
        t = (np.sqrt(max(0.0, b * b - a * c)) - b) / a * (1 - 1e-9)
        return np.asarray(least + max(0.0, t) * along)

    def allows(self, x: Floats, label: Any) -> bool:
        """Whether a record is of the domain."""
        inside = (self.low <= x).all() and (x <= self.high).all() and np.linalg.norm(x) <= self.norm * (1 + 1e-6)
        return bool(inside and label in self.labels)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Data sets with and without a canary at one place; the larger of two has as many records as were given.

    Attributes
    ----------
    X, y : ndarray
        The other records, shape [n - 1, ...].
    adjacency : {"add-remove", "zero-out", "replace-one"}
    empty : tuple or None
        Features and label of the record that contributes nothing, for zero-out; and for add-remove, where the number
        of records is public and a record that is not there must leave its place.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    adjacency: str
    empty: Record | None = None

    def with_(self, record: Record) -> tuple[NDArray[Any], NDArray[Any]]:
        """The data set with a record, which stands first."""
        x, label = record
        return np.concatenate([np.asarray(x, self.X.dtype)[None], self.X]), np.concatenate([[label], self.y])

    def without(self, opposite: Record) -> tuple[NDArray[Any], NDArray[Any]]:
        """The data set without it: smaller, or with an empty record in its place, or with the ``opposite`` one."""
        if self.adjacency == "replace-one":
            return self.with_(opposite)
        return (self.X, self.y) if self.empty is None else self.with_(self.empty)


@dataclass(frozen=True, eq=False)
class _Finder:
    """What canaries are found with: flat records, the code of each label, class means."""

    X: Floats  # [n, d]
    labels: NDArray[Any]  # [C]
    codes: Integers  # [n] code of the nearest label
    means: Floats  # [C, d]
    domain: Domain

    @classmethod
    def of(cls, X: Features, y: NDArray[Any], domain: Domain) -> Self:
        flat = np.asarray(X.reshape(len(X), -1), dtype=np.float64)
        labels = domain.labels
        if y.dtype.kind == "f":
            codes = np.abs(y[:, None] - labels.astype(np.float64)).argmin(axis=1)
        else:
            codes = (y[:, None] == labels).argmax(axis=1)
        means = np.stack([flat[codes == c].mean(axis=0) if (codes == c).any() else flat.mean(axis=0) for c in
                          range(len(labels))])  # fmt: skip
        return cls(flat, labels, codes.astype(np.int64), means, domain)

    def farthest(self, x: Floats, but: int | None = None) -> int:
        """Code of the label whose records are farthest from x on average."""
        distance = np.linalg.norm(self.means - x, axis=1)
        if but is not None and len(distance) > 1:
            distance[but] = -1.0
        return int(distance.argmax())

    def own_distance(self) -> Floats:
        """Distance of each record from the mean of its class."""
        return np.asarray(np.linalg.norm(self.X - self.means[self.codes], axis=1))

    def outlier(self) -> int:
        return int(self.own_distance().argmax())

    def relabelled(self, row: int) -> tuple[Floats, int]:
        return self.X[row], self.farthest(self.X[row], but=int(self.codes[row]))

    def typical(self) -> tuple[Floats, int]:
        return self.relabelled(int(self.own_distance().argmin()))

    def longest(self) -> tuple[Floats, int]:
        return self.relabelled(int(np.linalg.norm(self.X, axis=1).argmax()))

    def boundary(self) -> tuple[Floats, int]:
        """The record that is least nearer to its own class than to another one, as one of that other."""
        distance = np.square(self.means).sum(axis=1) - 2 * self.X @ self.means.T  # squared, less |x|^2
        own = np.take_along_axis(distance, self.codes[:, None], axis=1)[:, 0]
        np.put_along_axis(distance, self.codes[:, None], np.inf, axis=1)
        row = int((distance.min(axis=1) - own).argmin())
        return self.X[row], int(distance[row].argmin())

    def far_away(self) -> tuple[Floats, int]:
        """Opposite to the mean of all records, as long as is allowed."""
        mean = self.X.mean(axis=0)
        x = self.domain.within(-mean / max(np.linalg.norm(mean), 1e-300) * self._reach())
        return x, self.farthest(x)

    def quiet(self) -> tuple[Floats, int]:
        """Where the records have least, so that no other gradient points there: of largest leverage; mislabelled."""
        moving = np.flatnonzero(self.domain.high > self.domain.low)
        second = self.X[:, moving].T @ self.X[:, moving] / len(self.X)
        vectors = np.linalg.eigh(second)[1][:, :QUIET].T
        ends = np.zeros((2 * len(vectors), self.X.shape[1]))
        ends[:, moving] = self._reach() * np.concatenate([vectors, -vectors])
        ends = np.stack([self.domain.within(end) for end in ends])
        ridge = (np.trace(second) / len(moving) + 1e-300) / len(self.X) * np.eye(len(moving))
        leverage = (ends[:, moving] * np.linalg.solve(second + ridge, ends[:, moving].T).T).sum(axis=1)
        x = ends[int(leverage.argmax())]
        return x, self.farthest(x)

    def rare_feature(self) -> tuple[Floats, int]:
        """One feature alone, that of which the records have least."""
        extent = np.minimum(np.maximum(-self.domain.low, self.domain.high), self._reach())
        held = np.where(extent > 0, np.square(self.X).sum(axis=0) / np.maximum(extent, 1e-300) ** 2, np.inf)
        j = int(held.argmin())
        sign = 1.0 if self.domain.high[j] >= -self.domain.low[j] else -1.0
        return self.domain.within(sign * self._reach() * np.eye(self.X.shape[1])[j]), self._rarest()

    def zeros(self) -> tuple[Floats, int]:
        return self.domain.within(np.zeros(self.X.shape[1])), self._rarest()

    def _rarest(self) -> int:
        return int(np.bincount(self.codes, minlength=len(self.labels)).argmin())

    def _reach(self) -> float:
        """How long a record may be."""
        corner = float(np.linalg.norm(np.maximum(np.abs(self.domain.low), np.abs(self.domain.high))))
        return min(self.domain.norm, corner)


KINDS: dict[str, tuple[str, Callable[[_Finder], tuple[Floats, int]]]] = {
    "gradient-aligned": (CONSTRUCTED, _Finder.quiet),
    "mislabelled": (RELABELLED, _Finder.typical),
    "mislabelled, long": (RELABELLED, _Finder.longest),
    "boundary": (RELABELLED, _Finder.boundary),
    "rare feature": (CONSTRUCTED, _Finder.rare_feature),
    "out of distribution": (CONSTRUCTED, _Finder.far_away),
    "zeros": (CONSTRUCTED, _Finder.zeros),
}
OUTLIER = "outlier"  # the record whose place all canaries take, itself


def find_canaries(
    X: NDArray[Any], y: NDArray[Any], domain: Domain, wanted: Sequence[str | Record] | None
) -> tuple[list[Canary], int]:
    """Canaries, and the place that all of them take: that of the record farthest from the mean of its class.

    Parameters
    ----------
    X : ndarray, shape [n, ...]
    y : ndarray, shape [n]
    domain : Domain
    wanted : sequence, optional
        Kinds of canaries, or records (x, label). Default: all kinds.
    """
    if wanted is not None and not len(wanted):
        raise ValueError("canaries must be records (x, label) or kinds, got none; None: all kinds")
    finder = _Finder.of(X, y, domain)
    place, shape = finder.outlier(), X.shape[1:]
    found = []
    for item in [OUTLIER, *KINDS] if wanted is None else wanted:
        if not isinstance(item, str):
            found.append(_given(item, shape, domain))
        elif item == OUTLIER:
            found.append(Canary(OUTLIER, X[place], y[place], OWN))
        elif item in KINDS:
            origin, make = KINDS[item]
            x, code = make(finder)
            found.append(Canary(item, x.reshape(shape).astype(X.dtype), domain.labels[code], origin))
        else:
            known = ", ".join(map(repr, (OUTLIER, *KINDS)))
            raise ValueError(f"canaries must be records (x, label) or of the kinds {known}, got {item!r}")
    return found, place


def opposite(canary: Canary, domain: Domain) -> Record:
    """Record to exchange a canary for: a constructed one for its mirror image, another for itself of another label.

    Not both at once: the gradient of a linear model is the same for the mirror image with the opposite label.
    """
    others = [label for label in domain.labels if label != canary.label]
    x = np.asarray(canary.x, dtype=np.float64)
    mirrored = domain.within(-x.ravel()).reshape(x.shape).astype(canary.x.dtype)
    if others and (canary.origin not in (CONSTRUCTED, GIVEN) or np.array_equal(mirrored, canary.x)):
        return canary.x, others[0]
    return mirrored, canary.label


def many_canaries(X: NDArray[Any], y: NDArray[Any], domain: Domain, count: int) -> tuple[list[Canary], Integers]:
    """``count`` records of the data with the label that is farthest from them, those on the outside first; places."""
    finder = _Finder.of(X, y, domain)
    places = np.argsort(-finder.own_distance(), kind="stable")[:count].astype(np.int64)
    relabelled = [finder.relabelled(int(row)) for row in places]
    return [
        Canary("mislabelled", X[row], domain.labels[code], RELABELLED)
        for row, (_, code) in zip(places, relabelled, strict=True)
    ], places


def _given(record: Any, shape: tuple[int, ...], domain: Domain) -> Canary:
    x, label = record
    x = np.asarray(x)
    if x.shape != shape:
        raise ValueError(f"canaries must have features of shape {shape}, got shape {x.shape}")
    if not domain.allows(np.asarray(x, np.float64).ravel(), label):
        raise ValueError(
            f"canaries must be records that the claim allows ({domain.words}), got one that is not, of norm "
            f"{np.linalg.norm(x):g} and label {label!r}; give norm=, bounds= or classes= as the claim has them"
        )
    return Canary(GIVEN, x, label, GIVEN)
