"""What the paper says of Figures 1 to 6, sentence by sentence, each checked against the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpnotes.lab.private_prediction import grids
from dpnotes.lab.private_prediction.series import Series, series
from dpnotes.lab.tables import GAP

CONFIDENT = 2.0  # standard errors: what differs by less is a tie
CURVES, FEWEST = ("n", "d", "n_classes", "l2", "n_models", "delta"), 3  # points that a curve needs
MS, LP, SGD, PS, SAA = grids.METHODS
PURE = grids.methods_at(0.0)

Checked = tuple[bool, str]  # whether a sentence holds, and the evidence in words


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
        ``check(look, *of) -> (holds, evidence)``; ``look(method, x, delta)`` gives a series or raises LookupError.
    of : tuple
        What the check is about, a method before all, if it serves several sentences.
    analyses : tuple of str
        Analyses by which there are rows for it.
    """

    claim_id: str
    figure: str
    says: str
    check: Callable[..., Checked]
    of: tuple[Any, ...] = ()
    analyses: tuple[str, ...] = grids.ANALYSES


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

    def accuracy(self, method: str, x: str, value: float, delta: float = 0.0) -> float:
        """Mean accuracy of a method at one point."""
        return self(method, x, delta).at(value)[0]

    def ranked(self, epsilon: float, delta: float = 0.0, methods: tuple[str, ...] = PURE) -> list[str]:
        """Methods, the most accurate first."""
        return sorted(methods, key=lambda method: -self.accuracy(method, "epsilon", epsilon, delta))


def statements(rows: pd.DataFrame) -> pd.DataFrame:
    """Every statement under the published and under the tight analysis.

    Returns
    -------
    DataFrame
        Columns id, figure, says, published and tight ("holds", "fails", "gap" where it was not run, "not asked"),
        evidence (in words, of the tight rows where there are both).
    """
    looks = {analysis: Look(rows, analysis) for analysis in ("published", "tight")}
    found = []
    for statement in STATEMENTS:
        verdicts, evidence = dict.fromkeys(looks, "not asked"), ""
        for analysis in [name for name in looks if name in statement.analyses]:
            try:
                holds, evidence = statement.check(looks[analysis], *statement.of)
                verdicts[analysis] = "holds" if holds else "fails"
            except LookupError:
                verdicts[analysis], evidence = "gap", ""
        found.append((*statement[:3], *verdicts.values(), evidence))
    return pd.DataFrame(found, columns=["id", "figure", "says", *looks, "evidence"])


def ahead(one: Series, other: Series, x: float) -> float:
    """Lead of one over the other at x, 0 where it is within two standard errors."""
    (a, ea), (b, eb) = one.at(x), other.at(x if len(other.x) > 1 else float(other.x[0]))
    return a - b if abs(a - b) > CONFIDENT * math.hypot(ea, eb) else 0.0


def crossing(look: Look, delta: float) -> float:
    """Number of answers from which on loss perturbation is ahead of subsample-and-aggregate, interpolated in log B.

    It is infinite if it does not come to that.
    """
    votes = look(SAA, "answers", delta)
    lead = votes.accuracy - look.accuracy(LP, "epsilon", 1.0, delta)
    behind = np.flatnonzero(lead < 0)
    if not len(behind):
        return math.inf
    first = int(behind[0])
    if first == 0:
        return float(votes.x[0])
    fraction = lead[first - 1] / (lead[first - 1] - lead[first])
    return math.exp(np.interp(fraction, [0, 1], np.log(votes.x[first - 1 : first + 1])))


def crossing_at(rows: pd.DataFrame, *, analysis: str, delta: float) -> float:
    """The same for a page; NaN for a gap."""
    try:
        return crossing(Look(rows, analysis), delta)
    except LookupError:
        return math.nan


def crossing_in_words(answers: float) -> str:
    """Number of answers of :func:`crossing_at` for a page."""
    if math.isnan(answers):
        return GAP
    return f"from B = {answers:.0f} on" if math.isfinite(answers) else "at no B that was run"


def _listed(values: Mapping[str, float], pattern: str) -> str:
    return ", ".join(f"{grids.NAMES[method]} {value:{pattern}}" for method, value in values.items())


