"""Checks of exercises: the solutions of the pages pass them, and typical wrong answers
are refused with a hint.

Most wrong answers are the page's own solution with one change.
"""

import ast
import json
import re

import numpy as np
import pytest
from scipy import stats

from dpnotes import exercises
from dpnotes.lab import chapters

EXERCISE = re.compile(
    r"\*\*(\d+) \((?:[a-z ]+)(?:, `([\w-]+)`)?\)\.\*\*(.*?)(?=\n\*\*\d+ \(|\n## |\Z)",
    re.DOTALL,
)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def found(chapter):
    """Exercises of a chapter: number, name of its check, text with the solution."""
    cells = json.loads(chapter.source.read_text())["cells"]
    text = "\n\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
    )
    return EXERCISE.findall(text)


COURSE = [
    c for c in chapters.all_chapters() if c.folder == "book/foundations" or found(c)
]
ALL = [exercise for chapter in COURSE for exercise in found(chapter)]
SOLUTIONS = {name: "\n".join(CODE.findall(text)) for _, name, text in ALL}


def last_function(code):
    """The last function that the code defines; other statements than definitions and
    imports are left out, as a page's assertions hold for right answers only.
    """
    tree = ast.parse(code)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    tree.body = [part for part in tree.body if isinstance(part, kinds)]
    namespace = {"np": np, "stats": stats}
    exec(compile(tree, "solution", "exec"), namespace)
    return namespace[tree.body[-1].name]


