"""Sequential audits: bets against the claim, whose wealth refutes it whenever it is large."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile, gaussian
from dpnotes.auditing._scores import checked_confidence, runs_adjacency, thresholds_between

DELTAS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])  # a claim's lines
GROWTH = 1.1  # by which the runs grow until the bet is chosen again
STAKE = 0.9  # largest fraction of the wealth that one pair can lose
EPSILON_GRID = np.concatenate([[0.0], np.geomspace(0.02, 30, 80)])
DELTA_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 0.99, 80)])
MU_GRID = np.concatenate([[1e-9], np.geomspace(0.05, 15, 40)])


@dataclass(frozen=True)
class _Lines:
    """For each claim the (epsilon, delta) that it is bet against, in both directions; arrays [claims, lines]."""

    delta: Floats
    factor: Floats  # e^epsilon
    swapped: Floats  # 1 where the event should be likelier without the record

    @classmethod
    def of(cls, claim: PrivacyProfile) -> _Lines:
        levels = np.unique(np.append(np.asarray(claim.epsilon(DELTAS)), 0.0))
        epsilon = levels[levels < 50]
        ways = (None, None) if claim.adjacency == "replace-one" else ("remove", "add")
        delta = np.concatenate([claim.delta(epsilon, direction=way) for way in ways])
        return cls.both(np.tile(np.exp(epsilon), 2)[None], delta[None])

    @classmethod
    def both(cls, factor: Floats, delta: Floats) -> _Lines:
        """Half of the lines for each direction."""
        swapped = np.repeat([0.0, 1.0], factor.shape[1] // 2)
        return cls(delta, factor, np.broadcast_to(swapped, factor.shape))


class _Bets:
    """One gambler for each claim: the bet on the next pair is the one that would have grown fastest on the past."""

    def __init__(self, lines: _Lines) -> None:
        claims = np.arange(len(lines.delta))
        self._lines, self._claims = lines, claims
        self.log_wealth = np.zeros(len(claims))
        self.highest = np.zeros(len(claims))
        self.column = np.zeros(len(claims), dtype=int)
        self.threshold, self.above = np.zeros(len(claims)), np.ones(len(claims), dtype=bool)
        self.line, self.stake = np.zeros(len(claims), dtype=int), np.zeros(len(claims))  # nothing is bet at first

    def update(self, member: Floats, nonmember: Floats) -> None:
        """Settle the bets on one pair."""
        rows = self._claims, self.line
        ours, theirs = ((each[self.column] >= self.threshold) == self.above for each in (member, nonmember))
        swapped = self._lines.swapped[rows] > 0
        for_it, against = np.where(swapped, theirs, ours), np.where(swapped, ours, theirs)
        payoff = for_it - self._lines.factor[rows] * against - self._lines.delta[rows]
        self.log_wealth = self.log_wealth + np.log1p(self.stake * payoff)
        self.highest = np.maximum(self.highest, self.log_wealth)

    def choose(self, members: Floats, nonmembers: Floats) -> None:
        """Bet anew, by the past pairs [runs, scores]."""
        cuts, columns, rates = [], [], []
        for i in range(members.shape[1]):
            kinds = np.sort(members[:, i]), np.sort(nonmembers[:, i])
            found = thresholds_between(np.unique(np.concatenate(kinds)))
            above = np.array([len(kind) - np.searchsorted(kind, found) for kind in kinds])
            cuts.append(found)
            columns.append(np.full(len(found), i))
            rates.append((above + 0.5) / (len(members) + 1))
        cut, column, above = np.concatenate(cuts), np.concatenate(columns), np.concatenate(rates, axis=1)
        rate = np.concatenate([above, 1 - above], axis=1)[:, None, None, :]  # [2, 1, 1, events]
        line = self._lines
        swapped, factor, delta = (each[..., None] for each in (line.swapped, line.factor, line.delta))
        p = np.where(swapped > 0, rate[1], rate[0])  # [claims, lines, events]
        q = np.where(swapped > 0, rate[0], rate[1])
        mean = p - factor * q - delta
        square = mean**2 + p * (1 - p) + factor**2 * q * (1 - q)
        stake = np.clip(mean / square, 0.0, STAKE / (factor + delta))
        growth = (
            p * (1 - q) * np.log1p(stake * (1 - delta))
            + p * q * np.log1p(stake * (1 - factor - delta))
            + (1 - p) * q * np.log1p(-stake * (factor + delta))
            + (1 - p) * (1 - q) * np.log1p(-stake * delta)
        ).reshape(len(self._claims), -1)
        best = growth.argmax(1)
        self.line, event = np.divmod(best, rate.shape[-1])
        self.stake = stake.reshape(len(self._claims), -1)[self._claims, best]
        self.threshold, self.column, self.above = cut[event % len(cut)], column[event % len(cut)], event < len(cut)


class Betting:
    """A sequential audit: after each pair of runs, one with the record and one without, whether the claim is refuted.

    Guarantees: if the claim is true, the probability that the wealth ever reaches ``1 / (1 - confidence)`` is at most
    ``1 - confidence``, so that one may look after each pair, stop when one likes, and go on. The argument: for any
    event A and any epsilon, a true claim has ``P[member in A] <= e^epsilon P[nonmember in A] + delta(epsilon)``, and
    the same with the two kinds exchanged. So the payoff ``1[member in A] - e^epsilon 1[nonmember in A] - delta`` has a
    mean of at most 0, whatever came before, if A, epsilon and the stake were chosen by earlier pairs alone; the wealth
    that is multiplied by ``1 + stake * payoff`` is a supermartingale that starts at 1 and stays positive, and Ville's
    inequality bounds its maximum. A is "the score is at least t" or "below it"; all is chosen by what would have made
    the wealth of the past grow fastest, after each tenth more of runs.

    Parameters
    ----------
    claim : PrivacyProfile
    confidence : float, in (0, 1)
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        In what the data sets of the two runs differ; by default as in the claim.

    Raises
    ------
    ValueError
        If the claim has another adjacency, or the confidence is outside its range.

    Source
    ------
    Gonzalez, Dulce-Rubio, Ramdas and Ribero (2025) for auditing by betting, there on kernel means; Ville (1939). The
    payoff is the definition of (epsilon, delta)-DP.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotes.accounting import gaussian
    >>> generator, audit = np.random.default_rng(0), Betting(gaussian(sigma=2.0))
    >>> while not audit.refuted:  # the noise has sigma = 1/2
    ...     audit.update(generator.normal(2.0), generator.normal())
    >>> audit.pairs < 100
    True
    """

    def __init__(self, claim: PrivacyProfile, *, confidence: float = 0.95, adjacency: str | None = None) -> None:
        self.claim, self.confidence = claim, checked_confidence(confidence)
        self.adjacency = runs_adjacency(claim, adjacency)
        self._bets = _Bets(_Lines.of(claim))
        self._past: list[tuple[Floats, Floats]] = []
        self._next = 1

    def update(self, member: ArrayLike, nonmember: ArrayLike) -> None:
        """Settle the bet on one more pair of runs, and choose the next.

        Parameters
        ----------
        member, nonmember : float or array_like, shape [scores]
            Scores of a run with the record and of one without it, as many in each call.

        Raises
        ------
        ValueError
            If a score is NaN, or there are not as many as before.
        """
        pair = tuple(np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (member, nonmember))
        shape = self._past[0][0].shape if self._past else pair[0].shape
        if any(each.shape != shape or each.ndim != 1 for each in pair):
            raise ValueError(
                f"member and nonmember must have shape {list(shape)}, got {[list(each.shape) for each in pair]}"
            )
        if any(np.isnan(each).any() for each in pair):
            raise ValueError("member and nonmember must hold no NaN; give a run that failed a score such as -inf")
        self._past.append((pair[0], pair[1]))
        self._bets.update(*pair)
        if len(self._past) >= self._next:
            self._next = _next(len(self._past))
            self._bets.choose(*self._stacked())

    @property
    def pairs(self) -> int:
        """Pairs of runs so far."""
        return len(self._past)

    @property
    def wealth(self) -> float:
        """What a wealth of 1 has become; infinite beyond the largest double."""
        with np.errstate(over="ignore"):
            return float(np.exp(self._bets.log_wealth[0]))

    @property
    def p_value(self) -> float:
        """1 over the largest wealth so far, a p-value that is valid at any time."""
        return math.exp(-float(self._bets.highest[0]))

    @property
    def refuted(self) -> bool:
        """Whether the wealth has ever reached 1 / (1 - confidence)."""
        return self.p_value <= 1 - self.confidence

    def epsilon(self, delta: float) -> float:
        """Anytime-valid lower bound of epsilon at one delta, on a fixed grid: all below it are refuted.

        It costs as many bets as the grid has values, on the past once more. Bounds at several deltas hold each by
        itself.

        Parameters
        ----------
        delta : float, in [0, 1]

        Returns
        -------
        float, >= 0
        """
        delta = check.real("delta", delta, high=1.0)
        factor = np.exp(EPSILON_GRID)[:, None].repeat(2, axis=1)
        return self._bound(EPSILON_GRID, _Lines.both(factor, np.full_like(factor, delta)))

    def delta(self, epsilon: float) -> float:
        """Anytime-valid lower bound of delta at one epsilon, as :meth:`epsilon`.

        Parameters
        ----------
        epsilon : float, >= 0

        Returns
        -------
        float, in [0, 1]
        """
        factor = np.full((len(DELTA_GRID), 2), math.exp(min(check.real("epsilon", epsilon), 50.0)))
        return self._bound(DELTA_GRID, _Lines.both(factor, DELTA_GRID[:, None].repeat(2, axis=1)))

    @property
    def mu(self) -> float:
        """Anytime-valid lower bound of mu, as :meth:`epsilon`."""
        epsilon = np.concatenate([[0.0], np.geomspace(0.05, 30, 15)])
        delta = np.array([gaussian(sigma=1 / mu).delta(epsilon) for mu in MU_GRID])
        factor = np.broadcast_to(np.exp(epsilon), delta.shape)
        return self._bound(MU_GRID, _Lines.both(np.tile(factor, 2), np.tile(delta, 2)))

    def _bound(self, grid: Floats, lines: _Lines) -> float:
        """The largest value of an ascending grid up to which all are refuted, 0 if the first is not."""
        refuted = self._replayed(lines) >= -math.log(1 - self.confidence)
        count = len(grid) if refuted.all() else int(np.argmin(refuted))
        return float(grid[count - 1]) if count else 0.0

    def _replayed(self, lines: _Lines) -> Floats:
        """Logarithms of the largest wealths of other bets on the same pairs, [claims]."""
        bets, following = _Bets(lines), 1
        members, nonmembers = self._stacked()
        for i, pair in enumerate(zip(members, nonmembers, strict=True), start=1):
            bets.update(*pair)
            if i >= following:
                following = _next(i)
                bets.choose(members[:i], nonmembers[:i])
        return bets.highest

    def _stacked(self) -> tuple[Floats, Floats]:
        """Scores so far with the record and without, [pairs, scores]."""
        return np.array([ours for ours, _ in self._past]), np.array([theirs for _, theirs in self._past])


def _next(pairs: int) -> int:
    return max(pairs + 1, math.ceil(GROWTH * pairs))
