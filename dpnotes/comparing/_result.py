"""The result of a comparison: a table with intervals, the best method ready to fit,
and a figure.
"""

from __future__ import annotations

import copy
import html
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dpnotes.accounting import PrivacyProfile, PrivacyStatement
from dpnotes.comparing._candidates import MAJORITY, NO_PRIVACY, Task
from dpnotes.comparing._selection import COST, with_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.05  # at which an interval, or a winner among all methods, may be wrong
# the same, for whether a method helps at all: an interval of one standard error
HELPS = 0.32
COLUMNS = (
    *("method", "accuracy", "low", "high", "gap", "released"),
    *("exactness", "implementation", "status", "seconds", "noise"),
)
WIDTH = 100  # characters of a printed comparison
ORIGIN = {
    "shape": (
        "The choice was made on synthetic tables of this shape. It looked at no record,"
        " and it reveals nothing."
    ),
    "public": (
        "The choice was made on this table, which was declared public. "
        "On private records this choice would be a leak."
    ),
    "private": (
        "Blocks of records made the choice by a vote, which costs a part of epsilon. "
        "Accuracies are on synthetic tables."
    ),
}
GUESS = (
    "The accuracies below are therefore not the accuracies on your table. If the"
    " classes depend on combinations of columns, this choice can be far off."
)
ASK = f' With data="private" your records vote, which costs {COST:g} of your epsilon.'


