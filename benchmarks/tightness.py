"""Upper bounds against lower bounds: every constructor of a proved profile by itself,
and composed with all others.

A lower bound is explicit: two distributions that the mechanism has on adjacent data
sets, on finitely many outcomes (densities are put into bins, which reveals less), and
their hockey-stick divergence; compositions by the optimistic loss distribution of
dp_accounting. ``python -m benchmarks.tightness`` makes both tables, or the rows of the
families that are named; with ``--keep`` they are stored in ``book/results``, for the
foundations.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import optimize, special, stats

from dpnotes import accounting
from dpnotes.accounting import PrivacyProfile
from tests.accounting.loss_densities import Problem, grid, log_ratio

from ._common import RESULTS, table

DELTAS = (1e-2, 1e-5)  # at which epsilons are compared
INTERVAL = 1e-3  # of the loss distributions in the matrix
TOTAL = 1e-5  # delta of the matrix
# an epsilon below which ratios of epsilons are not compared: the lower bound reaches 0
SMALL = 0.01
# of an axis, for the densities of loss perturbation, by classes
POINTS = {2: 2001, 3: 81}
Draw = np.random.Generator


@dataclass(frozen=True)
class Pair:
    """Two distributions on the same outcomes [outcomes], drawn so many times."""

    p: np.ndarray
    q: np.ndarray
    times: int = 1

    def delta(self, epsilon: float) -> float:
        """Lower bound of delta, the larger direction."""
        if self.times > 1:
            return float(self.losses.get_delta_for_epsilon(epsilon))
        one, two = (
            np.maximum(a - math.exp(epsilon) * b, 0.0).sum()
            for a, b in ((self.p, self.q), (self.q, self.p))
        )
        return float(max(one, two))

    @cached_property
    def losses(self) -> Any:
        """Optimistic loss distribution of all draws."""
        lower, upper = (
            {i: math.log(x) for i, x in enumerate(each) if x > 0}
            for each in self._masses
        )
        losses = pld.from_two_probability_mass_functions(
            lower,
            upper,
            pessimistic_estimate=False,
            value_discretization_interval=INTERVAL / 10,
            symmetric=False,
        )
        return losses.self_compose(self.times) if self.times > 1 else losses

    @property
    def _masses(self) -> tuple[np.ndarray, np.ndarray]:
        return np.maximum(self.q, 0.0), np.maximum(self.p, 0.0)


def shifted(
    cdf: Callable[[np.ndarray], np.ndarray], mu: float, rate: float, edges: np.ndarray
) -> Pair:
    """A symmetric distribution moved by ``mu`` with chance ``rate``, against itself;
    outcomes are between the edges.

    Each mass is a difference of its nearer tail: far out, those of numbers near 1 are
    rounding.
    """

    def masses(weight: float) -> np.ndarray:
        below, above = (
            weight * cdf(s * (edges - mu)) + (1 - weight) * cdf(s * edges)
            for s in (1, -1)
        )
        rise, fall = (
            np.diff(below, prepend=0.0, append=1.0),
            -np.diff(above, prepend=1.0, append=0.0),
        )
        return np.where(np.append(below, 1.0) < 0.5, rise, fall)

    return Pair(masses(rate), masses(0.0))


def normal(mu: float, rate: float = 1.0, *, bins: int = 4000) -> Pair:
    """N(-mu, 1) with probability ``rate`` and else N(0, 1), against N(0, 1)."""
    return shifted(special.ndtr, -mu, rate, np.linspace(-9.0 - mu, 9.0, bins))


def coins(losing: np.ndarray, winning: np.ndarray, times: int) -> Pair:
    """The pair of coins, thrown ``times`` times, that reveals most at delta = 1e-5,
    of those with these chances.
    """
    heads = np.arange(times + 1)
    pairs = [
        Pair(stats.binom.pmf(heads, times, a), stats.binom.pmf(heads, times, b))
        for a, b in zip(losing, winning, strict=True)
    ]
    return most_revealing(pairs)


def most_revealing(pairs: list[Pair]) -> Pair:
    """The pair with the largest delta near the epsilon at which it is 1e-5."""
    found = pairs[len(pairs) // 2]
    for _ in range(2):
        epsilon = epsilon_of(found, 1e-5)
        found = max(pairs, key=lambda pair: pair.delta(epsilon))
    return found


def response(epsilon: float, delta: float = 0.0, rate: float = 1.0) -> Pair:
    """Randomised response with e^epsilon, the record revealed with chance delta,
    taking part with chance ``rate``.
    """
    true = (1 - delta) * special.expit(epsilon)
    p, q = (
        np.array([delta, true, 1 - delta - true, 0.0]),
        np.array([0.0, 1 - delta - true, true, delta]),
    )
    return Pair(rate * p + (1 - rate) * q, q)


def sample(inclusion: float) -> Pair:
    """Whether the record is in the sample."""
    return Pair(np.array([inclusion, 1 - inclusion]), np.array([0.0, 1.0]))


def epsilon_of(pair: Pair, delta: float) -> float:
    """Epsilon of the pair, which no guarantee may be below."""
    if pair.delta(0.0) <= delta:
        return 0.0
    high = 1.0
    while pair.delta(high) > delta:
        high *= 2
        if high > 200:
            return math.inf
    return float(
        optimize.brentq(
            lambda epsilon: pair.delta(epsilon) - delta, 0.0, high, xtol=1e-9
        )
    )


def laplace_pair(mu: float, rate: float = 1.0) -> Pair:
    edges = np.concatenate(
        [
            np.linspace(-30.0, 0.0, 600),
            np.linspace(0.0, mu, 2001)[1:],
            np.linspace(mu, 30, 600)[1:],
        ]
    )
    return shifted(stats.laplace.cdf, mu, rate, edges)


def soft_pair(beta: float, answers: int) -> Pair:
    margin = beta * np.linspace(-40, 40, 161)
    return coins(special.expit(margin), special.expit(margin + 2 * beta), answers)


def noisy_pair(beta: float, answers: int) -> Pair:
    def won(lead: np.ndarray) -> np.ndarray:
        lost = (2 + beta * np.abs(lead)) / 4 * np.exp(-beta * np.abs(lead))
        return np.where(lead > 0, 1 - lost, lost)

    lead = np.linspace(-12, 12, 161) / beta
    return coins(won(lead), won(lead + 2), answers)


def normal_vote(sigma: float, answers: int) -> Pair:
    lead = np.linspace(-3, 3, 61) * sigma
    return coins(
        special.ndtr(lead / math.sqrt(2) / sigma),
        special.ndtr((lead + 2) / math.sqrt(2) / sigma),
        answers,
    )


def confident_pair(sigma_threshold: float, sigma_answer: float) -> Pair:
    """One query that is answered if it passes; the votes at which all is near a tie
    reveal most.
    """

    def outcome(top: float, lead: float) -> np.ndarray:
        passed, won = (
            special.ndtr(top / sigma_threshold),
            special.ndtr(lead / math.sqrt(2) / sigma_answer),
        )
        return np.array([1 - passed, passed * won, passed * (1 - won)])

    found = [
        Pair(
            outcome(top * sigma_threshold - 0.5, lead - 1),
            outcome(top * sigma_threshold + 0.5, lead + 1),
        )
        for top in np.linspace(-3, 3, 25)
        for lead in np.linspace(-3, 3, 25) * sigma_answer
    ]
    return most_revealing(found)


def iterate(sigma: float, shift: float, steps: int, contraction: float) -> Pair:
    """A quadratic on which the record moves every step the same way."""
    powers = contraction ** np.arange(steps)
    return normal(shift * powers.sum() / (sigma * math.sqrt((powers**2).sum())))


@dataclass(frozen=True)
class Summed(Pair):
    """Densities on a grid, less what their sum changes by when every second point is
    left out.
    """

    coarse: Pair | None = None

    def delta(self, epsilon: float) -> float:
        found = super().delta(epsilon)
        return (
            found
            if self.coarse is None
            else max(0.0, found - abs(found - self.coarse.delta(epsilon)))
        )


def perturbed(n_classes: int, regulariser: float, sigma: float) -> Pair:
    """Weights of one feature with and without a record; the others leave its class
    to the noise, or steer from it.
    """
    many = 30 * (regulariser + sigma)
    found: list[Pair] = []
    for times, last in ((0.0, 1), (many, 1), (many, n_classes - 1)):
        others = np.ones((2, 1)), np.array([1, last]), np.full(2, times)
        problem = Problem(*others, (np.ones(1), 0), None, n_classes, regulariser, sigma)
        points, q = grid(problem, POINTS[n_classes])
        p = q * np.exp(log_ratio(problem, points))
        shape = (POINTS[n_classes],) * (n_classes - 1)
        half = [
            each.reshape(shape)[(slice(None, None, 2),) * len(shape)].ravel()
            * 2 ** len(shape)
            for each in (p, q)
        ]
        found.append(Summed(p, q, coarse=Pair(*half)))
    return most_revealing(found)


def between(generator: Draw, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(math.log(low), math.log(high))))


def sgd(sigma: float, rate: float, steps: int) -> Pair:
    return Pair(*(getattr(normal(1 / sigma, rate), name) for name in "pq"), times=steps)


# name; how a profile and its pair are drawn. Exact ones first.
def families(g: Draw) -> dict[str, Callable[[], tuple[PrivacyProfile, Pair]]]:
    def of_gaussian() -> tuple[PrivacyProfile, Pair]:
        mu = between(g, 0.05, 3)
        return accounting.gaussian(sigma=2 / mu, sensitivity=2.0), normal(mu)

    def of_advantage() -> tuple[PrivacyProfile, Pair]:
        found = between(g, 0.03, 0.8)
        return accounting.gaussian_of_advantage(found), normal(
            2 * special.ndtri((1 + found) / 2)
        )

    def of_laplace() -> tuple[PrivacyProfile, Pair]:
        mu = between(g, 0.1, 5)
        return accounting.laplace(scale=2 / mu, sensitivity=2.0), laplace_pair(mu)

    def of_pure() -> tuple[PrivacyProfile, Pair]:
        epsilon, times = between(g, 0.05, 2), int(g.integers(1, 30))
        heads, true = np.arange(times + 1), special.expit(epsilon)
        pair = Pair(
            stats.binom.pmf(heads, times, true), stats.binom.pmf(heads, times, 1 - true)
        )
        return accounting.pure(epsilon).compose(times), pair

    def of_approximate() -> tuple[PrivacyProfile, Pair]:
        epsilon, delta = between(g, 0.05, 5), between(g, 1e-8, 0.1)
        return accounting.approximate(epsilon, delta), response(epsilon, delta)

    def of_bagging() -> tuple[PrivacyProfile, Pair]:
        n, k, models = (
            int(g.integers(20, 500)),
            int(g.integers(1, 20)),
            int(g.integers(1, 10)),
        )
        kind = int(g.integers(3))
        if kind == 2:
            models = max(1, min(models, n // k))
        missed = (
            (1 - 1 / n) ** (k * models),
            (1 - k / n) ** models,
            1 - k * models / n,
        )[kind]
        scheme = "split" if kind == 2 else "independent"
        profile = accounting.bagging(
            n=n, subsample=k, n_models=models, replace=kind == 0, scheme=scheme
        )
        return profile, sample(1 - missed)

    def of_sampled() -> tuple[PrivacyProfile, Pair]:
        mu, rate = between(g, 0.3, 3), between(g, 0.01, 0.9)
        return accounting.subsampled(
            accounting.gaussian(sigma=1 / mu), sample_rate=rate
        ), normal(mu, rate)

    def of_sampled_laplace() -> tuple[PrivacyProfile, Pair]:
        mu, rate = between(g, 0.3, 5), between(g, 0.01, 0.9)
        return accounting.subsampled(
            accounting.laplace(scale=1 / mu), sample_rate=rate
        ), laplace_pair(mu, rate)

    def of_sampled_statement() -> tuple[PrivacyProfile, Pair]:
        epsilon, rate = between(g, 0.1, 5), between(g, 0.01, 0.9)
        return accounting.subsampled(
            accounting.pure(epsilon), sample_rate=rate
        ), response(epsilon, 0.0, rate)

    def of_fixed_size() -> tuple[PrivacyProfile, Pair]:
        mu, k = between(g, 0.3, 3), int(g.integers(1, 50))
        base = accounting.gaussian(
            sigma=1 / mu, sensitivity=2.0, adjacency="replace-one"
        )
        # all others like the new one
        return accounting.subsampled(base, n=100, subsample=k), normal(2 * mu, k / 100)

    def of_sgd() -> tuple[PrivacyProfile, Pair]:
        sigma, rate, steps = (
            between(g, 0.8, 4),
            between(g, 0.01, 0.2),
            int(g.integers(2, 200)),
        )
        return accounting.dp_sgd(
            noise_multiplier=sigma, sample_rate=rate, steps=steps
        ), sgd(sigma, rate, steps)

    def of_zcdp() -> tuple[PrivacyProfile, Pair]:
        rho = between(g, 1e-3, 2)
        return accounting.zcdp(rho), normal(math.sqrt(2 * rho))

    def of_soft_vote() -> tuple[PrivacyProfile, Pair]:
        beta, answers = between(g, 0.02, 0.6), int(g.integers(1, 60))
        return accounting.soft_vote(beta=beta, answers=answers), soft_pair(
            beta, answers
        )

    def of_noisy_vote() -> tuple[PrivacyProfile, Pair]:
        beta, answers = between(g, 0.02, 0.6), int(g.integers(1, 60))
        return accounting.noisy_vote(inverse_scale=beta, answers=answers), noisy_pair(
            beta, answers
        )

    def of_gnmax() -> tuple[PrivacyProfile, Pair]:
        sigma, answers = between(g, 2, 60), int(g.integers(1, 60))
        return accounting.gnmax(sigma=sigma, answers=answers), normal_vote(
            sigma, answers
        )

    def of_confident() -> tuple[PrivacyProfile, Pair]:
        sigmas = between(g, 2, 60), between(g, 2, 60)
        profile = accounting.confident_gnmax(
            sigma_threshold=sigmas[0], sigma_answer=sigmas[1], queries=1, answers=1
        )
        return profile, confident_pair(*sigmas)

    def of_filter() -> tuple[PrivacyProfile, Pair]:
        sigma, budget = between(g, 2, 60), int(g.integers(1, 60))
        return accounting.chunk_filter(budget=budget, sigma=sigma), normal_vote(
            sigma, budget
        )

    def of_last() -> tuple[PrivacyProfile, Pair]:
        setting = (
            1.0,
            between(g, 0.02, 0.5),
            int(g.integers(1, 60)),
            float(g.uniform(0.5, 0.99)),
        )
        sigma, shift, steps, contraction = setting
        profile = accounting.last_iterate(
            sigma=sigma, shift=shift, steps=steps, contraction=contraction
        )
        return profile, iterate(*setting)

    def of_loss_perturbation() -> tuple[PrivacyProfile, Pair]:
        n_classes, regulariser, sigma = (
            int(g.integers(2, 4)),
            between(g, 0.3, 100),
            between(g, 0.5, 10),
        )
        profile = accounting.loss_perturbation(
            n_classes=n_classes, regulariser=regulariser, sigma=sigma
        )
        return profile, perturbed(n_classes, regulariser, sigma)

    return {
        name.removeprefix("of_"): made
        for name, made in locals().items()
        if name.startswith("of_")
    }


def tightness(settings: int, names: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """One row for each constructor: worst and median ratio of the bound to the lower
    bound over random settings.
    """
    for name in names or families(np.random.default_rng(0)):
        # the same with others and alone
        made = families(np.random.default_rng([17, zlib.crc32(name.encode())]))[name]
        ratios: dict[str, list[float]] = {"delta": [], "epsilon": []}
        profile = made()[0]
        for _ in range(settings):
            profile, pair = made()
            found = {
                e: pair.delta(e)
                for e in (0.0, *(epsilon_of(pair, delta) for delta in DELTAS))
                if e < math.inf
            }
            e, d = np.array(list(found.items())).T
            seen, compared = d > 1e-12, (d > 1e-12) & (e > SMALL)
            ratios["delta"] += (profile.delta(e[seen]) / d[seen]).tolist()
            ratios["epsilon"] += (profile.epsilon(d[compared]) / e[compared]).tolist()
        yield {
            "constructor": name,
            "exactness": profile.exactness,
            "settings": settings,
            "below": sum(ratio < 1 - 1e-6 for ratio in ratios["delta"]),
            **{
                f"worst_{kind}": max(values, default=1.0)
                for kind, values in ratios.items()
            },
            **{
                f"median_{kind}": float(np.median(values)) if values else 1.0
                for kind, values in ratios.items()
            },
        }


def members() -> dict[str, tuple[PrivacyProfile, Pair]]:
    """One profile of every constructor, and of each of its forms, with a pair that
    it must cover.
    """
    a = accounting
    votes = [[40.0, 6.0], [45.0, 1.0]]
    leads = [v[0] - v[1] for v in votes]
    known = [
        special.ndtr(np.array([lead, lead - 2]) / math.sqrt(2) / 10) for lead in leads
    ]
    p, q = (
        np.outer(*(np.array([w[i], 1 - w[i]]) for w in known)).ravel() for i in (0, 1)
    )
    replace = {"adjacency": "replace-one"}
    pate = {"sigma_threshold": 40.0, "sigma_answer": 20.0, "queries": 1, "answers": 1}
    return {
        "gaussian": (a.gaussian(sigma=4.0), normal(0.25)),
        "gaussian_of_advantage": (
            a.gaussian_of_advantage(0.1),
            normal(2 * special.ndtri(0.55)),
        ),
        "laplace": (a.laplace(scale=3.0), laplace_pair(1 / 3)),
        "laplace, 20": (
            a.laplace(scale=9.0).compose(20),
            Pair(*_arrays(laplace_pair(1 / 9)), times=20),
        ),
        "pure": (a.pure(0.3), response(0.3)),
        "pure, 30": (
            a.pure(0.05).compose(30),
            Pair(*_arrays(response(0.05)), times=30),
        ),
        "approximate": (a.approximate(0.2, 1e-6), response(0.2, 1e-6)),
        "zcdp": (a.zcdp(0.02), normal(0.2)),
        "bagging": (a.bagging(n=10**7, subsample=10), sample(1e-6)),
        "bagging, without replacement": (
            a.bagging(n=10**7, subsample=10, replace=False),
            sample(1e-6),
        ),
        "bagging, split": (
            a.bagging(n=10**7, subsample=2, n_models=2, replace=False, scheme="split"),
            sample(4e-7),
        ),
        "subsampled gaussian": (
            a.subsampled(a.gaussian(sigma=1.0), sample_rate=0.05),
            normal(1.0, 0.05),
        ),
        "subsampled laplace": (
            a.subsampled(a.laplace(scale=1.0), sample_rate=0.05),
            laplace_pair(1.0, 0.05),
        ),
        "subsampled pure": (
            a.subsampled(a.pure(2.0), sample_rate=0.05),
            response(2.0, 0.0, 0.05),
        ),
        "dp_sgd": (
            a.dp_sgd(noise_multiplier=2.0, sample_rate=0.02, steps=100),
            sgd(2.0, 0.02, 100),
        ),
        "dp_sgd, rdp": (
            a.dp_sgd(
                noise_multiplier=2.0, sample_rate=0.02, steps=100, accountant="rdp"
            ),
            sgd(2.0, 0.02, 100),
        ),
        "soft_vote": (a.soft_vote(beta=0.2), soft_pair(0.2, 1)),
        "soft_vote, 20": (a.soft_vote(beta=0.05, answers=20), soft_pair(0.05, 20)),
        "noisy_vote": (
            a.noisy_vote(inverse_scale=0.05, answers=20),
            noisy_pair(0.05, 20),
        ),
        "noisy_vote, 3 classes": (
            a.noisy_vote(inverse_scale=0.05, answers=5, n_classes=3),
            noisy_pair(0.05, 5),
        ),
        "gnmax": (a.gnmax(sigma=20.0, answers=10), normal_vote(20.0, 10)),
        "gnmax, published": (
            a.gnmax(sigma=20.0, answers=10, analysis="published"),
            normal_vote(20.0, 10),
        ),
        "gnmax, known votes": (a.gnmax(sigma=10.0, counts=votes), Pair(p, q)),
        "confident_gnmax": (a.confident_gnmax(**pate), confident_pair(40.0, 20.0)),  # type: ignore[arg-type]
        "chunk_filter": (a.chunk_filter(budget=10, sigma=20.0), normal_vote(20.0, 10)),
        "last_iterate": (
            a.last_iterate(
                sigma=1.0, shift=0.05, steps=30, contraction=0.9, adjacency="add-remove"
            ),
            iterate(1.0, 0.05, 30, 0.9),
        ),
        "compose": (
            a.compose(a.gaussian(sigma=5.0), a.laplace(scale=5.0)),
            normal(0.2),
        ),
        "gaussian, replace-one": (a.gaussian(sigma=4.0, **replace), normal(0.25)),
        "subsampled, fixed size": (
            a.subsampled(
                a.gaussian(sigma=1.0, sensitivity=2.0, **replace), n=100, subsample=5
            ),
            normal(2.0, 0.05),
        ),
        "loss_perturbation": (
            a.loss_perturbation(n_classes=3, regulariser=100.0, sigma=8.0),
            normal(0.0),
        ),
    }


def _arrays(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    return pair.p, pair.q


def on_fine_grid(profile: PrivacyProfile) -> Any:
    """Pessimistic loss distribution of a profile's two curves, by the other
    library's rounding of deltas.
    """
    reach = max(0.05, min(float(profile.epsilon(1e-13)), 12.0)) + 5 * INTERVAL
    cells = math.ceil(reach / INTERVAL)
    grid = np.arange(-cells, cells + 1)
    epsilons = grid * INTERVAL

    def half(there: str, back: str) -> Any:
        ahead = np.asarray(profile.delta(np.abs(epsilons), direction=there))
        mirrored = 1 - np.exp(epsilons) * (
            1 - np.asarray(profile.delta(np.abs(epsilons), direction=back))
        )
        deltas = np.where(epsilons >= 0, ahead, mirrored)
        # but for rounding it is already
        falling = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots(INTERVAL, grid, falling)

    return pld.PrivacyLossDistribution(half("remove", "add"), half("add", "remove"))


def matrix(names: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """One row for each pair: ours, the fine grid's and the lower bound of epsilon at
    delta = 1e-5, or the refusal.
    """
    chosen = {
        name: member for name, member in members().items() if not names or name in names
    }
    fine, low = {}, {}
    for name, (profile, pair) in chosen.items():
        fine[name] = on_fine_grid(profile)
        low[name] = Pair(pair.p, pair.q, pair.times).losses
    for first, second in combinations_with_replacement(chosen, 2):
        one, two = chosen[first][0], chosen[second][0]
        row: dict[str, Any] = {
            "first": first,
            "second": second,
            "refused": one.adjacency != two.adjacency,
        }
        try:
            ours = accounting.compose(one, two).epsilon(TOTAL)
        except ValueError as refusal:
            yield {**row, "reason": str(refusal)[:60]}
            continue
        grid = fine[first].compose(fine[second]).get_epsilon_for_delta(TOTAL)
        lower = low[first].compose(low[second]).get_epsilon_for_delta(TOTAL)
        yield {
            **row,
            "reason": "",
            "ours": ours,
            "fine_grid": float(grid),
            "lower": float(lower),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "families",
        nargs="*",
        help="of the first table, those alone; default: all, and the second",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="store the rows in book/results/foundations_*.csv",
    )
    parser.add_argument(
        "--settings", type=int, default=200, help="random settings of each constructor"
    )
    given = parser.parse_args()
    if unknown := set(given.families) - set(families(np.random.default_rng(0))):
        parser.error(
            f"families must be of {', '.join(families(np.random.default_rng(0)))}, got"
            f" {sorted(unknown)}"
        )
    warnings.filterwarnings("ignore", module="dp_accounting")
    kept = {"kept": given.keep, "exact": True}
    rows = tightness(given.settings, tuple(given.families))
    table(RESULTS / "foundations_tightness.csv", rows, ["constructor"], **kept)
    if not given.families:
        table(
            RESULTS / "foundations_composition.csv",
            matrix(),
            ["first", "second"],
            **kept,
        )


if __name__ == "__main__":
    main()
