"""The divergence behind (epsilon, delta)-DP between two finite distributions, in rational arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def hockey_stick(p: Mapping[K, Fraction], q: Mapping[K, Fraction], factor: Fraction | int) -> Fraction:
    """Hockey-stick divergence ``sum over outcomes of max(0, p - factor * q)``, exactly; ``factor`` is ``e^epsilon``.

    Examples
    --------
    >>> with_record = {"yes": Fraction(3, 4), "no": Fraction(1, 4)}
    >>> without = {"yes": Fraction(1, 4), "no": Fraction(3, 4)}
    >>> hockey_stick(with_record, without, 1), hockey_stick(with_record, without, 2)
    (Fraction(1, 2), Fraction(1, 4))
    """
    zero = Fraction(0)
    return sum((max(mass - factor * q.get(outcome, zero), zero) for outcome, mass in p.items()), zero)
