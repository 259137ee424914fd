"""What the paper says of Figures 1 to 6, sentence by sentence, each checked against the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpnotes.lab import tables
from dpnotes.lab.private_prediction.grids import METHODS, MODELS, NAMES, PENALTIES, methods_at
from dpnotes.lab.private_prediction.series import Series, series

CONFIDENT = 2.0  # standard errors: what differs by less is a tie
CURVES, FEWEST = ("n", "d", "n_classes", "l2", "n_models", "delta"), 3  # points that a curve needs
MS, LP, SGD, PS, SAA = METHODS


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
        ``check(look) -> (holds, evidence)``; ``look(method, x, delta)`` gives a series or raises LookupError.
    analyses : tuple of str
        Analyses by which there are rows for it.
    """

    claim_id: str
    figure: str
    says: str
    check: Callable[[Look], tuple[bool, str]]
    analyses: tuple[str, ...] = ("published", "tight")


class Look(NamedTuple):
    """Rows of one analysis."""

    rows: pd.DataFrame
    analysis: str

    def __call__(self, method: str, x: str, delta: float = 0.0, **fixed: float) -> Series:
        """Curve of a method; the points with the values in ``fixed``."""
        found = series(self.rows, method, x, analysis=self.analysis, delta=delta, **fixed)
        if found is None or (x in CURVES and len(found.x) < FEWEST):
            raise LookupError(method)
        return found


def statements(rows: pd.DataFrame) -> pd.DataFrame:
    """Every statement under the published and under the tight analysis.

    Returns
    -------
    DataFrame
        Columns id, figure, says, published, tight ("holds", "does not hold", or that it was not run), evidence.
    """
    found = []
    for statement in STATEMENTS:
        verdicts, evidence = {}, ""
        for analysis in ("published", "tight"):
            verdicts[analysis] = ""
            if analysis in statement.analyses:
                try:
                    holds, evidence = statement.check(Look(rows, analysis))
                    verdicts[analysis] = "holds" if holds else "does not hold"
                except LookupError:
                    verdicts[analysis], evidence = tables.GAP, ""
        found.append(
            {
                "id": statement.claim_id,
                "figure": statement.figure,
                "says": statement.says,
                **verdicts,
                "evidence": evidence,
            }
        )
    return pd.DataFrame(found)


def ahead(one: Series, other: Series, x: float) -> float:
    """Lead of one over the other at x, 0 where it is within two standard errors."""
    (a, ea), (b, eb) = one.at(x), other.at(x if len(other.x) > 1 else float(other.x[0]))
    return a - b if abs(a - b) > CONFIDENT * math.hypot(ea, eb) else 0.0


def crossing(look: Look, delta: float) -> tuple[float, str]:
    """Number of answers from which on loss perturbation is ahead of subsample-and-aggregate, interpolated in log B."""
    votes, released = look(SAA, "answers", delta), look(LP, "epsilon", delta).at(1.0)[0]
    lead = votes.accuracy - released
    behind = np.flatnonzero(lead < 0)
    if not len(behind):
        return math.inf, f"not up to B = {votes.x[-1]:.0f}"
    first = int(behind[0])
    if first == 0:
        return float(votes.x[0]), f"from B = {votes.x[0]:.0f} on"
    share = lead[first - 1] / (lead[first - 1] - lead[first])
    where = math.exp(np.interp(share, [0, 1], np.log(votes.x[first - 1 : first + 1])))
    return where, f"from B = {where:.0f} on"


def crossing_in_words(rows: pd.DataFrame, *, analysis: str, delta: float) -> str:
    """The same for a page, gaps named."""
    try:
        return crossing(Look(rows, analysis), delta)[1]
    except LookupError:
        return tables.GAP


def crossing_at(rows: pd.DataFrame, *, analysis: str, delta: float) -> float:
    """The same as a number; NaN for a gap."""
    try:
        return crossing(Look(rows, analysis), delta)[0]
    except LookupError:
        return math.nan


def _ranked(look: Look, delta: float, epsilon: float, methods: tuple[str, ...]) -> list[str]:
    return sorted(methods, key=lambda method: -look(method, "epsilon", delta).at(epsilon)[0])


def _votes_first(look: Look) -> tuple[bool, str]:
    grid = look(SAA, "epsilon").x
    first = [x for x in grid if _ranked(look, 0.0, x, methods_at(0.0))[0] == SAA]
    return len(first) > len(grid) / 2, f"first at {len(first)} of {len(grid)} epsilons"


def _loss_first_when_strong(look: Look) -> tuple[bool, str]:
    first = _ranked(look, 0.0, float(look(MS, "epsilon").x[0]), methods_at(0.0))[0]
    return first == LP, f"first is {NAMES[first]}"


def _model_last(look: Look) -> tuple[bool, str]:
    model = look(MS, "epsilon")
    behind = [x for x in model.x if all(ahead(look(o, "epsilon"), model, x) >= 0 for o in (SAA, LP))]
    return len(behind) > len(model.x) / 2, f"not ahead of either at {len(behind)} of {len(model.x)} epsilons"


