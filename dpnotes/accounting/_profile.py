"""The privacy profile: the guarantee of a mechanism at every epsilon at once, with a
description of the mechanism.

The :class:`~dpnotes.accounting._kinds.Release` of a profile holds its mathematics. This
module holds the descriptions, the checks of arguments, and the operations on profiles.
"""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Floats, floats, rounded, written
from dpnotes.accounting._curves import LARGEST_DELTA, largest_mu, like_input
from dpnotes.accounting._kinds import (
    DIRECTIONS,
    GaussianRelease,
    Release,
    Terms,
    together,
)

ADJACENCIES = ("add-remove", "zero-out", "replace-one")
STATUSES = ("proved", "assumption", "per-instance", "conjecture", "refuted")
EXACTNESS = ("exact", "upper bound", "claimed")
IMPLEMENTATIONS = ("exact", "ideal reals", "reproducible")
# what with_ replaces; the values of three of them are listed
REPLACEABLE = (
    "status",
    "assumption",
    "source",
    "remark",
    "implementation",
    "exactness",
)
QUALIFIED = {
    "status": STATUSES,
    "exactness": EXACTNESS,
    "implementation": IMPLEMENTATIONS,
}
ASKED = 1e-5  # delta at which a text states epsilon, unless another one is asked for
FALSE_ALARMS = 0.001  # rate at which a text says how many records are recognised
IMPLIED = {  # from one adjacency to another: records changed, and what must hold
    ("add-remove", "replace-one"): (2, ""),
    ("zero-out", "replace-one"): (2, ""),
    ("replace-one", "zero-out"): (1, "the empty record is a legal one"),
    ("add-remove", "zero-out"): (1, "the number of records is not used, or is public"),
}

LEAST = 5e-324  # positive double
# delta that a Gaussian fit leaves aside: what grids and searches do not resolve
FAILURE = 1e-10
# epsilons between which the fit is searched
FIRST = 1e-6
LAST = 2.0**40
# of one search, each between the neighbours of the best of the last
POINTS = 401
ROUNDS = 6
# false-positive rates at which the two trade-off curves are compared
ALPHAS = 1000
BISECTIONS = 50


def step_of(parameter: str) -> str:
    """Part of a parameter's name before the first underscore: "times" or "group" for
    a step after the constructor.
    """
    return parameter.partition("_")[0]


def describe(mechanism: str, adjacency: str, **parameters: Any) -> dict[str, Any]:
    """Keyword arguments of a profile that describe its mechanism."""
    return {"mechanism": mechanism, "parameters": parameters, "adjacency": adjacency}


