"""The report of an audit: whether the claim is refuted, and the lower bounds that
hold in any case.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Floats, rounded, written
from dpnotes.accounting import PrivacyProfile
from dpnotes.auditing._region import (
    FINE,
    Counts,
    Curve,
    Frontier,
    least_delta,
    least_epsilon,
    least_mu,
    least_tpr,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# of which a text has the bounds
DELTAS = (0.0, 1e-5, 1e-2)
EPSILONS = (0.0, 1.0, 5.0)
LOW_RATE = 0.001  # the false-positive rate of which a text has the true-positive rate


@dataclass(frozen=True)
class Event:
    """An event that says "member", ``score >= threshold`` or ``score < threshold``,
    counted on runs that did not choose it.
    """

    score: str
    words: str
    level: float  # probability with which what is said of it may fail
    counts: Counts
    # scores of the runs that counted, [runs], turned so that higher is more like a
    # member
    members: Floats
    nonmembers: Floats


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The result of an audit: a verdict on the claim, and lower bounds on the privacy
    loss of the training procedure.

    Unless a remark says otherwise, all bounds hold jointly with probability at least
    ``confidence`` over the runs, for any training procedure. They show what one attack
    found. A better attack may find more, and a claim that is not refuted is not thereby
    proved.

    Attributes
    ----------
    events : tuple
        The events that were counted. The failure probability is divided among them.
    claim : PrivacyProfile or None
        The guarantee that was tested; None if there was none.
    confidence : float, in (0, 1)
        Smallest probability with which the bounds hold and a true claim is not refuted.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        Difference between the data sets of the two kinds of runs.
    strategy : str
        Method that found the evidence.
    runs : int
        Number of training runs that were scored.
    seconds : float
        Duration of the audit; NaN if only scores were given.
    tried : pandas.DataFrame
        All candidates that the audit chose from, and its choices; the failure
        probability accounts for all of them.
    remarks : tuple of str
        Further facts that a reader should know.
    canary : tuple, optional
        Features and label of the planted record, if a record was planted.
    part : float, in (0, 1]
        Share of the failure probability that this inspection of the runs has, if there
        were several.
    """

    events: tuple[Event, ...]
    claim: PrivacyProfile | None
    confidence: float
    adjacency: str
    strategy: str
    runs: int
    seconds: float
    tried: pd.DataFrame
    remarks: tuple[str, ...] = ()
    canary: tuple[NDArray[Any], Any] | None = None
    part: float = 1.0

    @cached_property
    def p_value(self) -> float:
        """If the claim is true, the probability of evidence at least this strong is at
        most ``p_value``, for any training procedure. Without a claim it is 1.
        """
        if self.claim is None:
            return 1.0
        curve = Curve.of(self.claim)
        # events share the level: a p-value is worth as much less as its share is
        # smaller
        whole = sum(event.level for event in self.events)
        found = [1.0]
        for event in self.events:
            log = float(event.counts.log_p_value(curve, 2 * FINE))
            found.append(math.exp(log) * whole / event.level)
        return min(1.0, min(found) / self.part)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, ``p_value <= 1 - confidence``; False without
        a claim.
        """
        return self.p_value <= 1 - self.confidence

    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """Bound epsilon from below: the training procedure is not (epsilon, delta)-DP
        for any smaller epsilon.

        Parameters
        ----------
        delta : float or array_like, in [0, 1]
            The delta at which to bound epsilon.

        Returns
        -------
        float or ndarray, >= 0
            Lower bounds of epsilon.

        Raises
        ------
        ValueError
            If a delta is outside [0, 1].
        """
        return self._best(least_epsilon, check.array("delta", delta, high=1.0))

    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """Bound delta from below: the training procedure is not (epsilon, delta)-DP for
        any smaller delta.

        Parameters
        ----------
        epsilon : float or array_like, >= 0
            The epsilon at which to bound delta.

        Returns
        -------
        float or ndarray, in [0, 1]
            Lower bounds of delta.

        Raises
        ------
        ValueError
            If an epsilon is negative or NaN.
        """
        return self._best(least_delta, check.array("epsilon", epsilon))

    @property
    def mu(self) -> float:
        """Lower bound of mu, such that the training procedure is not mu-GDP for any
        smaller mu.

        The bound does not assume that the guarantee has Gaussian form.
        """
        return max(float(least_mu(each)) for each in self._frontiers)

    def tpr(self, fpr: ArrayLike) -> float | Floats:
        """Bound the true-positive rate of the best membership test from below.

        Parameters
        ----------
        fpr : float or array_like, in [0, 1]
            False-positive rate of the test.

        Returns
        -------
        float or ndarray, in [0, 1]
            Lower bounds of the true-positive rate.

        Raises
        ------
        ValueError
            If a rate is outside [0, 1].
        """
        return self._best(least_tpr, check.array("fpr", fpr, high=1.0))

    def plot(self, axes: Axes | None = None) -> Figure:
        """Plot the error rates of the event that proves most, with their confidence
        limits, and what the claim allows; the shaded side contradicts the claim.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw on. Default: a new figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots(figsize=(5, 4.5), layout="constrained")[1]
        rates = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])
        if self.claim is not None:
            limit = self.claim.tradeoff(rates)
            name = "the claim allows no test here"
            axes.fill_between(rates, limit, color="C3", alpha=0.2, lw=0, label=name)
            axes.plot(rates, limit, color="C3", label="least that the claim allows")
        axes.plot(rates, 1 - rates, ":", color="0.6", label="guessing")
        # the event that was chosen for the claim
        event = self.events[0]
        counts = event.counts
        fpr = float(counts.false_positives / counts.negatives)
        fnr = float(1 - counts.true_positives / counts.positives)
        most_fpr, least_tpr = counts.frontier(event.level)
        limits = f"its limits, confidence {self.confidence:g}"
        axes.plot(most_fpr, 1 - least_tpr, color="C0", lw=1.5, label=limits)
        name = f"observed, {event.score}"
        axes.plot(fpr, fnr, "o", color="C0", ms=9, clip_on=False, label=name)
        axes.set(xlabel="false-positive rate", ylabel="false-negative rate")
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend()
        return axes.get_figure(root=True)  # type: ignore[return-value]  # axes that are drawn have one

    def __str__(self) -> str:
        said = "Audit without a claim"
        if self.claim is not None:
            verdict = "REFUTED" if self.refuted else "not refuted"
            said = f"The claim is {verdict}, p-value {self.p_value:.2g}"
        lines = [f"{said} (confidence {self.confidence:g})"]
        lines += [f"  {name}: {text}" for name, text in self._facts().items() if text]
        return "\n".join(
            textwrap.fill(line, 100, subsequent_indent="    ") for line in lines
        )

    __repr__ = __str__

    def _facts(self) -> dict[str, str]:
        facts = {}
        if self.claim is not None:
            claimed = _pairs("epsilon", self.claim.epsilon, "delta", DELTAS, up=True)
            facts["claim"] = f"{self.claim.mechanism}, {self.adjacency}: {claimed}"
        epsilons = _pairs("", self.epsilon, "delta", DELTAS)
        return facts | {
            "epsilon at least": epsilons,
            "delta at least": _pairs("", self.delta, "epsilon", EPSILONS),
            "mu at least": rounded(self.mu, up=False),
            "best test": (
                f"true-positive rate at least {rounded(float(self.tpr(LOW_RATE)), up=False)}"
                f" at false-positive rate {LOW_RATE:g}"
            ),
            "strategy": self.strategy,
            "runs": f"{self.runs}, {self.seconds:.1f} s".removesuffix(", nan s"),
            "tried": f"{len(self.tried)} rows in .tried",
            "remarks": "; ".join(self.remarks),
        }

    @cached_property
    def _frontiers(self) -> list[Frontier]:
        return [event.counts.frontier(event.level) for event in self.events]

    def _best(
        self, bound: Callable[[Frontier, float], Floats], values: Floats
    ) -> float | Floats:
        """Largest lower bound that an event gives, at each of ``values``."""
        found = np.empty(values.shape)
        for place, value in np.ndenumerate(values):
            found[place] = max(bound(each, value) for each in self._frontiers)
        return float(found) if found.ndim == 0 else found


def _pairs(
    name: str, of: Callable[[float], Any], at: str, values: Any, *, up: bool = False
) -> str:
    found = [
        f"{name} {rounded(of(v), up=up)} at {at} {written(v)}".strip() for v in values
    ]
    return ", ".join(found)
