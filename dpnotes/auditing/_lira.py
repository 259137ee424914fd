"""Scores of membership from shadow models: the likelihood-ratio attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats

if TYPE_CHECKING:
    from numpy.ma import MaskedArray

VARIANCES = ("per-example", "fixed")


def lira(
    scores_in: ArrayLike | None, scores_out: ArrayLike, observed: ArrayLike, *, variance: str = "per-example"
) -> Floats:
    """Log-likelihood ratio of each example's score between shadow models that had it and models that had not.

    The scores of an example are taken as normal on either side, so that they should be nearly so: a logit of the
    probability of the true class, not the probability. The shadow models' randomness must be independent of that of the
    models observed. An audit stays sound whatever is wrong with the ratio, which then only finds less.

    The ratios of one example under many models are scores for :func:`audit_scores`; those of many examples under one
    model are not independent runs, and are for :func:`one_run`.

    Parameters
    ----------
    scores_in : array_like of float, shape [models, examples], or None
        Scores under shadow models; NaN, or masked, where a model did not have the example. None: how unlikely the
        observed score is without the example is all that is used (the "offline" attack), in standard deviations.
    scores_out : array_like of float, shape [models, examples]
        The same where a model had not the example; rows need not be those of ``scores_in``.
    observed : array_like of float, shape [examples] or [targets, examples]
    variance : {"per-example", "fixed"}
        Whether each example has its own two variances, or all have two in common, which few shadow models estimate
        better (below 64, say Carlini et al.).

    Returns
    -------
    ndarray, the shape of ``observed``
        Higher is more like a member.

    Raises
    ------
    ValueError
        If the shapes do not fit, an observed score is not finite, an example has too few scores for its variance, or a
        variance is 0.

    Source
    ------
    Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), Algorithm 1 and its offline variant.

    Examples
    --------
    >>> import numpy as np
    >>> lira([[3.0], [5.0]], [[-1.0], [1.0]], [2.0])  # halfway between the means
    array([0.])
    >>> lira(None, [[-1.0], [1.0]], [2.0]).round(3)
    array([1.414])
    """
    check.one_of("variance", variance, VARIANCES)
    seen = np.asarray(observed, dtype=np.float64)
    if seen.ndim not in (1, 2) or not seen.size:
        raise ValueError(f"observed must have shape [examples] or [targets, examples], got shape {seen.shape}")
    if not np.isfinite(seen).all():
        raise ValueError(f"observed must be finite, got {int((~np.isfinite(seen)).sum())} bad entries")
    distance, log_std = _standardised("scores_out", scores_out, seen, variance)
    if scores_in is None:
        return distance
    nearer, its_log_std = _standardised("scores_in", scores_in, seen, variance)
    return np.asarray((distance**2 - nearer**2) / 2 + log_std - its_log_std, dtype=np.float64)


def _standardised(name: str, scores: ArrayLike, observed: Floats, variance: str) -> tuple[Floats, Floats]:
    """Distance of the observed scores from the shadow models' mean, in standard deviations, and their logarithms."""
    values: MaskedArray = np.ma.masked_invalid(np.ma.asarray(scores, dtype=np.float64))
    if values.ndim != 2 or values.shape[1] != observed.shape[-1]:
        raise ValueError(f"{name} must have shape [models, {observed.shape[-1]}], got shape {values.shape}")
    count, least = values.count(axis=0), 2 if variance == "per-example" else 1
    if count.min() < least or count.sum() == len(count):
        wanted = f"{least} finite scores" + ("" if least == 2 else ", and some example two")
        raise ValueError(f"{name} must have at least {wanted} for each example, got {int(count.min())} for one")
    squares = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    found = squares.sum() / (count - 1).sum() if variance == "fixed" else squares / (count - 1)
    std = np.sqrt(np.asarray(found, dtype=np.float64))
    if (std == 0).any():
        raise ValueError(f'{name} must vary, got equal scores of {int((std == 0).sum())} examples; variance="fixed"?')
    return np.asarray((observed - np.asarray(values.mean(axis=0))) / std), np.log(std)
