"""Profiles from their descriptions: the inverse of ``to_dict``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpnotes.accounting._profile import REPLACEABLE, PrivacyProfile, step_of


def from_dict(description: Mapping[str, Any]) -> PrivacyProfile:
    """The profile that :meth:`PrivacyProfile.to_dict` described, made anew by its constructor.

    Parameters
    ----------
    description : mapping
        With ``mechanism``, ``parameters`` and ``adjacency``; of the other entries, status, assumption, source, remark,
        exactness and implementation are restored, and what follows from the curve is not read.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If no constructor has the name of the mechanism, or the constructor refuses its parameters.
    KeyError
        If one of the three entries is missing.

    Source
    ------
    Definition: a profile is what its constructor makes of its parameters.

    Examples
    --------
    >>> from dpnotes.accounting import compose, gaussian, laplace
    >>> profile = compose(gaussian(sigma=2.0), laplace(scale=1.0)).compose(3)
    >>> from_dict(profile.to_dict()).epsilon(1e-5) == profile.epsilon(1e-5)
    True
    """
    made = _made(description["mechanism"], description["parameters"], description["adjacency"])
    words = {name: description[name] for name in REPLACEABLE if description.get(name) is not None}
    return made.with_(**{name: word for name, word in words.items() if word != getattr(made, name)})


def _made(mechanism: str, parameters: Mapping[str, Any], adjacency: str) -> PrivacyProfile:
    """By the constructor, then composed and for groups of records, in the order told; other neighbours, same curve."""
    from dpnotes import accounting

    private = "squares" if mechanism == "personalised_vote" else "counts" if "counts" in parameters else ""
    if private:
        raise ValueError(f"{private} of {mechanism} are private, and no part of a description")
    plain = {name: value for name, value in parameters.items() if value is not None}
    given: dict[str, Any] = {name: math.inf if value == "infinity" else value for name, value in plain.items()}
    steps = [(name, given.pop(name)) for name in plain if step_of(name) in ("times", "group")]
    first = given.pop("adjacency", adjacency)
    constructor = getattr(accounting, mechanism, None) or getattr(accounting.papers, mechanism, None)
    if constructor is None or mechanism.startswith("_"):
        raise ValueError(f"mechanism must be the name of a constructor of dpnotes.accounting, got {mechanism!r}")
    if mechanism == "compose":
        profile = constructor(*(_part(part, first) for part in given.pop("parts")), **given)
    elif mechanism == "subsampled":
        profile = constructor(_part(given.pop("base"), first), **given)
    else:
        profile = constructor(**given, adjacency=first)
    if not isinstance(profile, PrivacyProfile):
        raise ValueError(f"mechanism must be the name of a constructor of profiles, got {mechanism!r}")
    for name, count in steps:
        profile = profile.compose(count) if step_of(name) == "times" else profile.group(count)
    return profile._relabelled(adjacency)


def _part(part: Mapping[str, Any], adjacency: str) -> PrivacyProfile:
    """A profile among the parameters of another, which has its adjacency."""
    return _made(part["mechanism"], {name: value for name, value in part.items() if name != "mechanism"}, adjacency)
