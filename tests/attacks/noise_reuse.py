"""Noise that repeats, or that can be guessed.

The target is a function (X, y, **parameters) that fits, with ``random_state`` known to
the attacker.
"""

import ast
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings

import numpy as np
import torch
from sklearn.base import clone

from dpnotes.accounting import gaussian_sigma
from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import (
    RELEASED,
    WITH_WEIGHTS,
    answers,
    estimator,
    ours,
    table,
    weights,
)

X, Y = table()


@attack(broken=broken.fit(broken.OutputPerturbation), ours=ours("ModelSensitivity"))
def two_budgets(target):
    """Fit with one random_state at epsilon 0.1 and 0.2, and solve for the minimiser
    by linear algebra.
    """
    first, second = (
        weights(target(X, Y, epsilon=epsilon, random_state=7)) for epsilon in (0.1, 0.2)
    )
    ratio = gaussian_sigma(0.1, 1e-6) / gaussian_sigma(0.2, 1e-6)
    recovered = (ratio * second - first) / (ratio - 1)
    exact = broken.minimiser(X, Y).weights
    error = np.linalg.norm(recovered - (exact[1] - exact[0])) / np.linalg.norm(
        exact[1] - exact[0]
    )
    return Evidence(
        error < 1e-3, f"the minimiser, with a relative error of {error:.1g}"
    )


@attack(broken=broken.fit(broken.OutputPerturbation), ours=ours(*WITH_WEIGHTS))
def neighbours_with_one_random_state(target):
    """Fit two neighbouring data sets with one random_state. Do the releases differ
    in the direction of the record?
    """
    record = np.zeros(X.shape[1])
    record[3], record[8] = 0.6, -0.7
    changed = X.copy()
    changed[5] = record
    difference = weights(target(changed, Y, random_state=7)) - weights(
        target(X, Y, random_state=7)
    )
    direction = np.linalg.lstsq(np.stack([record, X[5]]).T, difference, rcond=None)[
        0
    ] @ np.stack([record, X[5]])
    # all weights may be 0
    length = np.linalg.norm(difference) or np.inf
    cosine = np.linalg.norm(direction) / length
    return Evidence(
        cosine > 0.96, f"cosine with the span of the two records: {cosine:.4f}"
    )


@attack(broken=broken.fit(broken.OutputPerturbation), ours=ours(*WITH_WEIGHTS))
def guessed_random_state(target):
    """Guess random_state by fits to made-up data. The weight of a feature that is
    always 0 confirms a guess.
    """
    mine, others = X.copy(), table(seed=1)[0]
    mine[:, :3] = others[:, :3] = 0
    seen = weights(target(mine, Y, random_state=23))[:3]
    guesses = [
        weights(target(others, 1 - Y, random_state=seed))[:3] for seed in range(18, 26)
    ]
    largest = np.abs(seen).max()
    if largest == 0:
        return Evidence(False, "all weights are 0")
    errors = np.abs(np.array(guesses) - seen).max(axis=1) / largest
    found = 18 + int(errors.argmin())
    return Evidence(
        bool(errors.min() < 1e-6),
        f"best guess {found}, relative difference {errors.min():.1g}",
    )


def _same_twice(fit):
    first, second = answers(fit()), answers(fit())
    agreement = float(np.mean(first == second)) if first.shape == second.shape else 0.0
    return Evidence(agreement == 1.0, f"{agreement:.0%} of {first.size} outputs equal")


@attack(broken=broken.fit(broken.OutputPerturbation), ours=ours())
def refits_with_one_random_state(target):
    """Fit twice with the same integer random_state, as clones in a search do, and
    compare the releases.
    """
    return _same_twice(lambda: target(X, Y, random_state=3))


@attack(broken=broken.fit(broken.OutputPerturbation), ours=ours(*RELEASED))
def rewound_generator(target):
    """Rewind a RandomState instance between two fits, and compare the releases."""
    state = np.random.RandomState(11)
    start = state.get_state()

    def fit():
        state.set_state(start)
        return target(X, Y, random_state=state)

    return _same_twice(fit)


@attack(broken=broken.fit(broken.GlobalNoise), ours=ours())
def global_seeds(target):
    """Seed all global generators (Python, NumPy, PyTorch) before each of two fits
    without random_state.
    """

    def fit():
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        return target(X, Y)

    return _same_twice(fit)


@attack(
    broken=broken.fit(broken.OutputPerturbation),
    ours={
        name: (
            lambda X, y, name=name, **given: clone(ours(name)[name](X, y, **given)).fit(
                X, y
            )
        )
        for name in RELEASED
    },
)
def clone_of_a_fitted_estimator(target):
    """Fit a clone of a fitted estimator to the same data, and look for a repeated
    release.
    """
    return _same_twice(lambda: target(X, Y, random_state=0))


