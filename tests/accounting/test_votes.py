"""Private votes: exact laws of the answers, brute force over all votes, second
libraries, the theory notes' numbers.
"""

import itertools
from functools import reduce
from itertools import permutations, product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings, strategies as st
from scipy import integrate, special, stats

from dpnotes.accounting import (
    chunk_filter,
    confident_gnmax,
    gaussian,
    gnmax,
    noisy_vote,
    noisy_vote_answers,
    soft_vote,
    soft_vote_beta,
    zcdp,
)
from dpnotes.accounting._votes import _DataDependent
from dpnotes.accounting.papers import personalised_moments
from dpnotes.lab.exact_votes import (
    bounded_range_delta,
    noisy_vote_exact_delta,
    noisy_vote_pure_level,
    soft_vote_exact_delta,
    soft_vote_pure_level,
)


def histograms(n_models, n_classes):
    """All vote counts of so many models."""
    for cuts in itertools.combinations(range(n_models + n_classes - 1), n_classes - 1):
        edges = np.array([-1, *cuts, n_models + n_classes - 1])
        yield np.diff(edges) - 1


def moved_pairs(n_models, n_classes, beta):
    """Answer probabilities on every pair of counts that differ by one moved vote."""
    for counts in histograms(n_models, n_classes):
        for a, b in itertools.permutations(range(n_classes), 2):
            if counts[a]:
                moved = counts.copy()
                moved[a] -= 1
                moved[b] += 1
                yield special.softmax(beta * counts), special.softmax(beta * moved)


@pytest.mark.parametrize(
    ("n_models", "n_classes", "beta"), [(5, 2, 0.3), (6, 3, 0.7), (6, 5, 0.1)]
)
def test_one_soft_answer_by_brute_force(n_models, n_classes, beta):
    """The pure level and the bounded range of all pairs of counts, and their deltas."""
    pairs = list(moved_pairs(n_models, n_classes, beta))
    ratios = [np.log(p / q) for p, q in pairs]
    level = soft_vote_pure_level(beta=beta, n_models=n_models, n_classes=n_classes)
    assert level == pytest.approx(np.max(ratios), rel=1e-12)
    # for any number of models and classes
    assert np.ptp(ratios, axis=1).max() == pytest.approx(2 * beta, rel=1e-9)
    for epsilon in (0.0, 0.2, 0.8, 1.5):
        lost = [np.maximum(p - np.exp(epsilon) * q, 0).sum() for p, q in pairs]
        assert max(lost) <= soft_vote(beta=beta).delta(epsilon) + 1e-15
        if n_classes == 2:
            exact = soft_vote_exact_delta(epsilon, beta=beta, n_models=n_models)
            assert exact == pytest.approx(max(lost), abs=1e-15)


# of one answer with a parameter that a larger value makes less private: the profile,
# and what is known exactly of the votes of so many models
VOTES = {
    "soft": (
        lambda size, answers: soft_vote(beta=size, answers=answers),
        soft_vote_exact_delta,
    ),
    "noisy": (
        lambda size, answers: noisy_vote(inverse_scale=size, answers=answers),
        noisy_vote_exact_delta,
    ),
    "gaussian": (lambda size, answers: gnmax(sigma=1 / size, answers=answers), None),
    "filtered": (
        lambda size, answers: chunk_filter(budget=answers, sigma=1 / size),
        None,
    ),
}


@pytest.mark.parametrize("kind", VOTES)
@settings(max_examples=30)
@given(
    size=st.floats(5e-3, 1.5),
    answers=st.integers(1, 200),
    epsilon=st.floats(0, 5),
    n_models=st.integers(1, 60),
)
def test_votes_cover_the_exact_delta_and_grow(kind, size, answers, epsilon, n_models):
    """Rounding of sums of up to 200 terms, and of exponents near 0, is below 1e-12."""
    make, exact = VOTES[kind]
    delta = make(size, answers).delta(epsilon)
    assert make(1.1 * size, answers).delta(epsilon) >= delta - 1e-12
    assert make(size, answers + 1).delta(epsilon) >= delta - 1e-12
    if exact is None:
        noise = gaussian(sigma=1 / size, sensitivity=np.sqrt(2 * answers))
        assert delta == pytest.approx(noise.delta(epsilon), abs=1e-12)
        return
    least = exact(epsilon, beta=size, n_models=n_models, answers=answers)
    assert least <= delta + 1e-12
    if kind == "soft":
        level = soft_vote_pure_level(beta=size, n_models=n_models, n_classes=2)
        width = bounded_range_delta(epsilon, width=2 * size, answers=answers)
        assert width <= delta + 1e-12
    else:
        level = noisy_vote_pure_level(beta=size, n_models=n_models)
        published = noisy_vote(
            inverse_scale=size, answers=answers, analysis="published"
        )
        assert delta <= published.delta(epsilon) + 1e-12
    assert level <= 2 * size * (1 + 1e-12)