def _sgd_first(look: Look) -> tuple[bool, str]:
    grid = look(SGD, "epsilon", 1e-5).x
    first = [x for x in grid if _ranked(look, 1e-5, x, METHODS)[0] == SGD]
    return len(first) == len(grid), f"first at {len(first)} of {len(grid)} epsilons"


def _standing(method: str, better: bool) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        shared = sorted(set(look(method, "epsilon").x) & set(look(method, "epsilon", 1e-5).x))
        places = [[_ranked(look, delta, x, methods_at(0.0)).index(method) + 1 for x in shared] for delta in (0.0, 1e-5)]
        before, after = (float(np.mean(place)) for place in places)
        holds = after < before if better else after > before
        return holds, f"mean place {before:.1f} at delta 0, {after:.1f} at 1e-5 (DP-SGD left out)"

    return check


def _prediction_poor(look: Look) -> tuple[bool, str]:
    last = [
        _ranked(look, delta, x, methods_at(delta))[-1] == PS
        for delta in (0.0, 1e-5)
        for x in look(PS, "epsilon", delta).x
    ]
    return all(last), f"last at {sum(last)} of {len(last)} settings"


def _votes_best_of_answers(look: Look) -> tuple[bool, str]:
    votes, noisy = look(SAA, "answers"), look(PS, "answers")
    few = [x for x in votes.x if x <= 60]
    best = [x for x in few if ahead(votes, noisy, x) >= 0]
    return len(best) == len(few), f"ahead or level at {len(best)} of {len(few)} budgets up to 60"


def _advantage_falls(look: Look) -> tuple[bool, str]:
    votes = look(SAA, "answers").accuracy
    return bool(votes[-1] < votes[0] and (np.diff(votes) < 0.01).all()), f"{votes[0]:.3f} to {votes[-1]:.3f}"


def _crossing_at_80(look: Look) -> tuple[bool, str]:
    where, words = crossing(look, 0.0)
    return 60 <= where <= 110, words


