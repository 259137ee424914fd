"""Evidence on noise added to the minimiser or to its predictions: likelihood ratios drawn, divergences integrated."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from dpnotes.accounting import (
    gaussian,
    gaussian_sigma,
    minimiser_sensitivity,
    norm_noise_rate,
    prediction_sensitivity_sigma,
)
from dpnotes.lab._claim import Evidence, Finding
from dpnotes.lab.private_prediction.claims_minimiser import LAMBDA, K, N, worst_fits

Floats = NDArray[np.float64]

EPSILON, DELTA = 1.0, 1e-5


def pure_model_noise() -> Evidence:
    """Theorem 1: the log-likelihood ratio of the released weights, over draws and on the ray where it is largest."""
    bound = minimiser_sensitivity(lipschitz=K, n=N, regulariser=LAMBDA)
    rate, published = norm_noise_rate(EPSILON, sensitivity=bound), N * LAMBDA * EPSILON / (2 * K)
    shift = np.subtract(*worst_fits()).ravel()
    generator = np.random.default_rng(1)
    draws = 50_000
    noise = generator.normal(size=(draws, shift.size))
    noise *= (generator.gamma(shift.size, 1 / rate, draws) / np.linalg.norm(noise, axis=1))[:, None]
    loss = rate * (np.linalg.norm(noise + shift, axis=1) - np.linalg.norm(noise, axis=1))
    ray = rate * float(np.linalg.norm(2 * shift) - np.linalg.norm(shift))
    ratio = np.exp(-loss)
    error = float(ratio.std()) / math.sqrt(draws)
    return Evidence(
        f"{draws:,} draws of the noise on the worst neighbours fitted: n = {N:,}, lambda = {LAMBDA:g}, epsilon = 1.",
        (
            Finding("rate beta of the noise", published, rate, math.isclose(rate, published)),
            Finding("largest log-likelihood ratio drawn", EPSILON, float(loss.max()), float(loss.max()) <= EPSILON),
            Finding("log-likelihood ratio behind the shift", EPSILON, ray, 0.99 < ray <= EPSILON * (1 + 1e-9)),
            Finding(
                "mean likelihood ratio (1 for the density that is claimed)",
                1.0,
                float(ratio.mean()),
                abs(float(ratio.mean()) - 1) < 4 * error,
            ),
        ),
    )


def gaussian_model_noise() -> Evidence:
    """Theorem 2: Algorithm 2 with its missing line against the calibration and the integrated divergence."""
    pairs = ((0.1, DELTA), (EPSILON, DELTA), (5.0, DELTA), (EPSILON, 0.3))
    off, least, above = [], [], []
    for epsilon, delta in pairs:
        sigma = gaussian_sigma(epsilon, delta)
        off.append(abs(_algorithm_two(epsilon, delta) / math.sqrt(2 * epsilon) / sigma - 1))
        above.append(_gaussian_divergence(epsilon, sigma) / delta)
        least.append(_gaussian_divergence(epsilon, 0.999 * sigma) / delta)
    branch = 0.5 - math.e * float(special.ndtr(-math.sqrt(2)))
    alpha = _algorithm_two(EPSILON, DELTA)
    wrong_line = _gaussian_divergence(EPSILON, 1 / alpha / math.sqrt(2 * EPSILON))  # 1/alpha: both roots multiply to 1
    return Evidence(
        "Algorithm 2, the line alpha = sqrt(1 + u/2) + sqrt(u/2) of its source put back, at epsilon = 0.1, 1, 5 with "
        "delta = 1e-5 and epsilon = 1 with delta = 0.3; divergences of two normal densities by the trapezoidal rule.",
        (
            Finding("largest relative gap to the least noise", 0.0, max(off), max(off) < 1e-9),
            Finding("largest delta, in units of the one asked for", 1.0, max(above), max(above) < 1 + 1e-6),
            Finding("smallest delta at noise 0.1% smaller, in the same units", "–", min(least), min(least) > 1),
            Finding("delta below which, at epsilon = 1, alpha is left undefined", "–", branch, branch > DELTA),
            Finding(
                "delta at epsilon = 1 with the first branch's alpha instead",
                DELTA,
                wrong_line,
                wrong_line > 1e4 * DELTA,
            ),
        ),
    )


def main_text_sigma() -> Evidence:
    """Section 3.2's formula against the one of the appendix, in units of the sensitivity, one prediction."""
    high = 8.0
    sigma, sigma_high = gaussian_sigma(EPSILON, DELTA), gaussian_sigma(high, DELTA)
    wide = _algorithm_two(EPSILON, DELTA) / EPSILON
    narrow, appendix = (_algorithm_two(high, DELTA) / scale for scale in (high, math.sqrt(2 * high)))
    leaked = float(gaussian(sigma=narrow, adjacency="replace-one").delta(high))
    kept = float(gaussian(sigma=appendix, adjacency="replace-one").delta(high))
    return Evidence(
        "Both formulas at one prediction and delta = 1e-5; the divergence of the noise by its profile and integrated.",
        (
            Finding(
                "noise needed at epsilon* = 1, as a share of the formula's",
                1.0,
                sigma / wide,
                math.isclose(sigma / wide, math.sqrt(0.5), rel_tol=1e-9),
            ),
            Finding(
                "noise needed at epsilon* = 8, as a share of the formula's",
                1.0,
                sigma_high / narrow,
                math.isclose(sigma_high / narrow, 2, rel_tol=1e-9),
            ),
            Finding(
                "delta at epsilon* = 8",
                DELTA,
                leaked,
                leaked > 100 * DELTA and math.isclose(leaked, _gaussian_divergence(high, narrow), rel_tol=1e-6),
            ),
            Finding("delta at epsilon* = 8, appendix", DELTA, kept, math.isclose(kept, DELTA, rel_tol=1e-6)),
        ),
    )