@attack(
    broken=broken.fit(broken.NoisyAnswers),
    ours=ours("PredictionSensitivity", "SubsampleAggregate", "FilteredVote"),
)
def two_unpickled_copies(target):
    """Load two copies from one pickle, let both resume, and ask them the same
    queries.
    """
    frozen = pickle.dumps(target(X, Y, random_state=0))

    def thaw():
        copy = pickle.loads(frozen)
        held = getattr(copy, "budget_", None) or getattr(copy, "ledger_", None)
        if held is not None:
            held.resume(released=0)
        return copy

    return _same_twice(thaw)


@attack(
    broken=lambda X, y: _AnswersAnew(0).fit(X, y),
    ours=ours("PredictionSensitivity", "SubsampleAggregate", "FilteredVote"),
)
def one_query_asked_twice(target):
    """Ask the same batch of queries twice. If the noise repeats, differences between
    answers are exact.
    """
    fitted = target(X, Y)
    return _same_twice(lambda: fitted)


class _AnswersAnew(broken.NoisyAnswers):
    def decision_function(self, X):
        self.generator_ = np.random.default_rng(self.random_state)
        return super().decision_function(X)


@attack(
    broken=broken.fit(broken.NoiseDrawnOnce),
    ours=ours(
        "ModelSensitivity", "LossPerturbation", "DPSGD", "AugmentedSGD", "NoisySGD"
    ),
)
def forked_processes(target):
    """Draw noise, fork the process twice, and compare the noise that the two new
    processes draw next.
    """
    target(X, Y)

    def child():
        reader, writer = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # newer Pythons warn of threads
            process = os.fork()
        if process == 0:
            try:
                os.write(writer, answers(target(X, Y)).tobytes())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            drawn = pipe.read()
        os.waitpid(process, 0)
        assert drawn, "the forked process failed"
        return np.frombuffer(drawn)

    first, second = child(), child()
    equal = float(np.mean(first == second))
    return Evidence(equal > 0.5, f"{equal:.0%} of {first.size} weights equal")


@attack(
    broken=broken.fit(broken.NoiseDrawnOnce),
    ours=ours("ModelSensitivity", "DPSGD", "PATE"),
)
def threads_at_once(target):
    """Fit in several threads at once, and count the distinct releases."""
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(answers(target(X, Y)).tobytes()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Evidence(
        len(set(results)) < len(threads),
        f"distinct releases: {len(set(results))} of {len(threads)}",
    )


@attack(
    broken=lambda X, y, noise_seed: broken.OutputPerturbation(
        random_state=noise_seed
    ).fit(X, y),
    ours=ours(),
)
def seeded_noise_that_claims_to_be_exact(target):
    """Fit with a noise_seed. Does the profile's implementation say that the noise
    can be repeated?
    """
    fitted = target(X, Y, noise_seed=3)
    said = getattr(getattr(fitted, "profile_", None), "implementation", "nothing")
    return Evidence(
        said != "reproducible"
        and _same_twice(lambda: target(X, Y, noise_seed=3)).success,
        f"the profile says {said}",
    )


@attack(
    broken=lambda X, y, random_state: (
        np.random.default_rng(random_state).random(len(X)) < 0.5
    ),
    ours={
        "DPSGD": lambda X, y, random_state: weights(
            estimator("DPSGD")(
                X, y, random_state=random_state, noise_multiplier=1e-9, steps=1
            )
        )
    },
)
def batches_by_random_state(target):
    """Fit twice with one random_state. The guarantee needs Poisson samples that
    random_state does not decide.
    """
    first, second = (
        np.asarray(target(X, Y, random_state=5), dtype=np.float64) for _ in range(2)
    )
    apart = np.linalg.norm(first - second) / np.linalg.norm(first)
    return Evidence(
        bool(apart < 1e-6),
        f"the first steps of two fits have a relative distance of {apart:.1g}",
    )


@attack(
    broken="import numpy; print([numpy.random.default_rng(0).normal()])",
    ours={
        "five estimators": (
            "from tests.attacks.ours import *; print([answers(estimator(name)(*table(),"
            " random_state=0))[:2].tolist() for name in RELEASED])"
        )
    },
)
def separate_processes(target):
    """Fit with one random_state in two Python processes, and compare the releases."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", target], capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    first, second = (ast.literal_eval(run.stdout) for run in runs)
    equal = sum(a == b for a, b in zip(first, second, strict=True))
    return Evidence(equal > 0, f"{equal} of {len(first)} releases equal")
