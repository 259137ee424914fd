"""Real random numbers, with as many binary digits as a result needs.

A floating-point normal number takes few of the values of a real normal number, and the
values that a sum with data can reach reveal the data (Mironov 2012). Here nothing is
rounded before the result. A random number is an interval that shrinks as digits are
drawn. A decision (accept or reject, which class has most votes, which point of a grid
is nearest) is made by floating point if its error bound allows, and by whole numbers
otherwise. More digits are drawn if the decision is still open. So a result has exactly
the distribution of the mechanism over the reals, and every theorem about the mechanism
over the reals holds. This assumes that the bytes are uniform and that `exp` has an
error below 2^-40.

The bytes come from the operating system's cryptographic generator, except where a test
provides others. Training takes millions of `normal_floats`, so their bytes come from a
generator that the operating system seeds.

Source: Karney (2016), "Sampling exactly from the normal distribution", for digits on
demand; the cells here differ.
"""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpnotes._validation import Floats, Integers

# gives so many uniform bytes, independent of all that was given before
Bytes = Callable[[int], bytes]
Ints = NDArray[np.object_]  # Python's integers, of any length

# bounds the error of exp(-a) in floating point, for the a below; far above that of any
# libm
MARGIN = 2.0**-40
CELL_BITS = 31  # of a first word for the cell of a normal number; one more is its sign
# a release is rounded to 2^-24 of the scale of its noise, which is public
GRID_BITS = 24
# normal numbers that one thread makes at a time: they fit into its cache
BLOCK = 2**17
LARGEST = int(np.finfo(np.float64).max)


class Interval(NamedTuple):
    """Bounds of real numbers, in units of ``2^-bits``."""

    lower: Ints
    upper: Ints
    bits: int


class Normals:
    """Independent standard normal numbers, each known to ``bits`` binary digits after
    the point, and more on demand.

    Parameters
    ----------
    size : int
    random_bytes : callable, optional
        Source of the bytes; by default the operating system's generator.
    """

    def __init__(self, size: int, random_bytes: Bytes = os.urandom) -> None:
        self._bytes = random_bytes
        self._negative, cells, words, longer = _half_normals(size, random_bytes)
        self.bits = 64
        # of the absolute values
        self._digits: Ints = (cells.astype(object) << 64) + words.astype(object)
        # what a decision drew of one number's digits, all others get as well
        if longer:
            self.refine(max(bits for _, bits in longer.values()) - 64)
            for index, (word, bits) in longer.items():
                # fewer digits were drawn of this one than of the longest: fresh ones
                # fill the rest
                rest = self.bits - bits
                own = (int(cells[index]) << bits) + word
                self._digits[index] = (own << rest) + (
                    int(self._digits[index]) & ((1 << rest) - 1)
                )

    def refine(self, bits: int = 64) -> None:
        """Draw more digits of every number."""
        self._digits = (self._digits << bits) + _integers(
            len(self._digits), bits, self._bytes
        )
        self.bits += bits

    def interval(self) -> Interval:
        """Interval in which each number is known to lie."""
        # digits of the absolute value are cut off, so a negative number lies below them
        lower = np.where(self._negative, -self._digits - 1, self._digits)
        return Interval(lower, lower + 1, self.bits)


