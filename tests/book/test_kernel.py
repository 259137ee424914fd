"""The figures' closed forms in JavaScript, against the library."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from dpnotes import accounting

KERNEL = Path(__file__).parents[2] / "book" / "_static" / "kernel.js"
ROUND = 1e-9
EPSILONS = [0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 100.0]
RATES = [0.0, 1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1.0]
SCALES = [0.05, 0.3, 1.0, 2.5, 10.0, 300.0]
CASES = []
for scale in SCALES:
    CASES += [
        ("gaussian", {"sigma": scale}, accounting.gaussian(sigma=scale)),
        ("laplace", {"scale": scale}, accounting.laplace(scale=scale)),
        ("softVote", {"beta": 1 / scale}, accounting.soft_vote(beta=1 / scale)),
        ("randomisedResponse", {"epsilon": 1 / scale}, accounting.pure(1 / scale)),
    ]
for epsilon, delta in [(0.1, 1e-5), (1.0, 1e-10), (8.0, 0.01)]:
    given = {"epsilon": epsilon, "delta": delta}
    CASES.append(("approximate", given, accounting.approximate(epsilon, delta)))
for n, subsample, models in [(60_000, 300, 1), (10, 3, 5), (2, 1, 1), (10**9, 10, 7)]:
    exact = accounting.bagging(n=n, subsample=subsample, n_models=models)
    given = {"n": n, "subsample": subsample, "models": models}
    CASES.append(("bagging", given, exact))

LOAD = f"""
const kernel = require({json.dumps(str(KERNEL))});
const given = JSON.parse(require("fs").readFileSync(0));
"""
PROGRAM = """
const { cases, epsilons, rates } = given;
const found = cases.map(([name, settings]) => {
  const { delta, tpr } = kernel[name](settings);
  return [epsilons.map(delta), rates.map(tpr)];
});
console.log(JSON.stringify(found));
"""


def node(program, given):
    """What a program prints that has the kernel and what it is given."""
    done = subprocess.run(
        ["node", "-e", LOAD + program],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.needs("node")
def test_closed_forms_equal_the_library():
    asked = {"cases": [case[:2] for case in CASES], "epsilons": EPSILONS}
    answers = node(PROGRAM, asked | {"rates": RATES})
    for (name, given, exact), found in zip(CASES, answers, strict=True):
        expected = exact.delta(EPSILONS), exact.tpr(RATES)
        for ours, theirs in zip(found, expected, strict=True):
            gap = np.abs(np.array(ours, dtype=float) - theirs).max()
            assert gap < ROUND, (name, given)


@pytest.mark.needs("node")
def test_what_is_solved_for_equals_the_library():
    pairs = [(0.1, 1e-10), (1.0, 1e-5), (16.0, 1e-3)]
    program = """
    const epsilons = given.map(([epsilon, delta]) => kernel.epsilon(kernel.gaussian({ sigma: 1 / epsilon }), delta));
    console.log(JSON.stringify([epsilons, given.map((pair) => kernel.sigma(...pair))]));
    """
    epsilons, sigmas = node(program, pairs)
    for (epsilon, delta), found, sigma in zip(pairs, epsilons, sigmas, strict=True):
        exact = accounting.gaussian(sigma=1 / epsilon).epsilon(delta)
        assert found == pytest.approx(exact, rel=ROUND)
        exact = accounting.gaussian_sigma(epsilon, delta)
        assert sigma == pytest.approx(exact, rel=ROUND)


@pytest.mark.needs("node")
def test_a_vote_with_laplace_noise_is_won_as_often_as_an_integral_says():
    leads = [-30.0, -1.0, 0.0, 1.0, 7.0]
    program = """
    console.log(JSON.stringify(given.map((lead) => kernel.laplaceWins({ lead, scale: 2 }))));
    """
    noise = stats.laplace(scale=2)
    for lead, found in zip(leads, node(program, leads), strict=True):
        # the noise of this class is below that of the other plus the lead
        inside = lambda x, lead=lead: noise.pdf(x) * noise.cdf(x + lead)  # noqa: E731
        exact, _ = integrate.quad(inside, -80, 80, points=[-lead, 0], limit=200)
        assert found == pytest.approx(exact, abs=ROUND)


@pytest.mark.needs("node")
def test_many_releases_are_nearly_what_the_library_has():
    """The grid of the browser is coarser, which no reader of a figure sees."""
    descents = [(0.7, 0.01, 10), (1.4, 0.01, 1000), (2.8, 0.1, 1000)]
    votes = [(0.1, 10), (0.1, 100), (1.0, 10)]
    exact = [
        accounting.dp_sgd(noise_multiplier=sigma, sample_rate=rate, steps=steps)
        for sigma, rate, steps in descents
    ]
    exact += [accounting.soft_vote(beta=beta, answers=count) for beta, count in votes]
    rates = [1e-5, 1e-3, 0.1, 0.9]
    program = """
    const { descents, votes, rates } = given;
    const all = descents.map(([sigma, rate, steps]) => kernel.dpSgd({ sigma, rate, steps }));
    all.push(...votes.map(([beta, answers]) => kernel.softVotes({ beta, answers })));
    console.log(JSON.stringify(all.map((m) => [m.delta(0), kernel.epsilon(m, 1e-5), rates.map(m.tpr)])));
    """
    found = node(program, {"descents": descents, "votes": votes, "rates": rates})
    for profile, (advantage, epsilon, tpr) in zip(exact, found, strict=True):
        assert advantage == pytest.approx(profile.advantage, rel=2e-3)
        assert epsilon == pytest.approx(profile.epsilon(1e-5), rel=2e-3)
        assert tpr == pytest.approx(profile.tpr(rates), rel=3e-3)