def test_votes_with_weights_cost_twice():
    general = chunk_filter(budget=100, sigma=40.0, one_hot=False)
    noise = gaussian(sigma=40.0, sensitivity=20.0)
    np.testing.assert_allclose(general.delta([0, 1]), noise.delta([0, 1]), rtol=1e-12)


@settings(max_examples=40)
@given(
    epsilon=st.floats(1e-3, 20),
    delta=st.sampled_from([0.0, 1e-12, 1e-5, 0.1, 0.9]),
    answers=st.integers(1, 3000),
)
def test_calibration_is_on_the_private_side(epsilon, delta, answers):
    beta = soft_vote_beta(epsilon, delta, answers=answers)
    assert soft_vote(beta=beta, answers=answers).delta(epsilon) <= delta
    assert beta <= soft_vote_beta(epsilon, delta, answers=max(1, answers // 2))
    published = soft_vote_beta(epsilon, delta, answers=answers, analysis="published")
    assert published >= epsilon / answers
    # and not further on that side than it must be
    pure = soft_vote_beta(epsilon, 0.0, answers=answers)
    assert pure == pytest.approx(epsilon / (2 * answers))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-5, 1e-12])
def test_answers_of_pure_privacy_are_counted_where_delta_underflows(size, n_classes):
    answers = noisy_vote_answers(1.0, 0.0, inverse_scale=size, n_classes=n_classes)
    assert answers == pytest.approx(1 / (2 * size), abs=1)
    assert noisy_vote(inverse_scale=size, answers=answers).epsilon(0.0) <= 1.0


def chance(margin, beta):
    """Probability that the first of two classes wins, by quadrature over its noise."""

    def first_wins(y):
        return stats.laplace.pdf(y, scale=1 / beta) * stats.laplace.cdf(
            margin + y, scale=1 / beta
        )

    far = 45 / beta
    points = [-far, *sorted({0.0, -float(margin)}), far]
    return sum(
        integrate.quad(first_wins, a, b, epsabs=1e-14, limit=200)[0]
        for a, b in itertools.pairwise(points)
        if b > a
    )


@pytest.mark.parametrize(("n_models", "beta"), [(4, 0.9), (7, 0.3)])
def test_exact_values_equal_quadrature(n_models, beta):
    wins = np.array(
        [chance(margin, beta) for margin in range(-n_models, n_models + 1, 2)]
    )
    before, after = wins[:-1], wins[1:]
    ratios = np.log([after / before, (1 - before) / (1 - after)])
    # quadrature to 1e-12
    assert noisy_vote_pure_level(beta=beta, n_models=n_models) == pytest.approx(
        ratios.max(), abs=1e-10
    )
    log_odds = np.log(wins / (1 - wins))
    assert (np.diff(log_odds) <= 2 * beta + 1e-10).all()  # the bounded range
    for epsilon in (0.0, 0.2, 0.5):
        gained = np.maximum(after - np.exp(epsilon) * before, 0)
        lost = np.maximum(1 - after - np.exp(epsilon) * (1 - before), 0)
        exact = noisy_vote_exact_delta(epsilon, beta=beta, n_models=n_models)
        assert exact == pytest.approx((gained + lost).max(), abs=1e-10)
        assert exact <= noisy_vote(inverse_scale=beta).delta(epsilon) + 1e-15
    spread = (
        {0: np.log1p(-before[0]), 1: np.log(before[0])},
        {0: np.log1p(-after[0]), 1: np.log(after[0])},
    )
    library = privacy_loss_distribution.from_two_probability_mass_functions(
        *spread, value_discretization_interval=1e-5
    )
    several = noisy_vote_exact_delta(0.5, beta=beta, n_models=n_models, answers=5)
    assert several >= library.self_compose(5).get_delta_for_epsilon(0.5) - 1e-4


