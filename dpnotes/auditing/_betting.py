"""Sequential audits: bets against the claim, which refute it once their wealth is
large enough.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile
from dpnotes.auditing._scores import event_rates, runs_adjacency, thresholds_between

# a claim's lines
DELTAS = np.array(
    [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
)
GROWTH = 1.1  # by which the runs grow until the bet is chosen again
STAKE = 0.9  # largest fraction of the wealth that one pair can lose


class _Bet(NamedTuple):
    """A bet that scores of runs with the record are beyond a threshold more often
    than the claim allows.
    """

    column: int = 0
    threshold: float = 0.0
    above: bool = True
    factor: float = 1.0  # e^epsilon, at which it is claimed
    delta: float = 0.0
    swapped: bool = False  # that the one without the record is
    stake: float = 0.0  # nothing is bet at first

    def payoff(self, member: Floats, nonmember: Floats) -> float:
        pair = (nonmember, member) if self.swapped else (member, nonmember)
        likelier, other = [
            bool(each[self.column] >= self.threshold) == self.above for each in pair
        ]
        return likelier - self.factor * other - self.delta


class Betting:
    """Test a claim sequentially, after each pair of one run with the record and one run
    without it.

    Guarantees: if the claim is true, the probability that the wealth of the bets, which
    starts at 1, ever reaches ``1 / (1 - confidence)`` is at most ``1 - confidence``.
    Therefore you may inspect the wealth after each pair, stop at any time, and continue
    later. The argument: for any event A and any epsilon, a true claim has ``P[member in
    A] <= e^epsilon P[nonmember in A] + delta(epsilon)``, and the same with the two
    kinds exchanged. Hence the payoff ``1[member in A] - e^epsilon 1[nonmember in A] -
    delta`` has a mean of at most 0, whatever came before, if A, epsilon and the stake
    were chosen only from earlier pairs. The wealth, which each pair multiplies by ``1 +
    stake * payoff``, is then a supermartingale that starts at 1 and stays positive, and
    Ville's inequality bounds its maximum. A is "the score is at least t" or "the score
    is below t". A, epsilon and the stake are chosen again each time the number of runs
    has grown by a tenth, to maximise the growth of the wealth over the past pairs.

    Parameters
    ----------
    claim : PrivacyProfile
        The guarantee to test.
    confidence : float, in (0, 1)
        Smallest probability with which a true claim is never refuted.
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        How the data sets of the two runs differ. Default: the adjacency of the claim.

    Raises
    ------
    ValueError
        If ``adjacency`` is not the adjacency of the claim, or ``confidence`` is outside
        its range.

    Source
    ------
    Gonzalez, Dulce-Rubio, Ramdas and Ribero (2025) for auditing by betting, with bets
    on kernel means; Ville (1939). The payoff is the definition of (epsilon, delta)-DP.

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

    def __init__(
        self,
        claim: PrivacyProfile,
        *,
        confidence: float = 0.95,
        adjacency: str | None = None,
    ) -> None:
        self.claim = claim
        self.confidence = check.level("confidence", confidence)
        self.adjacency = runs_adjacency(claim, adjacency)
        # epsilons of the claim at many deltas, and 0: the lines that it may be bet
        # against
        levels = np.unique(np.append(np.asarray(claim.epsilon(DELTAS)), 0.0))
        epsilon = levels[levels < 50]
        ways = (None, None) if self.adjacency == "replace-one" else ("remove", "add")
        self._factor = np.exp(epsilon)  # [lines]
        # [2, lines]
        self._delta = np.stack([claim.delta(epsilon, direction=way) for way in ways])
        self._past: list[tuple[Floats, Floats]] = []
        self._log_wealth = self._highest = 0.0
        self._bet = _Bet()
        self._next = 1

    def update(self, member: ArrayLike, nonmember: ArrayLike) -> None:
        """Settle the bet on one more pair of runs, and choose the next bet.

        Parameters
        ----------
        member, nonmember : float or array_like, shape [scores]
            Scores of a run with the record, and of a run without it. Each call must
            give the same number of scores.

        Raises
        ------
        ValueError
            If a score is NaN, or the number of scores differs from earlier calls.
        """
        pair = tuple(
            np.atleast_1d(np.asarray(each, dtype=np.float64))
            for each in (member, nonmember)
        )
        shape = self._past[0][0].shape if self._past else pair[0].shape
        if any(each.shape != shape or each.ndim != 1 for each in pair):
            raise ValueError(
                f"member and nonmember must have shape {list(shape)}, got"
                f" {[list(each.shape) for each in pair]}"
            )
        if any(np.isnan(each).any() for each in pair):
            raise ValueError(
                "member and nonmember must hold no NaN; give a failed run a score such"
                " as -inf"
            )
        self._past.append((pair[0], pair[1]))
        # the wealth as a logarithm, as it may exceed the largest double
        self._log_wealth += math.log1p(self._bet.stake * self._bet.payoff(*pair))
        self._highest = max(self._highest, self._log_wealth)
        # a new bet is made of past pairs alone, before the next pair is seen
        if self.pairs >= self._next:
            self._next = max(self.pairs + 1, math.ceil(GROWTH * self.pairs))
            self._bet = self._best()

    @property
    def pairs(self) -> int:
        """Number of pairs of runs so far."""
        return len(self._past)

    @property
    def wealth(self) -> float:
        """Current wealth, which starts at 1; infinite if it exceeds the largest
        double.
        """
        with np.errstate(over="ignore"):
            return float(np.exp(self._log_wealth))

    @property
    def p_value(self) -> float:
        """One divided by the largest wealth so far, a p-value that is valid at any
        time.
        """
        return math.exp(-self._highest)

    @property
    def refuted(self) -> bool:
        """Whether the wealth has ever reached 1 / (1 - confidence)."""
        return self.p_value <= 1 - self.confidence

    def _best(self) -> _Bet:
        """Bet whose wealth would have grown fastest over the past pairs."""
        events: list[tuple[int, float, bool]] = []
        rates = []
        # [2, pairs] of each score
        for column, kinds in enumerate(np.array(self._past).transpose(2, 1, 0)):
            cuts = thresholds_between(np.unique(kinds))
            for above in (True, False):
                events += [(column, float(cut), above) for cut in cuts]
            rates.append(np.stack([event_rates(kind, cuts) for kind in kinds]))
        # [2, 1, events], of either kind and of the other one
        p = np.concatenate(rates, axis=1)[:, None]
        q = p[::-1]
        factor = self._factor[:, None]
        delta = self._delta[..., None]
        # mean and second moment of the payoff, by the rates of the past
        mean = p - factor * q - delta
        square = mean**2 + p * (1 - p) + factor**2 * q * (1 - q)
        # the growth is largest near mean / second moment; the wealth stays positive
        stake = np.clip(mean / square, 0.0, STAKE / (factor + delta))
        # mean of the logarithm over the four outcomes of a pair
        growth = (
            p * (1 - q) * np.log1p(stake * (1 - delta))
            + p * q * np.log1p(stake * (1 - factor - delta))
            + (1 - p) * q * np.log1p(-stake * (factor + delta))
            + (1 - p) * (1 - q) * np.log1p(-stake * delta)
        )
        way, line, event = np.unravel_index(growth.argmax(), growth.shape)
        return _Bet(
            *events[event],
            factor=float(self._factor[line]),
            delta=float(self._delta[way, line]),
            swapped=bool(way),
            stake=float(stake[way, line, event]),
        )
