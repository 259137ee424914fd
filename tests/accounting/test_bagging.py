"""The exact profile of bagging: against enumeration, a second library, the theory notes' numbers, and its own laws."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpnotes.accounting import bagging, hockey_stick
from dpnotes.lab.bagging.claims import sample_distribution
from dpnotes.mechanisms import draw_subsets

# Hand-worked values (30-digit arithmetic) of the inclusion probability, and of the paper's epsilon.
VECTORS = [
    ({"n": 60_000, "subsample": 300}, 0.004987562267, 0.004999958334),
    ({"n": 60_000, "subsample": 5000}, 0.0799562243, 0.0833326389),
    ({"n": 50_000, "subsample": 10_000}, 0.1812708844, 0.19999800003),
    ({"n": 50_000, "subsample": 30_000}, 0.4511916568, 0.5999940001),
    ({"n": 50_000, "subsample": 10_000, "replace": False}, 0.2, 0.2231385514),
    ({"n": 100, "subsample": 10, "n_models": 5, "replace": False}, 0.40951, 0.6832948841),
    ({"n": 100, "subsample": 10, "n_models": 5, "replace": False, "scheme": "split"}, 0.5, 0.6832948841),
    ({"n": 100, "subsample": 10, "n_models": 5}, 0.3949939329, None),
    ({"n": 50_000, "subsample": 1000, "n_models": 10, "replace": False}, 0.1829271931, None),
    ({"n": 50_000, "subsample": 1000, "n_models": 10}, 0.1812708844, None),
]


@pytest.mark.parametrize(("arguments", "delta", "published_epsilon"), VECTORS)
def test_known_values(arguments, delta, published_epsilon):
    assert bagging(**arguments).advantage == pytest.approx(delta, rel=1e-9)
    if published_epsilon is not None:
        published = bagging(**arguments, analysis="published")
        assert published.epsilon(published.delta(50.0)) == pytest.approx(published_epsilon, rel=1e-9)


def test_published_threshold_is_the_pure_level_of_the_harmless_direction():
    # The paper counts n for the smaller neighbour: with n + 1 records, H(without || with) vanishes at its epsilon.
    for replace in (True, False):
        profile = bagging(n=60_001, subsample=5000, replace=replace)
        published = bagging(n=60_000, subsample=5000, replace=replace, analysis="published")
        epsilon = published.epsilon(published.delta(50.0))
        assert profile.delta(epsilon * (1 + 1e-9), direction="add") == pytest.approx(0, abs=1e-15)
        assert profile.delta(epsilon * 0.99, direction="add") > 1e-5


def law(n, subsample, n_models, replace, scheme):
    return sample_distribution(n=n, subsample=subsample, n_models=n_models, replace=replace, scheme=scheme)


CASES = [
    (n, k, n_models, replace, scheme)
    for n in (2, 3, 4, 5)
    for k in (1, 2, 3)
    for n_models in (1, 2)
    for replace, scheme in ((True, "independent"), (False, "independent"), (False, "split"))
    if (n - 1) ** (k * n_models) <= 5000 and (replace or k <= n - 1) and (scheme != "split" or k * n_models <= n - 1)
]


def test_law_is_that_of_the_sampler():
    """The enumerated law against the sampler that bagging uses: chi-square at 1e-3, with power against a shift."""
    for replace, scheme in ((True, "independent"), (False, "independent"), (False, "split")):
        expected = law(4, 2, 2, replace, scheme)
        seeds = range(20_000)
        draws = [draw_subsets(4, subsample=2, n_models=2, replace=replace, scheme=scheme, seed=s) for s in seeds]
        observed = Counter(tuple(tuple(row) for row in draw.tolist()) for draw in draws)
        assert set(observed) <= set(expected)
        counts = [observed[outcome] for outcome in expected]
        assert stats.chisquare(counts).pvalue > 1e-3
        counts[0] += 20_000 // 50  # a sampler that favours one outcome by two percent is noticed
        assert stats.chisquare(counts).pvalue < 1e-3


@pytest.mark.parametrize(("n", "k", "n_models", "replace", "scheme"), CASES)
def test_profile_equals_enumeration_in_both_directions(n, k, n_models, replace, scheme):
    """Catches any error in the formula: every outcome of the sampler is counted, in rational arithmetic."""
    with_record, without = law(n, k, n_models, replace, scheme), law(n - 1, k, n_models, replace, scheme)
    profile = bagging(n=n, subsample=k, n_models=n_models, replace=replace, scheme=scheme)
    for factor in (Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(10)):
        epsilon = float(np.log(float(factor)))
        removed = float(hockey_stick(with_record, without, factor))
        added = float(hockey_stick(without, with_record, factor))
        # 1e-12: e^epsilon is rounded to a double before it meets the fraction
        assert profile.delta(epsilon, direction="remove") == pytest.approx(removed, abs=1e-12)
        assert profile.delta(epsilon, direction="add") == pytest.approx(added, abs=1e-12)
        assert profile.delta(epsilon) == pytest.approx(max(removed, added), abs=1e-12)


def test_replace_one_equals_enumeration():
    n, k = 4, 2
    first = law(n, k, 1, True, "independent")
    second = {tuple(tuple(9 if r == 0 else r for r in one) for one in draw): mass for draw, mass in first.items()}
    profile = bagging(n=n, subsample=k, adjacency="replace-one")
    for factor in (Fraction(1), Fraction(2), Fraction(20)):
        for direction, value in (
            ("remove", hockey_stick(first, second, factor)),
            ("add", hockey_stick(second, first, factor)),
        ):
            assert profile.delta(float(np.log(float(factor))), direction=direction) == pytest.approx(float(value))


def test_second_library_agrees():
    """dp_accounting's privacy loss distributions of the two laws give the same profile and composition."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    with_record, without = law(4, 2, 1, True, "independent"), law(3, 2, 1, True, "independent")
    log = {
        name: {s: float(np.log(float(m))) for s, m in d.items()}
        for name, d in (("upper", with_record), ("lower", without))
    }
    # removing: P = with; the library's "from two pmfs" takes one pair and covers H(upper || lower)
    one = pld.from_two_probability_mass_functions(
        log["lower"], log["upper"], value_discretization_interval=1e-5, pessimistic_estimate=True
    )
    profile = bagging(n=4, subsample=2)
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        assert one.get_delta_for_epsilon(epsilon) == pytest.approx(profile.delta(epsilon), abs=1e-9)
        assert one.self_compose(3).get_delta_for_epsilon(epsilon) == pytest.approx(
            profile.compose(3).delta(epsilon), abs=1e-9
        )


