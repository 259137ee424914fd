"""Votes with Gaussian noise: against exact Renyi divergences, a second library, the theory notes' numbers, its laws."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpnotes.accounting import chunk_filter, confident_gnmax, gaussian, gnmax
from dpnotes.accounting._gnmax import _DataDependent
from dpnotes.accounting._renyi import RenyiRelease
from dpnotes.accounting._votes import largest_integer

PATE = {"sigma_threshold": 150.0, "sigma_answer": 40.0}  # 250 teachers, threshold 200

# queries, delta; epsilon if all are answered: Renyi and classical conversion, better conversion, exact; advantage;
# epsilon of the comparisons with the threshold alone. The Renyi columns were minimised over a grid of orders.
CONFIGURATION = [
    (100, 0.008, 1.182791, 0.775078, 0.62715560, 0.142763, 0.209390),
    (150, 0.017, 1.354983, 0.856367, 0.66906054, 0.174379, 0.236416),
    (180, 0.08, 1.201395, 0.557668, 0.33925459, 0.190716, 0.205027),
    (100, 0.02, 1.071094, 0.624468, 0.47195900, 0.142763, 0.188699),
    (130, 0.095, 0.974241, 0.368401, 0.18502241, 0.162513, 0.167815),
    (170, 0.18, 0.978780, 0.228101, 0.01345677, 0.185442, 0.164751),
]


@pytest.mark.parametrize(("queries", "delta", "classical", "better", "exact", "advantage", "threshold"), CONFIGURATION)
def test_configuration_that_bagging_is_compared_with(queries, delta, classical, better, exact, advantage, threshold):
    profile = confident_gnmax(**PATE, queries=queries, answers=queries)
    assert profile.epsilon(delta) == pytest.approx(exact, abs=1e-8)
    assert profile.advantage == pytest.approx(advantage, abs=1e-6)
    published = confident_gnmax(**PATE, queries=queries, answers=queries, analysis="published").epsilon(delta)
    assert published == pytest.approx(classical, abs=6e-5)  # the table's grid of orders
    assert published <= classical + 1e-6
    about = {"mechanism": "zcdp", "parameters": {}, "adjacency": "add-remove", "source": "section 5.3"}
    rho = queries * (0.5 / 150**2 + 1 / 40**2)
    converted = RenyiRelease(lambda alpha: rho * alpha, **about).epsilon(delta)
    assert converted == pytest.approx(better, abs=6e-5)
    assert converted <= better + 1e-6
    compared = confident_gnmax(**PATE, queries=queries, answers=0, analysis="published").epsilon(delta)
    assert compared == pytest.approx(threshold, abs=2e-6)


def test_mu_of_the_configuration():
    same = gaussian(sigma=1 / 0.35978389)
    profile = confident_gnmax(**PATE, queries=100, answers=100)
    np.testing.assert_allclose(profile.delta([0.0, 1.0]), same.delta([0.0, 1.0]), rtol=3e-7)


@pytest.mark.parametrize(
    ("epsilon", "delta", "queries"),
    [(0.008, 0.008, 0), (0.017, 0.017, 2), (0.02, 0.02, 3), (0.08, 0.08, 61), (0.1, 0.095, 88), (0.2, 0.18, 313)],
)
def test_queries_that_fit_the_budgets_of_bagging(epsilon, delta, queries):
    def within(q):
        return confident_gnmax(**PATE, queries=q, answers=q).delta(epsilon) <= delta

    assert largest_integer(within) == queries


def test_exact_composition_equals_a_second_library():
    def noise(sigma, times):
        return privacy_loss_distribution.from_gaussian_mechanism(
            sigma, value_discretization_interval=1e-3
        ).self_compose(times)

    library = noise(150.0, 100).compose(noise(40.0 / np.sqrt(2), 60))
    ours = confident_gnmax(**PATE, queries=100, answers=60)
    for epsilon in (0.1, 0.5, 1.0):  # pessimistic, by rounding 160 losses up to the next multiple of 1e-3
        assert ours.delta(epsilon) == pytest.approx(library.get_delta_for_epsilon(epsilon), rel=0.02)
        assert ours.delta(epsilon) <= library.get_delta_for_epsilon(epsilon) + 1e-9


# counts, sigma, order; chance of another answer, data-dependent divergence, data-independent divergence
BOUNDS = [
    ([240, 5, 5] + [0] * 7, 40.0, 10.0, 0.0001099520266, 5.341100954e-05, 0.00625),
    ([200, 50] + [0] * 8, 40.0, 10.0, 0.005632779235, 0.001789440774, 0.00625),
    ([250] + [0] * 9, 40.0, 20.0, 4.453530581e-05, 5.321317752e-05, 0.0125),
    ([150, 100] + [0] * 8, 40.0, 5.0, 0.2204193282, 0.003125, 0.003125),
]


@pytest.mark.parametrize(("counts", "sigma", "order", "q", "bound", "independent"), BOUNDS)
def test_data_dependent_known_values(counts, sigma, order, q, bound, independent):
    curve = _DataDependent(np.array([counts], dtype=float), sigma)
    assert np.exp(curve._log_q[0]) == pytest.approx(q, rel=1e-9)
    leads = counts[0] - np.array(counts[1:])
    assert special.erfc(leads / (2 * sigma)).sum() / 2 == pytest.approx(q, rel=1e-9)
    assert curve(np.array(order)) == pytest.approx(bound, rel=1e-9)
    assert order / sigma**2 == independent


@pytest.mark.parametrize("sigma", [5.0, 20.0, 40.0, 100.0])
def test_data_dependent_bound_covers_the_exact_divergence(sigma):
    """Two classes: the release is a coin, so that the divergence from either neighbour is known."""
    orders = np.array([2.0, 5.0, 10.0, 25.0, 50.0])
    for lead in np.arange(0.0, 251.0, 10.0):
        bound = _DataDependent(np.array([[lead, 0.0]]), sigma)(orders)
        log_win, log_lose = (special.log_ndtr(sign * lead / (np.sqrt(2) * sigma)) for sign in (1, -1))
        for change in (-2.0, 2.0):
            other_win = special.log_ndtr((lead + change) / (np.sqrt(2) * sigma))
            other_lose = special.log_ndtr(-(lead + change) / (np.sqrt(2) * sigma))
            won = orders * log_win + (1 - orders) * other_win
            lost = orders * log_lose + (1 - orders) * other_lose
            exact = np.logaddexp(won, lost) / (orders - 1)
            assert (exact <= bound * (1 + 1e-9) + 1e-14).all()  # sums near 1 lose digits
        assert (bound <= orders / sigma**2 * (1 + 1e-12)).all()


def test_chance_of_another_answer_is_an_upper_bound():
    generator = np.random.default_rng(11)
    counts = np.array([120.0, 90.0, 40.0])
    noisy = counts + generator.normal(scale=40.0, size=(200_000, 3))
    missed = (noisy.argmax(1) != 0).mean()
    bound = float(np.exp(_DataDependent(counts[None], 40.0)._log_q[0]))
    assert missed <= bound + 4e-3  # four standard errors
    assert missed > 0.7 * bound  # and no useless one


def test_votes_make_the_guarantee_per_instance():
    counts = np.random.default_rng(0).multinomial(250, [0.9] + [0.1 / 9] * 9, size=300)
    worst, known = gnmax(sigma=40.0, answers=300), gnmax(sigma=40.0, counts=counts)
    assert known.epsilon(1e-5) < 0.5 * worst.epsilon(1e-5)
    assert (worst.status, known.status) == ("proved", "per-instance")
    assert "sanitised" in known.assumption
    assert known.to_dict()["parameters"]["counts"] == [300, 10]  # the private votes themselves are not kept
    # order by order the batches add, whatever the order of queries and classes
    parts = [_DataDependent(counts[i : i + 1].astype(float), 40.0)(np.array(8.0)) for i in range(300)]
    assert _DataDependent(counts.astype(float), 40.0)(np.array(8.0)) == pytest.approx(sum(parts), rel=1e-12)
    shuffled = gnmax(sigma=40.0, counts=counts[::-1, ::-1])
    assert shuffled.epsilon(1e-5) == pytest.approx(known.epsilon(1e-5), rel=1e-12)
    assert known.compose(2).epsilon(1e-5) == pytest.approx(gnmax(sigma=40.0, answers=2, counts=counts).epsilon(1e-5))
    confident = confident_gnmax(**PATE, queries=400, answers=300, counts=counts)
    assert known.epsilon(1e-5) < confident.epsilon(1e-5)
    assert confident.epsilon(1e-5) < confident_gnmax(**PATE, queries=400, answers=300).epsilon(1e-5)


@settings(max_examples=30)
@given(
    counts=st.lists(st.lists(st.integers(0, 250), min_size=3, max_size=3), min_size=1, max_size=5),
    sigma=st.floats(2, 200),
)
def test_known_votes_never_cost_more(counts, sigma):
    known, worst = gnmax(sigma=sigma, counts=counts), gnmax(sigma=sigma, answers=len(counts))
    epsilons = np.array([0.0, 0.1, 1.0, 4.0])
    assert (known.delta(epsilons) <= worst.delta(epsilons) + 1e-12).all()
    assert (known.tradeoff([0.01, 0.3]) >= worst.tradeoff([0.01, 0.3]) - 1e-12).all()
    deltas = np.array([1e-9, 1e-5, 0.1])
    assert (known.delta(known.epsilon(deltas)) <= deltas * (1 + 1e-9)).all()


@settings(max_examples=50)
@given(sigma=st.floats(1, 200), answers=st.integers(1, 1000), epsilon=st.floats(0, 5))
def test_guarantee_grows_with_answers_and_falls_with_noise(sigma, answers, epsilon):
    delta = gnmax(sigma=sigma, answers=answers).delta(epsilon)
    assert delta <= gnmax(sigma=sigma, answers=answers, analysis="published").delta(epsilon) + 1e-12
    assert delta <= gnmax(sigma=sigma, answers=answers + 1).delta(epsilon) + 1e-12
    assert delta >= gnmax(sigma=sigma * 1.1, answers=answers).delta(epsilon) - 1e-12
    assert delta == pytest.approx(gaussian(sigma=sigma, sensitivity=np.sqrt(2 * answers)).delta(epsilon), abs=1e-12)
    assert delta == pytest.approx(chunk_filter(budget=answers, sigma=sigma).delta(epsilon), abs=1e-12)


def test_chunk_filter():
    same = gaussian(sigma=1 / 0.3535533906)
    np.testing.assert_allclose(chunk_filter(budget=100, sigma=40.0).delta([0, 1]), same.delta([0, 1]), rtol=1e-8)
    general = chunk_filter(budget=100, sigma=40.0, one_hot=False)
    np.testing.assert_allclose(general.delta([0, 1]), gaussian(sigma=40.0, sensitivity=20.0).delta([0, 1]), rtol=1e-12)
    # the worst one-hot votes: two teachers that spend all of their budgets on different classes at every question
    shift = np.array([[1.0, -1.0]] * 100)
    assert np.linalg.norm(shift) / 40 == pytest.approx(0.3535533906, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gnmax(sigma=0.0), "sigma must be > 0"),
        (lambda: gnmax(sigma=1.0, answers=0), "answers must be >= 1"),
        (lambda: gnmax(sigma=1.0, counts=[3.0, 4.0]), r"counts must be \[queries, n_classes\]"),
        (lambda: gnmax(sigma=1.0, counts=[[3.0]]), r"counts must be \[queries, n_classes\]"),
        (lambda: gnmax(sigma=1.0, counts=[[3.0, -1.0]]), "counts must be >= 0"),
        (lambda: gnmax(sigma=1.0, counts=[[3.0, np.inf]]), "counts must be finite"),
        (lambda: gnmax(sigma=1.0, counts=[[3.0, 1.0]], analysis="published"), "analysis must be 'tight'"),
        (lambda: gnmax(sigma=1.0, analysis="loose"), "analysis must be one of"),
        (lambda: confident_gnmax(**PATE, queries=0, answers=0), "queries must be >= 1"),
        (lambda: confident_gnmax(**PATE, queries=3, answers=4), "answers must be >= 0 and <= queries=3, got answers=4"),
        (lambda: confident_gnmax(**PATE, queries=3, answers=-1), "answers must be >= 0 and <= queries=3"),
        (lambda: confident_gnmax(**PATE, queries=3, answers=2, counts=[[1, 2]]), "one row for each of answers=2"),
        (lambda: confident_gnmax(sigma_threshold=0.0, sigma_answer=1.0, queries=1, answers=1), "sigma_threshold must"),
        (lambda: chunk_filter(budget=0.0, sigma=1.0), "budget must be > 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_answers_must_be_an_integer():
    with pytest.raises(TypeError, match="answers must be an integer"):
        confident_gnmax(**PATE, queries=3, answers=True)
