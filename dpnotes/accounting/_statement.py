"""The privacy statement: what a release guarantees and what it does not guarantee, on
one page and as JSON.

The file ``statement.schema.json`` lists the entries, their names on the page, and the
entries that a caller can set. The descriptions in it name the corresponding entries of
NIST SP 800-226 and of the registry of deployments.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes.accounting import _basic, _descent, _minimisers, _sampling, _votes, papers
from dpnotes.accounting._profile import (
    REPLACEABLE,
    PrivacyProfile,
    compose,
    plain,
    step_of,
)
from dpnotes.accounting._statement_page import page, text_of

# by the name that a description tells; compose and subsampled, which take profiles, are
# apart
CONSTRUCTORS = {
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

SCHEMA: dict[str, Any] = json.loads(
    files("dpnotes.accounting").joinpath("statement.schema.json").read_text("utf-8")
)
SECTIONS: dict[str, Any] = SCHEMA["properties"]
ENTRIES = {
    section: schema["properties"]
    for section, schema in SECTIONS.items()
    if "properties" in schema
}
# what a caller may say
TOLD = tuple(name for section in ("release", "process") for name in ENTRIES[section])
NOISE = {
    text.partition(":")[0]: text for text in ENTRIES["implementation"]["noise"]["enum"]
}

DELTAS, LOW_RATE = (0.0, 1e-9, 1e-7, 1e-5, 1e-3), 0.001
LEVELS = ("mu", "misfit", "tpr", "advantage")
PRECISION, ABSOLUTE = 1e-6, 1e-12  # of levels that are computed again
PRIVATE = ("counts", "squares")  # parameters that are votes of private records
LIBRARIES = ("dpnotes", "numpy", "scipy", "dp-accounting", "scikit-learn", "torch")
KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": int | float,
}

NEIGHBOURS = {
    "add-remove": (
        "data sets that are equal except for {unit}, which only one of them contains;"
        " the guarantee also protects whether such a record exists at all"
    ),
    "zero-out": (
        "data sets that are equal except for {unit}, empty in one of them and without"
        " any contribution there; the number of records, including empty ones, is"
        " public"
    ),
    "replace-one": (
        "data sets of the same size that are equal except for {unit}, which may have"
        " any content; the number of records is public"
    ),
}


class Audited(Protocol):
    """Attributes of an audit that a statement reports; an ``AuditReport`` of
    :mod:`dpnotes.auditing` has them.
    """

    @property
    def claim(self) -> PrivacyProfile | None: ...
    @property
    def refuted(self) -> bool: ...
    @property
    def p_value(self) -> float: ...
    @property
    def runs(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def adjacency(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    def epsilon(self, delta: float) -> Any: ...


@dataclass(frozen=True, repr=False)
class PrivacyStatement:
    """Statement of what a release does and does not guarantee: a page to be signed, and
    the JSON that it is made from.

    The function :func:`statement` and the method ``statement_()`` of the estimators
    make statements. A statement holds only public knowledge: the contents of the
    profile and the declarations of the statement's maker. The page shows all levels
    with four digits, rounded up; the JSON has all digits. ``print`` and Jupyter show
    the page.

    Parameters
    ----------
    json : str
        The statement as JSON. It must follow the schema
        ``dpnotes/accounting/statement.schema.json``, and its digest must match the
        other entries. The digest shows changes, but it is not a signature: a forger can
        compute it, too. Use :meth:`verify` to detect forged figures.

    Raises
    ------
    ValueError
        If the JSON is not a statement, or was changed.

    Source
    ------
    Near, Darais, Lefkovitz and Howarth (2025), NIST SP 800-226; Nanayakkara, Ghazi and
    Vadhan (2025) for the fields of the Differential Privacy Deployments Registry.

    Examples
    --------
    >>> from dpnotes.accounting import PrivacyStatement, gaussian, statement
    >>> stated = statement(
    ...     gaussian(sigma=4.0),
    ...     delta=1e-5,
    ...     declared={"name": "heights of 2026", "curator": "a clinic"},
    ... )
    >>> stated.content["guarantee"]["mu"], stated.content["process"]["utility"]
    (0.25, 'unknown')
    >>> PrivacyStatement.from_json(stated.to_json()) == stated
    True
    """

    json: str

    def __post_init__(self) -> None:
        content = _parsed(self.json)
        _fit(content, SCHEMA, "the statement")
        if content["digest"] != _digest(content):
            raise ValueError(
                "json must have the digest of its content, got another one: the"
                " statement was changed"
            )
        object.__setattr__(self, "json", _written(content))

    @property
    def content(self) -> dict[str, Any]:
        """Copy of the entries, section by section."""
        return dict(json.loads(self.json))

    def to_json(self) -> str:
        """Return the statement as JSON in ASCII; :meth:`from_json` preserves its
        order and digits.
        """
        return self.json

    @classmethod
    def from_json(cls, text: str) -> PrivacyStatement:
        """Read a statement that :meth:`to_json` wrote; other white space is accepted.

        Raises
        ------
        ValueError
            If the JSON is not a statement, or was changed.
        """
        return cls(text)

    def to_html(self) -> str:
        """Return the page as self-contained HTML: one sheet of A4 unless the
        declarations are long.
        """
        return page(self.content, SECTIONS, whole=True)

    def _repr_html_(self) -> str:
        return page(self.content, SECTIONS, whole=False)

    def __str__(self) -> str:
        return text_of(self._repr_html_())

    __repr__ = __str__

    def save(self, path: str | Path) -> Path:
        """Write the statement as ``.json``, ``.html`` or ``.pdf``, according to the
        ending of the path.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If the path has another ending.
        RuntimeError
            For ``.pdf``: if the extra ``[pdf]`` is missing, or no Chromium or Chrome
            can be started.
        """
        path = Path(path)
        kind = check.one_of(
            "the ending of path", path.suffix.lower(), (".json", ".html", ".pdf")
        )
        if kind == ".pdf":
            from dpnotes._chromium import print_page

            print_page(self.to_html(), path)
        else:
            path.write_text(
                self.to_json() if kind == ".json" else self.to_html(),
                encoding="utf-8",
                newline="\n",
            )
        return path

    def verify(self) -> None:
        """Rebuild the profile from its description and check that no figure of the
        statement is below the profile's.

        The method checks neither the words of the profile (status, assumption, source,
        remark) nor the declarations, because both come from the maker of the statement.

        Raises
        ------
        ValueError
            If a figure is below the rebuilt profile's figure, an entry that follows
            from the profile differs, or no constructor makes such a profile.
        """
        content = self.content
        stated = content["guarantee"]
        try:
            profile = from_dict(stated["profile"])
        except (TypeError, KeyError) as error:
            raise ValueError(
                "the statement must describe a profile, got no valid description:"
                f" {error}"
            ) from error
        found = {**_figures(profile), "advantage": profile.advantage}
        figures = {**stated, "advantage": stated["profile"]["advantage"]}
        levels = {
            name: math.inf if figures[name] == "infinity" else figures[name]
            for name in LEVELS
        }
        below = [
            name
            for name, value in levels.items()
            if value < found[name] * (1 - PRECISION) - ABSOLUTE
        ]
        # an infinite epsilon says that there is none
        for pair in stated["asked"] + stated["pairs"]:
            delta, epsilon = pair["delta"], pair["epsilon"]
            if epsilon != "infinity" and delta < profile.delta(epsilon) * (
                1 - PRECISION
            ):
                below.append(f"delta={delta:g}")
        told = {
            **content["protection"],
            "noise": content["implementation"]["noise"],
            "variant": stated["variant"],
        }
        derived = {
            **_who(profile),
            "noise": NOISE[profile.implementation],
            "variant": found["variant"],
        }
        if wrong := below + [
            name for name, word in derived.items() if told[name] != word
        ]:
            raise ValueError(
                "the statement must say what the profile does, got other values of"
                f" {', '.join(wrong)}"
            )


def statement(
    profile: PrivacyProfile,
    *,
    delta: ArrayLike = (),
    epsilon: ArrayLike = (),
    declared: Mapping[str, str] | None = None,
    unprotected: Sequence[str] = (),
    n_public: bool = False,
    audit: Audited | None = None,
) -> PrivacyStatement:
    """State on one page what a release with this guarantee does and does not promise.

    Parameters
    ----------
    profile : PrivacyProfile
        Guarantee of everything that is released.
    delta, epsilon : float or array_like
        Deltas for which the page states epsilon, and epsilons for which it states
        delta; these pairs come first.
    declared : mapping of str to str, optional
        Facts that the profile cannot know: ``name``, ``released``, ``curator``,
        ``person`` and others. The sections "release" and "process" of
        ``dpnotes/accounting/statement.schema.json`` list them. An entry that you do not
        declare is reported as "unknown".
    unprotected : sequence of str
        Things that are released without protection.
    n_public : bool
        Whether you declare the number of records public, although the adjacency
        ``"add-remove"`` protects it.
    audit : AuditReport, optional
        Audit to report. The guarantee does not cover the audit's figures, so the audit
        must have run on public records, or on records that substitute for the private
        ones.

    Returns
    -------
    PrivacyStatement

    Raises
    ------
    ValueError
        If the guarantee depends on private records (status "per-instance") or shows a
        number of records that is not public. Also if ``declared`` has an unknown name,
        or a delta or epsilon is outside its range.
    TypeError
        If profile is not a PrivacyProfile, or a declared value is not text.

    Source
    ------
    Near, Darais, Lefkovitz and Howarth (2025), NIST SP 800-226.

    Examples
    --------
    >>> from dpnotes.accounting import laplace
    >>> stated = statement(laplace(scale=2.0).compose(3), delta=[0.0, 1e-6])
    >>> stated.content["guarantee"]["asked"]
    [{'epsilon': 1.5, 'delta': 0.0}, {'epsilon': 1.499992000..., 'delta': 1e-06}]
    >>> stated.content["protection"]["unit"]
    'one record'
    """
    if not isinstance(profile, PrivacyProfile):
        raise TypeError(
            f"profile must be a PrivacyProfile, got {type(profile).__name__}"
        )
    n = _public_n(profile, n_public)
    told = dict(declared or {})
    for name, text in told.items():
        check.one_of("a name in declared", name, TOLD)
        if not isinstance(text, str):
            raise TypeError(
                f"declared[{name!r}] must be text, got {type(text).__name__}"
            )
    deltas = np.ravel(check.array("delta", delta, high=1.0))
    epsilons = np.ravel(check.array("epsilon", epsilon))
    asked = _pairs(profile.epsilon(deltas), deltas) + _pairs(
        epsilons, profile.delta(epsilons)
    )
    fixed = ENTRIES["implementation"]
    hidden = profile.adjacency == "add-remove" and not n_public
    content = {
        "schema": SECTIONS["schema"]["const"],
        "release": _filled("release", {"method": profile.mechanism, **told}),
        "protection": {
            **_who(profile),
            "records": (
                "protected" if hidden else ", ".join(n) or "public, not stated here"
            ),
            "unprotected": [
                *(() if hidden else ("the number of records",)),
                *unprotected,
            ],
        },
        "guarantee": {
            **_figures(profile),
            "asked": asked,
            "profile": profile.to_dict(),
        },
        "implementation": {
            "noise": NOISE[profile.implementation],
            **{
                name: fixed[name]["const"]
                for name in ("composition", "post_processing")
            },
            "versions": _versions(),
        },
        "process": _filled("process", told),
        "audit": _filled(
            "audit", {} if audit is None else _audited(audit, profile, n_public)
        ),
        "not_protected": SECTIONS["not_protected"]["const"],
    }
    content = json.loads(json.dumps(plain(content), allow_nan=False))
    return PrivacyStatement(json.dumps({**content, "digest": _digest(content)}))


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
        If no constructor has the name of the mechanism, or the constructor refuses its
        parameters.
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
    words = {
        name: description[name]
        for name in REPLACEABLE
        if description.get(name) is not None
    }
    return made.with_(
        **{name: word for name, word in words.items() if word != getattr(made, name)}
    )


def _made(
    mechanism: str, parameters: Mapping[str, Any], adjacency: str
) -> PrivacyProfile:
    """Build by the constructor, then compose and group in the described order, then
    set the adjacency of the curve.
    """
    private = (
        "squares"
        if mechanism == "personalised_vote"
        else "counts"
        if "counts" in parameters
        else ""
    )
    if private:
        raise ValueError(
            f"{private} of {mechanism} are private and must not appear in a description"
        )
    plain = {name: value for name, value in parameters.items() if value is not None}
    given: dict[str, Any] = {
        name: math.inf if value == "infinity" else value
        for name, value in plain.items()
    }
    steps = [
        (name, given.pop(name)) for name in plain if step_of(name) in ("times", "group")
    ]
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
    for name, count in steps:
        profile = (
            profile.compose(count) if step_of(name) == "times" else profile.group(count)
        )
    return profile._relabelled(adjacency)


def _part(part: Mapping[str, Any], adjacency: str) -> PrivacyProfile:
    """Build a profile that is a parameter of another profile, with the same
    adjacency.
    """
    return _made(
        part["mechanism"],
        {name: value for name, value in part.items() if name != "mechanism"},
        adjacency,
    )


def _public_n(profile: PrivacyProfile, n_public: bool) -> list[str]:
    """Numbers of records that a profile shows; ValueError if it shows private
    information.
    """
    entries = list(_entries(profile.parameters))
    if profile.status == "per-instance" or any(name in PRIVATE for name, _ in entries):
        raise ValueError(
            "profile must not depend on private records, got one that does: a statement"
            " would reveal them"
        )
    found = {str(value) for name, value in entries if name == "n" and value is not None}
    found.update(re.findall(r"\bn=(\d+)", profile.assumption))
    if found and profile.adjacency == "add-remove" and not n_public:
        raise ValueError(
            f"the profile of {profile.mechanism} shows the number of records, which"
            " adjacency='add-remove' protects: n_public=True declares it public, and"
            " adjacency='zero-out' assumes that it is public"
        )
    return sorted(found)


def _filled(section: str, told: Mapping[str, str]) -> dict[str, str]:
    """Entries of a section, as declared or by default."""
    return {
        name: told.get(name, entry["default"])
        for name, entry in ENTRIES[section].items()
    }


def _figures(profile: PrivacyProfile) -> dict[str, Any]:
    pure, some = (
        profile.epsilon(0.0) < math.inf,
        profile.advantage < 1 or profile.delta(100.0) < 1,
    )
    return {
        "variant": "Pure DP" if pure else "Approximate DP" if some else "no guarantee",
        "asked": [],
        "pairs": _pairs(profile.epsilon(DELTAS), DELTAS),
        "mu": profile.mu,
        "misfit": profile.misfit,
        "tpr": float(profile.tpr(LOW_RATE)),
    }


def _who(profile: PrivacyProfile) -> dict[str, str]:
    """Unit of privacy, adjacency, and both in words."""
    groups = [
        count for name, count in profile.parameters.items() if step_of(name) == "group"
    ]
    size = math.prod(groups)
    if (
        profile.adjacency == "replace-one"
        and profile.parameters.get("adjacency", "replace-one") != "replace-one"
    ):
        size //= 2  # exchanging is removing and adding
    unit = "one record" if size == 1 else f"up to {size} records together"
    if sum(step_of(name) == "group" for name, _ in _entries(profile.parameters)) > len(
        groups
    ):
        unit += ", or more in the parts that have a group"
    return {
        "unit": unit,
        "adjacency": profile.adjacency,
        "neighbours": NEIGHBOURS[profile.adjacency].format(unit=unit),
    }


def _audited(audit: Audited, profile: PrivacyProfile, n_public: bool) -> dict[str, str]:
    claim, verdict = "none", "no claim was tested"
    if audit.claim is not None:
        _public_n(audit.claim, n_public)
        told, own = audit.claim.to_dict(), profile.to_dict()
        same = all(
            told[name] == own[name] for name in ("mechanism", "parameters", "adjacency")
        )
        claim = "this guarantee" if same else f"another one: {audit.claim!r}"
        word = "refuted" if audit.refuted else "not refuted, which is no proof"
        verdict = (
            f"{word.upper() if same and audit.refuted else word}; p-value"
            f" {audit.p_value:.2g}"
        )
    return {
        "verdict": verdict,
        "claim": claim,
        "bounds": ", ".join(
            f"epsilon at least {audit.epsilon(delta):.3g} at delta {delta:g}"
            for delta in (0.0, 1e-5)
        ),
        "evidence": (
            f"{audit.runs} runs, confidence {audit.confidence:g}, {audit.adjacency},"
            f" {audit.strategy}; the records that it ran on are public or stand in for"
            " the private ones"
        ),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of parameters, those of parts within them included."""
    if isinstance(value, Mapping):
        yield from value.items()
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _entries(each)


