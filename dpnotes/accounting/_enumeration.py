"""Guarantees by counting: the exact laws of small samplers and the divergence between them, in rational arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import TypeVar

Outcome = tuple[tuple[int, ...], ...]  # for each model the records that it was given, in the order drawn
K = TypeVar("K", bound=Hashable)


def sample_law(
    *, n: int, subsample: int, n_models: int = 1, replace: bool = True, scheme: str = "independent"
) -> dict[Outcome, Fraction]:
    """Probability of every outcome of bagging's sampler on the records 0 to ``n - 1``, by enumeration.

    Parameters are those of :func:`dpnotes.accounting.bagging`; the number of outcomes grows as ``n^(n_models *
    subsample)``, so this is for tiny cases.

    Returns
    -------
    dict
        From outcomes (for each model the tuple of its records, in the order drawn) to probabilities (Fraction), which
        sum to 1.

    Raises
    ------
    ValueError
        If no outcome is possible, because more records are drawn without replacement than there are.

    Examples
    --------
    >>> law = sample_law(n=2, subsample=2, replace=False)
    >>> {outcome: str(mass) for outcome, mass in law.items()}
    {((0, 1),): '1/2', ((1, 0),): '1/2'}
    """
    if scheme == "split" and not replace:
        drawn = permutations(range(n), n_models * subsample)
        outcomes = [tuple(zip(*[iter(draw)] * subsample, strict=True)) for draw in drawn]
    else:
        one = list(product(range(n), repeat=subsample) if replace else permutations(range(n), subsample))
        outcomes = list(product(one, repeat=n_models))
    if not outcomes:
        raise ValueError(f"no outcome: subsample={subsample} of n={n} records without replacement, n_models={n_models}")
    return dict.fromkeys(outcomes, Fraction(1, len(outcomes)))


def hockey_stick(p: Mapping[K, Fraction], q: Mapping[K, Fraction], factor: Fraction | int) -> Fraction:
    """Hockey-stick divergence ``sum over outcomes of max(0, p - factor * q)``, exactly; ``factor`` is ``e^epsilon``.

    Examples
    --------
    >>> with_record, without = sample_law(n=3, subsample=2), sample_law(n=2, subsample=2)
    >>> hockey_stick(with_record, without, 1), hockey_stick(with_record, without, 10)
    (Fraction(5, 9), Fraction(5, 9))
    """
    zero = Fraction(0)
    return sum((max(mass - factor * q.get(outcome, zero), zero) for outcome, mass in p.items()), zero)
