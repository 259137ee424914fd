"""What every constructor must satisfy, over ordinary and extreme parameters: curves,
descriptions, named errors.
"""

import inspect
import json
import pickle
import re

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.accounting import (
    approximate,
    bagging,
    chunk_filter,
    compose,
    confident_gnmax,
    dp_sgd,
    dp_sgd_noise_multiplier,
    from_dict,
    gaussian,
    gaussian_of_advantage,
    gaussian_sigma,
    gnmax,
    laplace,
    last_iterate,
    loss_perturbation,
    noisy_vote,
    papers,
    pure,
    soft_vote,
    soft_vote_beta,
    subsampled,
    zcdp,
)
from dpnotes.accounting._profile import ADJACENCIES, IMPLIED

EPSILONS = np.array([0.0, 1e-8, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e3, np.inf])
DELTAS = np.array([0.0, 1e-300, 1e-100, 1e-15, 1e-5, 0.01, 0.5, 0.99, 1.0])
ALPHAS = np.array([0.0, 1e-300, 1e-12, 1e-3, 0.3, 0.99, 1.0])
PATE = {"sigma_threshold": 20.0, "sigma_answer": 9.0, "queries": 10, "answers": 4}

# (constructor, arguments): ordinary ones, of which each numeric argument is also given
# wrong values
CASES = [
    (gaussian, {"sigma": 2.0, "sensitivity": 3.0, "adjacency": "replace-one"}),
    (gaussian_of_advantage, {"advantage": 0.1}),
    (laplace, {"scale": 2.0, "sensitivity": 1.0, "adjacency": "zero-out"}),
    (pure, {"epsilon": 0.3}),
    (approximate, {"epsilon": 0.3, "delta": 1e-6}),
    (zcdp, {"rho": 0.1}),
    (bagging, {"n": 1000, "subsample": 10, "n_models": 3, "scheme": "independent"}),
    (bagging, {"n": 1000, "subsample": 10, "n_models": 3, "analysis": "published"}),
    (soft_vote, {"beta": 0.5, "answers": 3, "analysis": "tight"}),
    (soft_vote, {"beta": 0.5, "answers": 3, "analysis": "published"}),
    (
        noisy_vote,
        {"inverse_scale": 0.2, "answers": 3, "n_classes": 2, "analysis": "tight"},
    ),
    (noisy_vote, {"inverse_scale": 0.2, "answers": 3, "n_classes": 5}),
    (noisy_vote, {"inverse_scale": 0.2, "answers": 3, "analysis": "published"}),
    (gnmax, {"sigma": 20.0, "answers": 10, "analysis": "tight"}),
    (gnmax, {"sigma": 20.0, "answers": 10, "analysis": "published"}),
    (confident_gnmax, {**PATE, "analysis": "tight"}),
    (chunk_filter, {"budget": 1.0, "sigma": 5.0}),
    (
        last_iterate,
        {"sigma": 1.0, "shift": 0.1, "steps": 50, "contraction": 0.9, "diameter": 3.0},
    ),
    (
        dp_sgd,
        {
            "noise_multiplier": 1.0,
            "sample_rate": 0.01,
            "steps": 100,
            "accountant": "rdp",
        },
    ),
    (
        loss_perturbation,
        {"n_classes": 3, "regulariser": 100.0, "sigma": 20.0, "norm": 1.0},
    ),
    (loss_perturbation, {"n_classes": 3, "regulariser": 100.0, "rate": 0.5}),
    (papers.intrinsic_sgd, {"sigma": 1.0, "sensitivity": 0.1}),
]
COUNTS = {"true_positives": 9, "positives": 10, "false_positives": 2, "negatives": 10}
RUN = {"examples": 10, "guesses": 5, "correct": 4}
STEP = {
    "lipschitz": 1.0,
    "smoothness": 0.5,
    "learning_rate": 1.0,
    "batch_size": 32,
    "epochs": 1.0,
}
NUMBERS = [  # functions that give no profile
    (
        gaussian_sigma,
        {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 1.0, "analysis": "tight"},
    ),
    (
        dp_sgd_noise_multiplier,
        {
            "epsilon": 1.0,
            "delta": 1e-5,
            "sample_rate": 0.1,
            "steps": 3,
            "accountant": "rdp",
        },
    ),
    (
        soft_vote_beta,
        {"epsilon": 1.0, "delta": 1e-5, "answers": 3, "analysis": "tight"},
    ),
    (
        accounting.noisy_vote_answers,
        {"epsilon": 1.0, "delta": 1e-5, "inverse_scale": 0.1, "n_classes": 2},
    ),
    (accounting.clopper_pearson, {"successes": 1, "trials": 10, "confidence": 0.9}),
    (accounting.audit_epsilon, {**COUNTS, "delta": 0.1, "confidence": 0.9}),
    (accounting.audit_mu, COUNTS),
    (accounting.audit_delta, {**COUNTS, "epsilon": 0.1}),
    (accounting.one_run_p_value, {**RUN, "delta": 0.1, "epsilon": 0.1}),
    (accounting.one_run_audit, {**RUN, "delta": 0.1, "confidence": 0.9}),
    (accounting.logistic_constants, {"n_classes": 3, "norm": 1.0}),
    (
        accounting.minimiser_sensitivity,
        {"lipschitz": 1.0, "n": 9, "regulariser": 1.0, "objective": "mean"},
    ),
    (accounting.norm_noise_rate, {"epsilon": 1.0, "sensitivity": 1.0, "answers": 2}),
    (
        accounting.prediction_sensitivity_sigma,
        {"epsilon": 1.0, "delta": 1e-5, "answers": 2, "analysis": "tight"},
    ),
    (
        accounting.objective_perturbation,
        {"epsilon": 1.0, "delta": 1e-5, "n_classes": 3, "regulariser": 0.1},
    ),
    (accounting.gradient_quantile, {"delta": 1e-5, "n_classes": 3, "bound": "union"}),
    (
        accounting.step_contraction,
        {"learning_rate": 0.1, "smoothness": 1.0, "convexity": 0.5},
    ),
    (papers.sgd_sensitivity, {**STEP, "analysis": "tight"}),
    (
        papers.augmenting_sigma,
        {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 1.0, "intrinsic_sigma": 0.1},
    ),
    (papers.personalised_moments, {"order": 1.0, "inverse_scale": 0.1, "m": 0.5}),
    (
        papers.personalised_answers,
        {"epsilon": 1.0, "delta": 1e-5, "inverse_scale": 0.1, "m": 0.5},
    ),
    (
        lambda **aim: accounting.calibrate(lambda sigma: gaussian(sigma=sigma), **aim),
        {"mu": 1.0, "start": 1.0},
    ),
    (
        lambda **aim: accounting.calibrate(lambda sigma: gaussian(sigma=sigma), **aim),
        {"tpr": 0.3, "fpr": 0.01},
    ),
]
MORE = {  # what constructors do not make alone
    "gaussian, composed for a group": lambda: gaussian(sigma=2.0).compose(5).group(2),
    "laplace, composed": lambda: laplace(scale=10.0).compose(7),
    "subsampled": lambda: subsampled(laplace(scale=1.0), sample_rate=0.1).compose(3),
    "subsampled with replacement": lambda: subsampled(
        gaussian(sigma=1.0, adjacency="replace-one"), n=100, subsample=5, replace=True
    ),
    "composition": (
        lambda: compose(
            compose(laplace(scale=1.0), zcdp(0.1)), gaussian(sigma=3.0)
        ).compose(2)
    ),
    "for a group, composed": lambda: zcdp(0.1).group(2).compose(3),
    "with a new description": (
        lambda: pure(1.0).with_(
            status="assumption", assumption="rows are clipped", remark="so"
        )
    ),
}
PROFILES = {
    f"{make.__name__} {index}": lambda make=make, given=given: make(**given)
    for index, (make, given) in enumerate(CASES)
} | MORE

