"""The privacy statement: what a release guarantees and what it does not guarantee, on
one page and as JSON.

``TITLES`` lists the entries of a statement and their names on the page. A statement is
made from a profile, and :meth:`PrivacyStatement.verify` makes its figures again.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import rounded, written
from dpnotes.accounting._describe import from_dict
from dpnotes.accounting._profile import IMPLIED, PrivacyProfile, plain, step_of
from dpnotes.accounting._statement_page import page, text_of

FORM = "dpnotes-privacy-statement-2"
TITLES = {
    "release": {
        "title": "Release",
        "name": "Name",
        "method": "Method",
        "released": "What is released",
        "curator": "Curator",
    },
    "protection": {
        "title": "Who is protected",
        "unit": "Unit of privacy",
        "adjacency": "Adjacency",
        "neighbours": "Neighbouring data sets",
        "records": "Number of records",
        "unprotected": "Released without protection",
    },
    "guarantee": {
        "title": "Guarantee",
        "asked": "Asked for",
        "pairs": "(epsilon, delta)",
        "mu": "mu",
        "misfit": "Misfit of mu",
        "tpr": "True positives at 0.1 % false positives",
        "advantage": "Advantage",
        "profile": "Profile",
    },
    "implementation": {
        "title": "Implementation",
        "noise": "Noise and floating point",
        "versions": "Versions",
    },
    "process": {
        "title": "Process",
        "person": "Records of a person",
        "preparation": "Preparation",
        "tuning": "Choice of settings",
        "utility": "Utility",
        "notes": "Notes",
    },
    "audit": {"title": "Audit", "verdict": "Verdict", "evidence": "Evidence"},
}
TOLD = ("name", "method", "released", "curator", *list(TITLES["process"])[1:])
UNKNOWN = "unknown"
UNKNOWN_TUNING = (
    "unknown: they were chosen outside, and what that reveals is not counted"
)
NOISE = {
    "exact": "exact: the release has the distribution of the mechanism over the reals,"
    " rounded",
    "ideal reals": "ideal reals: the guarantee is that of the mechanism over the reals;"
    " an attack on the lowest digits of the release is not excluded",
    "reproducible": "reproducible: the noise can be repeated from a seed, and does not"
    " protect against anyone who knows the seed",
}
NOT_PROTECTED = [
    "What the release teaches about people in general, and so about a person whose"
    " record was not used.",
    "A person with more records than the unit of privacy has.",
    "Further releases from the same records, fits again among them, and records that"
    " leak at their source.",
    "Time, memory, errors, access to the machine, and all else that is not part of the"
    " release.",
]
NEIGHBOURS = {
    "add-remove": (
        "data sets that are equal except for {unit}, which only one of them contains;"
        " the guarantee also hides whether such a record exists at all"
    ),
    "zero-out": (
        "data sets that are equal except for {unit}, empty in one of them and without"
        " any contribution there; empty records count in the number of records"
    ),
    "replace-one": (
        "data sets of the same size that are equal except for {unit}, which may have"
        " any content"
    ),
}
PROTECTED = (
    "protected; a size that the parameters or assumptions name is a constant, given"
    " beforehand and not counted in the records"
)
PUBLIC = "public"

DELTAS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3)
LOW_RATE = 0.001
# of levels that are computed again
PRECISION = 1e-6
ABSOLUTE = 1e-12
PRIVATE = ("counts", "squares")  # parameters that are votes of private records
LIBRARIES = ("dpnotes", "numpy", "scipy", "dp-accounting", "scikit-learn", "torch")


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
        The statement as JSON. Its digest must match the other entries. The digest shows
        changes, but it is not a signature: a forger can compute it, too. Use
        :meth:`verify` to detect forged figures.

    Raises
    ------
    ValueError
        If the JSON is not a statement, or was changed.

    Source
    ------
    Near, Darais, Lefkovitz and Howarth (2025), NIST SP 800-226.

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
        try:
            content = json.loads(self.json)
            written = _written(content)
            digest = content["digest"]
            found = _digest(content)
            # what has no page is no statement
            page(content, TITLES, whole=False)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
        ) as why:
            raise ValueError(f"json must be the JSON of a statement: {why!r}") from why
        except RecursionError:
            raise ValueError("json must be the JSON of a statement") from None
        if digest != found:
            raise ValueError(
                "json must have the digest of its content, got another one: the"
                " statement was changed"
            )
        # in the one form that has this digest, whatever white space was given
        object.__setattr__(self, "json", written)

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
        return page(self.content, TITLES, whole=True)

    def _repr_html_(self) -> str:
        return page(self.content, TITLES, whole=False)

    def __str__(self) -> str:
        return text_of(self.content, TITLES)

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
        kinds = (".json", ".html", ".pdf")
        kind = check.one_of("the ending of path", path.suffix.lower(), kinds)
        if kind == ".pdf":
            from dpnotes._chromium import print_page

            print_page(self.to_html(), path)
            return path
        text = self.to_json() if kind == ".json" else self.to_html()
        path.write_text(text, encoding="utf-8", newline="\n")
        return path

    def verify(self) -> None:
        """Rebuild the profile from its description and check that no figure of the
        statement is below the profile's.

        The method checks neither the words of the profile (status, assumption, source,
        remark, exactness, implementation) nor the declarations, because both come from
        the maker of the statement. Entries that the page does not have are not checked.

        Raises
        ------
        ValueError
            If a figure is below the rebuilt profile's figure, an entry that follows
            from the profile differs, or no constructor makes such a profile.
        """
        try:
            wrong = self._wrong()
        except (TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(
                "the statement must describe a profile, got no valid description:"
                f" {error}"
            ) from error
        if wrong:
            raise ValueError(
                "the statement must say what the profile does, got other values of"
                f" {', '.join(wrong)}"
            )

    def _wrong(self) -> list[str]:
        """Names of the entries that are not as the rebuilt profile has them."""
        content = self.content
        stated = content["guarantee"]
        profile = from_dict(stated["profile"])
        # a declaration: the profile does not know it
        public = content["protection"]["records"] == PUBLIC
        wrong = []
        for section, made in _derived(profile, n_public=public).items():
            told: Any = content.get(section)
            if isinstance(made, Mapping):
                wrong += [name for name, word in made.items() if told[name] != word]
            elif told != made:
                wrong.append(section)
        # steps that change nothing, and gaps, are parameters of a forger
        if stated["profile"]["parameters"] != profile.to_dict()["parameters"]:
            wrong.append("parameters")
        figures = _figures(profile)
        levels = [(name, stated[name]) for name in figures]
        levels.append(("advantage", stated["profile"]["advantage"]))
        for name, told in levels:
            level = math.inf if told == "infinity" else float(told)
            # not below, so that NaN is wrong, too
            if not level >= figures[name] * (1 - PRECISION) - ABSOLUTE:
                wrong.append(name)
        for pair in stated["asked"] + stated["pairs"]:
            delta = pair["delta"]
            epsilon = pair["epsilon"]
            # an infinite epsilon says that there is none
            if epsilon == "infinity":
                continue
            if not delta >= profile.delta(epsilon) * (1 - PRECISION):
                wrong.append(f"delta={delta:g}")
        return wrong


def statement(
    profile: PrivacyProfile,
    *,
    delta: ArrayLike = (),
    epsilon: ArrayLike = (),
    declared: Mapping[str, str] | None = None,
    unprotected: Sequence[str] = (),
    n_public: bool = False,
    audit: Any = None,
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
        Facts that the profile cannot know: ``name``, ``method``, ``released``,
        ``curator``, ``person`` (how many records a person can have), ``preparation``,
        ``tuning`` (what choosing the settings cost), ``utility`` and ``notes``. An
        entry that you do not declare is reported as "unknown".
    unprotected : sequence of str
        Things that are released without protection.
    n_public : bool
        Whether you declare the number of records public, although the adjacency
        ``"add-remove"`` protects it.
    audit : AuditReport, optional
        Audit to report, of :mod:`dpnotes.auditing`. The guarantee does not cover the
        audit's figures, so the audit must have run on public records, or on records
        that substitute for the private ones.

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
    _refuse_private(profile, n_public)
    told = {"method": profile.mechanism, "tuning": UNKNOWN_TUNING, **(declared or {})}
    for name, text in told.items():
        check.one_of("a name in declared", name, TOLD)
        if not isinstance(text, str):
            raise TypeError(
                f"declared[{name!r}] must be text, got {type(text).__name__}"
            )
    deltas = np.ravel(check.array("delta", delta, high=1.0))
    epsilons = np.ravel(check.array("epsilon", epsilon))
    asked = _pairs(profile.epsilon(deltas), deltas)
    asked += _pairs(epsilons, profile.delta(epsilons))
    made = _derived(profile, n_public=n_public)
    free = made["protection"]["records"] == PUBLIC
    # a public number is released as it is
    listed = ["the number of records", *unprotected] if free else list(unprotected)
    content = {
        "form": FORM,
        "release": _filled("release", told),
        "protection": {**made["protection"], "unprotected": listed},
        "guarantee": {
            "asked": asked,
            "pairs": _pairs(profile.epsilon(DELTAS), DELTAS),
            **_figures(profile),
            "profile": profile.to_dict(),
        },
        "implementation": {**made["implementation"], "versions": _versions()},
        "process": _filled("process", told),
        "audit": _audited(audit, profile, n_public),
        "not_protected": NOT_PROTECTED,
    }
    # tuples become lists, as they will be when the statement is read again
    content = json.loads(json.dumps(plain(content), allow_nan=False))
    return PrivacyStatement(json.dumps({**content, "digest": _digest(content)}))


def _derived(profile: PrivacyProfile, *, n_public: bool) -> dict[str, Any]:
    """Words that follow from the profile's adjacency, groups and implementation."""
    unit = _unit(profile)
    hidden = profile.adjacency == "add-remove" and not n_public
    return {
        "form": FORM,
        "protection": {
            "unit": unit,
            "adjacency": profile.adjacency,
            "neighbours": NEIGHBOURS[profile.adjacency].format(unit=unit),
            "records": PROTECTED if hidden else PUBLIC,
        },
        "implementation": {"noise": NOISE[profile.implementation]},
        "not_protected": NOT_PROTECTED,
    }


