"""The privacy profile: what a mechanism guarantees, at every epsilon at once.

A kind of profile is a class that derives from :class:`PrivacyProfile`. It gives ``_delta``; all else has a default that
follows from that curve, and a kind overrides what it knows better, never more than these:

* ``_delta(epsilon, direction)``: the curve; array in, array out. ``_epsilon`` and ``_tradeoff`` follow from it.
* ``_renyi()``: a :class:`Renyi` curve of both directions, with the probability that it fails. Default: the divergence
  of the pair that the curve defines.
* ``_atoms()``: privacy losses that dominate the mechanism, both directions. Default: those of the same pair.
* ``_sampled_rdp(rate)``: the Renyi curve of the mechanism on a Poisson sample, where it has a form of its own.
* ``_ceiling()``: one (epsilon, delta) beyond which more epsilon buys nothing: pure levels and the like.
* ``_family`` and ``_merged(terms, about)``: an exact composition of parts of the same family ("" for none).
* ``_terms()``: the independent parts of a profile that is a composition, each with how often it occurs.
* ``_key()``: equal for parts of equal guarantee, so that composition groups them.
* ``_group(size)``: the guarantee for several records at once.

Composition (``_composition``) asks for nothing else, so that any two kinds compose.
"""

from __future__ import annotations

import copy
import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats as Floats
from dpnotes.accounting._curves import EPSILONS, Atoms, Pair, pair_of, smallest_epsilon, supported_tradeoff

if TYPE_CHECKING:
    from dpnotes.accounting._gaussian_fit import GaussianFit

ADJACENCIES = ("add-remove", "zero-out", "replace-one")
STATUSES = ("proved", "assumption", "per-instance", "conjecture", "refuted")
EXACTNESS = ("exact", "upper bound", "claimed")
IMPLEMENTATIONS = ("exact", "ideal reals", "reproducible")
DIRECTIONS = ("remove", "add")
DESCRIPTION = ("mechanism", "parameters", "adjacency", "status", "assumption", "source", "remark", "implementation")
QUALIFIED = {"status": STATUSES, "exactness": EXACTNESS, "implementation": IMPLEMENTATIONS}
SHOWN = (0.0, 1.0, 5.0)  # epsilons of which a text has the deltas
REPLACEABLE = ("status", "assumption", "source", "remark", "exactness", "implementation")


IMPLIED = {  # from one adjacency to another: records changed, and what must hold
    ("add-remove", "replace-one"): (2, ""),
    ("zero-out", "replace-one"): (2, ""),
    ("replace-one", "zero-out"): (1, "the empty record is a legal one"),
    ("add-remove", "zero-out"): (1, "the number of records is not used, or is public"),
}

Terms = list[tuple[Any, int]]  # profiles, with how often each is released


@dataclass(frozen=True)
class Renyi:
    """Divergence at most ``curve(alpha)`` at every order, both directions, except with probability ``failure``."""

    curve: Callable[[Floats], Floats]
    failure: float = 0.0


