"""What van der Maaten and Hannun say, put as questions to the rows: sentences on
Figures 1 to 6, and thirty arrows.

The sentences are lines of ``book/results/published/cells_private_prediction.csv``.
``check`` names the function here that asks, without its underscore, and ``method``,
``delta`` and ``of`` say about what. The questions are of :mod:`dpnotes.lab.verdicts`;
what is added here is which means a sentence is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import scorecard
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.private_prediction import grids
from dpnotes.lab.private_prediction.grids import ANSWERING, METHODS, MODELS, NAMES
from dpnotes.lab.private_prediction.tables import BASE, Series, put_together, series
from dpnotes.lab.scorecard import Cell, Ours
from dpnotes.lab.store import published_store, read_store
from dpnotes.lab.tables import GAP, show
from dpnotes.lab.verdicts import (
    HOLDS,
    LEVEL,
    REVERSED,
    UNDECIDED,
    UNTESTED,
    Mean,
    Question,
    Verdict,
    above,
    every,
    inside,
    most,
    not_behind,
    opposite,
    places,
    some,
    trend,
    verdict,
)
from dpnotes.lab.verdicts import crossing as crossing_of

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

# points that a curve needs
CURVES, FEWEST = ("n", "d", "n_classes", "l2", "n_models", "delta"), 3
MS, LP, SGD, PS, SAA = METHODS
PURE = grids.methods_at(0.0)
MANY = grids.RECORDS[-1]

Checked = tuple[Question, str]  # whether a sentence holds, and the evidence in words


def cells() -> list[Cell]:
    """All numbers and sentences on Figures 1 to 7, and the arrows.

    The figures are curves without printed numbers, so that their sentences are judged,
    with the paper's own constants; where these were not run, the sentence is a gap,
    whatever sound constants say. The networks of Figure 7 were not trained.
    """
    rows = put_together(
        *(
            read_store(published_store(f"private_prediction_{name}"))
            for name in grids.GRIDS
        )
    )
    times = read_store(published_store("private_prediction_times"))
    found = {}
    row: Any
    for row in statements(rows).itertuples():
        answer = None if row.published == "gap" else row.published
        found[row.id] = Ours(
            answer, tried=f"with sound constants: {row.tight} ({row.evidence})"
        )
    judged: dict[object, Verdict] = {True: HOLDS, False: REVERSED}
    for row in arrows(rows, times).itertuples():
        answer = judged.get(
            row.agrees, UNDECIDED if row.ours == UNDECIDED else UNTESTED
        )
        key = f"{row.quantity} as {row.hyperparameter} grows"
        found[key] = Ours(answer, tried=f"ours: {row.ours}; {row.evidence}")
    return scorecard.cells("private_prediction", found)


class Look:
    """Curves of one analysis.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    analysis : {"published", "tight"}
    """

    def __init__(self, rows: pd.DataFrame, analysis: str):
        self._series = cache(
            partial(series, rows[rows["analysis"] == analysis], analysis=analysis)
        )

    def __call__(
        self, method: str, x: str, delta: float = 0.0, **fixed: float
    ) -> Series:
        """Curve of a method; the points with the values in ``fixed``."""
        found = self._series(method, x, delta=delta, **fixed)
        if found is None or (x in CURVES and len(found.x) < FEWEST):
            raise LookupError(method)
        return found

    def mean(self, method: str, x: str, value: float, delta: float = 0.0) -> Mean:
        """Mean accuracy of a method at one point; the accuracy of a released model
        is the same along x.
        """
        found = self(method, x, delta)
        return found.at(value if len(found.x) > 1 else float(found.x[0]))

    def means(
        self, x: str, value: float, delta: float = 0.0, methods: tuple[str, ...] = PURE
    ) -> dict[str, Mean]:
        """Those of several methods."""
        return {method: self.mean(method, x, value, delta) for method in methods}


def statements(rows: pd.DataFrame) -> pd.DataFrame:
    """Every statement under the published and under the tight analysis.

    Returns
    -------
    DataFrame
        Columns id, figure, says, published and tight (a verdict; "gap" where it was not
        run), evidence (in words, of the tight rows where there are both).
    """
    looks = {analysis: Look(rows, analysis) for analysis in ("published", "tight")}
    table = paper_table("cells_private_prediction").dropna(subset=["check"])
    found = []
    line: Any
    for line in table.itertuples():
        verdicts: dict[str, str] = {}
        evidence = ""
        for analysis, look in looks.items():
            try:
                question, evidence = globals()[f"_{line.check}"](look, line)
                verdicts[analysis] = verdict(question)
            except LookupError:
                verdicts[analysis], evidence = "gap", ""
        found.append(
            (
                line.key,
                line.table.removeprefix("Figure "),
                line.cell,
                *verdicts.values(),
                evidence,
            )
        )
    return pd.DataFrame(found, columns=["id", "figure", "says", *looks, "evidence"])


def crossing(look: Look, delta: float) -> tuple[float, float]:
    """Up to which number of answers votes are ahead of loss perturbation, and from
    which on they are behind.
    """
    votes = look(SAA, "answers", delta)
    released = look.mean(LP, "epsilon", 1.0, delta)
    return crossing_of(votes.x.tolist(), [mean - released for mean in votes.means])


def crossing_at(
    rows: pd.DataFrame, *, analysis: str, delta: float
) -> tuple[float, float]:
    """The same for a page; NaN for a gap."""
    try:
        return crossing(Look(rows, analysis), delta)
    except LookupError:
        return math.nan, math.nan


def crossing_in_words(between: tuple[float, float]) -> str:
    """Numbers of answers of :func:`crossing_at` for a page."""
    ahead, behind = between
    if math.isnan(ahead):
        return GAP
    if math.isinf(behind):
        return "at no B that was run"
    return (
        f"between B = {ahead:.0f} and {behind:.0f}"
        if math.isfinite(ahead)
        else f"from B = {behind:.0f} on"
    )


def _listed(means: Mapping[str, Mean], pattern: str = ".3f") -> str:
    return ", ".join(
        f"{NAMES[method]} {mean.value:{pattern}}" for method, mean in means.items()
    )


def _leads(means: Mapping[str, Mean], first: str) -> Question:
    """Whether one method is ahead of each of the others."""
    return every(
        above(means[first] - mean) for method, mean in means.items() if method != first
    )


def _widths(x: np.ndarray[Any, Any]) -> list[float]:
    """Length of the range that each point stands for: the range of epsilon itself,
    not of its logarithm.
    """
    edges = [x[0], *((a + b) / 2 for a, b in pairwise(x)), x[-1]]
    return list(np.diff(edges))


def _first(look: Look, line: Any) -> Checked:
    method, delta = line.method, float(line.delta)
    grid = look(method, "epsilon", delta).x
    means = [look.means("epsilon", x, delta, grids.methods_at(delta)) for x in grid]
    leads = [_leads(each, method) for each in means]
    first = [
        f"{x:g}"
        for x, each in zip(grid, means, strict=True)
        if max(each, key=lambda m: each[m].value) == method
    ]
    return (
        most(leads, _widths(grid)) if line.of == "most" else every(leads)
    ), f"highest mean at {', '.join(first) or 'none'}"


def _loss_first_when_strong(look: Look, line: Any) -> Checked:
    means = look.means("epsilon", float(look(MS, "epsilon").x[0]))
    return _leads(means, LP), _listed(means)


def _model_last(look: Look, line: Any) -> Checked:
    grid = look(MS, "epsilon").x
    means = [look.means("epsilon", x, 0.0, (MS, SAA, LP)) for x in grid]
    lowest = [
        f"{x:g}"
        for x, each in zip(grid, means, strict=True)
        if min(each, key=lambda m: each[m].value) == MS
    ]
    below = [
        every(above(each[other] - each[MS]) for other in (SAA, LP)) for each in means
    ]
    return most(below, _widths(grid)), f"lowest mean at {', '.join(lowest) or 'none'}"


def _stands(look: Look, line: Any) -> Checked:
    """Whether the mean place over epsilon changes; each place is known up to what
    the rows leave open.
    """
    shared = sorted(
        set(look(line.method, "epsilon").x) & set(look(line.method, "epsilon", 1e-5).x)
    )

    def at(delta: float, level: float) -> tuple[float, float]:
        found = [
            places(
                look.means("epsilon", x, delta), line.method, level / len(shared) / 2
            )
            for x in shared
        ]
        return tuple(np.mean(found, axis=0).tolist())

    def worse(level: float) -> Verdict:
        (best, worst), (best_loose, worst_loose) = at(0.0, level), at(1e-5, level)
        return (
            HOLDS
            if best_loose > worst
            else REVERSED
            if worst_loose < best
            else UNDECIDED
        )

    pure, loose = (
        "{:.1f} to {:.1f}".format(*at(delta, LEVEL)) for delta in (0.0, 1e-5)
    )
    return (
        worse if line.of == "worse" else opposite(worse)
    ), f"mean place (without DP-SGD) {pure} at delta 0, {loose} at 1e-5"


def _prediction_poor(look: Look, line: Any) -> Checked:
    settings = [
        (x, delta) for delta in (0.0, 1e-5) for x in look(PS, "epsilon", delta).x
    ]
    means = [
        look.means("epsilon", x, delta, grids.methods_at(delta))
        for x, delta in settings
    ]
    last = sum(min(each, key=lambda m: each[m].value) == PS for each in means)
    behind = [
        above(mean - each[PS])
        for each in means
        for method, mean in each.items()
        if method != PS
    ]
    return every(behind), f"lowest mean at {last} of {len(settings)} settings"


def _votes_best_of_answers(look: Look, line: Any) -> Checked:
    few = [x for x in look(SAA, "answers").x if x <= 60]
    leads = [look.mean(SAA, "answers", x) - look.mean(PS, "answers", x) for x in few]
    return (
        every(map(above, leads)),
        f"lead of at least {min(lead.value for lead in leads):+.3f} at B up to 60",
    )


def _advantage_falls(look: Look, line: Any) -> Checked:
    votes = look(SAA, "answers").means
    falls = [
        above(votes[0] - votes[-1]),
        *(above(a - b + 0.01) for a, b in pairwise(votes)),
    ]
    return every(falls), f"{votes[0].value:.3f} to {votes[-1].value:.3f}"


def _crossing_at_80(look: Look, line: Any) -> Checked:
    votes, released = look(SAA, "answers"), look.mean(LP, "epsilon", 1.0)
    ahead, behind = votes.at(60.0) - released, released - votes.at(100.0)
    return every([above(ahead), above(behind)]), crossing_in_words(crossing(look, 0.0))


def _never_behind_votes(look: Look, line: Any) -> Checked:
    votes, released = (
        look(SAA, "answers", 1e-5),
        look.mean(line.method, "epsilon", 1.0, 1e-5),
    )
    leads = [released - mean for mean in votes.means]
    behind = [x for x, lead in zip(votes.x, leads, strict=True) if lead.value < 0]
    words = (
        f"mean below the votes up to B = {behind[-1]:.0f}"
        if behind
        else "mean never below the votes"
    )
    return every(map(not_behind, leads)), words


def _gains_from_delta(look: Look, line: Any) -> Checked:
    pure, loose = (
        look.mean(line.method, "epsilon", 1.0, delta) for delta in (0.0, 1e-5)
    )
    return above(loose - pure - 0.1), f"{pure.value:.3f} to {loose.value:.3f}"


def _works_at_small_delta(look: Look, line: Any) -> Checked:
    small, large = (look.mean(line.method, "delta", delta) for delta in (1e-10, 1e-2))
    return (
        above(small - large * 0.9),
        f"{small.value:.3f} at 1e-10, {large.value:.3f} at 1e-2",
    )


def _needs_large_delta(look: Look, line: Any) -> Checked:
    own, *others = (look.mean(method, "delta", 1e-5) for method in (PS, MS, SGD, SAA))
    least = min(other.value for other in others)
    return (
        every(above(other * 0.9 - own) for other in others),
        f"{own.value:.3f} at 1e-5, the others at least {least:.3f}",
    )


def _votes_gain_most(look: Look, line: Any) -> Checked:
    gains = {
        m: look.mean(m, "delta", 1e-2) - look.mean(m, "delta", 1e-10) for m in METHODS
    }
    return _leads(gains, SAA), _listed(gains, "+.3f")


def _few_records(look: Look, line: Any) -> Checked:
    means = look.means("n", 1000.0)
    return _leads(means, SAA), _listed(means) + " at 1000"


def _votes_gain_least(look: Look, line: Any) -> Checked:
    gains = {
        m: look.mean(m, "n", MANY) - look.mean(m, "n", 10_000) for m in (SAA, LP, MS)
    }
    return every(above(gains[other] - gains[SAA]) for other in (LP, MS)), _listed(
        gains, "+.3f"
    )


def _many_records(look: Look, line: Any) -> Checked:
    own, votes = (look.mean(each, "n", MANY) for each in (line.method, SAA))
    return (
        above(own - votes),
        f"{own.value:.3f} against {votes.value:.3f} at {MANY:.0f}",
    )


def _few_dimensions(look: Look, line: Any) -> Checked:
    few, all_ = (
        look.mean(line.method, "d", x) - look.mean(SAA, "d", x) for x in (20, 784)
    )
    return (
        above(few - all_),
        f"lead over the votes {few.value:+.3f} at 20, {all_.value:+.3f} at 784",
    )


def _falls_with_classes(look: Look, line: Any) -> Checked:
    ends = {
        method: [look(method, "n_classes").means[end] for end in (0, -1)]
        for method in PURE
    }
    words = ", ".join(
        f"{NAMES[method]} {few.value:.2f} to {many.value:.2f}"
        for method, (few, many) in ends.items()
    )
    return every(above(few - many) for few, many in ends.values()), words


def _same_order(look: Look, line: Any) -> Checked:
    """Of each two methods one is ahead at every number of classes."""
    grid = [x for x in look(PURE[0], "n_classes").x if x > 2]
    means = [look.means("n_classes", x) for x in grid]
    ordered = []
    for one, other in combinations(PURE, 2):
        leads = [above(each[one] - each[other]) for each in means]
        ordered.append(some([every(leads), every(map(opposite, leads))]))
    orders = {tuple(sorted(each, key=lambda m: -each[m].value)) for each in means}
    return every(ordered), f"{len(orders)} order{'s' * (len(orders) > 1)} of the means"


def _best_inside(look: Look, line: Any) -> Checked:
    curves = {
        epsilon: look(line.method, line.of, epsilon=epsilon)
        for epsilon in grids.SETTING_EPSILONS
    }
    for curve in curves.values():
        curve.at(
            {"l2": grids.PENALTIES, "n_models": grids.MODELS}[line.of][-1]
        )  # to the end of the range, else it is a gap
    best = {
        epsilon: float(curve.x[curve.accuracy.argmax()])
        for epsilon, curve in curves.items()
    }
    words = ", ".join(
        f"{value:g} (epsilon {epsilon:g})" for epsilon, value in best.items()
    )
    return every(inside(curve.means) for curve in curves.values()), f"best at {words}"


# letter, values, methods it is about
HYPERPARAMETERS: dict[str, tuple[str, tuple[float, ...], tuple[str, ...]]] = {
    "n": ("N", (10_000, 30_000, 60_000), METHODS),
    "n_classes": ("C", (2, 5, 10), METHODS),
    "d": ("D", (50, 200, 784), METHODS),
    "answers": ("B", (10, 100, 1000), ANSWERING),
    "n_models": ("T", (64, 256, 1024), ("subsample_aggregate",)),
    "l2": ("lambda", (1e-3, 1e-2, 1e-1), ("loss_perturbation",)),
}
VOTING = ("answers", "n_models")  # hyperparameters of the votes
TIMED = ("loss_perturbation", "subsample_aggregate")
SECONDS = {"training time": "train_seconds", "inference time": "predict_seconds"}
ARROWS = {
    "up": "↑",
    "down": "↓",
    "unchanged": "=",
    "up then down": "↑↓",
    "down then up": "↓↑",
    UNDECIDED: "?",
}
# a time whose logarithm to base 2 changes by less than this per doubling counts as
# unchanged
STEADY = 0.05


def privacy_loss(name: str, value: float) -> float:
    """Epsilon (delta = 0) at which the method spends noise of a fixed size, by the
    hyperparameter that is varied.

    Fixed is what a reader of the answers sees: the standard deviation of the noise on a
    logit of model sensitivity (N, D, C, lambda), the inverse temperature of the vote
    (B), or the temperature over the number of votes (T).
    """
    setting = BASE | {"l2": 1e-2} | {name: value}
    if name in VOTING:
        return float(_votes(name, setting).epsilon(0.0))
    return _shift(setting) * math.sqrt(setting["d"] * setting["n_classes"] + 1) / 0.05


def failure_probability(name: str, value: float) -> float:
    """Delta at epsilon = 1 of Gaussian noise (N, D, C, lambda) or votes (B, T),
    fixed as in :func:`privacy_loss`.
    """
    setting = BASE | {"l2": 1e-2} | {name: value}
    noise = (
        accounting.gaussian(sigma=0.02, sensitivity=_shift(setting))
        if name not in VOTING
        else _votes(name, setting)
    )
    return float(noise.delta(1.0))


def _votes(name: str, setting: dict[str, float]) -> accounting.PrivacyProfile:
    """Inverse temperature: fixed while B is varied, over the number of votes while T
    is, for epsilon as for delta.
    """
    beta = 0.03 if name == "answers" else 7.68 / setting["n_models"]
    return accounting.soft_vote(beta=beta, answers=int(setting["answers"]))


def _shift(setting: dict[str, float]) -> float:
    """Sensitivity of the minimiser."""
    n = int(setting["n"])
    return accounting.minimiser_sensitivity(
        lipschitz=math.sqrt(2), n=n, regulariser=setting["l2"]
    )


EXACT: dict[str, Callable[[str, float], float]] = {
    "privacy loss epsilon": privacy_loss,
    "privacy failure probability delta": failure_probability,
}
QUANTITIES = (*EXACT, "accuracy", *SECONDS)


def arrows(rows: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Published and recomputed directions: one row for each hyperparameter and
    quantity.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    times : DataFrame
        Rows of ``private_prediction_times``.

    Returns
    -------
    DataFrame
        Columns hyperparameter, quantity, published, ours (the direction of most
        methods, of those that are decided; empty: a gap), agrees (empty where nothing
        is decided), evidence (in words).
    """
    paper = (
        paper_table("private_prediction_text")
        .query("kind == 'table'")
        .set_index(["claim", "quantity"])["value"]
    )
    found = [
        (
            letter,
            quantity,
            paper[f"hyperparameter {letter}", quantity],
            *_direction(quantity, name, rows, times),
        )
        for name, (letter, *_) in HYPERPARAMETERS.items()
        for quantity in QUANTITIES
    ]
    table = pd.DataFrame(
        found, columns=["hyperparameter", "quantity", "published", "ours", "evidence"]
    )
    decided = table["ours"].notna() & (table["ours"] != UNDECIDED)
    agrees = (table["ours"] == table["published"]).where(decided, None)
    return table.assign(agrees=agrees)