EXTREMES = {
    "bagging of one record": lambda: bagging(n=1, subsample=1),
    "bagging of a huge data set": lambda: bagging(n=10**15, subsample=1),
    "bagging that draws everything": lambda: bagging(n=50, subsample=50, replace=False),
    "bagging of a million models": lambda: bagging(
        n=10**6, subsample=1, n_models=10**6
    ),
    "bagging, published": lambda: bagging(
        n=10, subsample=10, analysis="published", replace=False
    ),
    "bagging, replace-one": lambda: bagging(n=1, subsample=1, adjacency="replace-one"),
    "hardly any noise": lambda: gaussian(sigma=1e-3),
    "hardly any leak": lambda: gaussian(sigma=1e8),
    "pure 1e-8": lambda: pure(1e-8),
    "pure 1e3": lambda: pure(1e3),
    "nothing is released": lambda: pure(0.0),
    "delta of 1e-300": lambda: approximate(1.0, 1e-300),
    "all may be released": lambda: approximate(0.0, 1.0),
    "laplace, scale 1e-3": lambda: laplace(scale=1e-3),
    "laplace, scale 1e8": lambda: laplace(scale=1e8),
    "zcdp 1e-12": lambda: zcdp(1e-12),
    "zcdp 1e4": lambda: zcdp(1e4),
    "soft vote, beta 1e-6": lambda: soft_vote(beta=1e-6),
    "soft vote, beta 100": lambda: soft_vote(beta=100.0),
    "noisy vote, noise 1e-6": lambda: noisy_vote(inverse_scale=1e-6),
    "noisy vote, noise 100": lambda: noisy_vote(inverse_scale=100.0),
    "gnmax, sigma 1e6": lambda: gnmax(sigma=1e6),
    "gnmax, sigma 0.01": lambda: gnmax(sigma=0.01),
    "confident gnmax": lambda: confident_gnmax(
        sigma_threshold=150.0, sigma_answer=40.0, queries=1, answers=0
    ),
    "dp-sgd, all records": lambda: dp_sgd(
        noise_multiplier=1.0, sample_rate=1.0, steps=1
    ),
    "dp-sgd, no record": lambda: dp_sgd(noise_multiplier=1.0, sample_rate=0.0, steps=1),
    "dp-sgd, rare records": lambda: dp_sgd(
        noise_multiplier=1.0, sample_rate=1e-9, steps=10, accountant="rdp"
    ),
    "dp-sgd, a million steps": lambda: dp_sgd(
        noise_multiplier=50.0, sample_rate=1e-3, steps=10**6
    ),
    "loss perturbation, much noise": lambda: loss_perturbation(
        n_classes=10, regulariser=1e6, sigma=1e6
    ),
    "loss perturbation, little noise": lambda: loss_perturbation(
        n_classes=2, regulariser=1e-3, sigma=1e-2
    ),
    "sampled everything": lambda: subsampled(gaussian(sigma=1.0), sample_rate=1.0),
    "sampled nothing": lambda: subsampled(gaussian(sigma=1.0), sample_rate=0.0),
    "sampled one of 10^9": lambda: subsampled(
        pure(1.0, adjacency="replace-one"), n=10**9, subsample=1, replace=True
    ),
}