# what each answer replaces in the page's solution, by what, and the hint that it gets
CHANGED = {
    "attacks-2": [
        ("return", "return np.inf or", "not 0"),
        ("delta=delta", "delta=delta, confidence=0.9", "2.5 %"),
    ],
    "attacks-3": [
        ("return 1", "return np.ceil(np.exp(epsilon)) or 1", "do not prove an epsilon"),
        ("return 1", "return 10_000 or 1", "runs are enough"),
    ],
    "attacks-6": [
        ("return low, high", "return high, low", "lower limit first"),
        ("(1 - confidence) / 2", "1 - confidence", "on either side"),
        (
            "return low, high",
            "p = successes / trials; width = 1.959964 * np.sqrt(p * (1 - p) / trials);"
            " return max(0, p - width), p + width",
            "normal approximation",
        ),
        ("(1 - confidence) / 2", "0.025", "confidence is an argument"),
        (
            "es + 1, trials - successes)",
            "es, trials - successes + 1)",
            "or fewer|raised",
        ),
        (
            "es, trials - successes + 1)",
            "es + 1, trials - successes)",
            "either|or more",
        ),
    ],
    "attacks-9": [
        ("return", "return m // 2 + 1 or", "not rare enough"),
        ("return", "return m or", "already 99 right"),
    ],
    "bagging-5": [
        # the paper's Theorem 4
        (
            "-np.expm1(n_models * np.log1p(-subsample / n))",
            "n_models * subsample / n",
            "do not add up",
        ),
        ("if replace", "if False", "replace=True"),
        ("if replace", "if True", "3 of 10 records without replacement"),
        (
            "-np.expm1(n_models * subsample * np.log1p(-1 / n))",
            "1 - (1 - 1 / n) ** (n_models * subsample)",
            "loses all digits",
        ),
    ],
    "bagging-6": [
        ("np.maximum", "max", "raised ValueError"),
        ("np.maximum(0, ", "(", "not negative"),
        ("1 - pi - np.asarray(alpha)", "pi * (1 - alpha)", "without false positives"),
        ("1 - pi - np.asarray(alpha)", "(1 - pi) * (1 - alpha)", "can rise by as much"),
        ("np.asarray(alpha)", "0", "one rate for each"),
    ],
    "bagging-8": [
        ("math.ceil", "math.floor", "round up"),
        (
            "math.expm1(math.log1p(lead) / subsample)",
            "((1 - lead) ** (-1 / subsample) - 1)",
            "no longer votes",
        ),
        ("math.expm1(math.log1p(lead) / subsample)", "lead / subsample", "lost once"),
        (
            "math.expm1(math.log1p(lead) / subsample)",
            "((1 - lead / 2) ** (-1 / subsample) - 1)",
            "vote as before",
        ),
        (
            "math.expm1(math.log1p(lead) / subsample)",
            "(1 - (1 + lead) ** (-1 / subsample))",
            "is larger",
        ),
    ],
    "composition-4": [
        ("max(0.0, np.min(divergences", "((divergences", "one number"),
        (
            "divergences + np.log1p(-1 / orders) - rest",
            "divergences - np.log(delta) / (orders - 1)",
            "two more logarithms",
        ),
        ("np.min", "np.max", "smallest"),
        ("(divergences", "(orders / 2", "arguments"),
        ("max(0.0,", "max(-0.7,", "not negative"),
    ],
    "composition-5": [
        (
            "np.maximum(all_p - np.exp(epsilon) * all_q, 0)",
            "abs(p - q)",
            "positive part",
        ),
        (
            "np.maximum(all_p - np.exp(epsilon) * all_q",
            "times * np.maximum(p - np.exp(epsilon) * q",
            "need not be the sum",
        ),
        (
            "np.maximum(all_p - np.exp(epsilon) * all_q, 0).sum()",
            "1 - (1 - np.maximum(p - np.exp(epsilon) * q, 0).sum()) ** times",
            "multiply",
        ),
        ("np.exp(epsilon)", "np.exp(times * epsilon)", "not for each"),
        ("for _", "p, q = p[q > 0], q[q > 0]\n    for _", "impossible"),
    ],
    "dp-sgd-2": [
        ("return bisect", "return 1 or bisect", "2 steps spend an epsilon of .* still"),
        ("return bisect", "return 500 or bisect", "more than 3"),
    ],
    "dp-sgd-3": [
        ("return", "return 0.5 or", "not enough"),
        ("return", "return 40.0 or", "less noise than 40 is enough"),
    ],
    "dp-sgd-4": [
        ("np.ones((m, 1))", "np.ones(m)", r"shape \[m, weights\]"),
        ("(2 * m + 1) * ", "", "at C = 1 the clipped means are 1 apart"),
        ("clipping_norm *", "1 *", "at C = 2 "),
    ],
    "dp-sgd-6": [
        ("@ gradients", "@ gradients / len(gradients)", "a sum, not a mean"),
        (
            "(gradients, axis=1)",
            "(gradients.sum(0)) + 0 * gradients[:, 0]",
            "separately",
        ),
        ("np.minimum(1, clipping_norm / norms)", "clipping_norm / norms", "unchanged"),
        ("+ noise", "+ len(gradients) * noise", "only of noise"),
        ("+ noise", "+ clipping_norm * noise", "added once, unchanged"),
        ("clipping_norm / norms", "1.0 / norms", "is an argument"),
        ("return", "return gradients\n    return", "one number for each weight"),
        ("gradients, clipping_norm, noise", "gradients", "raised TypeError"),
    ],
    "dpbag-6": [
        ("1 - loses if lead > 0 else loses", "float(lead > 0)", "equal counts"),
        ("(2 + abs(lead)) / 4", "1 / 2", "not Laplace"),
        ("inverse_scale * (", "1 / inverse_scale * (", "inverse"),
        ("counts[1] - counts[0]", "counts[0] - counts[1]", "more votes"),
        ("return 1 -", "return 1.1 -", "add up"),
        ("inverse_scale * (", "1.3 * inverse_scale * (", "a different"),
    ],
    "dpbag-7": [
        ("return", "return 1 +", "over epsilon"),
        ("2 * inverse_scale", "inverse_scale", "10 answers"),
        ("np.log(delta)", "np.log(1e-3)", "smaller delta"),
        ("np.arange(1,", "np.arange(10,", "another order"),
        ("clip(0)", "clip(1)", "is 0"),
    ],
    "guarantee-5": [
        ("return", "return np.abs(p - factor * q).sum() or", "the advantage"),
        ("return max", "max", "returned None"),
        ("np.exp(epsilon)", "1 + epsilon", "exponential"),
        ("return", "return (p - factor * q)[p > q].sum() or", "take nothing off"),
        ("np.maximum(q - factor * p, 0).sum()", "0", "both directions"),
        ("np.maximum(p - factor * q, 0).sum()", "0", "both directions"),
    ],
    "guarantee-6": [
        ("-p / q", "p / q", "largest"),
        ("min(1.0, fpr / q[i])", "(fpr >= q[i])", "toss a coin"),
        ("p[q == 0].sum()", "0.0", "impossible without Ada"),
        ("-p / q", "-p", "not only by p"),
        ("found = p[q == 0].sum()", "return 3 * fpr", "both rates 1"),
    ],
    "guarantee-9": [
        ("everybody) -", "~but_the_first) -", "fewer than a hundred"),
        ("everybody) -", "[0]) -", "n booleans"),
        ("return", "return True or", "is benign"),
        ("== 1", "< 0", "is malignant"),
    ],
    "head-to-head-4": [
        ("return", "return int(np.argmax(votes))\n    return", "one probability for"),
        ("weights / weights.sum()", "weights", "add up to 1"),
        ("epsilon / 2", "-epsilon / 2", "more votes are likelier"),
        ("weights / weights.sum()", "votes == votes.max()", "not private"),
        ("epsilon / 2", "epsilon", "not private"),
        ("weights / weights.sum()", "votes / votes.sum()", "not less"),
        ("votes - votes.max()", "votes", "even if it is large"),
    ],
    "intrinsic-sgd-5": [
        ("return 2 *", "return", "twice the Lipschitz"),
        ("math.ceil(steps / (n // batch_size))", "1", "once more"),
        ("math.ceil(steps / (n // batch_size))", "steps * batch_size / n", "begun"),
        ("steps / (n // batch_size)", "steps * batch_size / n", "left over"),
        ("return 2 *", "return 1.998 *", "divided by B"),
        ("> 2 / smoothness", "> 9", "no bound"),
        ("> 2 / smoothness", ">= 2 / smoothness", "largest rate"),
    ],
    "intrinsic-sgd-6": [
        (
            "return 0.0 if",
            "return np.sqrt(2 * np.log(1.25 / delta)) * mu if mu else 0.0 if",
            "too large|too small",
        ),
        ("return 0.0 if", "return 1e-3 if", "epsilon is 0"),
        ("tail - delta", "tail - 2 * delta", "too small"),
        ("tail - delta", "tail - delta / 2", "too large"),
    ],
    "intrinsic-sgd-7": [
        ("np.sqrt(steps)", "steps", "variances"),
        (
            "points[:, None], visits[kept], std) @ masses[kept]",
            "points, sample_rate * steps, std)",
            "probability q",
        ),
        ("points).max()", "points).min()", "worse"),
        ("np.exp(epsilon)", "np.exp(2 * epsilon)", "exponential"),
    ],
    "mechanisms-6": [
        ("np.clip(values, low, high)", "values", "moved to them"),
        ("high - low", "np.ptp(values)", "public facts"),
        ("len(values) * ", "", "part of the range"),
        ("(high - low)", "1", "width of the bounds divided"),
        ("(len(values) * epsilon)", "len(values) * epsilon", "/ epsilon"),
        ("high - low", "high", "with the width"),
        ("* noise", "* 0", "must contain the noise"),
        ("clipped.mean", "clipped.sum", "averaged"),
    ],
    "private-prediction-6": [
        ("return", "return beta or", "normaliser"),  # the paper's Theorem 7
        ("return", "return 2 * beta or", "a single model"),
        ("return", "return min(n_models, 2) * beta or", "limit"),
        ("return", "return abs(np.diff(first)).min() or", "over all divisions"),
        ("np.logaddexp(0, -lead)", "np.log(1 + np.exp(-lead))", "overflows"),
    ],
    "private-prediction-7": [
        (
            "return np.exp(brentq(excess, -10, 20, xtol=1e-13))",
            "return np.sqrt(2 * np.log(1.25 / delta)) / epsilon",
            "not the least",
        ),
        ("def excess", "epsilon /= 2\n    def excess", "exact condition"),
        ("answers**0.5", "answers", "smaller than the sum"),
        ("* answers**0.5", "", "together"),
        ("* sensitivity", "", "smaller shift"),
        ("1e-13))", "1e-13)).clip(0, 100)", "small epsilons"),
    ],
    "private-prediction-9": [
        ("softmax(public + beta * added.sum(axis=0))", "private", "one probability"),
        ("softmax(public", "np.exp(public", "add up to 1"),
        ("public + beta", "beta", "add nothing"),
        ("-bound, bound", "-np.inf, np.inf", "cut off at the bound"),
        ("beta *", "beta / 2 *", "beta times the bound"),
        ("np.asarray(private) - public", "[sum(private - public)]", "separately"),
        (
            "softmax(public + beta * added.sum(axis=0))",
            "(w := np.exp(public + beta * added.sum(axis=0))) / w.sum()",
            "even if it is large",
        ),
    ],
    "votes-2": [
        ("return bisect", "return epsilon // (2 * beta) or bisect", "still within"),
        ("return bisect", "return 999 or bisect", "more than 1"),
    ],
    "votes-3": [
        ("2 * answers", "answers", "two counts"),
        ("2 * answers", "2", "not enough"),
        ("2 * answers", "4 * answers**2", "less noise"),
    ],
    "votes-6": [
        ("(2 * sensitivity)", "sensitivity", "the sum of the weights changes"),
        ("(2 * s", "(4 * s", "grow exponentially"),
        ("(2 * sensitivity)", "2", "flatter"),
        ("weights / weights.sum()", "weights", "add up to 1"),
        ("= epsilon", "= -epsilon", "likelier"),
        ("weights / weights.sum()", "int(np.argmax(scores))", "one probability"),
        ("exponents - exponents.max()", "exponents", "even if it is large"),
    ],
    "votes-7": [
        ("return", "return answers * np.tanh(beta / 2) or", "at most 1"),
        ("return", "return np.tanh(beta / 2) or", "gain more"),
        ("return", "return 1.0 or", "compose"),
    ],
}
NUMBERS = {
    "composition-2": [(29, "round down"), (5, "too small")],
    "composition-3": [
        ((0.1, 1e-6), "approximation"),
        ((0.1586, 1e-5), "delta as well"),
    ],
    "guarantee-2": [
        (None, "asks for 2 numbers in brackets, got None"),
        (lambda: (3.7306, 7.4613), "not for a function"),
        (3.7306, "in brackets, got 1"),
        ((7.46, 7.46), "a count changes by one"),
        ((3.73, 3.73), "may change by more"),
        ((4.84, 7.46), "number 1 is too large"),
    ],
    "guarantee-3": [
        ((0.037, 0.272, 0.739), "how odds change"),
        ((0.232, 0.0393, 0.451), "comes first"),
        ((0.0409, 0.302, 0.821), "are odds"),
        ((0.0393, 0.232, 0.232), "two records change together"),
    ],
    "guarantee-4": [
        ((2.0, 4e-6), "grows faster"),
        ((0.5, 9.85e-6), "number 1 is too small"),
    ],
    "mechanisms-1": [
        ((0.242, 0.29), "comes first"),
        ((0.29, 0.23), "number 2 is too small"),
    ],
    "mechanisms-2": [
        ((4, 0.1175), "over the scale"),
        ((0.25, 0.1244), "stays below"),
        ((0.25, 0.25), "too large"),
    ],
    "mechanisms-3": [(20, "half of epsilon"), (10, "too large")],
}


