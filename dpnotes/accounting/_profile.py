"""The privacy profile: what a mechanism guarantees, at every epsilon at once."""

from __future__ import annotations

import copy
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats as Floats
from dpnotes.accounting._curves import EPSILONS, smallest_epsilon, supported_tradeoff

ADJACENCIES = ("add-remove", "zero-out", "replace-one")
STATUSES = ("proved", "assumption", "per-instance", "conjecture", "refuted")
EXACTNESS = ("exact", "upper bound", "claimed")
IMPLEMENTATIONS = ("exact", "ideal reals", "reproducible")
DIRECTIONS = ("remove", "add")
DESCRIPTION = ("mechanism", "parameters", "adjacency", "status", "assumption", "source", "remark", "implementation")
QUALIFIED = {"status": STATUSES, "exactness": EXACTNESS, "implementation": IMPLEMENTATIONS}
REPLACEABLE = ("status", "assumption", "source", "remark", "exactness", "implementation")


def describe(mechanism: str, adjacency: str, **parameters: Any) -> dict[str, Any]:
    """Keyword arguments of a profile that say which mechanism it is of."""
    return {"mechanism": mechanism, "parameters": parameters, "adjacency": adjacency}


class PrivacyProfile(ABC):
    """The guarantee of one mechanism: delta as a function of epsilon, and all that follows from it.

    ``delta(epsilon)`` is the hockey-stick divergence ``max H_e(P || Q) = max E_Q[(dP/dQ - e^epsilon)_+]`` over adjacent
    data sets and both directions, or an upper bound of it, as ``exactness`` says: the mechanism is (epsilon, delta)-DP
    for the pairs on or above this curve, and where it is exact, for no others. Methods take scalars or arrays and give
    floats or arrays of the same shape. All values are those of the mechanism over the reals, with its randomness
    secret; ``implementation`` says what of that a computed release keeps.

    Profiles are made by the constructors of :mod:`dpnotes.accounting` (``bagging``, ``gaussian``, ...), not directly,
    and are frozen: :meth:`with_` gives a copy with other words.

    Attributes
    ----------
    mechanism : str
        Name of the constructor.
    parameters : mapping
        The arguments that it was given.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        Which data sets count as neighbours: one record more or less; one record replaced by an empty one that
        contributes nothing, their number being public (``REPLACE_SPECIAL`` of dp_accounting); or one record exchanged
        for another.
    status : {"proved", "assumption", "per-instance", "conjecture", "refuted"}
        What is known of the guarantee.
    assumption : str
        What must hold for it, in words; empty if nothing beyond the mechanism's definition.
    source : str
        Where the proof is.
    remark : str
        What a reader should know besides, for example why a published analysis is not tight; may be empty.
    exactness : {"exact", "upper bound", "claimed"}
        Whether some pair of adjacent data sets attains the curve (for ``advantage``: whether it *is* the total
        variation distance), whether it bounds it from above, or whether it was published and fails.
    implementation : {"exact", "ideal reals", "reproducible"}
        ``"exact"``: a computed release has the distribution of the mechanism over the reals, rounded. ``"ideal
        reals"``: floating-point arithmetic stands between the two. ``"reproducible"``: the noise can be repeated from a
        seed, and protects nothing from who knows it.

    Source
    ------
    Balle, Barthe and Gaboardi (2018) for the profile; Dong, Roth and Su (2022) for the trade-off function.

    Examples
    --------
    >>> from dpnotes.accounting import gaussian
    >>> profile = gaussian(sigma=2.0)
    >>> print(profile)
    PrivacyProfile of gaussian(sigma=2.0, sensitivity=1.0)
      (epsilon, delta)-DP at (0, 0.1974), (1, 0.00683), (5, 4.415e-24); advantage 0.1974
      adjacency: add-remove; status: proved; source: Balle and Wang (2018), Theorem 8
      exactness: exact; implementation: ideal reals
    >>> profile.compose(4).epsilon(1e-5) == gaussian(sigma=1.0).epsilon(1e-5)
    True
    """

    symmetric: ClassVar[bool] = False  # delta is the same in both directions
    _never_pure: bool = False  # no finite epsilon has delta = 0, though the doubles underflow to it
    attained: ClassVar[bool] = False  # the curve is that of some pair of adjacent data sets

    mechanism: str
    adjacency: str
    status: str
    assumption: str
    source: str
    remark: str
    implementation: str

    def __init__(
        self,
        *,
        mechanism: str,
        parameters: Mapping[str, Any],
        adjacency: str,
        source: str,
        status: str = "proved",
        assumption: str = "",
        remark: str = "",
        exactness: str | None = None,
        implementation: str = "ideal reals",
    ) -> None:
        self._parameters = dict(parameters)
        self._exactness = exactness
        vars(self).update(
            mechanism=mechanism,
            adjacency=check.one_of("adjacency", adjacency, ADJACENCIES),
            status=check.one_of("status", status, STATUSES),
            assumption=assumption,
            source=source,
            remark=remark,
            implementation=check.one_of("implementation", implementation, IMPLEMENTATIONS),
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"a profile is frozen, {name} included; with_(...) gives a copy with other words")
        super().__setattr__(name, value)

    def with_(self, **words: str) -> Self:
        """The same curve with other words.

        Parameters
        ----------
        status, assumption, source, remark, exactness, implementation : str, optional

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If a value is not one of those that the attribute can have.
        TypeError
            If another name is given.

        Examples
        --------
        >>> from dpnotes.accounting import pure
        >>> pure(1.0).with_(status="assumption", assumption="rows are clipped").assumption
        'rows are clipped'
        """
        result = copy.copy(self)
        for name, value in words.items():
            if name not in REPLACEABLE:
                raise TypeError(f"with_ takes {', '.join(REPLACEABLE)}, got {name}")
            checked = check.one_of(name, value, QUALIFIED[name]) if name in QUALIFIED else value
            vars(result)["_exactness" if name == "exactness" else name] = checked
        return result

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The arguments of the constructor."""
        return MappingProxyType(self._parameters)

    @property
    def exactness(self) -> str:
        """Whether the curve is attained, an upper bound, or a published one that fails."""
        if self.status == "refuted":
            return "claimed"
        return self._exactness or ("exact" if self.attained else "upper bound")

    # The three curves: inputs are checked here, the private functions below work on float64 arrays.

    @overload
    def delta(self, epsilon: float, *, direction: str | None = None) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike, *, direction: str | None = None) -> Floats: ...
    def delta(self, epsilon: ArrayLike, *, direction: str | None = None) -> float | Floats:
        """Smallest delta at which the mechanism is (epsilon, delta)-DP.

        Parameters
        ----------
        epsilon : float or array_like, >= 0
        direction : {None, "remove", "add"}
            None: the maximum of both directions, which is the guarantee. ``"remove"``: the output *with* the record
            against the output without it, H_e(P || Q); ``"add"``: H_e(Q || P).

        Returns
        -------
        float or ndarray, in [0, 1]

        Raises
        ------
        ValueError
            If an epsilon is negative or NaN, or the direction is invalid.
        """
        checked = check.array("epsilon", epsilon)
        if direction is None:
            return _like_input(self._worst(checked))
        return _like_input(self._delta(checked, check.one_of("direction", direction, DIRECTIONS)))

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> Floats: ...
    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """Smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-DP; infinity if there is none.

        Errs on the private side: ``profile.delta(profile.epsilon(delta)) <= delta``.

        Parameters
        ----------
        delta : float or array_like, in [0, 1]

        Returns
        -------
        float or ndarray, in [0, inf]

        Raises
        ------
        ValueError
            If a delta is outside [0, 1].
        """
        return _like_input(self._epsilon(check.array("delta", delta, high=1.0)))

    @overload
    def tradeoff(self, alpha: float) -> float: ...
    @overload
    def tradeoff(self, alpha: ArrayLike) -> Floats: ...
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """False-negative rate of the best test for membership whose false-positive rate is ``alpha``.

        The test that the adversary runs is between adjacent data sets, in whichever direction serves it better.

        Parameters
        ----------
        alpha : float or array_like, in [0, 1]

        Returns
        -------
        float or ndarray, in [0, 1]

        Raises
        ------
        ValueError
            If an alpha is outside [0, 1].
        """
        return _like_input(self._tradeoff(check.array("alpha", alpha, high=1.0)))

    @property
    def advantage(self) -> float:
        """Largest gap between the true- and the false-positive rate of any membership test.

        It is ``delta(0)``: the total variation distance where the profile is exact, above it where it bounds.
        """
        return float(self.delta(0.0))

    def compose(self, times: int) -> PrivacyProfile:
        """Guarantee of ``times`` independent releases of this kind on the same data, chosen adaptively or not.

        Parameters
        ----------
        times : int, >= 1

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If times is below 1, or a grid of privacy losses would be too large.
        TypeError
            If times is not an integer.
        """
        times = check.at_least_one("times", times)
        return self if times == 1 else self._composed(times, self._about(times))

    # A kind of profile gives the first two; the others have defaults that follow from delta.

    @abstractmethod
    def _delta(self, epsilon: Floats, direction: str) -> Floats: ...

    @abstractmethod
    def _composed(self, times: int, about: dict[str, Any]) -> PrivacyProfile: ...

    def _worst(self, epsilon: Floats) -> Floats:
        """Delta in the direction in which it is larger."""
        removed = self._delta(epsilon, "remove")
        return removed if self.symmetric else np.maximum(removed, self._delta(epsilon, "add"))

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(self._worst, delta)
        return np.where(delta > 0, found, np.inf) if self._never_pure else found

    def _tradeoff(self, alpha: Floats) -> Floats:
        corners = self._corners()
        return supported_tradeoff(1 - self._worst(corners), corners, alpha)

    def _corners(self) -> Floats:
        """The epsilons at which the trade-off curve gets a supporting line."""
        return EPSILONS

    def _about(self, times: int) -> dict[str, Any]:
        """Keyword arguments that describe this profile after ``times``-fold composition."""
        together = self.parameters.get("times", 1) * times
        parameters = {**self.parameters, "times": together} if together > 1 else dict(self._parameters)
        about = {name: getattr(self, name) for name in DESCRIPTION}
        return {**about, "parameters": parameters, "exactness": self._exactness}

    def to_dict(self) -> dict[str, Any]:
        """All that defines and qualifies the guarantee, as plain values that JSON can hold."""
        return {**self._about(1), "exactness": self.exactness, "advantage": self.advantage}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        points = ", ".join(f"({epsilon:g}, {self.delta(epsilon):.4g})" for epsilon in (0.0, 1.0, 5.0))
        lines = [
            f"PrivacyProfile of {self.mechanism}({arguments})",
            f"  (epsilon, delta)-DP at {points}; advantage {self.advantage:.4g}",
            f"  adjacency: {self.adjacency}; status: {self.status}; source: {self.source}",
            f"  exactness: {self.exactness}; implementation: {self.implementation}",
        ]
        lines += [f"  assuming: {self.assumption}"] if self.assumption else []
        lines += [f"  remark: {self.remark}"] if self.remark else []
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="    ") for line in lines)


def _like_input(values: Floats) -> float | Floats:
    return float(values) if values.ndim == 0 else values
