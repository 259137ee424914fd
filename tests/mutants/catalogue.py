"""Wrong versions of the rule of verdicts, and of the code that turns runs into published numbers, with their tests.

Each is put into the package as those of the claims are (:mod:`tests.claims.mutants`); the tests named must fail then.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.claims.mutants import Mutant, applied

LAB = "dpnotes.lab"


@dataclass(frozen=True)
class Wrong:
    """A mutant, what it does in words, and the tests that must notice."""

    mutant: Mutant
    fault: str
    tests: tuple[str, ...]


def of(place: str, tests: str | Sequence[str], *pieces: tuple[str, str, str]) -> list[Wrong]:
    """Mutants of one place: (fault, old, new)."""
    files = tuple(f"tests/lab/{name}" for name in ([tests] if isinstance(tests, str) else tests))
    return [Wrong(Mutant(f"{LAB}.{place}", old, new, ()), fault, files) for fault, old, new in pieces]


RULE = "test_verdicts.py"
ROWS = "test_rows.py"
VERDICTS: list[Wrong] = [
    *of(
        "verdicts:Mean.of",
        RULE,
        ("std of runs for that of their mean", "std**2 / runs", "std**2"),
        ("a degree of freedom too many", "freedom = runs - 1 if", "freedom = runs if"),
        ("unknown errors are none", "cls(value, math.inf)", "cls(value, 0.0)"),
    ),
    *of("verdicts:Mean.__add__", RULE, ("error of one side", "self.variance + other.variance", "self.variance")),
    *of("verdicts:Mean.__sub__", RULE, ("a sum for a difference", "other * -1.0", "other * 1.0")),
    *of("verdicts:Mean.__mul__", RULE, ("variance not squared", "factor**2 * self", "abs(factor) * self")),
    *of(
        "verdicts:Mean.interval",
        RULE,
        ("normal for Student's t", "stats.t.isf(level, self.freedom)", "stats.norm.isf(level)"),
        ("half the level", "stats.t.isf(level,", "stats.t.isf(level / 2,"),
        ("twice the level", "stats.t.isf(level,", "stats.t.isf(2 * level,"),
        ("not from the error but its square", "math.sqrt(self.variance) * float", "self.variance * float"),
    ),
    *of(
        "verdicts:above",
        RULE,
        ("turned around", "HOLDS if low > 0 else REVERSED if high < 0", "REVERSED if low > 0 else HOLDS if high < 0"),
        ("means without errors", "HOLDS if low > 0 else REVERSED if high", "HOLDS if high > 0 else REVERSED if high"),
        ("never reversed", "REVERSED if high < 0 else UNDECIDED", "UNDECIDED"),
        ("never a tie", "(-margin < low and high < margin)", "False"),
        ("a tie by one end", "-margin < low and high < margin", "-margin < low or high < margin"),
    ),
    *of(
        "verdicts:not_behind",
        RULE,
        ("the margin on the other side", "low > -margin", "low > margin"),
        ("reversed beyond the margin alone", "REVERSED if high < 0", "REVERSED if high < -margin"),
    ),
    *of(
        "verdicts:level",
        RULE,
        ("two chances for one", "interval(level / 2)", "interval(level)"),
        ("beyond on one side alone", "low >= margin or high <= -margin", "low >= margin"),
        ("within on one side", "-margin < low and high < margin", "high < margin"),
    ),
    *of(
        "verdicts:at_least",
        RULE,
        ("no price for many chances to hold", "question(level / spare)", "question(level)"),
        ("no price for many chances to fail", "question(level / count)", "question(level)"),
        ("fails one too late", "len(questions) - count + 1", "len(questions) - count + 2"),
        ("undecided for reversed", "against.count(REVERSED) >= spare", "against.count(REVERSED) > spare"),
    ),
    *of(
        "verdicts:most",
        RULE,
        ("all for half", "return 2 * sum(", "return sum("),
        ("half is most", "half(HOLDS) > sum", "half(HOLDS) >= sum"),
        ("no price for many points", "question(level / len(questions))", "question(level)"),
    ),
    *of("verdicts:opposite", RULE, ("not the contrary", "OPPOSITE.get(found, found)", "found")),
    *of("verdicts:compared", RULE, ("the other way round", "one - other", "other - one")),
    *of(
        "verdicts:agrees",
        "test_scorecard.py",
        ("a digit too wide", "low <= unit / 2", "low <= 10 * unit"),
        ("agrees on one side", "and high >= -unit / 2", ""),
        ("a single run agrees", "return UNDECIDED", "return HOLDS"),
    ),
    *of(
        "verdicts:places",
        RULE,
        ("no first place", "1 + found.count(HOLDS)", "2 + found.count(HOLDS)"),
        ("no price for many rivals", "level / max(len(means) - 1, 1)", "level"),
    ),
    *of("verdicts:inside", RULE, ("above one end is enough", "some(every(", "some(some(")),
    *of("verdicts:trend", RULE, ("up for down", '{HOLDS: "up", REVERSED: "down"', '{HOLDS: "down", REVERSED: "up"')),
    *of("verdicts:crossing", RULE, ("leads after the loss", "zip(x, found[:gone]", "zip(x, found")),
    *of("verdicts", RULE, ("another level", "LEVEL = 0.025", "LEVEL = 0.05")),
    *of("verdicts", RULE, ("another margin", "ACCURACY = 0.002", "ACCURACY = 0.02")),
    *of(
        "scorecard:number",
        "test_scorecard.py",
        ("what differs is left open", "UNEXPLAINED\n    tries", "OPEN\n    tries"),
        ("a cause that does not agree", "agrees(cause.mean, printed, unit=unit) == HOLDS", "True"),
        ("an undecided cause explains", "unit=unit) == HOLDS:", "unit=unit) != REVERSED:"),
    ),
]
RESULTS: list[Wrong] = [
    *of(
        "bagging.networks:load",
        ROWS,
        ("validation: trains on its held-out rows", "X[:-VALIDATION_ROWS], y[:-VALIDATION_ROWS],", "X, y,"),
        (
            "validation: labels of other rows",
            "X[-VALIDATION_ROWS:], y[-VALIDATION_ROWS:]",
            "X[-VALIDATION_ROWS:], y[:VALIDATION_ROWS]",
        ),
        ("public rows are scored", 'PUBLIC_ROWS.get(dataset, 0) if split == "rest" else 0', "0"),
    ),
    *of(
        "bagging.experiments:_accuracy", ROWS, ("errors for accuracy", "model.predict(X) == y", "model.predict(X) != y")
    ),
    *of(
        "bagging.experiments:ensemble",
        ROWS,
        ("training rows are scored", "_accuracy(model, X_score, y_score)", "_accuracy(model, X, y)"),
        ("n of the scored rows", '"n": len(X)', '"n": len(X_score)'),
        ("the same subsamples for every seed", '"noise_seed": seed', '"noise_seed": 0'),
        ("delta of half the draw", "profile.delta(0.0)", "profile.delta(0.0) / 2"),
    ),
    *of(
        "bagging.experiments:dp_sgd",
        ROWS,
        ("training rows are scored", "_accuracy(model, X_score, y_score)", "_accuracy(model, X, y)"),
        ("the same noise for every seed", "noise_seed=seed", "noise_seed=0"),
        ("steps of the scored rows", "epochs * len(X) // batch_size", "epochs * len(X_score) // batch_size"),
        ("sampling of the scored rows", "batch_size / len(X)", "batch_size / len(X_score)"),
        ("the noise asked for", "model.noise_multiplier_", "noise_multiplier"),
    ),
    *of(
        "dpbag.runs:thirds",
        "dpbag/test_experiments.py::test_thirds_hold_each_record_once_and_change_with_the_seed",
        ("the same thirds for every seed", "np.random.default_rng(seed)", "np.random.default_rng(0)"),
        ("test rows are public", "[third, 2 * third]", "[third, third]"),
    ),
    *of(
        "dpbag.experiments:_scored",
        ROWS,
        ("private rows are scored", "records.test, seed", "records.private, seed"),
        ("labels of other rows", "asked.y[:labels]", "asked.y[-labels:]"),
    ),
    *of(
        "dpbag.experiments:student",
        "dpbag/test_experiments.py::test_a_row_is_what_the_estimator_gives",
        ("the profile of another analysis", 'analysis = "tight" if', 'analysis = "published" if'),
    ),
    *of(
        "private_prediction.experiments:_mean_and_std",
        ROWS,
        ("std of a population", "ddof=1", "ddof=0"),
        ("the best release for the mean", "accuracies.mean()", "accuracies.max()"),
    ),
    *of(
        "private_prediction.runs:climb",
        "private_prediction/test_experiments.py::test_settings_are_chosen_on_training_rows_alone",
        ("settings are chosen on test rows", "run(task.validation,", "run(task,"),
    ),
    *of(
        "private_prediction.data:Task.validation",
        ROWS,
        ("held-out rows are trained on", "Task(self.X[:kept], self.y[:kept],", "Task(self.X, self.y,"),
    ),
    *of(
        "private_prediction.runs:subsample_aggregate",
        ROWS,
        ("the same noise for every partition", "1_000_003 * release.seed + p", "1_000_003 * release.seed"),
    ),
    *of(
        "intrinsic_sgd.runs:mean_and_std",
        ROWS,
        ("std of a population", "ddof=1", "ddof=0"),
    ),
    *of(
        "intrinsic_sgd.experiments:audit",
        ROWS,
        (
            "tested on the runs that it was fitted to",
            "runs=test_runs, seed=test_seed, device=device) @",
            "runs=test_runs, seed=fit_seed, device=device) @",
        ),
        ("true for false positives", "false, true = says", "true, false = says"),
    ),
    *of(
        "tables:compare",
        "test_figures.py",
        ("the best seed for the mean", 'reproduced="mean"', 'reproduced="max"'),
        ("standard error for std", 'std="std"', 'std="sem"'),
        (
            "the difference turned around",
            'merged["reproduced"] - merged["published"]',
            'merged["published"] - merged["reproduced"]',
        ),
    ),
    *of(
        "bagging.candidates:two_rates",
        "bagging/test_rates.py::test_both_rates_stand_beside_the_paper_and_gaps_stay_gaps",
        ("joined to other rows", 'merge(one, on="sigma", how="left")', "join(one.drop(columns='sigma'))"),
    ),
    *of(
        "bagging.candidates:rates",
        "bagging/test_rates.py",
        ("the worst candidate", "table.idxmax(axis=1)", "table.idxmin(axis=1)"),
        ("a choice among some of the candidates", ".where(table.notna().all(axis=1))", ""),
    ),
]
ALL = {"verdicts": VERDICTS, "results": RESULTS}


def noticed(wrong: Wrong) -> bool:
    """Whether one of its tests fails with the mutant in the package."""
    with applied(wrong.mutant):
        return _outcome(wrong.tests) == pytest.ExitCode.TESTS_FAILED


def _outcome(tests: Sequence[str]) -> int:
    """Exit code of the tests in this process, in which the mutant is."""
    with contextlib.redirect_stdout(io.StringIO()):
        return pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])


def baseline(wrongs: Sequence[Wrong]) -> None:
    """See that all tests pass without a mutant, else no failure says anything.

    Raises
    ------
    ValueError
        If one does not.
    """
    tests = sorted({test for wrong in wrongs for test in wrong.tests})
    if _outcome(tests) != pytest.ExitCode.OK:
        raise ValueError(f"all must pass without a mutant: {', '.join(tests)}")