def check(profile):
    """What every guarantee must satisfy, whatever it is."""
    deltas = profile.delta(EPSILONS)
    assert not np.isnan(deltas).any()
    assert ((deltas >= 0) & (deltas <= 1)).all()
    assert (np.diff(deltas) <= 1e-15).all(), "delta grows with epsilon"
    both = [
        profile.delta(EPSILONS, direction=direction) for direction in ("remove", "add")
    ]
    np.testing.assert_allclose(deltas, np.maximum(*both), rtol=1e-12, atol=5e-324)
    epsilons = profile.epsilon(DELTAS)
    assert (deltas[epsilons[0] > EPSILONS] > 0).all(), "delta underflows to 0"
    assert not np.isnan(epsilons).any()
    assert (epsilons >= 0).all()
    assert (epsilons[1:] <= epsilons[:-1]).all(), "epsilon grows with delta"
    assert epsilons[-1] == 0
    finite = np.isfinite(epsilons)
    assert (profile.delta(epsilons[finite]) <= DELTAS[finite]).all(), (
        "epsilon(delta) is on the wrong side"
    )
    kept = profile.tradeoff(ALPHAS)
    assert not np.isnan(kept).any()
    assert ((kept >= 0) & (kept <= 1 - ALPHAS + 1e-12)).all()
    assert (np.diff(kept) <= 1e-12).all()
    assert (kept >= 1 - profile.advantage - ALPHAS - 1e-9).all(), (
        "a test does better than the advantage allows"
    )
    json.dumps(profile.to_dict(), allow_nan=False)
    again = pickle.loads(pickle.dumps(profile))
    np.testing.assert_array_equal(
        again.delta(EPSILONS[:5]), profile.delta(EPSILONS[:5])
    )
    assert "nan" not in repr(profile)