def _first(look: Look, method: str, delta: float, at: str) -> Checked:
    grid = look(method, "epsilon", delta).x
    first = sum(look.ranked(x, delta, grids.methods_at(delta))[0] == method for x in grid)
    holds = first > len(grid) / 2 if at == "most" else first == len(grid)
    return holds, f"first at {first} of {len(grid)} epsilons"


def _loss_first_when_strong(look: Look) -> Checked:
    first = look.ranked(float(look(MS, "epsilon").x[0]))[0]
    return first == LP, f"first is {grids.NAMES[first]}"


def _model_last(look: Look) -> Checked:
    model = look(MS, "epsilon")
    behind = sum(all(ahead(look(other, "epsilon"), model, x) >= 0 for other in (SAA, LP)) for x in model.x)
    return behind > len(model.x) / 2, f"not ahead of either at {behind} of {len(model.x)} epsilons"


def _stands(look: Look, method: str, change: str) -> Checked:
    shared = sorted(set(look(method, "epsilon").x) & set(look(method, "epsilon", 1e-5).x))
    pure, loose = (float(np.mean([look.ranked(x, d).index(method) + 1 for x in shared])) for d in (0.0, 1e-5))
    holds = loose > pure if change == "worse" else loose < pure
    return holds, f"mean place {pure:.1f} at delta 0, {loose:.1f} at 1e-5 (DP-SGD left out)"


def _prediction_poor(look: Look) -> Checked:
    settings = [(x, delta) for delta in (0.0, 1e-5) for x in look(PS, "epsilon", delta).x]
    last = sum(look.ranked(x, delta, grids.methods_at(delta))[-1] == PS for x, delta in settings)
    return last == len(settings), f"last at {last} of {len(settings)} settings"


def _votes_best_of_answers(look: Look) -> Checked:
    votes, noisy = look(SAA, "answers"), look(PS, "answers")
    few = [x for x in votes.x if x <= 60]
    best = sum(ahead(votes, noisy, x) >= 0 for x in few)
    return best == len(few), f"ahead or level at {best} of {len(few)} budgets up to 60"


def _advantage_falls(look: Look) -> Checked:
    votes = look(SAA, "answers").accuracy
    return bool(votes[-1] < votes[0] and (np.diff(votes) < 0.01).all()), f"{votes[0]:.3f} to {votes[-1]:.3f}"


def _crossing_at_80(look: Look) -> Checked:
    answers = crossing(look, 0.0)
    return 60 <= answers <= 110, crossing_in_words(answers)


def _never_behind_votes(look: Look, method: str) -> Checked:
    votes, (released, error) = look(SAA, "answers", 1e-5), look(method, "epsilon", 1e-5).at(1.0)
    behind = votes.x[votes.accuracy - released > CONFIDENT * np.hypot(votes.error, error)]
    return not len(behind), f"behind up to B = {behind[-1]:.0f}" if len(behind) else "at every B"


def _gains_from_delta(look: Look, method: str) -> Checked:
    pure, loose = (look.accuracy(method, "epsilon", 1.0, delta) for delta in (0.0, 1e-5))
    return loose - pure > 0.1, f"{pure:.3f} to {loose:.3f}"


def _works_at_small_delta(look: Look, method: str) -> Checked:
    small, large = (look.accuracy(method, "delta", delta) for delta in (1e-10, 1e-2))
    return small > 0.9 * large, f"{small:.3f} at 1e-10, {large:.3f} at 1e-2"


def _needs_large_delta(look: Look) -> Checked:
    own, *others = (look.accuracy(method, "delta", 1e-5) for method in (PS, MS, SGD, SAA))
    return own < 0.9 * min(others), f"{own:.3f} at 1e-5, the others {min(others):.3f} and more"


def _votes_gain_most(look: Look) -> Checked:
    gains = {m: look.accuracy(m, "delta", 1e-2) - look.accuracy(m, "delta", 1e-10) for m in grids.METHODS}
    return max(gains, key=lambda method: gains[method]) == SAA, _listed(gains, "+.3f")