@pytest.mark.parametrize(
    ("name", "old", "new", "hint"),
    [(name, *case) for name, cases in CHANGED.items() for case in cases],
)
def test_a_wrong_solution_gets_a_hint(name, old, new, hint):
    code = SOLUTIONS[name].replace(old, new)
    assert code != SOLUTIONS[name]
    function = last_function(code)
    with np.errstate(all="ignore"), pytest.raises(exercises.Wrong, match=hint):
        exercises.check(name, function)


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [(name, *case) for name, cases in NUMBERS.items() for case in cases],
)
def test_wrong_numbers_get_a_hint(name, answer, hint):
    with pytest.raises(exercises.Wrong, match=hint):
        exercises.check(name, answer)


def test_each_exercise_has_wrong_answers():
    assert sorted({**CHANGED, **NUMBERS}) == exercises.names()
    assert sorted(SOLUTIONS.keys() - {""}) == exercises.names()


def test_what_is_no_answer_is_said():
    similar = r"no check is named 'DP_SGD_6', .*similar names: dp-sgd-2, .*dp-sgd-6"
    with pytest.raises(ValueError, match=similar):
        exercises.check("DP_SGD_6", abs)
    asked = r"a function clip_and_add\(gradients, clipping_norm, noise\), got 0.5"
    with pytest.raises(exercises.Wrong, match=asked):
        exercises.check("dp-sgd-6", 0.5)


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_each_chapter_has_eight_to_ten(chapter):
    numbers = [int(number) for number, _, _ in found(chapter)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 8 <= len(numbers) <= 10
    assert all("Solution" in text for _, _, text in found(chapter))


@pytest.mark.parametrize(
    ("chapter", "number", "name", "text"),
    [(chapter.name, *exercise) for chapter in COURSE for exercise in found(chapter)],
)
def test_solutions_run_and_pass(chapter, number, name, text, capsys):
    namespace = {}
    for code in CODE.findall(text):
        exec(code, namespace)
    if name:
        answer = namespace.get("answer")
        if answer is None:
            answer = last_function(SOLUTIONS[name])
        exercises.check(name, answer)
        assert f"{name}: passed" in capsys.readouterr().out