def _pairs(epsilons: ArrayLike, deltas: ArrayLike) -> list[dict[str, float]]:
    both = zip(np.ravel(epsilons), np.ravel(deltas), strict=True)
    return [
        {"epsilon": float(epsilon), "delta": float(delta)} for epsilon, delta in both
    ]


def _written(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _digest(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(_written(rest).encode("ascii")).hexdigest()


def _parsed(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("an entry occurs twice")
        return found

    def finite(token: str) -> float:
        if not math.isfinite(value := float(token)):
            raise ValueError(f"{token} is not a number of JSON")
        return value

    try:
        return json.loads(
            text, object_pairs_hook=once, parse_float=finite, parse_constant=finite
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"json must be the JSON of a statement, got unreadable text: {error}"
        ) from error


def _fit(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """Check a value by the part of JSON Schema that the schema of statements uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    named = schema.get("type", ())
    kinds = tuple(
        KINDS[name] for name in ((named,) if isinstance(named, str) else named)
    )
    good = not kinds or (isinstance(value, kinds) and not isinstance(value, bool))
    good = (
        good
        and value in schema.get("enum", (value,))
        and value == schema.get("const", value)
    )
    if isinstance(value, str):
        good = good and re.search(schema.get("pattern", ""), value) is not None
    elif isinstance(value, int | float):
        good = good and schema.get("minimum", value) <= value <= schema.get(
            "maximum", value
        )
    if not good:
        rule = {
            name: rule
            for name, rule in schema.items()
            if name not in ("title", "description", "properties")
        }
        raise ValueError(
            f"{where} must follow the schema of statements, {rule}, got {value!r:.60}"
        )
    if isinstance(value, dict):
        known, others = (
            schema.get("properties", {}),
            schema.get("additionalProperties", {}),
        )
        wrong = set(schema.get("required", ())) - set(value) or (
            others is False and set(value) - set(known)
        )
        if wrong:
            raise ValueError(
                f"{where} must have the entries of the schema of statements; missing or"
                f" unknown: {sorted(wrong)}"
            )
        for name, each in value.items():
            _fit(each, known.get(name, others), name)
    elif isinstance(value, list):
        for each in value:
            _fit(each, schema.get("items", {}), where)