@pytest.mark.parametrize("advantage", [1e-300, 1e-17, 1e-12, 0.5, 1 - 1e-15])
def test_gaussian_noise_has_the_advantage_that_was_asked_for(advantage):
    found = gaussian_of_advantage(advantage).advantage
    assert found == pytest.approx(advantage, rel=1e-9, abs=0)


@pytest.mark.parametrize("name", [*PROFILES, *EXTREMES])
def test_every_guarantee(name):
    check({**PROFILES, **EXTREMES}[name]())


@pytest.mark.parametrize("make", EXTREMES.values(), ids=EXTREMES)
def test_a_million_releases(make):
    one = make()
    many = one.compose(10**6)
    check(many)
    assert (many.delta(EPSILONS) >= one.delta(EPSILONS) * (1 - 1e-6) - 1e-12).all()


@pytest.mark.parametrize("name", PROFILES)
def test_the_trade_off_curve_is_the_conjugate(name):
    """By brute force over the lines that the deltas allow; shapes and words come out
    as they should.
    """
    profile = PROFILES[name]()
    epsilons, alphas = np.linspace(0, 6, 2001), np.linspace(0, 1, 101)
    deltas = profile.delta(epsilons)
    lines = np.maximum(
        1 - deltas - np.exp(epsilons) * alphas[:, None],
        np.exp(-epsilons) * (1 - deltas - alphas[:, None]),
    )
    brute = np.maximum(lines.max(axis=1), 0)
    curve = profile.tradeoff(alphas)
    # either grid of epsilons misses supporting lines
    np.testing.assert_allclose(curve[1:], brute[1:], atol=6e-3)
    for method in (profile.delta, profile.epsilon, profile.tradeoff):
        assert isinstance(method(0.25), float)
        assert method([[0.1, 0.2, 0.3]]).shape == (1, 3)
    text = " ".join(str(profile).split())  # lines are wrapped
    for part in (profile.mechanism, profile.adjacency, profile.status):
        assert part in text


def finite_pair(profile, bins=60):
    """Two distributions [outcomes] that no test tells apart better than the profile
    allows: the profile's losses, merged into a few outcomes.
    """
    (losses, masses, infinite), (_, _, never) = profile._release.atoms()
    with np.errstate(over="ignore"):
        without = np.where(masses > 0, masses * np.exp(-losses), 0.0)
    place = np.cumsum(masses + without) / (masses.sum() + without.sum())
    place = np.minimum((bins * place).astype(int), bins - 1)
    pair = []
    for each, apart in ((masses, [infinite, 0.0]), (without, [0.0, never])):
        merged = np.append(np.bincount(place, each, bins), apart)
        pair.append(merged / merged.sum())
    return pair


def under_every_adjacency():
    """Each constructor under each adjacency that it accepts, and what is made of
    profiles.
    """
    for index, (make, given) in enumerate(CASES):
        for adjacency in ADJACENCIES:
            try:
                profile = make(**{**given, "adjacency": adjacency})
            except ValueError:
                continue
            yield f"{make.__name__} {index}, {adjacency}", profile
    for name, make in MORE.items():
        yield name, make()


STEPS = {
    f"{name}, {step}": (profile, step)
    for name, profile in under_every_adjacency()
    for step in ("group", "replace-one")
    if profile.exactness != "claimed" and step != profile.adjacency
}


