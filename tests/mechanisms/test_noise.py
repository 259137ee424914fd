"""Additive noise: its law from a seed, and real noise with digits on demand, whose
making no decision depends on.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from dpnotes.mechanisms import _exact, add_gaussian, add_norm_noise
from dpnotes.mechanisms._exact import GaussianReals, Normals, NormReals


def seeded(seed):
    return np.random.default_rng(seed).bytes


class Script:
    """Bytes that were chosen, then random ones."""

    def __init__(self, *parts, seed=0):
        self._first, self._rest = b"".join(parts), seeded(seed)

    def __call__(self, size):
        taken, self._first = self._first[:size], self._first[size:]
        return taken + self._rest(size - len(taken))


def bits_of(number, bits):
    """The first binary digits of an mpmath number in [0, 1)."""
    return int(mp.floor(number * mp.mpf(2) ** bits))


# 300 numbers each, of the scale 0.7
each_kind = pytest.mark.parametrize(
    "make",
    [
        lambda b: GaussianReals(300, 0.7, b),
        lambda b: NormReals(10, 0.7, b, n_vectors=30),
    ],
)
LEVEL = 1e-3  # false positives of each test; seeds are fixed


def fits(sample, distribution):
    return stats.kstest(sample, distribution.cdf).pvalue > LEVEL


def chi_square(values, distribution, cells=64):
    inner = distribution.ppf(np.arange(1, cells) / cells)
    counts = np.bincount(np.searchsorted(inner, values), minlength=cells)
    return stats.chisquare(counts).pvalue


@pytest.mark.parametrize("sigma", [1e-200, 3e-7, 0.1, 1.0, 2.5, 7e4, 1e150])
@pytest.mark.parametrize("offset", [0.0, 0.37, -41.5])
def test_gaussian_releases_have_the_probabilities_of_the_real_mechanism(sigma, offset):
    seed = [int(abs(np.log2(sigma))), int(abs(offset))]
    noise = GaussianReals(20_000, sigma, seeded(seed))
    released = _exact.add_rounded(np.full(20_000, offset * sigma), noise) / sigma
    assert chi_square(released, stats.norm(offset)) > 1e-4


def test_one_point_of_a_coarse_grid_has_the_probability_of_its_cell(monkeypatch):
    monkeypatch.setattr(_exact, "GRID_BITS", 0)  # steps of 1
    released = _exact.add_rounded(
        np.full(100_000, 0.3), GaussianReals(100_000, 1.5, seeded(1))
    )
    points = np.arange(-5, 6)
    edges = np.concatenate([[-np.inf], points[:-1] + 0.5, [np.inf]])
    expected = np.diff(stats.norm(0.3, 1.5).cdf(edges))
    counts = np.bincount(np.clip(released, -5, 5).astype(int) + 5, minlength=11)
    assert stats.chisquare(counts, 100_000 * expected).pvalue > 1e-3


def test_a_normal_number_is_one_to_its_last_digits():
    numbers = Normals(4000, seeded(5))
    numbers.refine(64)
    lower, upper, bits = numbers.interval()
    assert bits == 128
    assert set(upper - lower) == {1}
    # the digits far behind the point are uniform
    for shift in (8, 40, 64, 100, 120):
        digits = [(int(x) >> shift) & 15 for x in lower]
        assert stats.chisquare(np.bincount(digits, minlength=16)).pvalue > 1e-3


@each_kind
def test_digits_drawn_later_lie_in_the_interval_known_before(make):
    noise = make(seeded(2))
    wide = noise.interval()
    noise.refine()
    narrow = noise.interval()
    more = narrow.bits - wide.bits
    assert more == 64
    assert ((wide.lower << more) <= narrow.lower).all()
    assert (narrow.upper <= (wide.upper << more)).all()
    assert (narrow.upper - narrow.lower < (wide.upper - wide.lower) << 8).all()


@each_kind
def test_a_release_is_the_nearest_multiple_to_the_real_sum(make):
    noise = make(seeded(3))
    values = np.random.default_rng(4).normal(size=300) * 10.0 ** np.arange(-150, 150)
    released = _exact.add_rounded(values, noise)
    noise.refine(256)
    lower, upper, bits = noise.interval()
    step = Fraction(2) ** (-25)  # 0.7 lies in [1/2, 1)
    for value, result, low, high in zip(values, released, lower, upper, strict=True):
        for end in (low, high):
            real = Fraction(value) + Fraction(int(end), 1 << bits)
            # of a double, which may have too few digits for the multiple
            last = Fraction(math.ulp(result))
            assert abs(Fraction(result) - real) <= (step + last) / 2
        assert Fraction(result) % step == 0


@pytest.mark.parametrize("sigma", [5e-324, 1e-20, 1.0, 1e300, 1e307])
def test_values_of_any_size_are_released(sigma):
    values = np.array([1e10, -1e12, 1e300, -np.finfo(float).max])
    released = add_gaussian(values, sigma=sigma)
    assert np.isfinite(released).all()
    off = np.abs(released / 2 - values / 2)
    assert (off <= 5 * sigma + 2.0**-52 * np.abs(values)).all()


def test_a_direction_of_which_no_digit_is_known_draws_more():
    noise = NormReals(1, 1.0, seeded(4))
    noise._normals._digits[0] = 0
    lower, upper, bits = noise.interval()
    assert bits > 64
    noise.refine(256)
    narrow = noise.interval()
    more = narrow.bits - bits
    assert lower[0] << more <= narrow.lower[0] <= narrow.upper[0] <= upper[0] << more


def test_an_undecided_candidate_gets_more_digits_and_keeps_them():
    # u = 0 in 64 digits is kept with a probability just below 1: a second word of ones
    # leaves that open
    first = bytes(12) + b"\xff" * 4
    ones = b"\xff" * 4 + (2**32 - 1 - 2**10).to_bytes(4, "little")
    numbers = Normals(1, Script(first, ones, seed=8))
    lower, upper, bits = numbers.interval()
    assert bits >= 64
    assert 0 <= lower[0] < upper[0] <= 1 << (bits - 64)


def test_a_sum_on_the_border_of_two_points_draws_more_digits():
    noise = GaussianReals(1, 1.0, seeded(6))
    low, _, bits = noise.interval()
    border = Fraction(2) ** -25  # half a step
    # the border is amid what is known
    value = border - Fraction(2 * int(low[0]) + 1, 2 << bits) % (2 * border)
    assert Fraction(float(value)) == value
    released = _exact.add_rounded(np.array([float(value)]), noise)
    assert noise.interval().bits > bits
    assert released[0] * 2**24 % 1 == 0


def test_the_table_of_cells_is_certain():
    mp.prec = 200
    terms = [mp.exp(-(mp.mpf(j) ** 2) / 2) for j in range(40)]
    table = _exact._cell_table()
    for j, entry in enumerate(table):
        assert entry == bits_of(sum(terms[: j + 1]) / sum(terms), _exact.CELL_BITS)
    for (low, high), j in zip(_exact._cell_bounds(40), range(8), strict=False):
        true = sum(terms[: j + 1]) / sum(terms)
        assert (
            mp.mpf(low.numerator) / low.denominator
            <= true
            <= mp.mpf(high.numerator) / high.denominator
        )
        assert high - low < Fraction(1, 10**36)


@pytest.mark.parametrize("digits", [33, 90, 170])
@pytest.mark.parametrize("j", range(7))
def test_a_word_at_the_bound_of_two_cells_is_decided_by_later_digits(digits, j):
    mp.prec = 800
    terms = [mp.exp(-(mp.mpf(i) ** 2) / 2) for i in range(60)]
    bound = bits_of(sum(terms[: j + 1]) / sum(terms), 640)
    for side, cell in ((-1, j), (1, j + 1)):
        number = bound + side * (1 << (640 - digits - 20))
        word = number >> (640 - _exact.CELL_BITS)
        later = [
            (number >> (640 - _exact.CELL_BITS - 64 * i)) & (2**64 - 1)
            for i in range(1, 9)
        ]
        script = Script(*(part.to_bytes(8, "little") for part in later))
        assert _exact._cell(word, script) == cell


@pytest.mark.parametrize(
    "exponent",
    [Fraction(1, 3), Fraction(0), Fraction(5, 2), Fraction(300), Fraction(1, 2**70)],
)
@pytest.mark.parametrize("digits", [40, 100, 300])
def test_a_number_near_the_exponential_is_decided_by_later_digits(exponent, digits):
    mp.prec = 1500
    bits = 1024
    bound = bits_of(mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator), bits)
    for side in (-1, 1):
        number = bound + side * (1 << (bits - digits))
        if not 0 <= number < 1 << bits:
            continue
        words = [(number >> (bits - 32 * i)) & (2**32 - 1) for i in range(1, 33)]
        script = Script(*(word.to_bytes(4, "little") for word in words[1:]))
        assert _exact._below_exp(words[0], lambda _: (exponent, exponent), script) == (
            side < 0
        )


@pytest.mark.parametrize("beta", [1e-300, 0.05, 1.0, 40.0, 1e300])
def test_soft_votes_have_the_probabilities_of_the_exponential_mechanism(beta):
    scores = np.array([3.0, 2.0, 2.5])
    drawn = _exact.softmax_draws(
        np.tile(scores, (20_000, 1)), beta, seeded([int(np.log2(beta)) + 2000])
    )
    weights = np.exp(np.clip(beta * (scores - 3), -700, 0))
    expected = 20_000 * weights / weights.sum()
    counts = np.bincount(drawn, minlength=3)
    seen = expected > 5
    assert counts[~seen].sum() <= 20
    if seen.sum() > 1:
        scaled = expected[seen] * counts[seen].sum() / expected[seen].sum()
        assert stats.chisquare(counts[seen], scaled).pvalue > 1e-4


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.0, 0.0), (3.0, 5.0)])
def test_noisy_votes_have_the_probabilities_of_real_noise(a, b):
    n, sigma = 20_000, 2.0
    rows = np.tile([a, b], (n, 1))
    margin = abs(a - b) / sigma
    behind = (2 + margin) / 4 * np.exp(-margin)
    first_wins = stats.norm.cdf((a - b) / sigma / np.sqrt(2))
    normal = GaussianReals(2 * n, sigma, seeded(9))
    laplace = NormReals(1, sigma, seeded(10), n_vectors=2 * n)
    single = GaussianReals(n, sigma, seeded(11))
    found = [
        (_exact.argmax_after(rows, normal) == 0, first_wins),
        (_exact.argmax_after(rows, laplace) == 0, 1 - behind if a >= b else behind),
        (_exact.reaches_after(rows[:, 0], b, single), stats.norm.cdf((a - b) / sigma)),
    ]
    for events, chance in found:
        assert stats.binomtest(int(events.sum()), n, chance).pvalue > 1e-4


def test_float_noise_is_the_quantile_of_each_word():
    words = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    numbers = _exact.normal_floats(
        len(words), Script(*(word.to_bytes(8, "little", signed=True) for word in words))
    )
    expected = [
        stats.norm.ppf((abs(word) + 0.5) / 2**64) * (-1 if word >= 0 else 1)
        for word in words
    ]
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)
    assert np.abs(numbers).max() < 9.2
    assert not np.isin(_exact.normal_floats(1000), _exact.normal_floats(1000)).any()


def test_many_float_numbers_are_made_in_blocks_of_bytes_of_their_own():
    """Each number is the quantile of its own word, whichever thread made it."""
    size = 3 * _exact.BLOCK + 5
    asked = []

    def told(count):
        # a word for each block: its turn, in the upper half
        asked.append(count)
        return (len(asked) << 58).to_bytes(8, "little") * (count // 8)

    numbers = _exact.normal_floats(size, told)
    assert sorted(asked) == [40, *[8 * _exact.BLOCK] * 3]
    expected = [-stats.norm.ppf(((turn << 58) + 0.5) / 2**64) for turn in (1, 2, 3, 4)]
    found, counts = np.unique(numbers, return_counts=True)
    np.testing.assert_allclose(found, sorted(expected), rtol=1e-12)
    assert sorted(counts) == [5, *[_exact.BLOCK] * 3]


def test_scales_are_those_of_the_rows():
    values, scales = np.zeros((3, 4000)), [1e-3, 1.0, 1e3]
    for seed in (None, 0):
        assert add_gaussian(values, sigma=2.0, scales=scales, seed=seed).std(
            axis=1
        ) == pytest.approx(2 * np.array(scales), rel=0.1)
        norms = np.linalg.norm(
            add_norm_noise(values, rate=2.0, scales=scales, seed=seed), axis=1
        )
        assert norms == pytest.approx(2000 * np.array(scales), rel=0.1)


@pytest.mark.parametrize(
    ("release", "scale"), [(add_gaussian, "sigma"), (add_norm_noise, "rate")]
)
def test_bad_arguments_are_named_and_values_are_not_told(release, scale):
    wrong = [
        ({scale: -1.0}, f"{scale} must be > 0, got {scale}="),
        ({scale: np.inf}, f"{scale} must be finite and > 0, got {scale}="),
        ({"scales": [1.0, np.inf]}, "scales must be finite and > 0, got scales=inf"),
        ({"scales": [1.0] * 3}, r"one entry for each of the 2 rows, got shape \(3,\)"),
        ({"seed": -1}, "seed must be >= 0, got seed=-1"),
        ({"values": [1.0, np.inf]}, "^values must be finite$"),
    ]
    given = {"values": np.zeros((2, 2)), scale: 1.0}
    for change, message in wrong:
        with pytest.raises(ValueError, match=message):
            release(**{**given, **change})
    for change in ({"seed": "x"}, {scale: "2"}):
        with pytest.raises(TypeError, match="must be a"):
            release(**{**given, **change})


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 1, 2)])
@pytest.mark.parametrize("seed", [None, 0])
def test_values_of_any_shape_get_noise(shape, seed):
    for noisy in (
        add_gaussian(np.zeros(shape), sigma=1.0, seed=seed),
        add_norm_noise(np.zeros(shape), rate=1.0, seed=seed),
    ):
        assert np.shape(noisy) == shape
        assert (noisy != 0).all()


def test_gaussian_noise_has_the_stated_scale():
    noise = add_gaussian(np.zeros((100, 500)), sigma=2.0, seed=20)
    assert (noise.shape, noise.dtype) == ((100, 500), np.float64)
    assert fits(noise.ravel(), stats.norm(scale=2.0))
    assert not fits(noise.ravel(), stats.norm(scale=2.1))  # power: 5% off is noticed
    pairs = stats.pearsonr(noise[:, :250].ravel(), noise[:, 250:].ravel())
    assert pairs.pvalue > LEVEL


def exact_vectors(d, rate, count):
    noise = NormReals(d, 1 / rate, seeded([d, int(rate)]), n_vectors=count)
    return _exact.add_rounded(np.zeros(count * d), noise).reshape(count, d)


def seeded_vectors(d, rate, count):
    return add_norm_noise(
        np.zeros((count, d)), rate=rate, scales=np.ones(count), seed=3
    )


@pytest.mark.parametrize(
    ("draw", "count"), [(exact_vectors, 3000), (seeded_vectors, 20_000)]
)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 65])
@pytest.mark.parametrize("rate", [1e-9, 0.4, 3e5])
def test_norm_noise_is_gamma_in_norm_and_uniform_in_direction(d, rate, draw, count):
    vectors = rate * draw(d, rate, count)
    assert (vectors.shape, vectors.dtype) == ((count, d), np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    assert fits(norms, stats.gamma(d))
    # no coordinate axis
    fixed = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    cosine = vectors @ fixed / norms
    assert stats.binomtest(int((cosine > 0).sum()), count).pvalue > LEVEL
    if d > 1:
        assert fits(cosine**2, stats.beta(0.5, (d - 1) / 2))
        assert abs(stats.spearmanr(norms, cosine**2).statistic) < 5 / np.sqrt(count)
    if draw is seeded_vectors:
        # power: norms 5 % off, and squares 10 %
        assert not fits(norms, stats.gamma(d, scale=1.05))
        assert d == 1 or not fits(cosine**2, stats.beta(0.5, 1.1 * (d - 1) / 2))


def test_noise_comes_from_the_given_seed_alone():
    for draw in (
        lambda seed: add_gaussian(np.zeros(4), sigma=1.0, seed=seed),
        lambda seed: add_norm_noise(np.zeros(4), rate=1.0, seed=seed),
    ):
        np.random.seed(0)  # noqa: NPY002, the hidden state that must not matter
        first = draw(8)
        np.testing.assert_array_equal(first, draw(8))
        np.testing.assert_array_equal(first, draw(np.random.default_rng(8)))
        assert (first != draw(9)).all()
        generator = np.random.default_rng(8)
        assert (draw(generator) != draw(generator)).all()