def _figures(profile: PrivacyProfile) -> dict[str, float]:
    return {
        "mu": profile.mu,
        "misfit": profile.misfit,
        "tpr": float(profile.tpr(LOW_RATE)),
        "advantage": profile.advantage,
    }


def _unit(profile: PrivacyProfile) -> str:
    """Number of records that the guarantee is for, in words."""
    about = (profile.adjacency, profile.assumption)
    size = _size(profile.parameters, *about)
    unit = "one record" if size == 1 else f"up to {size} records together"
    if _larger_parts(profile.parameters, *about):
        unit += ", or more in the parts that have a group"
    return unit


def _size(given: Mapping[str, Any], adjacency: str, assumption: str) -> int:
    """Number of records, by this adjacency, that the groups among parameters hold."""
    size: int = math.prod(given[name] for name in given if step_of(name) == "group")
    # the adjacency that the constructor was told
    first = given.get("adjacency", adjacency)
    exchanged = adjacency == "replace-one" != first
    if (first, adjacency) == ("add-remove", "zero-out"):
        # emptied by an exchange, unless only what leads there directly is assumed
        directly = IMPLIED[first, adjacency][1] in assumption
        exchanged = not directly or IMPLIED["replace-one", "zero-out"][1] in assumption
    # exchanging is removing and adding
    if exchanged:
        size = max(size // 2, 1)
    return size


def _larger_parts(given: Mapping[str, Any], adjacency: str, assumption: str) -> bool:
    """Whether a part of a composition is for more records than one; the base of a
    sample does not count, because its records are drawn separately.
    """
    first = given.get("adjacency", adjacency)
    return any(
        _size(part, first, assumption) > 1 or _larger_parts(part, first, assumption)
        for part in given.get("parts", ())
    )


def _refuse_private(profile: PrivacyProfile, n_public: bool) -> None:
    """Raise ValueError if a page with the profile would show private information."""
    # of parts within parts, too
    names = {name for name, value in _entries(profile.parameters) if value is not None}
    if profile.status == "per-instance" or names & set(PRIVATE):
        raise ValueError(
            "profile must not depend on private records, got one that does: a statement"
            " would reveal them"
        )
    if "n" in names and profile.adjacency == "add-remove" and not n_public:
        raise ValueError(
            f"the profile of {profile.mechanism} shows the number of records, which"
            " adjacency='add-remove' protects: n_public=True declares it public, and"
            " adjacency='zero-out' assumes that it is public"
        )


def _audited(audit: Any, profile: PrivacyProfile, n_public: bool) -> dict[str, str]:
    if audit is None:
        return {"verdict": "unknown: no audit was given", "evidence": ""}
    verdict = "no claim was tested"
    if audit.claim is not None:
        _refuse_private(audit.claim, n_public)
        told = audit.claim.to_dict()
        own = profile.to_dict()
        # an audit of another profile tells nothing certain of this one
        defining = ("mechanism", "parameters", "adjacency")
        same = all(told[name] == own[name] for name in defining)
        verdict = "not refuted, which is no proof"
        if audit.refuted:
            verdict = "REFUTED" if same else "refuted"
        claim = "this guarantee" if same else f"another guarantee, {audit.claim!r}"
        verdict = f"{verdict}; p-value {audit.p_value:.2g}; claim: {claim}"
    bounds = []
    for delta in (0.0, 1e-5):
        epsilon = rounded(audit.epsilon(delta), 3, up=False)
        bounds.append(f"epsilon at least {epsilon} at delta {written(delta)}")
    evidence = (
        f"{', '.join(bounds)}; {audit.runs} runs, confidence {audit.confidence:g},"
        f" {audit.adjacency}, {audit.strategy}; on records that are public or stand in"
        " for the private ones"
    )
    return {"verdict": verdict, "evidence": evidence}


def _filled(section: str, told: Mapping[str, str]) -> dict[str, str]:
    """Entries of a section, as declared or unknown."""
    names = [name for name in TITLES[section] if name != "title"]
    return {name: told.get(name, UNKNOWN) for name in names}


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
    found = []
    for epsilon, delta in zip(np.ravel(epsilons), np.ravel(deltas), strict=True):
        found.append({"epsilon": float(epsilon), "delta": float(delta)})
    return found


def _written(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _digest(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(_written(rest).encode("ascii")).hexdigest()