@pytest.mark.parametrize(("profile", "step"), STEPS.values(), ids=STEPS)
def test_both_directions_bound_one_removal_and_one_addition(profile, step):
    """A mechanism that treats two records apart, as the profile allows, by
    enumeration; the dominating pair is above it, too.
    """
    two = profile.group(2) if step == "group" else profile.for_adjacency(step)
    p, q = finite_pair(profile)
    one = np.outer(p, q).ravel()
    other = np.outer(q, p).ravel()
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        exact = np.maximum(0.0, one - np.exp(epsilon) * other).sum()
        least = exact * (1 - 1e-6) - 1e-12
        for direction, atoms in zip(
            ("remove", "add"), two._release.atoms(), strict=True
        ):
            assert two.delta(epsilon, direction=direction) >= least
            losses, masses, infinite = atoms
            above = masses * -np.expm1(np.minimum(epsilon - losses, 0.0))
            assert infinite + above.sum() >= least


def same_again(profile):
    described = json.loads(json.dumps(profile.to_dict(), allow_nan=False))
    again = from_dict(described)
    told = json.loads(json.dumps(again.to_dict()))
    assert told.pop("advantage") == pytest.approx(described.pop("advantage"), rel=1e-12)
    assert told == described
    assert again.delta([0.0, 0.7]) == pytest.approx(
        profile.delta([0.0, 0.7]), rel=1e-12
    )


@pytest.mark.parametrize("name", PROFILES)
def test_a_description_gives_the_profile_back(name):
    """Also where it is converted to each adjacency that it implies, and composed
    then.
    """
    profile = PROFILES[name]()
    same_again(profile)
    converted = [
        profile.for_adjacency(to, assumed=True)
        for given, to in IMPLIED
        if given == profile.adjacency
    ]
    for each in converted:
        same_again(each)
    for each in converted[-1:]:
        same_again(compose(each.compose(2), pure(0.1, adjacency=each.adjacency)))


@pytest.mark.parametrize(
    ("method", "value", "name"),
    [
        ("delta", [0.0, np.nan], "epsilon"),
        ("epsilon", 1.5, "delta"),
        ("tradeoff", [-0.1], "alpha"),
        ("tpr", 1.5, "fpr"),
        ("rdp", 1.0, "alpha"),
    ],
)
def test_wrong_questions_are_named(method, value, name):
    with pytest.raises(ValueError, match=f"{name} must be "):
        getattr(pure(1.0), method)(value)
    with pytest.raises(ValueError, match="direction must be one of 'remove', 'add'"):
        pure(1.0).delta(1.0, direction="sideways")


@pytest.mark.parametrize("n", [7, 30_011, 123_457])
@pytest.mark.parametrize("pure_part", [0.1, 1.0, 1 / 3])
def test_what_is_printed_holds(pure_part, n):
    """A delta such as 1/n has more digits than are printed; so may epsilon."""
    profile = approximate(pure_part, 1 / n)
    ((epsilon, delta),) = re.findall(r"epsilon (\S+) at delta (\S+)", str(profile))
    assert profile.delta(float(epsilon)) <= float(delta)


def test_all_constructors_are_here():
    public = {**vars(accounting), **vars(papers)}
    made = {
        name
        for name, each in public.items()
        if inspect.isfunction(each)
        and inspect.signature(each).return_annotation == "PrivacyProfile"
    }
    apart = {"from_dict", "compose", "subsampled", "personalised_vote", "describe"}
    assert made - apart == {make.__name__ for make, _ in CASES}


def test_a_description_tells_what_was_converted():
    profile = (
        gaussian(sigma=2.0)
        .for_adjacency("zero-out", assumed=True)
        .for_adjacency("replace-one")
        .compose(3)
    )
    assert dict(profile.parameters) == {
        "adjacency": "add-remove",
        "sigma": 2.0,
        "sensitivity": 1.0,
        "group": 2,
        "times": 3,
    }
    same_again(profile)


