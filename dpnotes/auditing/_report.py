"""The report of an audit: whether the claim is refuted, and the lower bounds that
hold in any case.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpnotes.auditing._one_run import Guesses
    from dpnotes.auditing._scores import Events

DELTAS, EPSILONS = (0.0, 1e-5, 1e-2), (0.0, 1.0, 5.0)  # of which a text has the bounds
LOW_RATE = 0.001  # the false-positive rate of which a text has the true-positive rate


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
    claim : PrivacyProfile or None
        The guarantee that was tested; None if there was none.
    p_value : float, in [0, 1]
        If the claim is true, the probability of evidence at least this strong is at
        most ``p_value``, for any training procedure. Without a claim it is 1.
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
    """

    evidence: Events | Guesses
    claim: PrivacyProfile | None
    confidence: float
    adjacency: str
    strategy: str
    runs: int
    seconds: float
    tried: pd.DataFrame
    remarks: tuple[str, ...] = ()
    canary: tuple[NDArray[Any], Any] | None = None
    p_value: float = field(init=False)

    def __post_init__(self) -> None:
        p_value = 1.0 if self.claim is None else self.evidence.p_value(self.claim)
        object.__setattr__(self, "p_value", float(p_value))

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
        return _each(self.evidence.epsilon, check.array("delta", delta, high=1.0))

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
        return _each(self.evidence.delta, check.array("epsilon", epsilon))

    @property
    def mu(self) -> float:
        """Lower bound of mu, such that the training procedure is not mu-GDP for any
        smaller mu.

        The bound does not assume that the guarantee has Gaussian form.
        """
        return self.evidence.mu()

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
        rates = check.array("fpr", fpr, high=1.0)
        found = self.evidence.tpr(np.atleast_1d(rates).ravel()).reshape(rates.shape)
        return float(found) if found.ndim == 0 else found

    def plot(self, axes: Axes | None = None) -> Figure:
        """Plot the observed error rates (with a confidence band for independent runs),
        the claim's limit and the bound.

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
        self.evidence.draw(axes)
        if not np.isnan(bound := self.evidence.tpr(rates)).any():
            axes.plot(
                rates,
                1 - bound,
                "-",
                color="C3",
                label=f"bound, confidence {self.confidence:g}",
            )
        if self.claim is not None:
            axes.plot(
                rates,
                self.claim.tradeoff(rates),
                "--",
                color="k",
                label="least that the claim allows",
            )
        axes.plot(rates, 1 - rates, ":", color="0.6", label="guessing")
        axes.set(
            xlabel="false-positive rate",
            ylabel="false-negative rate",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axes.legend()
        return axes.get_figure(root=True)  # type: ignore[return-value]  # axes that are drawn have one

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        said = (
            "Audit without a claim"
            if self.claim is None
            else f"The claim is {verdict}, p-value {self.p_value:.2g}"
        )
        lines = [f"{said} (confidence {self.confidence:g})"]
        lines += [f"  {name}: {text}" for name, text in self._facts().items() if text]
        return "\n".join(
            textwrap.fill(line, 100, subsequent_indent="    ") for line in lines
        )

    __repr__ = __str__

    def _facts(self) -> dict[str, str]:
        claimed, rate = "", self.tpr(LOW_RATE)
        if self.claim is not None:
            pairs = ", ".join(
                f"epsilon {self.claim.epsilon(delta):.4g} at delta {delta:g}"
                for delta in DELTAS
            )
            claimed = f"{self.claim.mechanism}, {self.adjacency}: {pairs}"
        best = (
            f"true-positive rate at least {rate:.4g} at false-positive rate"
            f" {LOW_RATE:g}"
        )
        return {
            "claim": claimed,
            "epsilon at least": ", ".join(
                f"{self.epsilon(delta):.4g} at delta {delta:g}" for delta in DELTAS
            ),
            "delta at least": ", ".join(
                f"{self.delta(epsilon):.4g} at epsilon {epsilon:g}"
                for epsilon in EPSILONS
            ),
            "mu at least": f"{self.mu:.4g}",
            "best test": "" if np.isnan(rate) else best,
            "strategy": self.strategy,
            "runs": (
                f"{self.runs}"
                + ("" if np.isnan(self.seconds) else f", {self.seconds:.1f} s")
            ),
            "tried": f"{len(self.tried)} rows in .tried",
            "remarks": "; ".join(self.remarks),
        }


def _each(bound: Callable[[float], float], values: Floats) -> float | Floats:
    found = np.array([bound(float(value)) for value in values.ravel()]).reshape(
        values.shape
    )
    return float(found) if found.ndim == 0 else found


def draw_rates(
    axes: Axes, members: Floats, nonmembers: Floats, *, label: str
) -> tuple[Floats, Floats]:
    """Draw the error rates of all thresholds t, where ``score >= t`` means "member";
    return both rates.
    """
    cuts = np.concatenate(
        [[-np.inf], np.unique(np.concatenate([members, nonmembers])), [np.inf]]
    )
    fnr, tnr = (
        np.searchsorted(np.sort(kind), cuts) / len(kind)
        for kind in (members, nonmembers)
    )
    axes.step(1 - tnr, fnr, where="post", color="C0", label=label)
    return 1 - tnr, fnr