class PrivacyProfile:
    """The guarantee of one mechanism: delta as a function of epsilon, and all that
    follows from it.

    ``delta(epsilon)`` is the hockey-stick divergence ``max H_e(P || Q) = max E_Q[(dP/dQ
    - e^epsilon)_+]`` over adjacent data sets and both directions, or an upper bound of
    it (see ``exactness``). The mechanism is (epsilon, delta)-DP for the pairs on or
    above this curve and, if the curve is exact, for no other pairs. Methods take
    scalars or arrays and return floats or arrays of the same shape. All values hold for
    the mechanism over the real numbers, with secret randomness; ``implementation`` says
    how closely a computed release follows this mechanism.

    Use the constructors of :mod:`dpnotes.accounting` (``bagging``, ``gaussian``, ...)
    to make profiles. Profiles are frozen: :meth:`with_` returns a copy with a different
    description. ``print(profile)`` states epsilon at the delta that was asked for (a
    parameter of the mechanism or of the estimator, otherwise 1e-5), and
    ``f"{profile:1e-6}"`` at another delta, for example 1e-6. It also states how many
    records a test recognises that raises a false alarm for one in a thousand others.

    Attributes
    ----------
    mechanism : str
        Name of the constructor.
    parameters : mapping
        Arguments of the constructor, with the constructor's ``adjacency`` if the
        adjacency of this profile is a different one. Later steps follow in their order:
        ``times`` for a composition, ``group`` for a group of records. Consecutive steps
        of one kind share an entry.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        How neighbouring data sets differ. ``"add-remove"``: one record is added or
        removed. ``"zero-out"``: one record is made empty, so that it contributes
        nothing, and the number of records is public (``REPLACE_SPECIAL`` of
        dp_accounting). ``"replace-one"``: one record is replaced by another.
    status : {"proved", "assumption", "per-instance", "conjecture", "refuted"}
        Certainty of the guarantee.
    assumption : str
        The assumption of the guarantee, in words; empty if the guarantee needs only the
        mechanism's definition.
    source : str
        Where the guarantee is proved.
    remark : str
        Further information, for example why a published analysis is not tight; may be
        empty.
    exactness : {"exact", "upper bound", "claimed"}
        ``"exact"``: some pair of adjacent data sets attains the curve, so ``advantage``
        *is* the total variation distance. ``"upper bound"``: the curve is an upper
        bound. ``"claimed"``: the curve was published, but it does not hold.
    implementation : {"exact", "ideal reals", "reproducible"}
        ``"exact"``: a computed release has the distribution of the mechanism over the
        reals, rounded. ``"ideal reals"``: a computed release differs from this
        distribution by floating-point errors. ``"reproducible"``: the noise can be
        repeated from a seed, and does not protect against anyone who knows the seed.

    Source
    ------
    Balle, Barthe and Gaboardi (2018) for the profile; Dong, Roth and Su (2022) for the
    trade-off function.

    Examples
    --------
    >>> from dpnotes.accounting import gaussian
    >>> profile = gaussian(sigma=2.0)
    >>> print(profile)
    PrivacyProfile of gaussian(sigma=2.0, sensitivity=1.0)
      epsilon 1.994 at delta 1e-5
      recognised at 0.1 % false alarms: 0.48 %; advantage 0.1975
      adjacency: add-remove; status: proved; source: Balle and Wang (2018), Theorem 8
      exactness: exact; implementation: ideal reals
    >>> profile.compose(4).epsilon(1e-5) == gaussian(sigma=1.0).epsilon(1e-5)
    True
    """

    mechanism: str
    adjacency: str
    status: str
    assumption: str
    source: str
    remark: str
    implementation: str

    def __init__(
        self,
        release: Release,
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
        asked: float | None = None,
    ) -> None:
        self._release = release
        self._parameters = dict(parameters)
        # a mechanism with a delta of its own, as approximate, is told at that delta
        self._asked = self._parameters.get("delta") if asked is None else asked
        self._exactness = exactness
        # what a constructor calls exact may have become a bound by composition
        if exactness == "exact" and release.bounds_only:
            self._exactness = "upper bound"
        if release.remark:
            # composed again, the remark is still told once
            earlier = remark.removesuffix(release.remark).rstrip("; ")
            remark = joined([earlier, release.remark])
        # past __setattr__, which refuses public names
        vars(self).update(
            mechanism=mechanism,
            adjacency=check.one_of("adjacency", adjacency, ADJACENCIES),
            status=check.one_of("status", status, STATUSES),
            assumption=assumption,
            source=source,
            remark=remark,
            implementation=check.one_of(
                "implementation", implementation, IMPLEMENTATIONS
            ),
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(
                f"a profile is frozen, got a new {name}; with_() returns a copy with a"
                " new description"
            )
        super().__setattr__(name, value)

    def with_(self, **words: Any) -> Self:
        """Return the same curve with a different description.

        Parameters
        ----------
        asked : float, in [0, 1], optional
            The delta at which ``print`` states epsilon.
        status, assumption, source, remark, exactness, implementation : str, optional

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If a value is not among the valid values of the attribute.
        TypeError
            If any other name is given.

        Examples
        --------
        >>> from dpnotes.accounting import pure
        >>> pure(1.0).with_(
        ...     status="assumption", assumption="rows are clipped"
        ... ).assumption
        'rows are clipped'
        """
        result = copy.copy(self)
        asked = words.pop("asked", None)
        if asked is not None:
            result._asked = check.real("asked", asked, high=1.0)
        for name, value in words.items():
            if name not in REPLACEABLE:
                raise TypeError(f"with_ takes {', '.join(REPLACEABLE)}, got {name}")
            if name in QUALIFIED:
                check.one_of(name, value, QUALIFIED[name])
            vars(result)["_exactness" if name == "exactness" else name] = value
        return result

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The arguments of the constructor; a copy, like the profile they are frozen."""
        return MappingProxyType(copy.deepcopy(self._parameters))

    @property
    def exactness(self) -> str:
        """Whether the curve is attained, is an upper bound, or was published but
        does not hold.
        """
        if self.status == "refuted":
            return "claimed"
        return self._exactness or ("exact" if self._release.attained else "upper bound")

    @overload
    def delta(self, epsilon: float, *, direction: str | None = None) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike, *, direction: str | None = None) -> Floats: ...
    def delta(
        self, epsilon: ArrayLike, *, direction: str | None = None
    ) -> float | Floats:
        """Smallest delta at which the mechanism is (epsilon, delta)-DP.

        Parameters
        ----------
        epsilon : float or array_like, >= 0
        direction : {None, "remove", "add"}
            None: the maximum of both directions, which is the guarantee. ``"remove"``:
            the output *with* the record against the output without it, H_e(P || Q).
            ``"add"``: the reverse, H_e(Q || P).

        Returns
        -------
        float or ndarray, in [0, 1]
            Without a direction, 0 only where the mechanism is (epsilon, 0)-DP; a delta
            that is too small for a double is the least positive one, 5e-324.

        Raises
        ------
        ValueError
            If an epsilon is negative or NaN, or the direction is invalid.
        """
        checked = check.array("epsilon", epsilon)
        if direction is None:
            found = self._release.worst(checked)
            if not found.all():
                # the doubles underflow long before the guarantee is pure
                impure = checked < self._release.pure_from
                found = np.where(impure, np.maximum(found, LEAST), found)
            return like_input(found)
        check.one_of("direction", direction, DIRECTIONS)
        return like_input(self._release.delta(checked, direction))

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> Floats: ...
    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """Smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-DP; infinity
        if there is none.

        The result errs on the private side: ``profile.delta(profile.epsilon(delta)) <=
        delta``.

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
        return like_input(self._release.epsilon(check.array("delta", delta, high=1.0)))

    @overload
    def tradeoff(self, alpha: float) -> float: ...
    @overload
    def tradeoff(self, alpha: ArrayLike) -> Floats: ...
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """Smallest false-negative rate that the guarantee allows a membership test at
        false-positive rate ``alpha``.

        The test decides between adjacent data sets. The curve is the lower convex
        envelope of both directions, so it may lie below the best test in either
        direction.

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
        return like_input(self._release.tradeoff(check.array("alpha", alpha, high=1.0)))

    @property
    def advantage(self) -> float:
        """Largest difference between the true- and the false-positive rate of any
        membership test.

        The advantage is ``delta(0)``: the total variation distance if the profile is
        exact, and otherwise an upper bound of it.
        """
        return float(self.delta(0.0))

    @overload
    def tpr(self, fpr: float) -> float: ...
    @overload
    def tpr(self, fpr: ArrayLike) -> Floats: ...
    def tpr(self, fpr: ArrayLike) -> float | Floats:
        """Largest true-positive rate that the guarantee allows a membership test at
        false-positive rate ``fpr``.

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
        return like_input(1 - self._release.tradeoff(check.array("fpr", fpr, high=1.0)))

    @cached_property
    def mu(self) -> float:
        """Least mu whose Gaussian guarantee covers this guarantee, except for a failure
        of 1e-10.

        No delta of this profile exceeds the delta of Gaussian noise of standard
        deviation ``1 / mu`` by more than 1e-10. Mu is infinite if the record may be
        revealed with a probability above 1e-10. :attr:`misfit` measures how much a
        report of only mu loses. (Dong, Roth and Su 2022; Gomez, Kulynych, Kaissis,
        Flemings, Hayes, Balle and Honkela 2025.)
        """
        return _least_mu(self._release)

    @cached_property
    def misfit(self) -> float:
        """Error of reporting only ``mu``, measured as a difference of error rates; 0
        for Gaussian noise.

        This is the least kappa such that ``tradeoff(alpha + kappa) - kappa`` is at most
        the trade-off function of Gaussian noise with the same mu, for every alpha
        (Kaissis, Kolek, Balle, Hayes and Rueckert 2024). If the misfit is below 0.01,
        mu describes the guarantee nearly completely.
        """
        return _regret(self._release, self.mu)

    def compose(self, times: int) -> PrivacyProfile:
        """Guarantee of ``times`` independent releases of this kind on the same data,
        chosen adaptively or not.

        Parameters
        ----------
        times : int, >= 1

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If times is below 1.
        TypeError
            If times is not an integer.
        """
        times = check.at_least_one("times", times)
        if times == 1:
            return self
        # counted, not repeated: a million releases are as quick as two
        terms = [(part, each * times) for part, each in self._release.terms()]
        return PrivacyProfile(together(terms), **self._about("times", times))

    @overload
    def rdp(self, alpha: float) -> float: ...
    @overload
    def rdp(self, alpha: ArrayLike) -> Floats: ...
    def rdp(self, alpha: ArrayLike) -> float | Floats:
        """Upper bound on the Renyi divergence of order ``alpha`` of outputs on adjacent
        data sets, in both directions.

        Parameters
        ----------
        alpha : float or array_like, > 1

        Returns
        -------
        float or ndarray, in [0, inf]
            Infinite if some outputs may be possible on only one of the data sets, for
            example under an (epsilon, delta) statement with delta > 0.

        Raises
        ------
        ValueError
            If an alpha is not above 1 and finite.

        Source
        ------
        Mironov (2017); Sason and Verdu (2016) for the divergence of a mechanism of
        which only the deltas are known.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> gaussian(sigma=2.0).rdp([2.0, 8.0])
        array([0.25, 1.  ])
        """
        orders = check.array("alpha", alpha, low=1.0, open_low=True, finite=True)
        found = self._release.renyi()
        # with any probability an output that the other data set excludes: no order is
        # finite
        if found.failure > 0:
            return like_input(np.full(orders.shape, np.inf))
        return like_input(floats(found.curve(orders)))

    def group(self, size: int) -> PrivacyProfile:
        """Guarantee for data sets that differ in up to ``size`` records.

        Parameters
        ----------
        size : int, >= 1

        Returns
        -------
        PrivacyProfile
            Profile that is exact for Gaussian and Laplace noise, because the
            sensitivity grows ``size``-fold; for random samples of the records, as in
            ``bagging``, it is an upper bound.

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
        >>> (
        ...     gaussian(sigma=2.0).group(2).delta(1.0)
        ...     == gaussian(sigma=1.0).delta(1.0),
        ...     pure(1.0).group(3).epsilon(0.0),
        ... )
        (True, 3.0)
        """
        size = check.at_least_one("size", size)
        if size == 1:
            return self
        return PrivacyProfile(self._release.group(size), **self._about("group", size))

    def for_adjacency(self, adjacency: str, *, assumed: bool = False) -> PrivacyProfile:
        """Guarantee that this guarantee implies for another adjacency.

        Replacing a record means removing one and adding another, or emptying it and
        filling it again. Therefore ``"replace-one"`` follows from each of the other two
        adjacencies by ``group(2)``. ``"zero-out"`` follows only under an assumption.
        Emptying a record is a case of replacing it if the empty record is a valid
        record. Emptying is equivalent to removing if the number of records is not used,
        or is public.

        Parameters
        ----------
        adjacency : {"add-remove", "zero-out", "replace-one"}
        assumed : bool
            Whether the condition of the implication holds; the condition becomes part
            of ``assumption``.

        Returns
        -------
        PrivacyProfile

        Raises
        ------
        ValueError
            If there is no implication, or it needs an assumption and ``assumed`` is
            false.

        Source
        ------
        The definitions of the adjacencies; :meth:`group` for two records.

        Examples
        --------
        >>> from dpnotes.accounting import gaussian
        >>> gaussian(sigma=2.0, adjacency="zero-out").for_adjacency(
        ...     "replace-one"
        ... ).adjacency
        'replace-one'
        """
        if check.one_of("adjacency", adjacency, ADJACENCIES) == self.adjacency:
            return self
        if (self.adjacency, adjacency) not in IMPLIED:
            implied = [to for given, to in IMPLIED if given == self.adjacency]
            known = " and ".join(map(repr, implied))
            raise ValueError(
                f"adjacency must be one that {self.adjacency!r} implies ({known}), got"
                f" {adjacency=}"
            )
        size, condition = IMPLIED[self.adjacency, adjacency]
        if condition and not assumed:
            raise ValueError(
                f"adjacency={adjacency!r} follows from {self.adjacency!r} only if"
                f" {condition}; if that is true, pass assumed=True"
            )
        # what had to hold becomes part of the guarantee
        words = joined([self.assumption, condition])
        return self.group(size)._relabelled(adjacency).with_(assumption=words)

    def _relabelled(self, adjacency: str) -> PrivacyProfile:
        """Return the same curve for another adjacency; the description retains the
        constructor's adjacency.
        """
        if adjacency == self.adjacency:
            return self
        result = copy.copy(self)
        vars(result)["adjacency"] = adjacency
        # the first one stays
        result._parameters = {"adjacency": self.adjacency, **self._parameters}
        return result

    def _about(self, step: str = "", count: int = 1) -> dict[str, Any]:
        """Keyword arguments that describe this profile, after one more step: "times" or
        "group".

        Steps stay in their order; consecutive steps of one kind are described together.
        """
        given = dict(self._parameters)
        # dicts keep their order, and so the order of the steps
        last = next(reversed(given), "")
        if count > 1 and step_of(last) == step:
            given[last] *= count
        elif count > 1:
            earlier = [step_of(name) for name in given].count(step)
            given[f"{step}_{earlier + 1}" if earlier else step] = count
        about = describe(self.mechanism, self.adjacency)
        for name in REPLACEABLE:
            about[name] = getattr(self, name)
        about.update(parameters=given, exactness=self._exactness, asked=self._asked)
        return about

    def to_dict(self) -> dict[str, Any]:
        """Return all that defines and qualifies the guarantee, as values for JSON;
        infinity becomes a string.
        """
        told = self._about()
        del told["asked"]
        # as they show, not as they are stored
        told.update(exactness=self.exactness, advantage=self.advantage)
        return {name: plain(value) for name, value in told.items()}

    def __repr__(self) -> str:
        if self._release.ready:
            return str(self)
        return self._text(["  curve computed at the first query"])

    def __str__(self) -> str:
        return format(self)

    def __format__(self, delta: str) -> str:
        # of f"{profile:1e-6}", of the parameters, or 1e-5
        asked = float(delta or self._asked or ASKED)
        return self._text(self._headline(asked if asked < 1 else ASKED))

    def _text(self, headline: list[str]) -> str:
        """The description around the lines about the curve."""
        given = [
            f"{name}={written(value, '{!r}')}"
            for name, value in self.parameters.items()
        ]
        lines = [f"PrivacyProfile of {self.mechanism}({', '.join(given)})", *headline]
        lines.append(
            f"  adjacency: {self.adjacency}; status: {self.status}; source:"
            f" {self.source}"
        )
        lines.append(
            f"  exactness: {self.exactness}; implementation: {self.implementation}"
        )
        if self.assumption:
            lines.append(f"  assuming: {self.assumption}")
        if self.remark:
            lines.append(f"  remark: {self.remark}")
        wrapped = [textwrap.fill(line, 88, subsequent_indent="    ") for line in lines]
        return "\n".join(wrapped)

    def _headline(self, delta: float) -> list[str]:
        """Epsilon at a delta, and at 0 where there is one; how often a record is
        recognised.
        """
        pure, asked = [
            "no epsilon" if math.isinf(level) else f"epsilon {rounded(level)}"
            for level in self.epsilon([0.0, delta])
        ]
        stated = []
        if asked != pure or pure == "no epsilon":
            stated.append(f"{asked} at delta {rounded(delta, 6)}")
        if pure != "no epsilon":
            stated.append(f"{pure} at delta 0")
        claimed = "claimed: " if self.exactness == "claimed" else ""
        bound = "" if self.exactness == "exact" else "at most "
        recognised = f"{bound}{rounded(100 * self.tpr(FALSE_ALARMS), 3)} %"
        return [
            f"  {claimed}{', '.join(stated)}",
            f"  recognised at {100 * FALSE_ALARMS:g} % false alarms: {recognised};"
            f" advantage {bound}{rounded(self.advantage)}",
        ]


def plain(value: Any) -> Any:
    """Replace infinity, which JSON cannot write, by the string "infinity", also
    within lists and mappings.
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def compose(
    first: PrivacyProfile, second: PrivacyProfile, *others: PrivacyProfile
) -> PrivacyProfile:
    """Guarantee of releasing all of several mechanisms, each with its own randomness,
    on the same data.

    The result is exact for Gaussian noise with Gaussian noise, for bagging with
    bagging, and for a few statements of (epsilon, delta)-DP, if one pair of data sets
    is the worst case of all parts. Otherwise it is the smallest of several bounds: the
    sum of the privacy losses of the single releases, the same sum after the releases of
    each kind are combined, and the sum of the Renyi curves. The two sums of losses are
    computed on a grid and rounded to the safe side. The bounds are computed when the
    result is first asked for a value.

    Parameters
    ----------
    first, second, *others : PrivacyProfile
        Profiles for the same adjacency. For many releases of one mechanism, use
        ``profile.compose(times)``.

    Returns
    -------
    PrivacyProfile
        Profile whose status is the weakest among the statuses of its parts.

    Raises
    ------
    ValueError
        If the adjacencies differ.
    TypeError
        If an argument is not a PrivacyProfile.

    Source
    ------
    Sommer, Meiser and Mohammadi (2019); Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
    (2022) for the rounding; Zhu, Dong and Wang (2022) for the losses of a mechanism of
    which only the deltas are known; Vadhan and Zhang (2023) for adaptive mechanisms
    that take turns; Mironov (2017).

    Examples
    --------
    >>> from dpnotes.accounting import approximate, gaussian
    >>> round(
    ...     compose(gaussian(sigma=3.0), gaussian(sigma=4.0)).delta(1.0), 12
    ... )  # as gaussian(sigma=2.4)
    0.001835742776
    >>> compose(gaussian(sigma=3.0), approximate(0.2, 1e-6)).epsilon(1e-5) < gaussian(
    ...     sigma=3.0
    ... ).epsilon(9e-6) + 0.2
    True
    """
    parts = [first, second, *others]
    for index, part in enumerate(parts):
        a_profile(f"profile {index + 1}", part)
    adjacencies = sorted({part.adjacency for part in parts})
    if len(adjacencies) > 1:
        ways = ", ".join(f"{one!r} to {other!r}" for one, other in IMPLIED)
        raise ValueError(
            "adjacency must be the same for all profiles, got"
            f" {' and '.join(adjacencies)}; profile.for_adjacency(...) converts {ways}"
        )
    terms: Terms = []
    for part in parts:
        terms += part._release.terms()
    return PrivacyProfile(together(terms), **_about(parts))


def _about(parts: list[PrivacyProfile]) -> dict[str, Any]:
    """Keyword arguments that describe the composition of the parts."""
    described = [part_of(part) for part in parts]
    about = describe("compose", parts[0].adjacency, parts=described)
    for name in REPLACEABLE:
        words = [getattr(part, name) for part in parts]
        if name in QUALIFIED:
            # the weakest, which is listed last
            about[name] = max(words, key=QUALIFIED[name].index)
        else:
            about[name] = joined(words)
    return about


def a_profile(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is a profile."""
    if not isinstance(value, PrivacyProfile):
        raise TypeError(f"{name} must be a PrivacyProfile, got {value!r}")


def part_of(profile: PrivacyProfile) -> dict[str, Any]:
    """Description of a profile as a parameter of another profile."""
    return {"mechanism": profile.mechanism, **profile.parameters}


def joined(words: Sequence[str]) -> str:
    """Join several remarks in order, without repeating any of them."""
    return "; ".join(dict.fromkeys(word for word in words if word))


def _least_mu(release: Release) -> float:
    """Largest mu, over all epsilon, of Gaussian noise whose delta is the release's
    delta minus ``FAILURE``.
    """
    if isinstance(release, GaussianRelease):
        return release.mu
    # no Gaussian noise covers a record that is revealed more often than that
    if release.worst(np.array(LAST)) > FAILURE:
        return float("inf")
    # mu may have several maxima over epsilon: a wide grid, then finer ones around its
    # best
    powers = np.exp2(np.arange(-19.0, 41.0))
    # the first beyond which delta is below FAILURE
    last = powers[int(np.argmax(release.worst(powers) <= FAILURE))]
    grid = np.concatenate([[0.0], np.geomspace(FIRST, last, POINTS)])
    for _ in range(ROUNDS):
        found = _mu_at(release, grid)
        index = int(found.argmax())
        ends = grid[max(index - 1, 0) : index + 2]
        grid = np.linspace(ends[0], ends[-1], 41)
    # what the finest grid may miss
    return float(found.max() * (1 + 1e-9))


def _mu_at(release: Release, epsilon: Floats) -> Floats:
    """Mu of the Gaussian noise with this delta; near delta = 1 from above, by 1 -
    delta <= 2 Phi(epsilon/mu - mu/2).
    """
    # the delta that Gaussian noise has to cover
    left = release.worst(epsilon) - FAILURE
    found = largest_mu(epsilon, np.clip(left, 1e-300, LARGEST_DELTA))
    low = -special.ndtri(np.clip(1 - left, 1e-300, 1.0) / 2)
    near_one = low + np.hypot(low, np.sqrt(2 * epsilon))
    found = np.where(left > LARGEST_DELTA, near_one, found)
    return np.where(left > 0, found, 0.0)


def _regret(release: Release, mu: float) -> float:
    """Least kappa with ``f(alpha + kappa) - kappa <= G_mu(alpha)`` for all alpha, f
    the trade-off curve.
    """
    if mu == 0:
        return 0.0
    alpha = np.concatenate(
        [[0.0], np.geomspace(1e-12, 0.5, ALPHAS), np.linspace(0.5, 1.0, ALPHAS)[1:]]
    )
    # both curves fall: the least kappa is found at each alpha by halving
    own = release.tradeoff(alpha)
    covered = np.zeros_like(alpha)
    if np.isfinite(mu):
        covered = GaussianRelease(mu).tradeoff(alpha)
    low = np.zeros_like(alpha)
    high = 1 - alpha
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = np.interp(alpha + middle, alpha, own) - middle <= covered
        low = np.where(enough, low, middle)
        high = np.where(enough, middle, high)
    return float(low.max())