def test_descriptions_that_name_nothing():
    about = {"parameters": {}, "adjacency": "add-remove"}
    for name in ("random", "_pld", "hockey_stick", "PrivacyProfile"):
        with pytest.raises((ValueError, TypeError)):
            from_dict({"mechanism": name, **about})
    with pytest.raises(ValueError, match="counts of gnmax are private"):
        from_dict(
            gnmax(sigma=5.0, counts=[[90, 10]], adjacency="replace-one").to_dict()
        )
    with pytest.raises(ValueError, match="squares of personalised_vote are private"):
        from_dict(
            papers.personalised_vote(
                [0, 38], inverse_scale=0.04, n_partitions=1, answers=38
            ).to_dict()
        )


@pytest.mark.parametrize(
    ("make", "given"), CASES + NUMBERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_wrong_arguments_are_named(make, given):
    for name, value in given.items():
        for each in ["nonsense"] if isinstance(value, str) else [-1, float("nan")]:
            with pytest.raises((ValueError, TypeError), match=f"{name} must be "):
                make(**{**given, name: each})
        if isinstance(value, int):
            with pytest.raises(
                TypeError, match=f"{name} must be (an integer|integers)"
            ):
                make(**{**given, name: 2.5})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gaussian(sigma=1e-200, sensitivity=1e200),
            "sensitivity / sigma must be finite",
        ),
        (
            lambda: laplace(scale=1e-300, sensitivity=1e300),
            "sensitivity / scale must be finite and > 0",
        ),
        (
            lambda: gnmax(sigma=1.0, counts=[3.0, 4.0]),
            r"counts must be \[queries, n_classes\]",
        ),
        (
            lambda: gnmax(sigma=1.0, counts=[[3.0, -1.0]]),
            "finite and >= 0, got others$",
        ),
        (
            lambda: gnmax(sigma=1.0, counts=[[3.0, 1.0]], analysis="published"),
            "analysis must be 'tight'",
        ),
        (
            lambda: confident_gnmax(**{**PATE, "answers": 11}),
            "answers must be >= 0 and <= queries=10, got answers=11",
        ),
        (
            lambda: confident_gnmax(**PATE, counts=[[1, 2]]),
            "one row for each of answers=4",
        ),
        (
            lambda: loss_perturbation(n_classes=3, regulariser=1.0),
            "one of sigma and rate must be given, got sigma=None",
        ),
        (
            lambda: papers.sgd_sensitivity(**{**STEP, "learning_rate": 4.1}),
            "learning_rate must be <= 2 / smoothness",
        ),
        (
            lambda: papers.augmenting_sigma(
                9.0, 1e-5, sensitivity=1.0, analysis="published"
            ),
            "not sufficient for epsil",
        ),
        (
            lambda: accounting.one_run_audit(**{**RUN, "guesses": 11}, delta=0.0),
            "guesses must be >= 1 and <= examples=10",
        ),
        (
            lambda: gaussian_sigma(1.0, [1e-5, 0.0]),
            r"delta must be in \(0, 0\.999\], got delta=0.0; for delta = 0 use",
        ),
        (
            lambda: gaussian_sigma(0.0, 1e-5, analysis="classical"),
            "not sufficient for epsilon=0.0",
        ),
        (
            lambda: gaussian_sigma(0.0, 5e-324),
            "epsilon and delta must be large enough for a finite sigma",
        ),
        (
            lambda: dp_sgd_noise_multiplier(
                1e-8, 1e-9, sample_rate=0.1, steps=3, accountant="rdp"
            ),
            "epsilon must be > .*no noise meets this budget",
        ),
        (
            lambda: accounting.objective_perturbation(
                1.0, n_classes=2, adjacency="replace-one", analysis="published"
            ),
            "analysis='published' is not valid for adjacency='replace-one'",
        ),
        (
            lambda: accounting.calibrate(gaussian, epsilon=1.0),
            r"exactly one aim must be given \(.*\), got epsilon$",
        ),
        (
            lambda: bagging(n=10, subsample=11, replace=False),
            "subsample must be at most n=10 without replacement",
        ),
        (
            lambda: bagging(
                n=10, subsample=6, n_models=2, replace=False, scheme="split"
            ),
            "only n=10",
        ),
        (
            lambda: bagging(
                n=10, subsample=1, adjacency="replace-one", analysis="published"
            ),
            "analysis='published' needs adjacency='add-remove'",
        ),
    ],
)
def test_what_does_not_go_together_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
