"""Upper bounds against lower bounds: every constructor of a proved profile by itself,
and composed with all others.

A lower bound is explicit: two distributions that the mechanism has on adjacent data
sets, on finitely many outcomes (densities are put into bins, which reveals less), and
their hockey-stick divergence; compositions by the optimistic loss distribution of
dp_accounting. ``python -m benchmarks.tightness`` prints both tables, or the rows of the
families that are named; with ``--keep`` both are stored in ``book/results``, for the
foundations.
"""

import argparse
import math
import warnings
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd
from dp_accounting.pld import pld_pmf, privacy_loss_distribution as pld
from scipy import optimize, special, stats

from dpnotes import accounting as a
from tests.accounting.loss_densities import Problem, grid, log_ratio

from ._common import RESULTS

DELTAS = (1e-2, 1e-5)  # at which epsilons are compared
INTERVAL = 1e-3  # of the loss distributions in the matrix
TOTAL = 1e-5  # delta of the matrix
# an epsilon below which ratios of epsilons are not compared: the lower bound reaches 0
SMALL = 0.01
# of an axis, for the densities of loss perturbation, by classes
POINTS = {2: 2001, 3: 81}


@dataclass(frozen=True)
class Pair:
    """Two distributions on the same outcomes [outcomes], drawn so many times; with
    ``coarse`` less what their deltas change by when every second point is left out.
    """

    p: np.ndarray
    q: np.ndarray
    times: int = 1
    coarse: Any = None

    def delta(self, epsilon):
        """Lower bound of delta, the larger direction."""
        if self.times > 1:
            return float(self.losses.get_delta_for_epsilon(epsilon))
        factor = math.exp(epsilon)
        one = np.maximum(self.p - factor * self.q, 0.0).sum()
        two = np.maximum(self.q - factor * self.p, 0.0).sum()
        found = float(max(one, two))
        # the error of a grid is about what half of its points change
        if self.coarse is not None:
            found = max(0.0, found - abs(found - self.coarse.delta(epsilon)))
        return found

    @cached_property
    def losses(self):
        """Optimistic loss distribution of all draws."""
        logs = []
        for masses in (self.q, self.p):
            possible = np.flatnonzero(masses > 0)
            logs.append(dict(zip(possible, np.log(masses[possible]), strict=True)))
        losses = pld.from_two_probability_mass_functions(
            *logs,
            pessimistic_estimate=False,
            # losses are rounded down to this grid, and the more the more steps there are
            value_discretization_interval=INTERVAL / 10,
            symmetric=False,
        )
        return losses.self_compose(self.times) if self.times > 1 else losses

    def epsilon(self, delta):
        """Epsilon of the pair, which no guarantee may be below."""
        if self.delta(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.delta(high) > delta:
            high *= 2
            if high > 200:
                return math.inf

        def excess(epsilon):
            return self.delta(epsilon) - delta

        return optimize.brentq(excess, 0.0, high, xtol=1e-9)


def shifted(cdf, mu, rate, edges):
    """A symmetric distribution moved by ``mu`` with chance ``rate``, against itself;
    outcomes are between the edges.

    Each mass is a difference of its nearer tail: far out, those of numbers near 1 are
    rounding.
    """

    def masses(weight):
        below = weight * cdf(edges - mu) + (1 - weight) * cdf(edges)
        above = weight * cdf(mu - edges) + (1 - weight) * cdf(-edges)
        rise = np.diff(below, prepend=0.0, append=1.0)
        fall = -np.diff(above, prepend=1.0, append=0.0)
        return np.where(np.append(below, 1.0) < 0.5, rise, fall)

    return Pair(masses(rate), masses(0.0))


def normal(mu, rate=1.0):
    """N(-mu, 1) with probability ``rate`` and else N(0, 1), against N(0, 1)."""
    return shifted(special.ndtr, -mu, rate, np.linspace(-9.0 - mu, 9.0, 4000))


def laplace_pair(mu, rate=1.0):
    # the loss changes between the two centres, and hardly in the tails
    middle = np.linspace(0.0, mu, 2001)[1:]
    above = np.linspace(mu, 30, 600)[1:]
    edges = np.concatenate([np.linspace(-30.0, 0.0, 600), middle, above])
    return shifted(stats.laplace.cdf, mu, rate, edges)


def coins(losing, winning, times):
    """The pair of coins, thrown ``times`` times, that reveals most at delta = 1e-5,
    of those with these chances.
    """
    heads = np.arange(times + 1)
    chances = np.transpose([losing, winning])[:, :, None]
    masses = stats.binom.pmf(heads, times, chances)
    return most_revealing([Pair(*both) for both in masses])


def most_revealing(pairs):
    """The pair with the largest delta near the epsilon at which it is 1e-5."""
    found = pairs[len(pairs) // 2]
    for _ in range(2):
        epsilon = found.epsilon(1e-5)
        found = max(pairs, key=lambda pair: pair.delta(epsilon))
    return found


def response(epsilon, delta=0.0, rate=1.0):
    """Randomised response with e^epsilon, the record revealed with chance delta,
    taking part with chance ``rate``.
    """
    # probability of the true answer where nothing is revealed
    true = (1 - delta) * special.expit(epsilon)
    p = np.array([delta, true, 1 - delta - true, 0.0])
    q = p[::-1]
    return Pair(rate * p + (1 - rate) * q, q)


def sample(inclusion):
    """Whether the record is in the sample."""
    return Pair(np.array([inclusion, 1 - inclusion]), np.array([0.0, 1.0]))


def normal_vote(sigma, answers):
    # how far the first class is ahead, from hopeless to sure
    lead = np.linspace(-3, 3, 61) * sigma
    chances = special.ndtr(np.stack([lead, lead + 2]) / math.sqrt(2) / sigma)
    return coins(*chances, answers)


# Each constructor: a profile and its pair.


def gaussian(mu):
    return a.gaussian(sigma=2 / mu, sensitivity=2.0), normal(mu)


def advantage(value):
    pair = normal(2 * special.ndtri((1 + value) / 2))
    return a.gaussian_of_advantage(value), pair


def laplace(mu):
    return a.laplace(scale=2 / mu, sensitivity=2.0), laplace_pair(mu)


def pure(epsilon, times):
    # randomised response is the worst: of its answers only their number counts
    pair = coins([special.expit(-epsilon)], [special.expit(epsilon)], times)
    return a.pure(epsilon).compose(times), pair


def approximate(epsilon, delta):
    return a.approximate(epsilon, delta), response(epsilon, delta)


def bagging(n, k, models, kind):
    """With replacement, without, or disjoint subsamples."""
    how = {"n": n, "subsample": k, "replace": kind == 0}
    if kind == 2:
        models = max(1, min(models, n // k))
        how["scheme"] = "split"
    # the chance that no model sees the record, by kind
    missed = ((1 - 1 / n) ** (k * models), (1 - k / n) ** models, 1 - k * models / n)
    return a.bagging(n_models=models, **how), sample(1 - missed[kind])


def sampled(mu, rate):
    base = a.gaussian(sigma=1 / mu)
    return a.subsampled(base, sample_rate=rate), normal(mu, rate)


def sampled_laplace(mu, rate):
    base = a.laplace(scale=1 / mu)
    return a.subsampled(base, sample_rate=rate), laplace_pair(mu, rate)


def sampled_statement(epsilon, rate):
    profile = a.subsampled(a.pure(epsilon), sample_rate=rate)
    return profile, response(epsilon, rate=rate)


def fixed_size(mu, k):
    base = a.gaussian(sigma=1 / mu, sensitivity=2.0, adjacency="replace-one")
    # all others like the new one
    return a.subsampled(base, n=100, subsample=k), normal(2 * mu, k / 100)


def sgd(sigma, rate, steps, **more):
    profile = a.dp_sgd(noise_multiplier=sigma, sample_rate=rate, steps=steps, **more)
    return profile, replace(normal(1 / sigma, rate), times=steps)


def zcdp(rho):
    return a.zcdp(rho), normal(math.sqrt(2 * rho))


def soft_vote(beta, answers):
    # a record moves two votes, one from a class and one to the other
    margin = beta * np.linspace(-40, 40, 161)
    pair = coins(special.expit(margin), special.expit(margin + 2 * beta), answers)
    return a.soft_vote(beta=beta, answers=answers), pair


def noisy_vote(beta, answers, **more):
    def won(lead):
        lost = (2 + beta * np.abs(lead)) / 4 * np.exp(-beta * np.abs(lead))
        return np.where(lead > 0, 1 - lost, lost)

    lead = np.linspace(-12, 12, 161) / beta
    pair = coins(won(lead), won(lead + 2), answers)
    return a.noisy_vote(inverse_scale=beta, answers=answers, **more), pair


def gnmax(sigma, answers, **more):
    profile = a.gnmax(sigma=sigma, answers=answers, **more)
    return profile, normal_vote(sigma, answers)


def confident(threshold, sigma):
    """One query that is answered if it passes; the votes at which all is near a tie
    reveal most.
    """

    def outcome(top, lead):
        passed = special.ndtr(top / threshold)
        won = special.ndtr(lead / math.sqrt(2) / sigma)
        return np.array([1 - passed, passed * won, passed * (1 - won)])

    pairs = []
    for top in np.linspace(-3, 3, 25) * threshold:
        for lead in np.linspace(-3, 3, 25) * sigma:
            masses = outcome(top - 0.5, lead - 1), outcome(top + 0.5, lead + 1)
            pairs.append(Pair(*masses))
    profile = a.confident_gnmax(
        sigma_threshold=threshold, sigma_answer=sigma, queries=1, answers=1
    )
    return profile, most_revealing(pairs)


def chunk_filter(sigma, budget):
    return a.chunk_filter(budget=budget, sigma=sigma), normal_vote(sigma, budget)


def last(shift, steps, contraction, **more):
    """A quadratic on which the record moves every step the same way."""
    powers = contraction ** np.arange(steps)
    # what of the record's moves and of the noise is left at the end
    moved = shift * powers.sum() / math.sqrt((powers**2).sum())
    profile = a.last_iterate(
        sigma=1.0, shift=shift, steps=steps, contraction=contraction, **more
    )
    return profile, normal(moved)


def loss_perturbation(n_classes, regulariser, sigma):
    """Weights of one feature with and without a record; the others leave its class
    to the noise, or steer from it.
    """
    many = 30 * (regulariser + sigma)
    size = POINTS[n_classes]
    # the part of the noise along the sum of the classes is the same for all data
    axes = n_classes - 1
    profile = a.loss_perturbation(
        n_classes=n_classes, regulariser=regulariser, sigma=sigma
    )
    found = []
    for times, other in ((0.0, 1), (many, 1), (many, n_classes - 1)):
        others = np.ones((2, 1)), np.array([1, other]), np.full(2, times)
        problem = Problem(*others, (np.ones(1), 0), None, n_classes, regulariser, sigma)
        points, q = grid(problem, size)
        p = q * np.exp(log_ratio(problem, points))
        grids = np.stack([p, q]).reshape(2, *[size] * axes)
        # every second point of each axis, with the mass of those left out
        half = grids[:, ::2] if axes == 1 else grids[:, ::2, ::2]
        coarse = Pair(*half.reshape(2, -1) * 2**axes)
        found.append(Pair(p, q, coarse=coarse))
    return profile, most_revealing(found)


def families(g):
    """How each constructor is drawn; exact ones first."""

    def u(low, high):
        return float(np.exp(g.uniform(math.log(low), math.log(high))))

    def k(low, high):
        return int(g.integers(low, high))

    return {
        "gaussian": lambda: gaussian(u(0.05, 3)),
        "advantage": lambda: advantage(u(0.03, 0.8)),
        "laplace": lambda: laplace(u(0.1, 5)),
        "pure": lambda: pure(u(0.05, 2), k(1, 30)),
        "approximate": lambda: approximate(u(0.05, 5), u(1e-8, 0.1)),
        "bagging": lambda: bagging(k(20, 500), k(1, 20), k(1, 10), k(0, 3)),
        "sampled": lambda: sampled(u(0.3, 3), u(0.01, 0.9)),
        "sampled_laplace": lambda: sampled_laplace(u(0.3, 5), u(0.01, 0.9)),
        "sampled_statement": lambda: sampled_statement(u(0.1, 5), u(0.01, 0.9)),
        "fixed_size": lambda: fixed_size(u(0.3, 3), k(1, 50)),
        "sgd": lambda: sgd(u(0.8, 4), u(0.01, 0.2), k(2, 200)),
        "zcdp": lambda: zcdp(u(1e-3, 2)),
        "soft_vote": lambda: soft_vote(u(0.02, 0.6), k(1, 60)),
        "noisy_vote": lambda: noisy_vote(u(0.02, 0.6), k(1, 60)),
        "gnmax": lambda: gnmax(u(2, 60), k(1, 60)),
        "confident": lambda: confident(u(2, 60), u(2, 60)),
        "filter": lambda: chunk_filter(u(2, 60), k(1, 60)),
        "last": lambda: last(u(0.02, 0.5), k(1, 60), float(g.uniform(0.5, 0.99))),
        "loss_perturbation": lambda: loss_perturbation(
            k(2, 4), u(0.3, 100), u(0.5, 10)
        ),
    }


def tightness(settings, names=()):
    """One row for each constructor: worst and median ratio of the bound to the lower
    bound over random settings.
    """
    for name in names or families(None):
        # the same with others and alone
        made = families(np.random.default_rng([17, zlib.crc32(name.encode())]))[name]
        deltas = []
        epsilons = []
        # the stored rows have not used the first draw
        made()
        for _ in range(settings):
            profile, pair = made()
            for e in {0.0, *map(pair.epsilon, DELTAS)} - {math.inf}:
                d = pair.delta(e)
                # below it a delta is rounding
                if d <= 1e-12:
                    continue
                deltas.append(profile.delta(e) / d)
                if e > SMALL:
                    epsilons.append(profile.epsilon(d) / e)
        # where no epsilon is compared
        epsilons = epsilons or [1.0]
        yield {
            "constructor": name,
            "exactness": profile.exactness,
            "settings": settings,
            "below": sum(ratio < 1 - 1e-6 for ratio in deltas),
            "worst_delta": max(deltas),
            "worst_epsilon": max(epsilons),
            "median_delta": float(np.median(deltas)),
            "median_epsilon": float(np.median(epsilons)),
        }


def members():
    """One profile of every constructor, and of each of its forms, with a pair that
    it must cover.
    """

    def times(made, number):
        profile, pair = made
        return profile.compose(number), replace(pair, times=number)

    # queries whose votes are public
    votes = np.array([[40.0, 6.0], [45.0, 1.0]])
    lead = votes[:, 0] - votes[:, 1]
    # both labels are shown: the outcomes are pairs, with products of the chances
    chances = special.ndtr(np.stack([lead, lead - 2]) / math.sqrt(2) / 10)
    known = [np.outer((x, 1 - x), (y, 1 - y)).ravel() for x, y in chances]
    replaced = a.gaussian(sigma=4.0, adjacency="replace-one")
    minimiser = a.loss_perturbation(n_classes=3, regulariser=100.0, sigma=8.0)
    return {
        "gaussian": gaussian(0.25),
        "gaussian_of_advantage": advantage(0.1),
        "laplace": laplace(1 / 3),
        "laplace, 20": times(laplace(1 / 9), 20),
        "pure": pure(0.3, 1),
        "pure, 30": pure(0.05, 30),
        "approximate": approximate(0.2, 1e-6),
        "zcdp": zcdp(0.02),
        "bagging": bagging(10**7, 10, 1, 0),
        "bagging, without replacement": bagging(10**7, 10, 1, 1),
        "bagging, split": bagging(10**7, 2, 2, 2),
        "subsampled gaussian": sampled(1.0, 0.05),
        "subsampled laplace": sampled_laplace(1.0, 0.05),
        "subsampled pure": sampled_statement(2.0, 0.05),
        "dp_sgd": sgd(2.0, 0.02, 100),
        "dp_sgd, rdp": sgd(2.0, 0.02, 100, accountant="rdp"),
        "soft_vote": soft_vote(0.2, 1),
        "soft_vote, 20": soft_vote(0.05, 20),
        "noisy_vote": noisy_vote(0.05, 20),
        "noisy_vote, 3 classes": noisy_vote(0.05, 5, n_classes=3),
        "gnmax": gnmax(20.0, 10),
        "gnmax, published": gnmax(20.0, 10, analysis="published"),
        "gnmax, known votes": (a.gnmax(sigma=10.0, counts=votes), Pair(*known)),
        "confident_gnmax": confident(40.0, 20.0),
        "chunk_filter": chunk_filter(20.0, 10),
        "last_iterate": last(0.05, 30, 0.9, adjacency="add-remove"),
        "compose": (a.compose(gaussian(0.2)[0], laplace(0.2)[0]), normal(0.2)),
        "gaussian, replace-one": (replaced, normal(0.25)),
        "subsampled, fixed size": fixed_size(1.0, 5),
        # a pair that shows nothing: of this one the densities are not computed
        "loss_perturbation": (minimiser, normal(0.0)),
    }


def on_fine_grid(profile):
    """Pessimistic loss distribution of a profile's two curves, by the other
    library's rounding of deltas.
    """
    reach = max(0.05, min(float(profile.epsilon(1e-13)), 12.0)) + 5 * INTERVAL
    # to where nothing is left of delta
    cells = math.ceil(reach / INTERVAL)
    places = np.arange(-cells, cells + 1)
    epsilons = places * INTERVAL

    def half(there, back):
        ahead = profile.delta(np.abs(epsilons), direction=there)
        behind = profile.delta(np.abs(epsilons), direction=back)
        mirrored = 1 - np.exp(epsilons) * (1 - np.asarray(behind))
        deltas = np.clip(np.where(epsilons >= 0, ahead, mirrored), 0.0, 1.0)
        # but for rounding it is already
        falling = np.maximum.accumulate(deltas[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots(INTERVAL, places, falling)

    return pld.PrivacyLossDistribution(half("remove", "add"), half("add", "remove"))


def matrix(names=()):
    """One row for each pair: ours, the fine grid's and the lower bound of epsilon at
    delta = 1e-5, or the refusal.
    """
    chosen = {k: made for k, made in members().items() if not names or k in names}
    fine = {name: on_fine_grid(profile) for name, (profile, _) in chosen.items()}
    for first, second in combinations_with_replacement(chosen, 2):
        (one, low), (two, other) = chosen[first], chosen[second]
        row = {"first": first, "second": second}
        row["refused"] = one.adjacency != two.adjacency
        try:
            ours = a.compose(one, two).epsilon(TOTAL)
        except ValueError as refusal:
            yield {**row, "reason": str(refusal)[:60]}
            continue
        finest = fine[first].compose(fine[second]).get_epsilon_for_delta(TOTAL)
        lower = low.losses.compose(other.losses).get_epsilon_for_delta(TOTAL)
        grids = {"fine_grid": float(finest), "lower": float(lower)}
        yield {**row, "reason": "", "ours": ours, **grids}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--keep", action="store_true", help="store both tables")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module="dp_accounting")
    made = {"tightness": tightness(200, given.families)}
    if not given.families:
        made["composition"] = matrix()
    for name, rows in made.items():
        found = pd.DataFrame(rows)
        print(found.to_string(), flush=True)
        if given.keep and not given.families:
            found.to_csv(RESULTS / f"foundations_{name}.csv", index=False)


if __name__ == "__main__":
    main()