class GaussianReals:
    """Normal numbers of standard deviation ``scale`` > 0, which is one float or one
    float for each number.
    """

    def __init__(
        self, size: int, scale: float | Floats, random_bytes: Bytes = os.urandom
    ) -> None:
        self.scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), size)
        self._normals = Normals(size, random_bytes)
        self._ratio = _ratios(self.scale)
        self.refine = self._normals.refine

    def interval(self) -> Interval:
        """Interval in which each number is known to lie."""
        lower, upper, bits = self._normals.interval()
        top, bottom = self._ratio
        # rounded outwards, so that the interval keeps the number
        return Interval(lower * top // bottom, -(-upper * top // bottom), bits)


class NormReals:
    """Vectors b [n_vectors, size] with density proportional to ``exp(-||b||_2 /
    scale)``, one after another.

    The norm has the Gamma distribution of shape ``size``. Direction and norm are made
    of normal numbers: ``size`` numbers give the direction, and half the sum of the
    squares of ``2 size`` further numbers gives the norm. ``scale`` is one float, or one
    float for each vector.
    """

    def __init__(
        self,
        size: int,
        scale: float | Floats,
        random_bytes: Bytes = os.urandom,
        *,
        n_vectors: int = 1,
    ) -> None:
        self._shape = (n_vectors, 3 * size)
        scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), n_vectors)
        self.scale = np.repeat(scales, size)
        self._ratio = _ratios(scales)
        self._normals = Normals(3 * size * n_vectors, random_bytes)
        self.refine = self._normals.refine

    def interval(self) -> Interval:
        """Interval in which each number is known to lie."""
        lower, upper, bits = self._normals.interval()
        size = self._shape[1] // 3
        # of the absolute values
        above = np.where(lower < 0, -lower, upper).reshape(self._shape)
        below = above - 1
        root_below = _root(np.add.reduce(below[:, :size] ** 2, axis=1))
        root_above = _root(np.add.reduce(above[:, :size] ** 2, axis=1))
        # a direction so short that nothing bounds its scale from above yet
        if not root_below.all():
            self.refine()
            return self.interval()
        twice_below = np.add.reduce(below[:, size:] ** 2, axis=1)
        twice_above = np.add.reduce(above[:, size:] ** 2, axis=1)
        top, bottom = self._ratio
        # |b_i| = scale |g_i| r / |g|, r half the other sum: units 2^-bits for g and
        # |g|, 2^-(2 bits + 1) for r
        ratio_below = top * twice_below // (bottom * (root_above + 1))
        ratio_above = -(-top * twice_above // (bottom * root_below))
        low = below[:, :size] * ratio_below[:, None] >> (bits + 1)
        high = -(-(above[:, :size] * ratio_above[:, None]) >> (bits + 1))
        negative = (lower < 0).reshape(self._shape)[:, :size]
        return Interval(
            np.where(negative, -high, low).ravel(),
            np.where(negative, -low, high).ravel(),
            bits,
        )


Reals = GaussianReals | NormReals


def add_rounded(values: Floats, noise: Reals) -> Floats:
    """Sums of values and real noise, each correctly rounded to the nearest multiple of
    a public power of two.

    The grid is the power of two at or below ``2^-24`` of the noise's scale. A multiple
    of more than 53 digits is rounded again, to a double, and at most to the largest.

    Parameters
    ----------
    values : ndarray of float64, finite
        Values, with as many entries as the noise has numbers.
    noise : GaussianReals or NormReals

    Returns
    -------
    ndarray of float64, of the values' shape
    """
    # exponent of the grid: the power of two at or below the scale, and 24 places less
    step = np.frexp(noise.scale)[1].astype(np.int64) - 1 - GRID_BITS

    def nearest(sums: Interval) -> tuple[Ints, Ints]:
        shift = (step + sums.bits).astype(object)
        # to nearest: half a step is added, the rest is cut off
        half = 1 << (shift - 1)
        return (sums.lower + half) >> shift, (sums.upper + half) >> shift

    digits = max(0, -int(step.min(initial=0)))
    steps = _decided(values.ravel(), noise, nearest, more_than=digits)
    up = np.maximum(step, 0).astype(object)
    down = np.maximum(-step, 0).astype(object)
    most = LARGEST << down
    # Python rounds the quotient of two integers of any length once
    rounded = np.clip(steps << up, -most, most) / (1 << down)
    return np.asarray(rounded.reshape(values.shape), dtype=np.float64)


def argmax_after(scores: Floats, noise: Reals) -> Integers:
    """Index of the largest entry in each row of ``scores`` [q, c] plus real noise;
    the result has shape [q].
    """

    def largest(sums: Interval) -> tuple[NDArray[Any], NDArray[Any]]:
        lower = sums.lower.reshape(scores.shape)
        upper = sums.upper.reshape(scores.shape)
        rows = np.arange(len(lower))
        best = lower.argmax(axis=1)
        rivals = upper.copy()
        # decided if the least of the best beats the most of all others
        rivals[rows, best] = lower[rows, best]
        return best, np.where(rivals.argmax(axis=1) == best, best, -1)

    return _decided(scores.ravel(), noise, largest).astype(np.int64)


def reaches_after(values: Floats, threshold: float, noise: Reals) -> NDArray[np.bool_]:
    """Whether the sum of each value and its real noise is at least ``threshold``."""
    top, bottom = Fraction(threshold).as_integer_ratio()

    def reached(sums: Interval) -> tuple[Ints, Ints]:
        # whole numbers on both sides: the threshold is a fraction
        bound = top << sums.bits
        return sums.lower * bottom >= bound, sums.upper * bottom >= bound

    decided = _decided(values.ravel(), noise, reached)
    return decided.astype(np.bool_).reshape(values.shape)


def softmax_draws(
    scores: Floats, beta: float, random_bytes: Bytes = os.urandom
) -> Integers:
    """Draw a column of each row of ``scores`` [q, c] with probability proportional to
    ``exp(beta score)``.

    A uniformly drawn column is accepted with probability ``exp(beta (score - largest
    score))``; otherwise the draw is repeated. The result has shape [q].
    """
    drawn = np.empty(len(scores), dtype=np.int64)
    left = np.arange(len(scores))
    exact = Fraction(beta)
    while len(left):
        rows = scores[left]
        columns = _below(rows.shape[1], len(left), random_bytes)
        own = rows[np.arange(len(left)), columns]
        best = rows.max(axis=1)
        words = np.frombuffer(random_bytes(4 * len(left)), np.uint32)
        with np.errstate(over="ignore", under="ignore"):
            kept, open_ = _compared(words, np.exp(-beta * (best - own)))
        for i in np.flatnonzero(open_):
            exponent = exact * (Fraction(best[i]) - Fraction(own[i]))
            # floating point cannot tell: the exponent as a fraction, the number with
            # more digits
            kept[i] = _below_exp(int(words[i]), partial(_known, exponent), random_bytes)
        drawn[left[kept]] = columns[kept]
        left = left[~kept]
    return drawn


def normal_floats(size: int, random_bytes: Bytes = ssl.RAND_bytes) -> Floats:
    """Draw independent standard normal numbers in float64, for sums so numerous that
    exact rounding would be too slow.

    Each number is the floating-point quantile of a random integer of 64 bits, which
    also determines its sign. No number exceeds 9.2 in absolute value. A guarantee that
    rests on these numbers is a guarantee for ideal reals. The bytes come from OpenSSL's
    generator (AES-256 in counter mode), which the operating system seeds separately in
    each process and again after a fork. This is ten times as fast as a system call for
    each number. Many numbers are made in blocks, by as many threads as the process has
    processors.
    """
    drawn = np.empty(size)
    blocks = [drawn[start : start + BLOCK] for start in range(0, size, BLOCK)]
    fill = partial(_fill_with_normals, random_bytes=random_bytes)
    if len(blocks) < 2:
        for block in blocks:
            fill(block)
        return drawn
    with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as threads:
        for _ in threads.map(fill, blocks):
            pass
    return drawn


def _fill_with_normals(block: Floats, random_bytes: Bytes) -> None:
    """Fill an array with numbers of `normal_floats`; NumPy, SciPy and OpenSSL let other
    threads work meanwhile.
    """
    block[:] = np.frombuffer(random_bytes(8 * len(block)), np.int64)
    negative = np.signbit(block)
    # a number in (0, 1/2]
    np.abs(block, out=block)
    block += 0.5
    block *= 2.0**-64
    ndtri(block, out=block)
    np.negative(block, out=block, where=~negative)


def _decided(
    values: Floats,
    noise: Reals,
    decide: Callable[[Interval], tuple[Any, Any]],
    *,
    more_than: int = 0,
) -> NDArray[Any]:
    """What ``decide`` says of ``values + noise``, as soon as it says the same at
    both ends of the intervals.
    """
    while True:
        lower, upper, bits = noise.interval()
        if bits > more_than:
            own = _integer_bounds(values, bits)
            # the same at both ends: more digits change nothing
            low, high = decide(Interval(lower + own.lower, upper + own.upper, bits))
            if np.all(low == high):
                return np.asarray(low)
        noise.refine()


def _integer_bounds(values: Floats, bits: int) -> Interval:
    """Floats in units of ``2^-bits``, between whole numbers."""
    mantissa, exponent = np.frexp(values)
    # a double is a whole number of 53 bits times a power of two
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    shift = (exponent.astype(np.int64) - 53 + bits).astype(object)
    left = np.maximum(shift, 0)
    right = np.maximum(-shift, 0)
    lower = (whole << left) >> right
    return Interval(lower, -((-whole << left) >> right), bits)


def _half_normals(
    size: int, random_bytes: Bytes
) -> tuple[
    NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint64], dict[int, tuple[int, int]]
]:
    """Signs and absolute values of normal numbers: cells k, 64-bit words u of the
    fraction, and the longer fractions.

    The density exp(-x^2 / 2) at x = k + u is exp(-k^2 / 2) exp(-u (k + u / 2)): k has
    probability proportional to the first factor, u is uniform, and both are kept with
    probability the second factor. That decision looks at the interval of u, so that the
    digits of u that were not drawn stay uniform.
    """
    negative = np.empty(size, dtype=np.bool_)
    cells = np.empty(size, dtype=np.int64)
    words = np.empty(size, dtype=np.uint64)
    longer: dict[int, tuple[int, int]] = {}
    left = np.arange(size)
    while len(left):
        u = np.frombuffer(random_bytes(8 * len(left)), np.uint64)
        both = np.frombuffer(random_bytes(8 * len(left)), np.uint32)
        first, second = both.reshape(2, -1)
        sign = first & 1 == 1
        cell_word = (first >> 1).astype(np.int64)
        table = _cell_table()
        k = np.searchsorted(table, cell_word)
        # the word's own digits do not tell its cell
        at_a_bound = table[np.minimum(k, len(table) - 1)] == cell_word
        for i in np.flatnonzero(at_a_bound):
            k[i] = _cell(int(cell_word[i]), random_bytes)
        fraction = np.ldexp(u.astype(np.float64), -64)
        kept, open_ = _compared(second, np.exp(-fraction * (k + fraction / 2)))
        for i in np.flatnonzero(open_):
            exponent = _Fraction(int(k[i]), int(u[i]), random_bytes)
            kept[i] = _below_exp(int(second[i]), exponent.bounds, random_bytes)
            # the digits that the decision looked at belong to the number
            if kept[i] and exponent.bits > 64:
                longer[int(left[i])] = exponent.word, exponent.bits
        where = left[kept]
        negative[where] = sign[kept]
        cells[where] = k[kept]
        words[where] = u[kept]
        left = left[~kept]
    return negative, cells, words, longer