def _direction(
    quantity: str, name: str, rows: pd.DataFrame, times: pd.DataFrame
) -> tuple[str | None, str]:
    """Direction of a quantity as a hyperparameter grows, None if it was not run, and
    the evidence in words.
    """
    if quantity in EXACT:
        values = np.array(
            [EXACT[quantity](name, value) for value in HYPERPARAMETERS[name][1]]
        )
        return (
            trend([Mean(value) for value in values], margin=0.0),
            f"exact, {values[0]:.3g} to {values[-1]:.3g}",
        )
    found = list(
        _accuracies(name, rows)
        if quantity == "accuracy"
        else _times(name, times, SECONDS[quantity])
    )
    if not found:
        return None, GAP
    directions = [direction for _, direction, _ in found if direction != UNDECIDED] or [
        UNDECIDED
    ]
    most = max(dict.fromkeys(directions), key=directions.count)
    return most, ", ".join(
        f"{NAMES[method]} {ARROWS[direction]} ({values})"
        for method, direction, values in found
    )


def _accuracies(name: str, rows: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Method, direction and ends: of each method's accuracy at (1, 0)."""
    for method in HYPERPARAMETERS[name][2]:
        points = series(rows, method, name)
        if (
            points is None
            or len(points.x) < FEWEST
            or (name == "n_models" and points.x[-1] != MODELS[-1])
        ):
            continue  # of models, the fall is not in sight
        yield (
            method,
            trend(points.means),
            f"{points.accuracy[0]:.3f} to {points.accuracy[-1]:.3f}",
        )


def _times(
    name: str, times: pd.DataFrame, metric: str
) -> Iterator[tuple[str, str, str]]:
    """Method, direction and rate: the regression of the seconds' logarithm on that
    of the hyperparameter.
    """
    for method in TIMED if metric in times else ():
        own = times[(times["method"] == method) & (times["varied"] == name)].dropna(
            subset=[metric]
        )
        if own[name].nunique() < 3:
            continue
        x, y = np.log2(own[name].astype(float)), np.log2(own[metric].astype(float))
        (rate, _), covariance = np.polyfit(x, y, 1, cov=True)
        variance = float(covariance[0, 0])
        slope = Mean(float(rate), variance, variance**2 / max(len(own) - 2, 1))
        yield (
            method,
            trend([Mean(0.0), slope], margin=STEADY),
            f"{2**rate:.2f} times per doubling",
        )


def show_arrows(table: pd.DataFrame) -> Styler:
    """The table as the chapter shows it: published | ours in each cell."""
    asterisk = table["agrees"].map({False: " *"}).fillna("")
    ours = table["ours"].map(ARROWS).fillna("?") + asterisk
    cells = table.assign(cell=table["published"].map(ARROWS) + " | " + ours)
    wide = cells.pivot_table(
        index="hyperparameter", columns="quantity", values="cell", aggfunc="first"
    )
    return show(
        wide.loc[
            [letter for letter, *_ in HYPERPARAMETERS.values()], [*QUANTITIES]
        ].reset_index(),
        caption=(
            "Direction of a quantity as a hyperparameter grows, all else equal: the"
            " paper's arrow | our arrow, the most frequent one of the methods. An"
            " asterisk marks a difference from the paper. A question mark means"
            " undecided or not run yet."
        ),
        names={
            "privacy loss epsilon": "epsilon",
            "privacy failure probability delta": "delta",
        },
    )
