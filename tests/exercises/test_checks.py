"""Checks of exercises refuse typical wrong answers with a hint, and the solutions of
the pages pass them.
"""

import json
import re

import numpy as np
import pytest
from scipy import optimize, stats

from dpnotes import accounting, exercises
from dpnotes.lab import chapters


def clipped(gradients, clipping_norm, noise):
    norms = np.linalg.norm(gradients, axis=1)
    return np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)) @ gradients + noise


def of_the_mean(gradients, clipping_norm, noise):
    return clipped(gradients, clipping_norm, noise) / len(gradients)


def of_the_batch(gradients, clipping_norm, noise):
    total = gradients.sum(axis=0)
    return total * min(1, clipping_norm / np.linalg.norm(total)) + noise


def always_scaled(gradients, clipping_norm, noise):
    return (
        clipping_norm * gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    ).sum(axis=0) + noise


def noise_for_each(gradients, clipping_norm, noise):
    return clipped(gradients, clipping_norm, noise) + (len(gradients) - 1) * noise


def delta_of(p, q, factor):
    return np.maximum(p - factor * q, 0).sum()


def ranked(p, q, fpr, *, coins=True, by=lambda p, q: -p / q):
    """The greedy test, right or with a fault."""
    found = p[q == 0].sum()
    p, q = p[q > 0], q[q > 0]
    for i in np.argsort(by(p, q)):
        part = min(1.0, fpr / q[i]) if coins else float(fpr >= q[i])
        found, fpr = found + part * p[i], max(0.0, fpr - q[i])
    return found


def converted(orders, divergences, delta, *, best=np.min):
    return max(
        0.0,
        best(
            divergences
            + np.log1p(-1 / orders)
            - (np.log(delta) + np.log(orders)) / (orders - 1)
        ),
    )


def product(p, q, times):
    """Probabilities of all combinations of outputs."""
    both = np.ones(1), np.ones(1)
    for _ in range(times):
        both = np.outer(both[0], p).ravel(), np.outer(both[1], q).ravel()
    return both


def drawn(votes, beta, *, shift=True):
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(beta * (votes - shift * votes.max()))
        return weights / weights.sum()


def wins(counts, noise):
    lead = noise * (counts[1] - counts[0])
    loses = (2 + abs(lead)) / 4 * np.exp(-abs(lead))
    return 1 - loses if lead > 0 else loses


def of_one_noise(counts, noise):
    return stats.laplace.cdf(noise * (counts[1] - counts[0]))


def answers_within(epsilon, delta, noise, *, first=1, log=np.log):
    orders = np.arange(first, 10_000)
    room = (orders * epsilon + log(delta)) / (2 * noise**2 * orders * (orders + 1))
    return int(max(0, np.floor(room.max())))


def softmax(scores, epsilon, sensitivity):
    exponents = epsilon * (scores - np.max(scores)) / (2 * sensitivity)
    return np.exp(exponents) / np.exp(exponents).sum()


def unshifted(scores, epsilon, sensitivity):
    weights = np.exp(epsilon * scores / (2 * sensitivity))
    return weights / weights.sum()


def noisy_mean(values, low, high, scale):
    return np.clip(values, low, high).mean() + scale


def limits(successes, trials, alpha, *, low=0, high=1):
    """Limits by the beta distribution, with given tails, and counts that are off by
    some.
    """
    bottom = (
        stats.beta.ppf(alpha, successes + low, trials - successes + 1 - low)
        if successes
        else 0.0
    )
    top = (
        stats.beta.ppf(1 - alpha, successes + high, trials - successes + 1 - high)
        if successes < trials
        else 1.0
    )
    return bottom, top


def wald(successes, trials, confidence):
    p = successes / trials
    width = stats.norm.ppf((1 + confidence) / 2) * np.sqrt(p * (1 - p) / trials)
    return p - width, p + width