def _compared(
    words: NDArray[np.uint32], probability: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether a uniform number with these first 32 digits is below a probability,
    and where that is not certain.
    """
    number = np.ldexp(words.astype(np.float64), -32)
    kept = number + (2.0**-32 + MARGIN) <= probability
    return kept, ~kept & (number - MARGIN < probability)


class _Fraction:
    """The exponent u (k + u / 2) of a uniform number u of which digits are drawn as
    they are asked for.
    """

    def __init__(self, k: int, word: int, random_bytes: Bytes) -> None:
        self._k = k
        self._bytes = random_bytes
        self.word = word
        self.bits = 64

    def bounds(self, bits: int) -> tuple[Fraction, Fraction]:
        while self.bits < bits:
            self.word = (self.word << 64) + int(_integers(1, 64, self._bytes)[0])
            self.bits += 64
        ends = (Fraction(self.word + end, 1 << self.bits) for end in (0, 1))
        low, high = (u * (self._k + u / 2) for u in ends)
        return low, high


def _known(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Bounds of an exponent that is known."""
    return exponent, exponent


def _below_exp(
    word: int, bounds: Callable[[int], tuple[Fraction, Fraction]], random_bytes: Bytes
) -> bool:
    """Whether a uniform number of first 32 digits ``word`` is below ``exp(-a)``,
    with ever closer bounds of a.
    """
    bits = 32
    while True:
        word = (word << 32) + int(_integers(1, 32, random_bytes)[0])
        bits = bits + 32
        low, high = bounds(bits)
        # decimal digits that tell so many binary ones apart
        digits = bits // 3 + 10
        if Fraction(word + 1, 1 << bits) <= _exp(-high, digits)[0]:
            return True
        if Fraction(word, 1 << bits) >= _exp(-low, digits)[1]:
            return False


def _exp(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds of exp(exponent) for an exponent <= 0: Python's decimals are correctly
    rounded.
    """
    ends = []
    for rounding, beyond in (
        (ROUND_FLOOR, Decimal.next_minus),
        (ROUND_CEILING, Decimal.next_plus),
    ):
        context = Context(prec=digits, rounding=rounding, Emin=-(10**9), Emax=10**9)
        # rounded in the same direction as the exponential, then one unit further
        argument = context.divide(
            Decimal(exponent.numerator), Decimal(exponent.denominator)
        )
        ends.append(Fraction(beyond(argument.exp(context), context)))
    return max(ends[0], Fraction(0)), min(ends[1], Fraction(1))


def _cell_bounds(digits: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Bounds of Pr[k <= j], for j = 0, 1, ..."""
    # exp(-last^2 / 2) < 10^-digits: beyond it less than that is left in all
    last = 4 + math.isqrt(5 * digits)
    terms = [_exp(Fraction(-j * j, 2), digits) for j in range(last + 1)]
    low = sum((lower for lower, _ in terms), Fraction(0))
    high = sum((upper for _, upper in terms), Fraction(0))
    # for the terms that are left out
    high += Fraction(2, 10**digits)
    least = Fraction(0)
    most = Fraction(0)
    for lower, upper in terms:
        least += lower
        most += upper
        yield least / high, min(most / low, Fraction(1))
    while True:
        yield least / high, Fraction(1)


@cache
def _cell_table() -> NDArray[np.int64]:
    """First ``CELL_BITS`` digits of Pr[k <= j]: a word above entry j and below entry
    j + 1 belongs to cell j + 1.
    """
    table: list[int] = []
    for low, _ in _cell_bounds(40):
        table.append(int(low * 2**CELL_BITS))
        if table[-1] == 2**CELL_BITS - 1:
            return np.array(table, dtype=np.int64)
    raise AssertionError


def _cell(word: int, random_bytes: Bytes) -> int:
    """The cell of a uniform number with these first ``CELL_BITS`` digits, which lie
    at a bound between two cells.
    """
    for more in count(1):
        word = (word << 64) + int(_integers(1, 64, random_bytes)[0])
        bits = CELL_BITS + 64 * more
        low = Fraction(word, 1 << bits)
        high = Fraction(word + 1, 1 << bits)
        for j, (below, above) in enumerate(_cell_bounds(bits // 3 + 10)):
            if high <= below:
                return j
            if low < above:
                break  # more digits decide
    raise AssertionError


def _integers(size: int, bits: int, random_bytes: Bytes) -> Ints:
    """Uniform integers of a multiple of 32 bits."""
    width = bits // 8
    data = random_bytes(size * width)
    drawn = np.empty(size, dtype=object)
    for i in range(size):
        drawn[i] = int.from_bytes(data[i * width : (i + 1) * width], "little")
    return drawn


def _below(bound: int, size: int, random_bytes: Bytes) -> Integers:
    """Uniform integers below ``bound``."""
    # words beyond the last whole multiple would favour small numbers
    most = 2**32 - 2**32 % bound
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        data = random_bytes(4 * (size - len(drawn)))
        words = np.frombuffer(data, np.uint32).astype(np.int64)
        drawn = np.concatenate([drawn, words[words < most] % bound])
    return drawn


def _ratios(numbers: Floats) -> tuple[Ints, Ints]:
    """Numerators and denominators of floats."""
    ratios = [number.as_integer_ratio() for number in numbers.tolist()]
    top, bottom = np.array(ratios, dtype=object).reshape(-1, 2).T
    return top, bottom


def _root(squares: Ints) -> Ints:
    """Whole part of the square root of integers."""
    return np.array([math.isqrt(square) for square in squares], dtype=object)