def test_trade_off_is_that_of_the_best_test():
    """The best of all deterministic tests on enumerated outcomes lies on the curve; none lies below it."""
    n, k = 4, 2
    with_record, without = law(n, k, 1, True, "independent"), law(n - 1, k, 1, True, "independent")
    profile = bagging(n=n, subsample=k)
    for null, other in ((without, with_record), (with_record, without)):
        outcomes = sorted(set(null) | set(other))
        ratios = {o: (other.get(o, Fraction(0)), null.get(o, Fraction(0))) for o in outcomes}
        ranked = sorted(outcomes, key=lambda o: ratios[o][0] / ratios[o][1] if ratios[o][1] else 10**9, reverse=True)
        for cut in range(len(ranked) + 1):
            alpha = float(sum((ratios[o][1] for o in ranked[:cut]), Fraction(0)))
            beta = float(sum((ratios[o][0] for o in ranked[cut:]), Fraction(0)))
            assert beta >= profile.tradeoff(min(alpha, 1.0)) - 1e-12
    best = sum(mass for outcome, mass in with_record.items() if outcome not in without)
    assert 1 - profile.tradeoff(0.0) == pytest.approx(float(best))  # TPR at FPR 0 is the inclusion probability


@given(
    n=st.integers(1, 10**6),
    subsample=st.integers(1, 10**5),
    n_models=st.integers(1, 100),
    replace=st.booleans(),
    scheme=st.sampled_from(["independent", "split"]),
)
def test_laws(n, subsample, n_models, replace, scheme):
    if not replace:
        subsample = min(subsample, n if scheme == "independent" else max(1, n // n_models))
        n_models = n_models if scheme == "independent" or n_models * subsample <= n else 1
    profile = bagging(n=n, subsample=subsample, n_models=n_models, replace=replace, scheme=scheme)
    pi = profile.advantage
    assert 0 < pi <= 1
    epsilons = np.array([0.0, 1e-6, 0.1, 1.0, 30.0, 800.0])
    assert (profile.delta(epsilons) == pi).all()
    added = profile.delta(epsilons, direction="add")
    assert (np.diff(added) <= 0).all()
    assert (added <= pi + 1e-12).all()
    assert profile.epsilon(pi) == 0.0
    assert profile.epsilon(np.nextafter(pi, 0)) == np.inf
    twice = profile.compose(2)
    assert twice.advantage == pytest.approx(1 - (1 - pi) ** 2)
    if scheme == "independent":  # composing the release of one model is releasing more models
        more = bagging(n=n, subsample=subsample, n_models=2 * n_models, replace=replace)
        assert twice.advantage == pytest.approx(more.advantage, rel=1e-12)


def test_published_analysis_is_never_tighter():
    for arguments, _, _ in VECTORS:
        epsilons = np.linspace(0, 1, 11)
        published = bagging(**arguments, analysis="published").delta(epsilons)
        assert (published >= bagging(**arguments).delta(epsilons) - 1e-12).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": 0, "subsample": 1}, ValueError, "n must be >= 1, got n=0"),
        ({"n": 10, "subsample": 0}, ValueError, "subsample must be >= 1"),
        ({"n": 10, "subsample": 1, "n_models": 0}, ValueError, "n_models must be >= 1"),
        ({"n": 10, "subsample": 2.5}, TypeError, r"subsample must be an integer >= 1, got subsample=2\.5"),
        ({"n": 10, "subsample": True}, TypeError, "subsample must be an integer"),
        (
            {"n": 10, "subsample": 11, "replace": False},
            ValueError,
            "subsample must be at most n=10 without replacement",
        ),
        ({"n": 10, "subsample": 6, "n_models": 2, "replace": False, "scheme": "split"}, ValueError, "only n=10"),
        ({"n": 10, "subsample": 6, "n_models": 2, "replace": False, "analysis": "published"}, ValueError, "only n=10"),
        ({"n": 10, "subsample": 1, "scheme": "poisson"}, ValueError, "scheme must be one of 'independent', 'split'"),
        ({"n": 10, "subsample": 1, "adjacency": "swap"}, ValueError, "adjacency must be one of"),
        ({"n": 10, "subsample": 1, "analysis": "loose"}, ValueError, "analysis must be one of"),
        (
            {"n": 10, "subsample": 1, "adjacency": "replace-one", "analysis": "published"},
            ValueError,
            "published analysis is for adjacency='add-remove'",
        ),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        bagging(**arguments)