def test_personalised_moments():
    """Per instance, for two classes: the exact moment of one record's vote, k models of
    which a share m can turn.
    """
    beta, m = 0.7, 0.6
    for margin in np.linspace(-2, 2, 21):
        p, q = chance(margin, beta), chance(margin - 2 * m, beta)
        for l in (1.0, 4.0):
            forth = np.log(p * (p / q) ** l + (1 - p) * ((1 - p) / (1 - q)) ** l)
            back = np.log(q * (q / p) ** l + (1 - q) * ((1 - q) / (1 - p)) ** l)
            assert (
                max(forth, back)
                <= personalised_moments(l, inverse_scale=beta, m=m) + 1e-10
            )


def test_no_answer_fits_a_small_budget():
    assert noisy_vote_answers(0.01, 1e-9, inverse_scale=2.0) == 0
    # pure level 2 inverse_scale each
    assert noisy_vote_answers(1.0, 0.0, inverse_scale=0.125) == 4


PATE = {"sigma_threshold": 150.0, "sigma_answer": 40.0}  # 250 teachers, threshold 200


def test_configuration_that_bagging_is_compared_with():
    """Values of the theory notes, the published ones on the paper's grid of orders."""
    queries, delta = 100, 0.008
    profile = confident_gnmax(**PATE, queries=queries, answers=queries)
    assert profile.epsilon(delta) == pytest.approx(0.62715560, abs=1e-8)
    assert profile.advantage == pytest.approx(0.142763, abs=1e-6)
    for answers, classical in ((queries, 1.182791), (0, 0.209390)):
        published = confident_gnmax(
            **PATE, queries=queries, answers=answers, analysis="published"
        )
        found = published.epsilon(delta)
        assert classical - 6e-5 <= found <= classical + 2e-6
    converted = zcdp(queries * (0.5 / 150**2 + 1 / 40**2)).epsilon(delta)
    assert 0.775078 - 6e-5 <= converted <= 0.775078 + 1e-6


def answer_distribution(counts, sigma):
    """Probability of each class, [n_classes], by the trapezoidal rule over the noisy
    count of the winner.
    """
    z = np.linspace(-12.0, 12.0, 481)
    noisy = counts[:, None] + sigma * z  # [n_classes, points]
    # [winner, other, points]
    below = special.log_ndtr((noisy[:, None] - counts[:, None]) / sigma)
    others = below.sum(1) - below[np.arange(len(counts)), np.arange(len(counts))]
    return np.trapezoid(np.exp(others - z**2 / 2), z, axis=-1) / np.sqrt(2 * np.pi)


def moved_votes(counts):
    """All votes in which one teacher changes its mind."""
    for source, target in permutations(range(len(counts)), 2):
        if counts[source] >= 1:
            moved = counts.copy()
            moved[[source, target]] += (-1, 1)
            yield moved


def together(answers):
    """Distribution of several independent answers, flat."""
    return reduce(np.multiply.outer, answers).ravel()


def test_data_dependent_bound_holds_in_both_directions():
    """60 vote tables of 1 to 3 queries, up to 5 classes, and all answers."""
    generator = np.random.default_rng(17)
    closest, smaller = 0.0, 0
    for index in range(60):
        n_classes, queries = 2 + index % 4, 1 + index % 3
        sigma = 10 ** generator.uniform(-0.3, 1.3)
        majority = generator.beta(4, 1)
        chances = [majority, *[(1 - majority) / (n_classes - 1)] * (n_classes - 1)]
        counts = generator.multinomial(
            generator.integers(2, 40), chances, size=queries
        ).astype(float)
        known, worst = (
            gnmax(sigma=sigma, counts=counts),
            gnmax(sigma=sigma, answers=queries),
        )
        epsilons = np.linspace(0.0, 1.2 * worst.epsilon(1e-5), 9)
        bound = known.delta(epsilons, direction="remove")  # the same in both
        smaller += bool((bound < 0.9 * worst.delta(epsilons)).any())
        here = together([answer_distribution(votes, sigma) for votes in counts])
        neighbours = [
            [answer_distribution(moved, sigma) for moved in moved_votes(votes)]
            for votes in counts
        ]
        for other in (
            together(choice) for choice in product(*(each[:4] for each in neighbours))
        ):
            for one, two in ((here, other), (other, here)):
                exact = np.maximum(one - np.exp(epsilons)[:, None] * two, 0.0).sum(-1)
                assert (exact <= bound * (1 + 1e-9) + 1e-13).all(), (counts, sigma)
                seen = bound > 1e-9
                closest = max(
                    closest, float((exact[seen] / bound[seen]).max(initial=0.0))
                )
    assert closest > 0.5  # the bound is not idle ...
    assert smaller > 20  # ... nor the one that needs no votes


