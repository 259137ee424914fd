"""What the paper says of Figures 1 to 6, sentence by sentence, each put as a question to the rows.

The questions are of :mod:`dpnotes.lab.verdicts`; what is added here is which means a sentence is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpnotes.lab.private_prediction import grids
from dpnotes.lab.private_prediction.series import Series, series
from dpnotes.lab.tables import GAP
from dpnotes.lab.verdicts import (
    HOLDS,
    LEVEL,
    REVERSED,
    UNDECIDED,
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
    verdict,
)
from dpnotes.lab.verdicts import crossing as crossing_of

CURVES, FEWEST = ("n", "d", "n_classes", "l2", "n_models", "delta"), 3  # points that a curve needs
MS, LP, SGD, PS, SAA = grids.METHODS
PURE = grids.methods_at(0.0)
MANY = grids.RECORDS[-1]

Checked = tuple[Question, str]  # whether a sentence holds, and the evidence in words


class Statement(NamedTuple):
    """One sentence of the paper.

    Attributes
    ----------
    claim_id : str
        Of ``published/private_prediction_text.csv``.
    figure : str
    says : str
        In our words.
    check : callable
        ``check(look, *of) -> (question, evidence)``; ``look(method, x, delta)`` gives a series or raises LookupError.
    of : tuple
        What the check is about, a method before all, if it serves several sentences.
    """

    claim_id: str
    figure: str
    says: str
    check: Callable[..., Checked]
    of: tuple[Any, ...] = ()


class Look:
    """Curves of one analysis.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    analysis : {"published", "tight"}
    """

    def __init__(self, rows: pd.DataFrame, analysis: str):
        self._series = cache(partial(series, rows[rows["analysis"] == analysis], analysis=analysis))

    def __call__(self, method: str, x: str, delta: float = 0.0, **fixed: float) -> Series:
        """Curve of a method; the points with the values in ``fixed``."""
        found = self._series(method, x, delta=delta, **fixed)
        if found is None or (x in CURVES and len(found.x) < FEWEST):
            raise LookupError(method)
        return found

    def mean(self, method: str, x: str, value: float, delta: float = 0.0) -> Mean:
        """Mean accuracy of a method at one point; the accuracy of a released model is the same along x."""
        found = self(method, x, delta)
        return found.at(value if len(found.x) > 1 else float(found.x[0]))

    def means(self, x: str, value: float, delta: float = 0.0, methods: tuple[str, ...] = PURE) -> dict[str, Mean]:
        """Those of several methods."""
        return {method: self.mean(method, x, value, delta) for method in methods}


def statements(rows: pd.DataFrame) -> pd.DataFrame:
    """Every statement under the published and under the tight analysis.

    Returns
    -------
    DataFrame
        Columns id, figure, says, published and tight (a verdict; "gap" where it was not run), evidence (in words, of
        the tight rows where there are both).
    """
    looks = {analysis: Look(rows, analysis) for analysis in ("published", "tight")}
    found = []
    for statement in STATEMENTS:
        verdicts: dict[str, str] = {}
        evidence = ""
        for analysis, look in looks.items():
            try:
                question, evidence = statement.check(look, *statement.of)
                verdicts[analysis] = verdict(question)
            except LookupError:
                verdicts[analysis], evidence = "gap", ""
        found.append((*statement[:3], *verdicts.values(), evidence))
    return pd.DataFrame(found, columns=["id", "figure", "says", *looks, "evidence"])


def crossing(look: Look, delta: float) -> tuple[float, float]:
    """Up to which number of answers votes are ahead of loss perturbation, and from which on they are behind."""
    votes = look(SAA, "answers", delta)
    released = look.mean(LP, "epsilon", 1.0, delta)
    return crossing_of(votes.x.tolist(), [mean - released for mean in votes.means])


def crossing_at(rows: pd.DataFrame, *, analysis: str, delta: float) -> tuple[float, float]:
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
    return f"between B = {ahead:.0f} and {behind:.0f}" if math.isfinite(ahead) else f"from B = {behind:.0f} on"


def _listed(means: Mapping[str, Mean], pattern: str = ".3f") -> str:
    return ", ".join(f"{grids.NAMES[method]} {mean.value:{pattern}}" for method, mean in means.items())


def _leads(means: Mapping[str, Mean], first: str) -> Question:
    """Whether one method is ahead of each of the others."""
    return every(above(means[first] - mean) for method, mean in means.items() if method != first)


def _widths(x: np.ndarray[Any, Any]) -> list[float]:
    """Length of the range that each point stands for: the range of epsilon itself, not of its logarithm."""
    edges = [x[0], *((a + b) / 2 for a, b in pairwise(x)), x[-1]]
    return list(np.diff(edges))


def _first(look: Look, method: str, delta: float, at: str) -> Checked:
    grid = look(method, "epsilon", delta).x
    means = [look.means("epsilon", x, delta, grids.methods_at(delta)) for x in grid]
    leads = [_leads(each, method) for each in means]
    first = [f"{x:g}" for x, each in zip(grid, means, strict=True) if max(each, key=lambda m: each[m].value) == method]
    return most(leads, _widths(grid)) if at == "most" else every(leads), f"highest mean at {', '.join(first) or 'none'}"


def _loss_first_when_strong(look: Look) -> Checked:
    means = look.means("epsilon", float(look(MS, "epsilon").x[0]))
    return _leads(means, LP), _listed(means)


def _model_last(look: Look) -> Checked:
    grid = look(MS, "epsilon").x
    means = [look.means("epsilon", x, 0.0, (MS, SAA, LP)) for x in grid]
    lowest = [f"{x:g}" for x, each in zip(grid, means, strict=True) if min(each, key=lambda m: each[m].value) == MS]
    below = [every(above(each[other] - each[MS]) for other in (SAA, LP)) for each in means]
    return most(below, _widths(grid)), f"lowest mean at {', '.join(lowest) or 'none'}"


def _stands(look: Look, method: str, change: str) -> Checked:
    """Whether the mean place over epsilon changes; each place is known up to what the rows leave open."""
    shared = sorted(set(look(method, "epsilon").x) & set(look(method, "epsilon", 1e-5).x))

    def at(delta: float, level: float) -> tuple[float, float]:
        found = [places(look.means("epsilon", x, delta), method, level / len(shared) / 2) for x in shared]
        return tuple(np.mean(found, axis=0).tolist())

    def worse(level: float) -> Verdict:
        (best, worst), (best_loose, worst_loose) = at(0.0, level), at(1e-5, level)
        return HOLDS if best_loose > worst else REVERSED if worst_loose < best else UNDECIDED

    pure, loose = ("{:.1f} to {:.1f}".format(*at(delta, LEVEL)) for delta in (0.0, 1e-5))
    return worse if change == "worse" else opposite(worse), f"place {pure} at delta 0, {loose} at 1e-5 (without DP-SGD)"


def _prediction_poor(look: Look) -> Checked:
    settings = [(x, delta) for delta in (0.0, 1e-5) for x in look(PS, "epsilon", delta).x]
    means = [look.means("epsilon", x, delta, grids.methods_at(delta)) for x, delta in settings]
    last = sum(min(each, key=lambda m: each[m].value) == PS for each in means)
    behind = [above(mean - each[PS]) for each in means for method, mean in each.items() if method != PS]
    return every(behind), f"lowest mean at {last} of {len(settings)} settings"


def _votes_best_of_answers(look: Look) -> Checked:
    few = [x for x in look(SAA, "answers").x if x <= 60]
    leads = [look.mean(SAA, "answers", x) - look.mean(PS, "answers", x) for x in few]
    return every(map(above, leads)), f"lead {min(lead.value for lead in leads):+.3f} and more at B up to 60"


def _advantage_falls(look: Look) -> Checked:
    votes = look(SAA, "answers").means
    falls = [above(votes[0] - votes[-1]), *(above(a - b + 0.01) for a, b in pairwise(votes))]
    return every(falls), f"{votes[0].value:.3f} to {votes[-1].value:.3f}"


def _crossing_at_80(look: Look) -> Checked:
    votes, released = look(SAA, "answers"), look.mean(LP, "epsilon", 1.0)
    ahead, behind = votes.at(60.0) - released, released - votes.at(100.0)
    return every([above(ahead), above(behind)]), crossing_in_words(crossing(look, 0.0))


def _never_behind_votes(look: Look, method: str) -> Checked:
    votes, released = look(SAA, "answers", 1e-5), look.mean(method, "epsilon", 1.0, 1e-5)
    leads = [released - mean for mean in votes.means]
    behind = [x for x, lead in zip(votes.x, leads, strict=True) if lead.value < 0]
    return every(map(not_behind, leads)), f"lower mean up to B = {behind[-1]:.0f}" if behind else "at every B"


def _gains_from_delta(look: Look, method: str) -> Checked:
    pure, loose = (look.mean(method, "epsilon", 1.0, delta) for delta in (0.0, 1e-5))
    return above(loose - pure - 0.1), f"{pure.value:.3f} to {loose.value:.3f}"


def _works_at_small_delta(look: Look, method: str) -> Checked:
    small, large = (look.mean(method, "delta", delta) for delta in (1e-10, 1e-2))
    return above(small - large * 0.9), f"{small.value:.3f} at 1e-10, {large.value:.3f} at 1e-2"


def _needs_large_delta(look: Look) -> Checked:
    own, *others = (look.mean(method, "delta", 1e-5) for method in (PS, MS, SGD, SAA))
    least = min(other.value for other in others)
    return every(
        above(other * 0.9 - own) for other in others
    ), f"{own.value:.3f} at 1e-5, the others {least:.3f} and more"


def _votes_gain_most(look: Look) -> Checked:
    gains = {m: look.mean(m, "delta", 1e-2) - look.mean(m, "delta", 1e-10) for m in grids.METHODS}
    return _leads(gains, SAA), _listed(gains, "+.3f")


def _few_records(look: Look) -> Checked:
    means = look.means("n", 1000.0)
    return _leads(means, SAA), _listed(means) + " at 1000"


def _votes_gain_least(look: Look) -> Checked:
    gains = {m: look.mean(m, "n", MANY) - look.mean(m, "n", 10_000) for m in (SAA, LP, MS)}
    return every(above(gains[other] - gains[SAA]) for other in (LP, MS)), _listed(gains, "+.3f")


def _many_records(look: Look, method: str) -> Checked:
    own, votes = (look.mean(each, "n", MANY) for each in (method, SAA))
    return above(own - votes), f"{own.value:.3f} against {votes.value:.3f} at {MANY:.0f}"


def _few_dimensions(look: Look, method: str) -> Checked:
    few, all_ = (look.mean(method, "d", x) - look.mean(SAA, "d", x) for x in (20, 784))
    return above(few - all_), f"lead over the votes {few.value:+.3f} at 20, {all_.value:+.3f} at 784"


def _falls_with_classes(look: Look) -> Checked:
    ends = {method: [look(method, "n_classes").means[end] for end in (0, -1)] for method in PURE}
    words = ", ".join(
        f"{grids.NAMES[method]} {few.value:.2f} to {many.value:.2f}" for method, (few, many) in ends.items()
    )
    return every(above(few - many) for few, many in ends.values()), words


def _same_order(look: Look) -> Checked:
    """Of each two methods one is ahead at every number of classes."""
    grid = [x for x in look(PURE[0], "n_classes").x if x > 2]
    means = [look.means("n_classes", x) for x in grid]
    ordered = []
    for one, other in combinations(PURE, 2):
        leads = [above(each[one] - each[other]) for each in means]
        ordered.append(some([every(leads), every(map(opposite, leads))]))
    orders = {tuple(sorted(each, key=lambda m: -each[m].value)) for each in means}
    return every(ordered), f"{len(orders)} order{'s' * (len(orders) > 1)} of the means"


def _best_inside(look: Look, method: str, x: str) -> Checked:
    curves = {epsilon: look(method, x, epsilon=epsilon) for epsilon in grids.SETTING_EPSILONS}
    for curve in curves.values():
        curve.at({"l2": grids.PENALTIES, "n_models": grids.MODELS}[x][-1])  # to the end of the range, else it is a gap
    best = {epsilon: float(curve.x[curve.accuracy.argmax()]) for epsilon, curve in curves.items()}
    words = ", ".join(f"{value:g} (epsilon {epsilon:g})" for epsilon, value in best.items())
    return every(inside(curve.means) for curve in curves.values()), f"best at {words}"


STATEMENTS = (
    Statement(
        "pp033", "1a", "Subsample-and-aggregate is the most accurate at most epsilons.", _first, (SAA, 0.0, "most")
    ),
    Statement(
        "pp034", "1a", "Loss perturbation is the most accurate at the smallest epsilons.", _loss_first_when_strong
    ),
    Statement("pp035", "1a", "Model sensitivity stays below these two.", _model_last),
    Statement("pp036", "1b", "With delta = 1e-5 DP-SGD is the most accurate.", _first, (SGD, 1e-5, "all")),
    Statement("pp037", "1b", "Subsample-and-aggregate stands worse than at delta = 0.", _stands, (SAA, "worse")),
    Statement("pp038", "1b", "Model sensitivity stands better than at delta = 0.", _stands, (MS, "better")),
    Statement("pp039", "1", "Prediction sensitivity is poor throughout.", _prediction_poor),
    Statement(
        "pp040", "2a", "Of the methods that answer, votes are the better for few answers.", _votes_best_of_answers
    ),
    Statement("pp041", "2a", "Their advantage vanishes as the budget grows.", _advantage_falls),
    Statement("pp003", "2a", "Loss perturbation overtakes them at about B = 80.", _crossing_at_80),
    Statement(
        "pp042", "2b", "With delta = 1e-5 loss perturbation is level or ahead at every B.", _never_behind_votes, (LP,)
    ),
    Statement("pp043", "2b", "So is DP-SGD.", _never_behind_votes, (SGD,)),
    Statement("pp044", "2", "Loss perturbation gains much from delta > 0.", _gains_from_delta, (LP,)),
    Statement("pp045", "2", "Model sensitivity gains much from delta > 0.", _gains_from_delta, (MS,)),
    Statement("pp047", "3", "Loss perturbation works at very small delta.", _works_at_small_delta, (LP,)),
    Statement("pp048", "3", "DP-SGD works at very small delta.", _works_at_small_delta, (SGD,)),
    Statement("pp049", "3", "Model sensitivity works at very small delta.", _works_at_small_delta, (MS,)),
    Statement("pp050", "3", "Prediction sensitivity needs an unacceptable delta.", _needs_large_delta),
    Statement("pp051", "3", "Subsample-and-aggregate gains the most from delta.", _votes_gain_most),
    Statement("pp052", "4", "With few records votes are the most accurate.", _few_records),
    Statement("pp053", "4", "They gain less from more records.", _votes_gain_least),
    Statement("pp054", "4", "With many records loss perturbation does well.", _many_records, (LP,)),
    Statement("pp055", "4", "With many records model sensitivity does well.", _many_records, (MS,)),
    Statement("pp056", "5a", "Loss perturbation is more competitive in few dimensions.", _few_dimensions, (LP,)),
    Statement("pp057", "5a", "Model sensitivity is more competitive in few dimensions.", _few_dimensions, (MS,)),
    Statement("pp058", "5b", "Accuracy falls with the number of classes.", _falls_with_classes),
    Statement("pp059", "5b", "The order of the methods hardly depends on it.", _same_order),
    Statement("pp060", "6a", "Lambda has an optimum inside, which depends on epsilon.", _best_inside, (LP, "l2")),
    Statement("pp061", "6b", "So has the number of models.", _best_inside, (SAA, "n_models")),
)