def farthest(
    n, batch_size, steps, learning_rate, lipschitz, smoothness, *, passes=None, factor=2
):
    passes = (
        np.ceil(steps / (n // batch_size))
        if passes is None
        else passes(n, batch_size, steps)
    )
    bound = factor * lipschitz * learning_rate / batch_size * passes
    return bound if learning_rate <= 2 / smoothness else np.inf


def gaussian_epsilon(sensitivity, sigma, delta):
    mu = sensitivity / sigma

    def excess(e):
        return (
            stats.norm.cdf(mu / 2 - e / mu)
            - np.exp(e + stats.norm.logcdf(-mu / 2 - e / mu))
            - delta
        )

    return optimize.brentq(excess, 0, mu * (mu + 40)) if excess(0) > 0 else 0.0


def vote_level(n_models, beta, *, weigh=lambda a, b: np.logaddexp(a, b), best=max):
    ahead = np.arange(n_models + 1)
    total = weigh(beta * ahead, beta * ahead[::-1])
    return best(abs(np.diff(beta * ahead - total)))


def least_sigma(epsilon, delta):
    return optimize.brentq(
        lambda s: gaussian_epsilon(1.0, s, delta) - epsilon, 1e-3, 1e4, xtol=1e-13
    )


def token(private, public, bound, beta, *, exponents=None):
    added = np.clip(private - public, -bound, bound).sum(axis=0)
    return softmax(public + beta * added if exponents is None else exponents, 2.0, 1.0)


def bare_token(private, public, bound, beta):
    weights = np.exp(
        public + beta * np.clip(private - public, -bound, bound).sum(axis=0)
    )
    return weights / weights.sum()


def linear_losses(epsilon, sigma, rate, steps, *, directions=max, mean=False):
    visits, points = np.arange(steps + 1), np.linspace(-60, 80, 20_001)
    p = stats.norm.pdf(points[:, None], visits, sigma) @ stats.binom.pmf(
        visits, steps, rate
    )
    p = stats.norm.pdf(points, rate * steps, sigma) if mean else p
    q = stats.norm.pdf(points, 0, sigma)
    return directions(
        np.trapezoid(np.maximum(a - np.exp(epsilon) * b, 0), points)
        for a, b in ((p, q), (q, p))
    )


def gaussian_sigma(epsilon, squared):
    return accounting.gaussian_sigma(epsilon, 1e-5, sensitivity=squared**0.5)


def perfectly(m, delta):
    rate = stats.beta.ppf(0.95, 1, m)  # of a single limit
    return np.log((1 - rate - delta) / rate)


WRONG = {
    "dp-sgd-2": [
        (lambda e, s: 1, "2 steps spend an epsilon of .* still within"),
        (lambda e, s: 500, "more than 3"),
    ],
    "dp-sgd-3": [
        (lambda e, q, t: 0.5, "not enough"),
        (lambda e, q, t: 40.0, "less noise than 40 is enough"),
    ],
    "dp-sgd-4": [
        (lambda m, c: (np.ones(m), np.ones(1)), r"shape \[m, weights\]"),
        (
            lambda m, c: (c * np.ones((m, 1)), -c * np.ones(1)),
            "at C = 1 the clipped means are 1 apart",
        ),
        (lambda m, c: (np.ones((m, 1)), -5 * np.ones(1)), "at C = 2 "),
    ],
    "votes-2": [
        (lambda beta, e: e // (2 * beta), "still within"),
        (lambda beta, e: 999, "more than 1"),
    ],
    "votes-3": [
        (lambda e, k: gaussian_sigma(e, k), "two counts"),
        (lambda e, k: gaussian_sigma(e, 2), "not enough"),
        (lambda e, k: gaussian_sigma(e, k * k * 4), "less noise"),
    ],
    "votes-7": [
        (lambda beta, k: k * np.tanh(beta / 2), "at most 1"),
        (lambda beta, k: np.tanh(beta / 2), "gain more"),
        (lambda beta, k: 1.0, "compose"),
    ],
    "attacks-2": [(lambda m, delta: np.inf, "not 0"), (perfectly, "2.5 %")],
    "attacks-3": [
        (lambda e: np.ceil(np.exp(e)), "do not prove an epsilon of 1"),
        (lambda e: 10_000, "runs are enough"),
    ],
    "attacks-9": [
        (lambda m, e: m // 2 + 1, "not rare enough"),
        (lambda m, e: m, "already 99 right"),
    ],
    "dpbag-6": [
        (lambda counts, noise: float(counts[1] > counts[0]), "equal counts"),
        (of_one_noise, "not Laplace"),
        (lambda counts, noise: wins(counts, 1 / noise), "inverse"),
        (lambda counts, noise: wins(counts[::-1], noise), "more votes"),
        (
            lambda counts, noise: min(
                1.0, wins(counts, noise) + 0.1 * (counts[0] != counts[1])
            ),
            "add up",
        ),
        (
            lambda counts, noise: wins(
                (counts[0] / sum(counts), counts[1] / sum(counts)), 7 * noise
            ),
            "a different",
        ),
    ],
    "dpbag-7": [
        (
            lambda epsilon, delta, noise: answers_within(epsilon, delta, noise) + 1,
            "over epsilon",
        ),
        (
            lambda epsilon, delta, noise: answers_within(
                epsilon, delta, noise / 2**0.5
            ),
            "10 answers",
        ),
        (
            lambda epsilon, delta, noise: answers_within(epsilon, 1e-3, noise),
            "smaller delta",
        ),
        (
            lambda epsilon, delta, noise: answers_within(
                epsilon, delta, noise, first=10
            ),
            "another order",
        ),
        (
            lambda epsilon, delta, noise: max(1, answers_within(epsilon, delta, noise)),
            "is 0",
        ),
    ],
    "bagging-5": [
        # the paper's Theorem 4
        (lambda n, k, N, replace: min(1, N * k / n), "do not add up"),
        (lambda n, k, N, replace: 1 - (1 - k / n) ** N, "replace=True"),
        (
            lambda n, k, N, replace: 1 - (1 - 1 / n) ** (N * k),
            "3 of 10 records without replacement",
        ),
        (
            lambda n, k, N, replace: (
                1 - ((1 - 1 / n) ** k if replace else 1 - k / n) ** N
            ),
            "loses all digits",
        ),
    ],
    "bagging-6": [
        (lambda pi, alpha: 1 - pi - alpha, "not negative"),
        (lambda pi, alpha: pi * (1 - alpha), "without false positives"),
        (lambda pi, alpha: (1 - pi) * (1 - alpha), "can rise by as much"),
        (lambda pi, alpha: 1 - pi, "one rate for each"),
    ],
    "bagging-8": [
        (lambda n, k, lead: np.floor(n * np.expm1(np.log1p(lead) / k)), "round up"),
        (
            lambda n, k, lead: np.ceil(n * ((1 - lead) ** (-1 / k) - 1)),
            "no longer votes",
        ),
        (lambda n, k, lead: np.ceil(n * lead / k), "lost once"),
        (
            lambda n, k, lead: np.ceil(n * ((1 - lead / 2) ** (-1 / k) - 1)),
            "vote as before",
        ),
        (lambda n, k, lead: np.ceil(n * (1 - (1 + lead) ** (-1 / k))), "is larger"),
    ],
    "intrinsic-sgd-5": [
        (lambda *args: farthest(*args, factor=1), "twice the Lipschitz"),
        (lambda *args: farthest(*args, passes=lambda n, b, t: 1), "once more"),
        (lambda *args: farthest(*args, passes=lambda n, b, t: t * b / n), "begun"),
        (
            lambda *args: farthest(*args, passes=lambda n, b, t: np.ceil(t * b / n)),
            "left over",
        ),
        (
            lambda *args: farthest(*args[:3], 0.999 * args[3], *args[4:]),
            "divided by B|largest rate",
        ),
        (lambda *args: farthest(*args[:5], 2 / 9), "no bound"),
        (
            lambda *args: farthest(*args) if args[3] < 2 / args[5] else np.inf,
            "largest rate",
        ),
    ],
    "intrinsic-sgd-6": [
        (
            lambda s, sigma, delta: np.sqrt(2 * np.log(1.25 / delta)) * s / sigma,
            "too large|too small",
        ),
        (
            lambda s, sigma, delta: max(1e-3, gaussian_epsilon(s, sigma, delta)),
            "epsilon is 0",
        ),
        (lambda s, sigma, delta: gaussian_epsilon(s, sigma, 2 * delta), "too small"),
        (lambda s, sigma, delta: gaussian_epsilon(s, sigma, delta / 2), "too large"),
    ],
    "intrinsic-sgd-7": [
        (lambda e, sigma, q, t: linear_losses(e, sigma * t, q, t), "variances"),
        (
            lambda e, sigma, q, t: linear_losses(e, sigma * t**0.5, q, t, mean=True),
            "probability q",
        ),
        (
            lambda e, sigma, q, t: linear_losses(
                e, sigma * t**0.5, q, t, directions=min
            ),
            "worse",
        ),
        (
            lambda e, sigma, q, t: linear_losses(2 * e, sigma * t**0.5, q, t),
            "exponential",
        ),
    ],
    "private-prediction-6": [
        (lambda n, beta: beta, "normaliser"),  # the paper's Theorem 7
        (lambda n, beta: 2 * beta, "a single model"),
        (lambda n, beta: beta if n == 1 else 2 * beta, "limit"),
        (
            lambda n, beta: vote_level(n, beta, best=min),
            "over all divisions of the votes",
        ),
        (
            lambda n, beta: vote_level(
                n, beta, weigh=lambda a, b: np.log(np.exp(a) + np.exp(b))
            ),
            "overflows",
        ),
    ],
    "private-prediction-7": [
        (
            lambda e, d, B, shift: (2 * np.log(1.25 / d)) ** 0.5 / e * B**0.5 * shift,
            "not the least",
        ),
        (
            lambda e, d, B, shift: least_sigma(e / 2, d) * B**0.5 * shift,
            "exact condition",
        ),
        (lambda e, d, B, shift: least_sigma(e, d) * B * shift, "smaller than the sum"),
        (lambda e, d, B, shift: least_sigma(e, d) * shift, "together"),
        (lambda e, d, B, shift: least_sigma(e, d) * B**0.5, "smaller shift"),
        (
            lambda e, d, B, shift: min(100, least_sigma(e, d)) * B**0.5 * shift,
            "small epsilons",
        ),
    ],
    "private-prediction-9": [
        (lambda p, o, c, beta: p, "one probability"),
        (
            lambda p, o, c, beta: np.exp(o + beta * np.clip(p - o, -c, c).sum(axis=0)),
            "add up to 1",
        ),
        (
            lambda p, o, c, beta: token(
                p, o, c, beta, exponents=beta * np.clip(p - o, -c, c).sum(axis=0)
            ),
            "add nothing",
        ),
        (lambda p, o, c, beta: token(p, o, np.inf, beta), "cut off at the bound"),
        (lambda p, o, c, beta: token(p, o, c, beta / 2), "beta times the bound"),
        (
            lambda p, o, c, beta: token((p - o).sum(axis=0) + o[None], o, c, beta),
            "separately",
        ),
        (bare_token, "even if it is large"),
    ],
    "votes-6": [
        (
            lambda scores, epsilon, sensitivity: softmax(
                scores, 2 * epsilon, sensitivity
            ),
            "the sum of the weights changes",
        ),
        (
            lambda scores, epsilon, sensitivity: softmax(
                scores, epsilon / 2, sensitivity
            ),
            "grow exponentially",
        ),
        (lambda scores, epsilon, sensitivity: softmax(scores, epsilon, 1.0), "flatter"),
        (
            lambda scores, epsilon, sensitivity: np.exp(epsilon * scores / 2),
            "add up to 1",
        ),
        (
            lambda scores, epsilon, sensitivity: softmax(-scores, epsilon, sensitivity),
            "likelier",
        ),
        (
            lambda scores, epsilon, sensitivity: int(np.argmax(scores)),
            "one probability",
        ),
        (unshifted, "even if it is large"),
    ],
    "mechanisms-6": [
        (
            lambda v, low, high, e, noise: v.mean() + (high - low) / len(v) / e * noise,
            "moved to them",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(
                v, low, high, np.ptp(v) / len(v) / e * noise
            ),
            "public facts",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(
                v, low, high, (high - low) / e * noise
            ),
            "part of the range",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(
                v, low, high, 1 / len(v) / e * noise
            ),
            "width of the bounds divided",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(
                v, low, high, (high - low) / len(v) * e * noise
            ),
            "/ epsilon",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(
                v, low, high, high / len(v) / e * noise
            ),
            "with the width",
        ),
        (
            lambda v, low, high, e, noise: noisy_mean(v, low, high, 0.0),
            "must contain the noise",
        ),
        (lambda v, low, high, e, noise: v.sum() + noise, "averaged"),
    ],
    "attacks-6": [
        (lambda k, m, c: limits(k, m, (1 - c) / 2)[::-1], "lower limit first"),
        (lambda k, m, c: limits(k, m, 1 - c), "on either side"),
        (wald, "normal approximation"),
        (lambda k, m, c: np.clip(wald(k, m, c), 0, 1), "normal approximation"),
        (lambda k, m, c: limits(k, m, 0.025), "confidence is an argument"),
        (lambda k, m, c: limits(k, m, (1 - c) / 2, high=0), "or fewer|raised"),
        (lambda k, m, c: limits(k, m, (1 - c) / 2, low=1), "on either side|or more"),
    ],
    "head-to-head-4": [
        (lambda votes, epsilon: int(np.argmax(votes)), "one probability for each"),
        (
            lambda votes, epsilon: np.exp(epsilon / 2 * (votes - votes.max())),
            "add up to 1",
        ),
        (lambda votes, epsilon: drawn(-votes, epsilon / 2), "more votes are likelier"),
        (
            lambda votes, epsilon: votes == votes.max(),
            "equal votes are equal|not private",
        ),
        (lambda votes, epsilon: drawn(votes, epsilon), "not private"),
        (lambda votes, epsilon: votes / votes.sum(), "not less"),
        (
            lambda votes, epsilon: drawn(votes, epsilon / 2, shift=False),
            "even if it is large",
        ),
    ],
    "composition-4": [
        (lambda orders, d, delta: d - np.log(delta) / (orders - 1), "one number"),
        (
            lambda orders, d, delta: np.min(d - np.log(delta) / (orders - 1)),
            "two more logarithms",
        ),
        (lambda orders, d, delta: converted(orders, d, delta, best=np.max), "smallest"),
        (lambda orders, d, delta: converted(orders, orders / 2, 1e-5), "arguments"),
        (lambda orders, d, delta: converted(orders, d, delta) or -0.7, "not negative"),
    ],
    "composition-5": [
        (
            lambda p, q, times, epsilon: times * np.abs(p - np.exp(epsilon) * q).sum(),
            "positive part",
        ),
        (
            lambda p, q, times, epsilon: times * delta_of(p, q, np.exp(epsilon)),
            "need not be the sum",
        ),
        (
            lambda p, q, times, epsilon: (
                1 - (1 - delta_of(p, q, np.exp(epsilon))) ** times
            ),
            "multiply",
        ),
        (
            lambda p, q, times, epsilon: delta_of(
                *product(p, q, times), np.exp(times * epsilon)
            ),
            "not for each",
        ),
        (
            lambda p, q, times, epsilon: delta_of(
                *product(p[q > 0], q[q > 0], times), np.exp(epsilon)
            ),
            "impossible",
        ),
    ],
    "dp-sgd-6": [
        (of_the_mean, "a sum, not a mean"),
        (of_the_batch, "separately"),
        (always_scaled, "added unchanged"),
        (noise_for_each, "only of noise"),
        (lambda g, c, noise: clipped(g, c, c * noise), "added once, unchanged"),
        (
            lambda gradients, clipping_norm, noise: clipped(gradients, 1.0, noise),
            "is an argument",
        ),
        (
            lambda gradients, clipping_norm, noise: gradients,
            "one number for each weight",
        ),
        (lambda gradients: gradients, "raised TypeError"),
        (0.5, r"a function clip_and_add\(gradients, clipping_norm, noise\), got 0.5"),
    ],
    "guarantee-5": [
        (lambda p, q, epsilon: np.abs(p - np.exp(epsilon) * q).sum(), "the advantage"),
        (lambda p, q, epsilon: print(p), "returned None"),
        (lambda p, q, epsilon: delta_of(p, q, 1 + epsilon), "exponential"),
        (
            lambda p, q, epsilon: (p - np.exp(epsilon) * q)[p > q].sum(),
            "take nothing off",
        ),
        (lambda p, q, epsilon: delta_of(p, q, np.exp(epsilon)), "both directions"),
        (lambda p, q, epsilon: delta_of(q, p, np.exp(epsilon)), "both directions"),
    ],
    "guarantee-6": [
        (lambda p, q, fpr: ranked(p, q, fpr, by=lambda p, q: p / q), "largest"),
        (lambda p, q, fpr: ranked(p, q, fpr, coins=False), "toss a coin"),
        (lambda p, q, fpr: ranked(p[q > 0], q[q > 0], fpr), "impossible without Ada"),
        (lambda p, q, fpr: ranked(p, q, fpr, by=lambda p, q: -p), "not only by p"),
        (lambda p, q, fpr: 3 * fpr, "both rates 1"),
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
    "guarantee-9": [
        (lambda answer, n: answer(np.arange(n) < 1), "fewer than a hundred"),
        (lambda answer, n: answer([0]), "n booleans"),
        (lambda answer, n: True, "is benign"),
        (
            lambda answer, n: answer(np.ones(n, dtype=bool)) < answer(np.arange(n) > 0),
            "is malignant",
        ),
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
    "composition-2": [(29, "round down"), (5, "too small")],
    "composition-3": [
        ((0.1, 1e-6), "approximation"),
        ((0.1586, 1e-5), "delta as well"),
    ],
}


@pytest.mark.parametrize(
    ("name", "function", "hint"),
    [(n, f, h) for n, cases in WRONG.items() for f, h in cases],
)
def test_wrong_answers_get_a_hint(name, function, hint):
    with np.errstate(all="ignore"), pytest.raises(exercises.Wrong, match=hint):
        exercises.check(name, function)


def test_each_exercise_has_wrong_answers():
    assert sorted(WRONG) == exercises.names()


def test_unknown_exercise():
    with pytest.raises(
        ValueError,
        match=r"no check is named 'DP_SGD_6', .*similar names: dp-sgd-2, .*dp-sgd-6",
    ):
        exercises.check("DP_SGD_6", clipped)


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
ALL = [(chapter.name, *exercise) for chapter in COURSE for exercise in found(chapter)]


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_each_chapter_has_eight_to_ten(chapter):
    numbers = [int(number) for number, _, _ in found(chapter)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 8 <= len(numbers) <= 10
    assert all("Solution" in text for _, _, text in found(chapter))


@pytest.mark.parametrize(
    ("chapter", "number", "name", "text"), ALL, ids=[f"{c}-{n}" for c, n, *_ in ALL]
)
def test_solutions_run_and_pass(chapter, number, name, text, capsys):
    namespace = {"__name__": "solution"}
    for code in CODE.findall(text):
        exec(code, namespace)
    if name:
        functions = [
            value
            for value in namespace.values()
            if getattr(value, "__module__", "") == "solution"
        ]
        exercises.check(name, namespace.get("answer", functions[-1:] and functions[-1]))
        assert f"{name}: passed" in capsys.readouterr().out


def test_every_check_belongs_to_an_exercise():
    assert sorted(name for _, _, name, _ in ALL if name) == exercises.names()