def _training_level(method: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        votes, (released, error) = look(SAA, "answers", 1e-5), look(method, "epsilon", 1e-5).at(1.0)
        behind = votes.x[votes.accuracy - released > CONFIDENT * np.hypot(votes.error, error)]
        return not len(behind), "at every B" if not len(behind) else f"behind up to B = {behind[-1]:.0f}"

    return check


def _gains(method: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        pure, loose = look(method, "epsilon").at(1.0)[0], look(method, "epsilon", 1e-5).at(1.0)[0]
        return loose - pure > 0.1, f"{pure:.3f} to {loose:.3f}"

    return check


def _works_at_small_delta(method: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        own = look(method, "delta")
        small, large = own.at(1e-10)[0], own.at(1e-2)[0]
        return small > 0.9 * large, f"{small:.3f} at 1e-10, {large:.3f} at 1e-2"

    return check


def _needs_large_delta(look: Look) -> tuple[bool, str]:
    own = look(PS, "delta")
    others = [look(method, "delta").at(1e-5)[0] for method in (MS, SGD, SAA)]
    here = own.at(1e-5)[0]
    return here < 0.9 * min(others), f"{here:.3f} at 1e-5, the others {min(others):.3f} and more"


def _votes_gain_most(look: Look) -> tuple[bool, str]:
    gains = {}
    for method in METHODS:
        own = look(method, "delta")
        gains[method] = own.at(1e-2)[0] - own.at(1e-10)[0]
    most = max(gains, key=lambda method: gains[method])
    return most == SAA, ", ".join(f"{NAMES[method]} {gain:+.3f}" for method, gain in gains.items())


def _few_records(look: Look) -> tuple[bool, str]:
    smallest = 1000.0
    accuracies = {method: look(method, "n").at(smallest)[0] for method in methods_at(0.0)}
    first = max(accuracies, key=lambda method: accuracies[method])
    return first == SAA, ", ".join(f"{NAMES[m]} {a:.3f}" for m, a in accuracies.items()) + f" at {smallest:.0f}"


def _votes_gain_least(look: Look) -> tuple[bool, str]:
    gains = {}
    for method in (SAA, LP, MS):
        own = look(method, "n")
        gains[method] = float(own.accuracy[-1] - own.at(10_000)[0])
    words = ", ".join(f"{NAMES[method]} {gain:+.3f}" for method, gain in gains.items())
    return gains[SAA] < min(gains[LP], gains[MS]), words


def _many_records(method: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        own, votes = look(method, "n"), look(SAA, "n")
        most = min(own.x[-1], votes.x[-1])
        return ahead(own, votes, most) > 0, f"{own.at(most)[0]:.3f} against {votes.at(most)[0]:.3f} at {most:.0f}"

    return check


def _few_dimensions(method: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        own, votes = look(method, "d"), look(SAA, "d")
        leads = [own.at(x)[0] - votes.at(x)[0] for x in (20, 784)]
        return leads[0] > leads[1], f"lead over the votes {leads[0]:+.3f} at 20, {leads[1]:+.3f} at 784"

    return check


def _falls_with_classes(look: Look) -> tuple[bool, str]:
    drops = {method: look(method, "n_classes").accuracy[[0, -1]] for method in methods_at(0.0)}
    return all(a > b for a, b in drops.values()), ", ".join(
        f"{NAMES[method]} {a:.2f} to {b:.2f}" for method, (a, b) in drops.items()
    )


def _same_order(look: Look) -> tuple[bool, str]:
    curves = [look(method, "n_classes") for method in methods_at(0.0)]
    orders = {tuple(np.argsort([-curve.at(x)[0] for curve in curves])) for x in curves[0].x if x > 2}
    return len(orders) == 1, f"{len(orders)} orders"


def _best_inside(method: str, x: str) -> Callable[[Look], tuple[bool, str]]:
    def check(look: Look) -> tuple[bool, str]:
        best = []
        for epsilon in (0.5, 1.0, 5.0):
            own = look(method, x, epsilon=epsilon)
            own.at({"l2": PENALTIES, "n_models": MODELS}[x][-1])  # to the end of the range, else it is a gap
            best.append((epsilon, float(own.x[int(own.accuracy.argmax())]), own.x[0], own.x[-1]))
        inside = all(low < where < high for _, where, low, high in best)
        return inside, "best at " + ", ".join(f"{where:g} (epsilon {epsilon:g})" for epsilon, where, _, _ in best)

    return check


ONE = ("tight",)
STATEMENTS = (
    Statement("pp033", "1a", "Subsample-and-aggregate is the most accurate at most epsilons.", _votes_first),
    Statement(
        "pp034", "1a", "Loss perturbation is the most accurate at the smallest epsilons.", _loss_first_when_strong
    ),
    Statement("pp035", "1a", "Model sensitivity stays below these two.", _model_last),
    Statement("pp036", "1b", "With delta = 1e-5 DP-SGD is the most accurate.", _sgd_first),
    Statement("pp037", "1b", "Subsample-and-aggregate stands worse than at delta = 0.", _standing(SAA, better=False)),
    Statement("pp038", "1b", "Model sensitivity stands better than at delta = 0.", _standing(MS, better=True)),
    Statement("pp039", "1", "Prediction sensitivity is poor throughout.", _prediction_poor),
    Statement(
        "pp040", "2a", "Of the methods that answer, votes are the better for few answers.", _votes_best_of_answers
    ),
    Statement("pp041", "2a", "Their advantage vanishes as the budget grows.", _advantage_falls),
    Statement("pp003", "2a", "Loss perturbation overtakes them at about B = 80.", _crossing_at_80),
    Statement("pp042", "2b", "With delta = 1e-5 loss perturbation is level or ahead at every B.", _training_level(LP)),
    Statement("pp043", "2b", "So is DP-SGD.", _training_level(SGD)),
    Statement("pp044", "2", "Loss perturbation gains much from delta > 0.", _gains(LP)),
    Statement("pp045", "2", "Model sensitivity gains much from delta > 0.", _gains(MS)),
    Statement("pp047", "3", "Loss perturbation works at very small delta.", _works_at_small_delta(LP), ONE),
    Statement("pp048", "3", "DP-SGD works at very small delta.", _works_at_small_delta(SGD), ONE),
    Statement("pp049", "3", "Model sensitivity works at very small delta.", _works_at_small_delta(MS)),
    Statement("pp050", "3", "Prediction sensitivity needs an unacceptable delta.", _needs_large_delta, ONE),
    Statement("pp051", "3", "Subsample-and-aggregate gains the most from delta.", _votes_gain_most, ONE),
    Statement("pp052", "4", "With few records votes are the most accurate.", _few_records, ONE),
    Statement("pp053", "4", "They gain less from more records.", _votes_gain_least, ONE),
    Statement("pp054", "4", "With many records loss perturbation does well.", _many_records(LP), ONE),
    Statement("pp055", "4", "With many records model sensitivity does well.", _many_records(MS), ONE),
    Statement("pp056", "5a", "Loss perturbation is more competitive in few dimensions.", _few_dimensions(LP), ONE),
    Statement("pp057", "5a", "Model sensitivity is more competitive in few dimensions.", _few_dimensions(MS), ONE),
    Statement("pp058", "5b", "Accuracy falls with the number of classes.", _falls_with_classes, ONE),
    Statement("pp059", "5b", "The order of the methods hardly depends on it.", _same_order, ONE),
    Statement("pp060", "6a", "Lambda has an optimum inside, which depends on epsilon.", _best_inside(LP, "l2"), ONE),
    Statement("pp061", "6b", "So has the number of models.", _best_inside(SAA, "n_models"), ONE),
)