def pure_prediction_noise() -> Evidence:
    """Theorem 5: all answers asked where the worst neighbours differ most; the sum of their log-likelihood ratios."""
    answers = 10
    bound = minimiser_sensitivity(lipschitz=K, n=N, regulariser=LAMBDA)
    rate = norm_noise_rate(EPSILON, sensitivity=bound, answers=answers)
    published = N * LAMBDA * EPSILON / (2 * K * answers)
    shift = np.subtract(*worst_fits())
    left, _, _ = np.linalg.svd(shift)
    logits = shift.T @ left[:, 0]  # the question is a unit vector
    worst = answers * rate * float(np.linalg.norm(2 * logits) - np.linalg.norm(logits))
    generator = np.random.default_rng(2)
    noise = generator.normal(size=(5_000, answers, logits.size))
    noise *= generator.gamma(logits.size, 1 / rate, noise.shape[:2])[..., None] / np.linalg.norm(
        noise, axis=-1, keepdims=True
    )
    loss = rate * (np.linalg.norm(noise + logits, axis=-1) - np.linalg.norm(noise, axis=-1)).sum(-1)

    features, classes = 784, 10
    model = _deviation(norm_noise_rate(EPSILON, sensitivity=bound), features * classes)
    few, many = (_deviation(norm_noise_rate(EPSILON, sensitivity=bound, answers=b), classes) for b in (26, 27))
    return Evidence(
        f"{answers} answers on the worst neighbours of Lemma 1, n = {N:,}, lambda = {LAMBDA:g}, epsilon = 1: noise "
        "behind the shift, and 5,000 draws.",
        (
            Finding("rate beta of the noise", published, rate, math.isclose(rate, published)),
            Finding("log-likelihood ratio behind the shift", EPSILON, worst, 0.99 < worst <= EPSILON * (1 + 1e-9)),
            Finding("largest log-likelihood ratio drawn", EPSILON, float(loss.max()), float(loss.max()) <= EPSILON),
            Finding("noise on a logit at B = 26, model sensitivity's = 1", "–", few / model, few < model),
            Finding("noise on a logit at B = 27, model sensitivity's = 1", "–", many / model, many > model),
        ),
    )