def _few_records(look: Look) -> Checked:
    accuracies = {method: look.accuracy(method, "n", 1000.0) for method in PURE}
    first = max(accuracies, key=lambda method: accuracies[method])
    return first == SAA, _listed(accuracies, ".3f") + " at 1000"


def _votes_gain_least(look: Look) -> Checked:
    gains = {m: float(look(m, "n").accuracy[-1]) - look.accuracy(m, "n", 10_000) for m in (SAA, LP, MS)}
    return gains[SAA] < min(gains[LP], gains[MS]), _listed(gains, "+.3f")


def _many_records(look: Look, method: str) -> Checked:
    own, votes = look(method, "n"), look(SAA, "n")
    most = min(own.x[-1], votes.x[-1])
    return ahead(own, votes, most) > 0, f"{own.at(most)[0]:.3f} against {votes.at(most)[0]:.3f} at {most:.0f}"


def _few_dimensions(look: Look, method: str) -> Checked:
    few, all_ = (look.accuracy(method, "d", x) - look.accuracy(SAA, "d", x) for x in (20, 784))
    return few > all_, f"lead over the votes {few:+.3f} at 20, {all_:+.3f} at 784"


def _falls_with_classes(look: Look) -> Checked:
    ends = {method: look(method, "n_classes").accuracy[[0, -1]] for method in PURE}
    words = ", ".join(f"{grids.NAMES[method]} {a:.2f} to {b:.2f}" for method, (a, b) in ends.items())
    return all(a > b for a, b in ends.values()), words


def _same_order(look: Look) -> Checked:
    curves = [look(method, "n_classes") for method in PURE]
    orders = {tuple(np.argsort([-curve.at(x)[0] for curve in curves])) for x in curves[0].x if x > 2}
    return len(orders) == 1, f"{len(orders)} orders"


def _best_inside(look: Look, method: str, x: str) -> Checked:
    curves = {epsilon: look(method, x, epsilon=epsilon) for epsilon in grids.SETTING_EPSILONS}
    for curve in curves.values():
        curve.at({"l2": grids.PENALTIES, "n_models": grids.MODELS}[x][-1])  # to the end of the range, else it is a gap
    best = {epsilon: float(curve.x[curve.accuracy.argmax()]) for epsilon, curve in curves.items()}
    inside = all(curve.x[0] < best[epsilon] < curve.x[-1] for epsilon, curve in curves.items())
    return inside, "best at " + ", ".join(f"{value:g} (epsilon {epsilon:g})" for epsilon, value in best.items())


ONE = ("tight",)
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
    Statement("pp047", "3", "Loss perturbation works at very small delta.", _works_at_small_delta, (LP,), ONE),
    Statement("pp048", "3", "DP-SGD works at very small delta.", _works_at_small_delta, (SGD,), ONE),
    Statement("pp049", "3", "Model sensitivity works at very small delta.", _works_at_small_delta, (MS,)),
    Statement("pp050", "3", "Prediction sensitivity needs an unacceptable delta.", _needs_large_delta, (), ONE),
    Statement("pp051", "3", "Subsample-and-aggregate gains the most from delta.", _votes_gain_most, (), ONE),
    Statement("pp052", "4", "With few records votes are the most accurate.", _few_records, (), ONE),
    Statement("pp053", "4", "They gain less from more records.", _votes_gain_least, (), ONE),
    Statement("pp054", "4", "With many records loss perturbation does well.", _many_records, (LP,), ONE),
    Statement("pp055", "4", "With many records model sensitivity does well.", _many_records, (MS,), ONE),
    Statement("pp056", "5a", "Loss perturbation is more competitive in few dimensions.", _few_dimensions, (LP,), ONE),
    Statement("pp057", "5a", "Model sensitivity is more competitive in few dimensions.", _few_dimensions, (MS,), ONE),
    Statement("pp058", "5b", "Accuracy falls with the number of classes.", _falls_with_classes, (), ONE),
    Statement("pp059", "5b", "The order of the methods hardly depends on it.", _same_order, (), ONE),
    Statement("pp060", "6a", "Lambda has an optimum inside, which depends on epsilon.", _best_inside, (LP, "l2"), ONE),
    Statement("pp061", "6b", "So has the number of models.", _best_inside, (SAA, "n_models"), ONE),
)
