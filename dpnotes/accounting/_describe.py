"""Profiles from their descriptions: which constructor makes what a description names.

A description is what :meth:`PrivacyProfile.to_dict` returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dpnotes.accounting import _basic, _descent, _minimisers, _sampling, _votes, papers
from dpnotes.accounting._profile import (
    IMPLIED,
    REPLACEABLE,
    PrivacyProfile,
    compose,
    step_of,
)

# compose and subsampled, which take profiles, are apart
CONSTRUCTORS: dict[str, Callable[..., PrivacyProfile]] = {
    make.__name__: make
    for make in (
        _basic.gaussian,
        _basic.laplace,
        _basic.approximate,
        _basic.zcdp,
        _sampling.bagging,
        _descent.dp_sgd,
        _descent.last_iterate,
        _votes.soft_vote,
        _votes.noisy_vote,
        _votes.gnmax,
        _votes.confident_gnmax,
        _votes.chunk_filter,
        _minimisers.loss_perturbation,
        papers.intrinsic_sgd,
    )
}


def from_dict(description: Mapping[str, Any]) -> PrivacyProfile:
    """Rebuild a profile from the description that :meth:`PrivacyProfile.to_dict`
    returns.

    Parameters
    ----------
    description : mapping
        Description with ``mechanism``, ``parameters`` and ``adjacency``. The function
        also restores the entries status, assumption, source, remark, exactness and
        implementation. It ignores entries that follow from the curve.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If no constructor has the name of the mechanism, the constructor refuses its
        parameters, or the profile cannot be converted to the adjacency.
    KeyError
        If ``mechanism``, ``parameters`` or ``adjacency`` is missing.

    Source
    ------
    Definition: a constructor makes a profile from its parameters.

    Examples
    --------
    >>> from dpnotes.accounting import compose, gaussian, laplace
    >>> profile = compose(gaussian(sigma=2.0), laplace(scale=1.0)).compose(3)
    >>> from_dict(profile.to_dict()).epsilon(1e-5) == profile.epsilon(1e-5)
    True
    """
    made = _made(
        description["mechanism"], description["parameters"], description["adjacency"]
    )
    words = {}
    # only what differs from the constructor's own words is replaced
    for name in REPLACEABLE:
        word = description.get(name)
        if word is not None and word != getattr(made, name):
            words[name] = word
    return made.with_(**words)


def _made(
    mechanism: str, parameters: Mapping[str, Any], adjacency: str
) -> PrivacyProfile:
    """Build by the constructor, then compose and group in the described order, then
    set the adjacency of the curve.
    """
    # of the private votes a description keeps the shape alone: the bound cannot be made
    # again
    private = "counts" if "counts" in parameters else ""
    if mechanism == "personalised_vote":
        private = "squares"
    if private:
        raise ValueError(
            f"{private} of {mechanism} are private and must not appear in a description"
        )
    given: dict[str, Any] = {}
    steps = []
    for name, value in parameters.items():
        if step_of(name) in ("times", "group"):
            steps.append((step_of(name), value))
        elif value is not None:
            given[name] = math.inf if value == "infinity" else value
    # the constructor's adjacency; the curve's may follow from it
    first = given.pop("adjacency", adjacency)
    if mechanism == "compose":
        profile = compose(*(_part(part, first) for part in given["parts"]))
    elif mechanism == "subsampled":
        profile = _sampling.subsampled(_part(given.pop("base"), first), **given)
    elif mechanism in CONSTRUCTORS:
        profile = CONSTRUCTORS[mechanism](**given, adjacency=first)
    else:
        raise ValueError(
            "mechanism must be the name of a constructor of profiles, got"
            f" {mechanism!r}"
        )
    records = 1
    # the order matters: a group of compositions is no composition of groups
    for step, count in steps:
        if step == "times":
            profile = profile.compose(count)
        else:
            profile = profile.group(count)
            records *= count
    if first != adjacency:
        size, _ = IMPLIED.get((first, adjacency), (math.inf, ""))
        # one exchanged record is one removed and one added: only an even group implies
        # it
        if records % size:
            raise ValueError(
                f"adjacency={adjacency!r} does not follow from {first!r} for a group of"
                f" {records}"
            )
    return profile._relabelled(adjacency)


def _part(part: Mapping[str, Any], adjacency: str) -> PrivacyProfile:
    """Build a profile that is a parameter of another profile, with the same
    adjacency.
    """
    rest = {name: value for name, value in part.items() if name != "mechanism"}
    return _made(part["mechanism"], rest, adjacency)