def gaussian_prediction_noise() -> Evidence:
    """Theorem 6: the paper's inequality, its repair, and the exact noise for B = 100."""
    answers = 100
    published = prediction_sensitivity_sigma(EPSILON, DELTA, answers=answers, analysis="published")
    exact = prediction_sensitivity_sigma(EPSILON, DELTA, answers=answers)
    spent = float(gaussian(sigma=published, adjacency="replace-one").compose(answers).delta(EPSILON))
    tight = _gaussian_divergence(EPSILON, exact / math.sqrt(answers))  # the sum of B answers, divided by B
    share = 0.4 * DELTA
    slack = math.log(1 / share)
    each = math.sqrt(2 / answers) * (math.sqrt(slack + EPSILON) - math.sqrt(slack))
    advanced = math.sqrt(2 * answers * slack) * each
    cited = advanced + answers * each * math.expm1(each) / 2
    repaired = advanced + answers * each * math.tanh(each / 2)
    model = float(gaussian_sigma(EPSILON, DELTA))
    return Evidence(
        f"B = {answers} answers at epsilon = 1, delta = 1e-5, sigma in units of 2 K / (n lambda); composition with "
        "delta' = 0.4 delta.",
        (
            Finding("epsilon by the theorem that the proof cites", EPSILON, cited, cited > EPSILON),
            Finding("epsilon by Kairouz, Oh and Viswanath", EPSILON, repaired, repaired <= EPSILON),
            Finding("delta that the published sigma spends", DELTA, spent, spent < DELTA),
            Finding("delta at the exact sigma, integrated", DELTA, tight, math.isclose(tight, DELTA, rel_tol=1e-6)),
            Finding("published sigma over the exact one", 1.0, published / exact, published > 5 * exact),
            Finding(
                "exact sigma over that of Gaussian model sensitivity, for any number of answers",
                "–",
                exact / model,
                math.isclose(exact / model, math.sqrt(answers), rel_tol=1e-9),
            ),
        ),
    )


def gap_integral(p: Floats, q: Floats, factor: float, spacing: float) -> float:
    """Hockey-stick divergence of two densities on a grid."""
    return float(np.maximum(p - factor * q, 0.0).sum() * spacing)


def _gaussian_divergence(epsilon: float, sigma: float) -> float:
    """Hockey-stick divergence of N(1, sigma^2) from N(0, sigma^2), integrated from where it starts."""
    start = 0.5 + epsilon * sigma**2
    x = start + np.linspace(0.0, 14 * sigma, 40_001)
    values = stats.norm.pdf(x, 1, sigma) - np.exp(epsilon + stats.norm.logpdf(x, 0, sigma))
    return float(np.trapezoid(values, x))


def _algorithm_two(epsilon: float, delta: float) -> float:
    """Give alpha of the paper's Algorithm 2, with the last line that it lacks."""

    def gap(u: float, sign: int) -> float:
        head = special.ndtr(sign * math.sqrt(epsilon * u))
        return float(head - math.exp(epsilon) * special.ndtr(-math.sqrt(epsilon * (u + 2)))) - delta

    sign = 1 if gap(0.0, 1) <= 0 else -1
    u = float(optimize.brentq(gap, 0.0, 1e3, args=(sign,), xtol=1e-13, rtol=1e-14))
    return math.sqrt(1 + u / 2) - sign * math.sqrt(u / 2)


def _deviation(rate: float, size: int) -> float:
    """Standard deviation of one coordinate of noise whose norm is Gamma distributed."""
    return math.sqrt(float(stats.gamma(size, scale=1 / rate).moment(2)) / size)