def test_reverse_direction_of_the_vote_that_refuted_one_direction():
    """Counts 11 and 5, sigma 0.8: Theorem 6 of Papernot et al. (2018) alone gave
    delta(7.5) = 8.8e-6.
    """
    likely, moved = (special.ndtr(lead / (np.sqrt(2) * 0.8)) for lead in (6.0, 4.0))
    reverse = (1 - moved) - np.exp(7.5) * (1 - likely)
    assert reverse == pytest.approx(1.007e-4, rel=1e-3)
    assert reverse < gnmax(sigma=0.8, counts=[[11, 5]]).delta(7.5) < 1.3 * reverse


def test_a_number_of_answers_that_depends_on_the_data():
    """Two noisy comparisons, each answered (by the sign of a lead) only where it
    passes: all runs, integrated.
    """
    cut, sigma_threshold, sigma_answer = 4.0, 1.5, 1.0
    profile = confident_gnmax(
        sigma_threshold=sigma_threshold, sigma_answer=sigma_answer, queries=2, answers=1
    )
    assert "Smith and Thakurta (2022)" in profile.source

    def runs(votes):
        """Stops for good after one answer: probability of (none, none), (none,
        class), (class, stopped).
        """
        passes = [special.ndtr((max(v) - cut) / sigma_threshold) for v in votes]
        wins = [
            special.ndtr((v[0] - v[1]) / (np.sqrt(2) * sigma_answer)) for v in votes
        ]
        first, second = (
            [p * w, p * (1 - w)] for p, w in zip(passes, wins, strict=True)
        )
        return np.array(
            [
                (1 - passes[0]) * (1 - passes[1]),
                *[(1 - passes[0]) * p for p in second],
                *first,
            ]
        )

    reached = 0.0
    for counts in product(range(6), repeat=2):
        for moves in product((-1, 1), repeat=2):
            pairs = [
                (np.array([5.0 - c, c]), np.array([5.0 - c - m, c + m]))
                for c, m in zip(counts, moves, strict=True)
            ]
            one, two = (runs([pair[side] for pair in pairs]) for side in (0, 1))
            for epsilon in (0.0, 0.5, 1.0, 2.0):
                exact = np.maximum(one - np.exp(epsilon) * two, 0.0).sum()
                assert exact <= profile.delta(epsilon)
                reached = max(reached, exact / profile.delta(epsilon))
    assert reached > 0.5


def test_known_votes_cost_less_and_are_not_kept():
    counts = np.random.default_rng(0).multinomial(250, [0.9] + [0.1 / 9] * 9, size=300)
    worst, known = gnmax(sigma=40.0, answers=300), gnmax(sigma=40.0, counts=counts)
    assert (worst.status, known.status) == ("proved", "per-instance")
    assert "sanitised" in known.assumption
    assert known.to_dict()["parameters"]["counts"] == [300, 10]
    epsilons = [
        gnmax(sigma=40.0, counts=counts[::-1, ::-1]).epsilon(1e-5),
        known.epsilon(1e-5),
        confident_gnmax(**PATE, queries=400, answers=300, counts=counts).epsilon(1e-5),
        confident_gnmax(**PATE, queries=400, answers=300).epsilon(1e-5),
    ]
    # whatever the order of queries and classes
    assert epsilons[0] == pytest.approx(epsilons[1], rel=1e-12)
    assert epsilons[1] < epsilons[2] < epsilons[3]
    assert epsilons[1] < 0.5 * worst.epsilon(1e-5)
    twice = gnmax(sigma=40.0, answers=2, counts=counts)
    assert known.compose(2).epsilon(1e-5) == pytest.approx(twice.epsilon(1e-5))


@pytest.mark.parametrize(
    ("counts", "order", "q", "theorem"),
    [
        ([240, 5, 5] + [0] * 7, 10.0, 0.0001099520266, 5.341100954e-05),
        ([150, 100] + [0] * 8, 5.0, 0.2204193282, 0.003125),
    ],
)
def test_known_votes_cost_less_than_by_the_theorem(counts, order, q, theorem):
    """Theorem 6 of Papernot et al. (2018), for one direction; the chance of another
    answer is that of their Proposition 7.
    """
    curve = _DataDependent(np.array([counts], dtype=float), 40.0)
    assert np.exp(curve._log_q[0]) == pytest.approx(q, rel=1e-9)
    assert curve(np.array(order)) <= theorem <= order / 40.0**2