def step_of(parameter: str) -> str:
    """Which step after the constructor a parameter tells of: "times", "group", or another name."""
    return parameter.partition("_")[0]


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
        The arguments that it was given, with its ``adjacency`` if this profile has another one; then, in their order,
        how many ``times`` it was composed and how many records the ``group`` has.
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
    _beyond_pair: ClassVar[bool] = False  # its Renyi curve says more than the losses of the pair that has its deltas

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

    @overload
    def tpr(self, fpr: float) -> float: ...
    @overload
    def tpr(self, fpr: ArrayLike) -> Floats: ...
    def tpr(self, fpr: ArrayLike) -> float | Floats:
        """Largest true-positive rate of a membership test whose false-positive rate is ``fpr``.

        Parameters
        ----------
        fpr : float or array_like, in [0, 1]

        Returns
        -------
        float or ndarray, in [0, 1]
            ``1 - tradeoff(fpr)``.

        Raises
        ------
        ValueError
            If a rate is outside [0, 1].

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> round(gaussian(sigma=1.0).tpr(0.01), 4)
        0.0924
        """
        return _like_input(1 - self._tradeoff(check.array("fpr", fpr, high=1.0)))

    @property
    def mu(self) -> float:
        """The least mu whose Gaussian guarantee covers this one, but for a failure of 1e-10.

        No delta of this profile is above that of Gaussian noise of standard deviation ``1 / mu`` by more than 1e-10.
        Infinite where the record may be revealed with a larger probability. How much it gives away is :attr:`misfit`.
        (Dong, Roth and Su 2022; Gomez, Kulynych, Kaissis, Flemings, Hayes, Balle and Honkela 2025.)
        """
        return self._fit.mu

    @property
    def misfit(self) -> float:
        """By how much error rates are understated where ``mu`` is all that is told; 0 for Gaussian noise.

        The least kappa with ``tradeoff(alpha + kappa) - kappa`` at most the trade-off function of Gaussian noise of
        that mu, at all alpha (Kaissis, Kolek, Balle, Hayes and Rueckert 2024). Below 0.01, mu says nearly all there is.
        """
        return self._fit.misfit

    @cached_property
    def _fit(self) -> GaussianFit:
        from dpnotes.accounting._gaussian_fit import gaussian_fit

        return gaussian_fit(self)

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
        from dpnotes.accounting._composition import together

        times = check.at_least_one("times", times)
        if times == 1:
            return self
        return together([(part, each * times) for part, each in self._terms()], self._about(times))

    @overload
    def rdp(self, alpha: float) -> float: ...
    @overload
    def rdp(self, alpha: ArrayLike) -> Floats: ...
    def rdp(self, alpha: ArrayLike) -> float | Floats:
        """Renyi divergence of order ``alpha`` between the outputs on adjacent data sets, at most; both directions.

        Parameters
        ----------
        alpha : float or array_like, > 1

        Returns
        -------
        float or ndarray, in [0, inf]
            Infinite where some outputs are possible on one data set alone, as with any (epsilon, delta) statement.

        Raises
        ------
        ValueError
            If an alpha is not above 1 and finite.

        Source
        ------
        Mironov (2017); Sason and Verdu (2016) for the divergence of a mechanism known by its deltas.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> gaussian(sigma=2.0).rdp([2.0, 8.0])
        array([0.25, 1.  ])
        """
        orders = check.array("alpha", alpha, low=1.0, open_low=True, finite=True)
        found = self._renyi()
        values = found.curve(orders) if found.failure == 0 else np.full(orders.shape, np.inf)
        return _like_input(np.asarray(values, dtype=np.float64))

    def dominating(self, interval: float | None = None) -> Any:
        """Privacy loss distribution that dominates the mechanism, both directions, rounded to the private side.

        Parameters
        ----------
        interval : float, > 0, or None
            Distance of the privacy losses on the grid, in units of epsilon. None: at most a fiftieth of the loss's
            standard deviation.

        Returns
        -------
        dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
            Its "remove" half is the loss of the output *with* the record.

        Raises
        ------
        ValueError
            If interval is not positive, or the grid would have more than 2^21 points.

        Source
        ------
        Zhu, Dong and Wang (2022): every curve delta(epsilon) is that of some pair of distributions.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> round(gaussian(sigma=1.0).dominating(1e-3).get_epsilon_for_delta(1e-5), 2)
        4.38
        """
        from dpnotes.accounting import _loss_distribution, _pld

        given = None if interval is None else check.positive("interval", interval)
        return _pld.to_library(_loss_distribution.losses_of(self._terms(), given))

    def group(self, size: int) -> PrivacyProfile:
        """Guarantee for data sets that differ in up to ``size`` records.

        Parameters
        ----------
        size : int, >= 1

        Returns
        -------
        PrivacyProfile
            Exact for Gaussian and Laplace noise, whose sensitivity grows ``size``-fold.

        Raises
        ------
        ValueError
            If size is below 1.
        TypeError
            If size is not an integer.

        Source
        ------
        Dwork and Roth (2014), Theorem 2.2; Dong, Roth and Su (2022) for Gaussian noise.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian, pure
        >>> gaussian(sigma=2.0).group(2).delta(1.0) == gaussian(sigma=1.0).delta(1.0), pure(1.0).group(3).epsilon(0.0)
        (True, 3.0)
        """
        size = check.at_least_one("size", size)
        return self if size == 1 else self._group(size)

    def for_adjacency(self, adjacency: str, *, assumed: bool = False) -> PrivacyProfile:
        """The guarantee that this one implies for another adjacency.

        Replacing a record is removing one and adding another, or emptying it and filling it again: ``"replace-one"``
        follows from both other adjacencies by :meth:`group` of 2. The converse needs an assumption: emptying is
        replacing where the empty record is a legal one, and it is removing where the number of records is not used, or
        is public.

        Parameters
        ----------
        adjacency : {"add-remove", "zero-out", "replace-one"}
        assumed : bool
            That what the implication needs holds; it becomes part of ``assumption``.

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If nothing is implied, or only under an assumption that was not made.

        Source
        ------
        Definitions; ``group`` for the sizes.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> gaussian(sigma=2.0, adjacency="zero-out").for_adjacency("replace-one").adjacency
        'replace-one'
        """
        if check.one_of("adjacency", adjacency, ADJACENCIES) == self.adjacency:
            return self
        if (self.adjacency, adjacency) not in IMPLIED:
            known = " and ".join(f"{to!r}" for given, to in IMPLIED if given == self.adjacency)
            raise ValueError(f"adjacency must be one that {self.adjacency!r} implies, {known}, got {adjacency=}")
        size, condition = IMPLIED[self.adjacency, adjacency]
        if condition and not assumed:
            raise ValueError(
                f"adjacency={adjacency!r} follows from {self.adjacency!r} only where {condition}; "
                "if that holds, say assumed=True"
            )
        words = "; ".join(word for word in (self.assumption, condition) if word)
        return self.group(size)._relabelled(adjacency).with_(assumption=words)

    def _relabelled(self, adjacency: str) -> PrivacyProfile:
        """The same curve for other neighbours; the description keeps those of the constructor."""
        if adjacency == self.adjacency:
            return self
        result = copy.copy(self)
        vars(result)["adjacency"] = adjacency
        result._parameters = {"adjacency": self.adjacency, **self._parameters}  # the first one stays
        return result

    # A kind of profile gives the first; the others have defaults that follow from it.

    @abstractmethod
    def _delta(self, epsilon: Floats, direction: str) -> Floats: ...

    _family: ClassVar[str] = ""

    def _merged(self, terms: Terms, about: dict[str, Any]) -> PrivacyProfile | None:
        """Composition of parts of this family; None where there is no exact one."""
        return None

    @cached_property
    def _pair(self) -> Pair:
        return pair_of(self._rough, self.symmetric)

    def _rough(self, epsilon: Floats, direction: str) -> Floats:
        """Delta, or an upper bound of it that costs less, at thousands of epsilons."""
        return self._delta(epsilon, direction)

    def _atoms(self) -> tuple[Atoms, Atoms]:
        return self._pair.atoms()

    def _scale(self) -> float:
        """About the standard deviation of the loss."""
        return self._pair.scale

    def _renyi(self) -> Renyi:
        return Renyi(self._pair.rdp, self._pair.failure)

    def _sampled_rdp(self, rate: float) -> Callable[[Floats], Floats] | None:
        """Renyi curve of this mechanism on a Poisson sample, where it has a form of its own."""
        return None

    def _ceiling(self) -> tuple[float, float]:
        return math.inf, 0.0

    def _terms(self) -> Terms:
        return [(self, 1)]

    def _key(self) -> Hashable:
        return id(self)

    def _group(self, size: int) -> PrivacyProfile:
        from dpnotes.accounting._composition import GroupRelease

        return GroupRelease(self, size, **self._grouped(size))

    def _grouped(self, size: int) -> dict[str, Any]:
        """Keyword arguments that describe this profile for ``size`` records."""
        return {**self._about(1), "parameters": self._after("group", size)}

    def _after(self, step: str, count: int) -> dict[str, Any]:
        """The parameters after one more step, "times" or "group": in order, those of one kind in a row together."""
        last, earlier = next(reversed(self._parameters), ""), [*map(step_of, self._parameters)].count(step)
        if step_of(last) == step:
            return {**self._parameters, last: count * self._parameters[last]}
        return {**self._parameters, f"{step}_{earlier + 1}" if earlier else step: count}

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
        parameters = self._after("times", times) if times > 1 else dict(self._parameters)
        about = {name: getattr(self, name) for name in DESCRIPTION}
        return {**about, "parameters": parameters, "exactness": self._exactness}

    def to_dict(self) -> dict[str, Any]:
        """All that defines and qualifies the guarantee, as plain values that JSON can hold: infinity is a string."""
        told = {**self._about(1), "exactness": self.exactness, "advantage": self.advantage}
        return {name: _plain(value) for name, value in told.items()}

    _ready: bool = True  # a delta costs little

    def __repr__(self) -> str:
        return self._text(points=self._ready)

    def __str__(self) -> str:
        return self._text(points=True)

    def _text(self, *, points: bool) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        curve = "curve computed at the first query"
        if points:
            shown = self.delta(SHOWN)  # together, which costs little more than one
            pairs = ", ".join(f"({epsilon:g}, {delta:.4g})" for epsilon, delta in zip(SHOWN, shown, strict=True))
            stated = {"claimed": "claimed (epsilon, delta)"}.get(self.exactness, "(epsilon, delta)-DP")
            bound = "at most " if self.exactness == "upper bound" else ""
            curve = f"{stated} at {pairs}; advantage {bound}{shown[0]:.4g}"
        lines = [
            f"PrivacyProfile of {self.mechanism}({arguments})",
            f"  {curve}",
            f"  adjacency: {self.adjacency}; status: {self.status}; source: {self.source}",
            f"  exactness: {self.exactness}; implementation: {self.implementation}",
        ]
        lines += [f"  assuming: {self.assumption}"] if self.assumption else []
        lines += [f"  remark: {self.remark}"] if self.remark else []
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="    ") for line in lines)


def _plain(value: Any) -> Any:
    """Numbers that JSON has no token for as strings, also within lists and mappings."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def _like_input(values: Floats) -> float | Floats:
    return float(values) if values.ndim == 0 else values
