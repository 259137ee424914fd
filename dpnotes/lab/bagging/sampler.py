"""Liu, Jia and Gong (2021): the sampler of bagging, its exact distribution by enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

Outcome = tuple[tuple[int, ...], ...]  # for each model the records that it was given, in the order drawn


def sample_distribution(
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
    Whether a record is there shows with probability 5/9 in two draws of three, however large the factor:

    >>> from dpnotes.accounting import hockey_stick
    >>> with_record, without = sample_distribution(n=3, subsample=2), sample_distribution(n=2, subsample=2)
    >>> hockey_stick(with_record, without, 1), hockey_stick(with_record, without, 10)
    (Fraction(5, 9), Fraction(5, 9))
    >>> distribution = sample_distribution(n=2, subsample=2, replace=False)
    >>> {outcome: str(mass) for outcome, mass in distribution.items()}
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