class Interval(NamedTuple):
    """A mean with its limits."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`dpnotes.comparing.compare`.

    Attributes
    ----------
    scores : pandas.DataFrame
        Accuracies on held-out records, one row for each method, epsilon and repeat; the
        splits and the settings are the same at all epsilons.
    about : pandas.DataFrame
        The release, the guarantee and the setting of each method.
    left_out : mapping
        Reasons why methods were not compared, by name.
    task : Task
        The task of the comparison.
    data : {"shape", "public", "private"}
        The data on which the choice was made.
    shared : float
        Fraction of the variance of one repeat's accuracy that remains in the mean of
        many repeats, because the repeats share records.
    estimators, settings : mapping
        Unfitted pipelines and chosen parameters, by the name of the method.
    remarks : tuple of str
        Further facts that a reader should know.
    read_off : tuple of str
        Facts that were not declared and count as public.
    fallback : str
        Reason why a requested private choice was not made.
    choice : str or None
        The method that a private choice selected.
    profile : PrivacyProfile or None
        Guarantee of the private choice, which composes with the guarantee of the fit;
        None without a private choice.
    """

    scores: pd.DataFrame = field(repr=False)
    about: pd.DataFrame = field(repr=False)
    left_out: Mapping[str, str]
    task: Task
    data: str
    shared: float
    estimators: Mapping[str, Any] = field(repr=False)
    settings: Mapping[str, Mapping[str, Any]] = field(repr=False)
    remarks: tuple[str, ...] = ()
    read_off: tuple[str, ...] = ()
    fallback: str = ""
    choice: str | None = None
    profile: PrivacyProfile | None = None

    # the worth of a choice on synthetic tables for the user's own table
    guess: ClassVar[str] = GUESS

    def accuracy(self, method: str, epsilon: float | None = None) -> Interval:
        """Mean accuracy over splits and noise with its 95 % interval; with a single
        repeat the limits are NaN.
        """
        mean, low, high = self._interval(self._repeats(epsilon)[method].dropna())
        return (
            Interval(mean, max(low, 0.0), min(high, 1.0))
            if low == low
            else Interval(mean, low, high)
        )

    def difference(self, one: str, other: str, *, level: float = LEVEL) -> Interval:
        """Mean difference between the accuracies of two methods on the same splits,
        with a paired interval.

        Parameters
        ----------
        one, other : str
            Names of methods.
        level : float, in (0, 1)
            One minus the confidence level of the interval.
        """
        repeats = self._repeats(None)
        return self._interval((repeats[one] - repeats[other]).dropna(), level)

    @property
    def table(self) -> pd.DataFrame:
        """Table of the methods by falling accuracy; methods that were left out are
        last, with the reason as status.

        The columns are method, accuracy and its limits low and high, gap (mean accuracy
        lost compared with no privacy), released ("model" or "answers"), exactness,
        implementation and status of the guarantee, seconds of one fit, and noise.
        """
        means = {name: self.accuracy(name) for name in self.about.index}
        top = means[NO_PRIVACY].mean if NO_PRIVACY in means else np.nan
        rows = [
            {
                "method": name,
                **dict(zip(("accuracy", "low", "high"), found, strict=True)),
                "gap": top - found.mean,
            }
            | {column: self.about.loc[name, column] for column in COLUMNS[5:]}
            for name, found in sorted(means.items(), key=lambda pair: -pair[1].mean)
        ]
        rows += [
            {"method": name, "status": reason} for name, reason in self.left_out.items()
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    @property
    def private(self) -> list[str]:
        """Methods with a guarantee, except the majority class, in order of falling
        accuracy.

        Methods with a conjectured or refuted guarantee are left out.
        """
        sound = self.about[
            ~self.about["status"].isin(["", "refuted", "conjecture"])
        ].index.drop(MAJORITY, errors="ignore")
        return sorted(sound, key=lambda name: -self.accuracy(name).mean)

    @property
    def chosen(self) -> str:
        """Name of the method that :attr:`best` uses.

        If a private choice was made, this is the method that it selected. Otherwise it
        is the method of :attr:`private` with the highest mean accuracy, or the majority
        class if this mean is not high enough.

        On a public table, the method with the highest mean must beat the majority by
        more than a standard error. On synthetic tables its mean must only be higher,
        because these tables differ so much that a few of them show little. Moreover,
        choosing the majority class where a method helps costs a user more than choosing
        a method where none helps.
        """
        if self.choice:
            return self.choice
        for name in self.private[:1]:
            lead = (
                self.difference(name, MAJORITY, level=HELPS)
                if MAJORITY in self.about.index
                else None
            )
            if lead is None or (lead.low if self.data == "public" else lead.mean) > 0:
                return name
        return MAJORITY

    @property
    def best(self) -> Any:
        """Unfitted pipeline that prepares rows by public bounds, then applies the
        chosen method with its setting.
        """
        from sklearn.base import clone

        return clone(self.estimators[self.chosen])

    def statement(
        self, fitted: Any, *, declared: Mapping[str, str] | None = None, **given: Any
    ) -> PrivacyStatement:
        """State the joint guarantee of the choice of the method and of its fit, for
        signature and as JSON.

        Parameters
        ----------
        fitted : Pipeline
            The pipeline :attr:`best` after the fit. Its guarantee may depend on the
            number of records, so it is known only after the fit.
        declared : mapping of str to str, optional
            See :func:`dpnotes.accounting.statement`.
        **given
            The arguments ``delta`` (default: the delta of the comparison), ``epsilon``,
            ``n_public`` and ``audit`` of :func:`dpnotes.accounting.statement`.

        Returns
        -------
        PrivacyStatement
            The statement; its JSON reproduces the same page.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the pipeline is not fitted.
        ValueError, TypeError
            See :func:`dpnotes.accounting.statement`.

        Source
        ------
        :func:`dpnotes.accounting.compose`.
        """
        from sklearn.utils.validation import check_is_fitted

        estimator = copy.copy(fitted[-1])
        check_is_fitted(estimator)
        tuning = f"{ORIGIN[self.data]} Cost of the choice: none."
        if self.profile is not None:
            estimator.profile_ = with_choice(
                self.profile, estimator.profile_, self.task.epsilon, self.task.delta
            )
            tuning = (
                f"{ORIGIN[self.data]} Cost of the choice: epsilon"
                f" {self.profile.epsilon(0.0):g}."
            )
        prepared = "Each row is prepared separately, by public bounds and categories."
        if self.read_off:
            said = (
                "facts that were read off the records count as public:"
                f" {' and '.join(self.read_off)}"
            )
            estimator.profile_ = estimator.profile_.with_(
                assumption=f"{estimator.profile_.assumption}; {said}"
            )
            prepared = f"Each row is prepared separately; {said}."
        told = {"preparation": prepared, **(declared or {}), "tuning": tuning}
        given = {"delta": self.task.delta, "unprotected": self.read_off, **given}
        result: PrivacyStatement = estimator.statement_(declared=told, **given)
        return result

    @property
    def winner(self) -> str | None:
        """Method that is shown to be ahead of every other method, or None if there is
        none.

        The comparisons with all other methods together have the level 5 %.
        """
        first, *others = self.private or [MAJORITY]
        part = LEVEL / max(1, len(others))
        return (
            first
            if all(
                self.difference(first, other, level=part).low > 0 for other in others
            )
            else None
        )

    def plot(self, axes: Axes | None = None) -> Figure:
        """Plot mean accuracy against epsilon, with 95 % bands; the settings are chosen
        for the requested epsilon.

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

            axes = pyplot.subplots(figsize=(6.5, 4.5), layout="constrained")[1]
        for place, name in enumerate([*self.private, MAJORITY]):
            own = self.scores[self.scores["method"] == name]
            at = np.sort(own["epsilon"].unique())
            mean, low, high = np.array(
                [self.accuracy(name, epsilon) for epsilon in at]
            ).T
            (line,) = axes.plot(at, mean, "os^vDPX*<>"[place % 10] + "-", label=name)
            axes.fill_between(at, low, high, alpha=0.15, color=line.get_color())
        if NO_PRIVACY in self.about.index:
            axes.axhline(
                self.accuracy(NO_PRIVACY).mean,
                color="k",
                linestyle=":",
                label=NO_PRIVACY,
            )
        axes.set(
            xscale="log",
            xlabel="epsilon (logarithmic)",
            ylabel="accuracy on held-out records",
        )
        axes.legend(fontsize="small")
        return axes.get_figure(root=True)  # type: ignore[return-value]  # axes that are drawn have one

    def __str__(self) -> str:
        left_out: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            left_out.setdefault(reason, []).append(name)
        lines = [
            *self.lines(),
            "",
            self._printed().to_string(
                index=False, float_format="{:.3f}".format, na_rep=""
            ),
            "",
        ]
        lines += [
            f"Left out: {', '.join(names)}: {reason}."
            for reason, names in left_out.items()
        ]
        wrapped = (
            line if "\n" in line else textwrap.fill(line, WIDTH) for line in lines
        )
        return "\n".join(wrapped).rstrip()

    def _printed(self) -> pd.DataFrame:
        """Columns that fit on a printed line: the accuracy and the guarantee."""
        table = self.table[~self.table["method"].isin(self.left_out)]
        released = ["released"] if self.task.answers is not None else []
        shown = table[
            [
                "method",
                "accuracy",
                "low",
                "high",
                *released,
                "exactness",
                "implementation",
                "status",
            ]
        ]
        return (
            shown
            if self.data == "public"
            else shown.rename(columns={"accuracy": "accuracy (synthetic)"})
        )

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.lines())
        table = self.table.rename(
            columns=(
                {} if self.data == "public" else {"accuracy": "accuracy (synthetic)"}
            )
        )
        return lines + table.to_html(
            index=False, float_format="{:.3f}".format, na_rep="", escape=True
        )

    def lines(self) -> list[str]:
        """List the sentences shown above the table: data of the choice, task, best
        method, whether it wins, remarks.
        """
        task, chosen = self.task, self.chosen
        asked = (
            "any number of answers"
            if task.answers is None
            else f"{task.answers} answers"
        )
        setting = str(self.about.loc[chosen, "setting"])
        suffix = f" ({setting})" if setting else ""
        paid = (
            ""
            if self.profile is None
            else f", and {self.profile.epsilon(0.0):g} for the choice"
        )
        guess = self.guess if self.data == "shape" else ""
        guess += ASK if guess and not self.fallback else ""
        lines = [
            f"{self.fallback} {ORIGIN[self.data]} {guess}".strip(),
            (
                f"epsilon {task.epsilon:g}{paid}, delta {task.delta:g}, one record made"
                f" empty, {asked}; {task.n} records, {task.d} features,"
                f" {len(task.classes)} classes; {len(self._repeats(None))} repeats."
            ),
            f"Best: {chosen}{suffix}. {self._standing()}",
        ]
        return lines + [f"Note: {remark}." for remark in self.remarks]

    def _standing(self) -> str:
        if self.choice:
            return "The blocks of records chose it by a noisy vote."
        if self.chosen == MAJORITY:
            return (
                "No method is shown to be better than always answering with the most"
                " frequent class."
            )
        if self.winner:
            return (
                "It is ahead of every other"
                f" method{'' if self.data == 'public' else ' on these tables'}."
            )
        others = [
            name for name in [*self.private[1:], MAJORITY] if name in self.about.index
        ]
        tied = [
            name for name in others if not self.difference(self.chosen, name).low > 0
        ]
        if tied:
            return (
                "No winner: the comparison does not distinguish it from"
                f" {', '.join(tied)}."
            )
        return (
            "No winner: it is shown to be ahead of each method separately, but not of"
            " all methods together."
        )

    def _repeats(self, epsilon: float | None) -> pd.DataFrame:
        """Accuracies by repeat and method."""
        at = np.isclose(
            self.scores["epsilon"], self.task.epsilon if epsilon is None else epsilon
        )
        return self.scores[at].pivot_table(
            index="repeat", columns="method", values="accuracy"
        )

    def _interval(self, values: pd.Series, level: float = LEVEL) -> Interval:
        count, mean = len(values), float(values.mean())
        if count < 2:
            return Interval(mean, np.nan, np.nan)
        error = float(values.std(ddof=1)) * np.sqrt(1 / count + self.shared)
        reach = float(stats.t.isf(level / 2, count - 1)) * error
        return Interval(mean, mean - reach, mean + reach)
