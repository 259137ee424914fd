"""The figures' closed forms in JavaScript, against the library."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

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
for n, subsample, models in [(60_000, 300, 1), (10, 3, 5), (2, 1, 1), (10**9, 10, 7)]:
    exact = accounting.bagging(n=n, subsample=subsample, n_models=models)
    given = {"n": n, "subsample": subsample, "models": models}
    CASES.append(("bagging", given, exact))

PROGRAM = f"""
const kernel = require({json.dumps(str(KERNEL))});
const {{ cases, epsilons, rates }} = JSON.parse(require("fs").readFileSync(0));
const found = cases.map(([name, given]) => {{
  const {{ delta, tpr }} = kernel[name](given);
  return [epsilons.map(delta), rates.map(tpr)];
}});
console.log(JSON.stringify(found));
"""


@pytest.mark.needs("node")
def test_closed_forms_equal_the_library():
    asked = {"cases": [case[:2] for case in CASES], "epsilons": EPSILONS}
    done = subprocess.run(
        ["node", "-e", PROGRAM],
        input=json.dumps(asked | {"rates": RATES}),
        capture_output=True,
        text=True,
        check=True,
    )
    for (name, given, exact), found in zip(CASES, json.loads(done.stdout), strict=True):
        expected = exact.delta(EPSILONS), exact.tpr(RATES)
        for ours, theirs in zip(found, expected, strict=True):
            gap = np.abs(np.array(ours, dtype=float) - theirs).max()
            assert gap < ROUND, (name, given)
