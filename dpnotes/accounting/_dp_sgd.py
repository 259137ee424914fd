"""DP-SGD: noise on sums over batches that are drawn at random, all iterates released."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from dpnotes import _validation as check
from dpnotes.accounting._composition import ComposedRelease, together
from dpnotes.accounting._kinds import GaussianRelease, SampleRelease
from dpnotes.accounting._loss_distribution import LossDistribution, losses_of
from dpnotes.accounting._profile import PrivacyProfile, describe
from dpnotes.accounting._renyi import RenyiRelease, Total
from dpnotes.accounting._sampling import SCHEMES, resolved

ACCOUNTANTS = ("best", "pld", "rdp")


class LossesAlone(ComposedRelease):
    """A composition by the sum of the privacy losses alone."""

    @cached_property
    def _bounds(self) -> tuple[PrivacyProfile, ...]:  # type: ignore[override]
        return (LossDistribution(losses_of(self._parts, self._interval), **self._about(1)),)


def dp_sgd(
    *,
    noise_multiplier: float,
    sample_rate: float | None = None,
    steps: int | None = None,
    n: int | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    sampling: str = "poisson",
    max_batch_size: int | None = None,
    accountant: str = "best",
    interval: float | None = None,
    adjacency: str = "add-remove",
) -> PrivacyProfile:
    """Guarantee of DP-SGD: all iterates, each step on a batch of the records that is drawn at random and kept secret.

    Each step adds Gaussian noise of standard deviation ``noise_multiplier * clip_norm`` to the **sum** of the
    gradients clipped to ``clip_norm``. The batches must be drawn as ``sampling`` says: the guarantee of one scheme does
    not hold for another.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise on the sum, in units of the clip norm.
    sample_rate : float, in [0, 1], optional
        Probability with which a record takes part in a step. Or ``n`` and ``batch_size``, whose ratio it is.
    steps : int, >= 1, optional
        Number of steps. Or ``epochs``.
    n : int, >= 1, optional
        Number of records, of the larger of two neighbours.
    batch_size : int, >= 1, optional
        Records in a batch, for Poisson samples on average.
    epochs : float, > 0, optional
        How often as many records as there are have been drawn; what is left of a step counts as one.
    sampling : {"poisson", "truncated-poisson", "fixed-size", "balls-in-bins", "shuffle"}
        ``"poisson"``: in each step each record by itself. ``"truncated-poisson"``: if that are more than
        ``max_batch_size``, so many of them, drawn at random. ``"fixed-size"``: ``batch_size`` different ones of all
        ``n``, anew in each step. ``"balls-in-bins"``: in each epoch each record is put into one batch, by itself and at
        random (also called random allocation). ``"shuffle"``: in each epoch each record is in one batch; the bound is
        that of known batches, for no useful bound of what the shuffle adds is proved.
    max_batch_size : int, >= 1, optional
        For ``"truncated-poisson"``.
    accountant : {"best", "pld", "rdp"}
        ``"pld"``: privacy loss distribution, tight up to its grid. ``"rdp"``: Renyi curve over real orders, several per
        cent larger in epsilon. ``"best"``: the smaller of the two at each epsilon.
    interval : float, > 0, or None
        Distance of the privacy losses on the grid, in units of epsilon. None: at most a fiftieth of the standard
        deviation of the losses, however many steps have been added up.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        An empty record has no gradient. In a batch of fixed size it takes a place, and to remove a record makes place
        for another one: the sum moves by up to two clip norms. ``"balls-in-bins"`` is for add-remove and zero-out,
        ``"shuffle"`` for zero-out and replace-one.

    Returns
    -------
    PrivacyProfile
        Without sampling (rate 1) that of Gaussian noise, exact with every accountant.

    Raises
    ------
    ValueError
        If a parameter is outside its range, missing, or not one of this scheme, or the losses need more than 2^21
        points of the grid.
    TypeError
        If a number of records or steps is not an integer.

    Source
    ------
    Mironov, Talwar and Zhang (2019) for Poisson samples by their Renyi curve; Koskela, Jalko and Honkela (2020) and
    Zhu, Dong and Wang (2022) for the losses. Balle, Barthe and Gaboardi (2018), Theorem 2, for records that take one
    another's place; Birrell et al. (2024) for batches of fixed size, Ganesh (2025) for truncated samples. Chua et al.
    (2025) and Feldman and Shenfeld (2025) for balls in bins, here by the moments of both directions. Chua et al. (2024)
    for how little a shuffle can be relied on.

    Examples
    --------
    >>> dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=1000, accountant="rdp").epsilon(1e-5) < 2.1078
    True
    >>> round(dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=1000).epsilon(1e-5), 2)
    1.83
    >>> run = {"noise_multiplier": 1.0, "n": 60000, "batch_size": 256, "epochs": 3, "adjacency": "zero-out"}
    >>> [round(dp_sgd(**run, sampling=each).epsilon(1e-5), 2) for each in ("poisson", "fixed-size", "balls-in-bins")]
    [0.62, 5.44, 1.04]
    """
    sigma = check.positive("noise_multiplier", noise_multiplier)
    scheme = SCHEMES[check.one_of("sampling", sampling, tuple(SCHEMES))]
    sizes = {"n": n, "batch_size": batch_size, "max_batch_size": max_batch_size}
    draw = resolved(sampling, sample_rate=sample_rate, steps=steps, epochs=epochs, **sizes)
    accountant = check.one_of("accountant", accountant, ACCOUNTANTS)
    adjacency = check.one_of("adjacency", adjacency, scheme.adjacencies)
    grid = {} if interval is None else {"interval": check.positive("interval", interval)}
    if sampling == "poisson":
        given: dict[str, Any] = {"noise_multiplier": sigma, "sample_rate": draw.rate, "steps": draw.steps}
    else:
        rate = {"sample_rate": draw.rate} if batch_size is None else {}
        known = {name: int(value) for name, value in sizes.items() if value is not None}
        given = {"noise_multiplier": sigma, **rate, **known, "steps": draw.steps, "sampling": sampling}
    about = describe("dp_sgd", adjacency, **given, accountant=accountant, **grid)
    about |= {"source": scheme.source, "remark": f"noise on the sum of clipped gradients; {scheme.remark}"}
    once = scheme.round(draw, 1 / sigma, adjacency, about)
    return _accounted(once, draw.epochs or draw.steps, accountant, grid.get("interval"), about)


def _accounted(
    once: PrivacyProfile, times: int, accountant: str, interval: float | None, about: dict[str, Any]
) -> PrivacyProfile:
    """So many rounds by the accountant; Gaussian noise by itself and what is never drawn are exact with every one."""
    if accountant == "best" or isinstance(once, GaussianRelease | SampleRelease):
        return together([(once, times)], about, interval)
    if accountant == "pld" and not isinstance(once, RenyiRelease):
        return LossesAlone([(once, times)], interval, **about)
    return RenyiRelease(Total(((times, once._renyi().curve),)), **about)
