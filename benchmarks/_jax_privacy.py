"""jax_privacy's side of ``auditing.py``, run by it in an environment of its own:
needs jax_privacy, nothing of ours.
"""

import json
import sys
import time
from importlib import metadata

from jax_privacy import auditing

STRATEGIES = {"Bonferroni": auditing.Bonferroni(), "split": auditing.Split(0.5, seed=0)}
LEVEL = 0.05


def epsilons(members, nonmembers, deltas):
    """For each strategy the bounds of epsilon at these deltas, and the seconds."""
    found = {}
    for name, strategy in STRATEGIES.items():
        started = time.perf_counter()
        auditor = auditing.CanaryScoreAuditor(members, nonmembers)
        bounds = [
            auditor.epsilon_clopper_pearson(
                LEVEL, delta, one_sided=False, threshold_strategy=strategy
            )
            for delta in deltas
        ]
        found[name] = (
            [float(bound) for bound in bounds],
            time.perf_counter() - started,
        )
    return found


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    found = [epsilons(*case["scores"], case["deltas"]) for case in given]
    version = metadata.version("jax_privacy")
    print(json.dumps({"version": version, "found": found}))


if __name__ == "__main__":
    main()
