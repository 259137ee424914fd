"""Where chapters are, which parameters they take, and whether their executed copies are
fresh.

The first code cell of a chapter is tagged ``parameters``. Each of its lines is ``name =
literal  # help``, or ``name = literal  # RULE: help`` with a rule of what is valid::

    one of "quick", "paper"      the values that there are
    >= 1    > 0    <= 4          a bound
    in [1, 10]    in (0, 1)      an interval; a round bracket leaves its end out
    0 or >= 2                    a value with a meaning of its own, or a rule
    each >= 1                    a rule for each entry of a list; whole numbers if its numbers are
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from dpnotes.lab._places import PACKAGE, book_folder, book_or_packaged

_LINE = re.compile(r"(\w+) = (.+?)(?:  # (.+))?")
_RULE = re.compile(
    r"""(?P<each>each\ )? (?:(?P<own>[^\s:]+)\ or\ )?
    (?:one\ of\ (?P<choices>("[^"]*"|[\d., ]+)+)
    | (?P<sign>[<>]=?)\ (?P<bound>[^\s:]+)
    | in\ (?P<left>[\[(])(?P<low>[^,]+),\ (?P<high>[^\])]+)(?P<right>[\])]))
    (?::\ (?P<help>.*))?""",
    re.VERBOSE,
)
# begins like a rule
_MEANT = re.compile(r"(each|one of)\b|in [\[(]|[<>]|\S+ or (one of\b|in [\[(]|[<>])")
# of an interval, by its brackets
_SIGNS = {"[": ">=", "(": ">", "]": "<=", ")": "<"}
_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_WORDS = 130  # that a reader of formulas takes in a minute
# a page in the table of contents, _toc.yml
_PAGE = re.compile(r"^(?:root| *- file): (\S+)$", re.MULTILINE)
_KINDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    list: "a list",
}


@dataclass(frozen=True)
class Rule:
    """What is valid of a parameter.

    Parameters
    ----------
    text : str
        As it stands in the comment.
    each : bool
        Whether it is a rule for the entries of a list.
    allows : callable
        Whether a value, or an entry of a list, is valid.
    """

    text: str
    each: bool
    allows: Callable[[Any], bool]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a chapter.

    Parameters
    ----------
    name : str
    default : object
        A str, int, float, bool or list; a given value must have the same type.
    help : str
        The comment that follows the assignment, without the rule at its beginning, if
        it has one.
    rule : Rule, optional
        Rule for valid values. By default, every value of the type is valid.
    """

    name: str
    default: Any
    help: str = ""
    rule: Rule | None = None

    @property
    def valid(self) -> str:
        """Valid values, in words."""
        return self.rule.text if self.rule else _KINDS[type(self.default)]


def parse(code: str, chapter: str) -> dict[str, Parameter]:
    """Read the code of a ``parameters`` cell: one assignment of a literal a line, with
    a comment behind it.

    Parameters
    ----------
    code : str
    chapter : str
        Its name, for errors.

    Raises
    ------
    ValueError
        If the cell has anything else in it, a rule cannot be read, or a default breaks
        its own.

    Examples
    --------
    >>> found = parse(
    ...     'scale = "paper"  # one of "quick", "paper": of the grid', "bagging"
    ... )["scale"]
    >>> found.help, found.rule.text
    ('of the grid', 'one of "quick", "paper"')
    """
    found: dict[str, Parameter] = {}
    # empty lines separate groups of parameters
    for line in filter(str.strip, code.splitlines()):
        try:
            name, default, comment = _LINE.fullmatch(line).groups("")  # type: ignore[union-attr]
            rule, text = _ruled(comment)
            found[name] = Parameter(name, ast.literal_eval(default), text, rule)
        except (AttributeError, ValueError, SyntaxError) as error:
            raise ValueError(
                f"lines of the parameters cell of chapter {chapter!r} must be 'name ="
                f" literal  # help', or with a rule '# RULE: help', got {line!r}"
            ) from error
        # a default must keep its own rule
        check(found, {name: found[name].default}, chapter)
    return found


def check(
    parameters: Mapping[str, Parameter], given: Mapping[str, object], chapter: str
) -> dict[str, Any]:
    """Give the values as a chapter takes them, or say what is wrong with the first that
    it cannot take.

    Each value has the type of the parameter's default afterwards. A whole number is
    taken for a float, a tuple for a list. Text (from a command line) is read as a
    Python literal unless the default is text; ``true`` and ``false`` are read as
    booleans.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        Those of the chapter.
    given : mapping of str to object
    chapter : str
        Its name, for errors.

    Raises
    ------
    ValueError
        If there is no parameter of a name (the message lists the known ones), or a
        value breaks its rule.
    TypeError
        If a value is of another type than the default.

    Examples
    --------
    >>> check(
    ...     parse("sizes = [300, 500]  # each >= 1", "bagging"),
    ...     {"sizes": "[200, 800]"},
    ...     "bagging",
    ... )
    {'sizes': [200, 800]}
    """
    if unknown := [name for name in given if name not in parameters]:
        known = ", ".join(parameters) or "none"
        raise ValueError(
            f"unknown parameter {unknown[0]!r} for chapter {chapter!r}; known: {known}"
        )
    checked: dict[str, Any] = {}
    for name, value in given.items():
        default = parameters[name].default
        rule = parameters[name].rule
        must = f"parameter {name!r} of chapter {chapter!r} must be"
        try:
            checked[name] = _fitted(value, default)
        except (TypeError, ValueError, SyntaxError):
            kind = _KINDS[type(default)] + (f", {rule.text}" if rule else "")
            raise TypeError(
                f"{must} {kind}, such as {default!r}, got {value!r}"
            ) from None
        if rule is None:
            continue
        # a rule for each entry, or for the value
        entries = checked[name] if rule.each else [checked[name]]
        for entry in entries:
            if not rule.allows(entry):
                valid = f"a list, {rule.text}" if rule.each else rule.text
                within = f" in {entries!r}" if rule.each else ""
                raise ValueError(f"{must} {valid}, got {entry!r}{within}")
    return checked


def _ruled(comment: str) -> tuple[Rule | None, str]:
    """Rule and help of a comment; ValueError if it begins like a rule and is none."""
    found = _RULE.fullmatch(comment)
    if found is None:
        if _MEANT.match(comment):
            raise ValueError(f"no rule: {comment!r}")
        return None, comment
    help_ = found["help"] or ""
    # the rule as it is shown
    text = comment.removesuffix(f": {help_}")
    each = found["each"] is not None
    if found["choices"]:
        choices = ast.literal_eval(f"[{found['choices']}]")
        return Rule(text, each, choices.__contains__), help_

    bounds = [(found["sign"], found["bound"])]
    if found["left"]:
        bounds = [
            (_SIGNS[found["left"]], found["low"]),
            (_SIGNS[found["right"]], found["high"]),
        ]
    limits = [(_COMPARE[sign], ast.literal_eval(bound)) for sign, bound in bounds]
    # the value with a meaning of its own
    own = ast.literal_eval(f"[{found['own'] or ''}]")
    # bounds without a point ask for whole numbers
    whole = each and all(isinstance(bound, int) for _, bound in limits)

    def allows(value: Any) -> bool:
        # True is a number for Python
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if whole and not isinstance(value, int):
            return False
        inside = all(compare(value, bound) for compare, bound in limits)
        return value in own or (math.isfinite(value) and inside)

    return Rule(text + ", whole numbers" * whole, each, allows), help_


def _fitted(value: object, default: object) -> object:
    """Value in the type of the default; TypeError or ValueError if it cannot be."""
    if isinstance(value, str) and not isinstance(default, str):
        value = ast.literal_eval(
            value.strip().capitalize() if isinstance(default, bool) else value.strip()
        )
    # a whole number is taken for a float
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, list) and isinstance(value, tuple):
        return list(value)
    if type(value) is not type(default):
        raise TypeError
    return value


EVIDENCE = "_evidence"  # ends the name of a page that has the evidence of a chapter
SUMMARIES = ("scorecard", "claims")  # chapters that read the results of all


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book.

    Parameters
    ----------
    name : str
        Name of the file without the ending, such as ``"bagging"`` for bagging.ipynb;
        unique in the book.
    root : Path
        Folder of the book.
    folder : str
        Folder of its page, relative to ``root``.
    """

    name: str
    root: Path = field(default_factory=book_folder)
    folder: str = "book"

    @property
    def source(self) -> Path:
        """The notebook as committed."""
        return self.root / self.folder / f"{self.name}.ipynb"

    @property
    def executed(self) -> Path:
        """The executed copy that the book shows; it need not exist."""
        return self.root / "_build" / "executed" / self.folder / f"{self.name}.ipynb"

    @property
    def of(self) -> str:
        """Name of the chapter whose experiments this page reads; a page of evidence
        reads its chapter's experiments.
        """
        return self.name.removesuffix(EVIDENCE)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters by name, in the order of the cell.

        Raises
        ------
        ValueError
            If the notebook does not have exactly one cell tagged ``parameters``, or the
            cell holds anything but assignments of literals.
        """
        cells = [
            cell
            for cell in _json(self.source)["cells"]
            if "parameters" in cell["metadata"].get("tags", [])
        ]
        if len(cells) != 1:
            raise ValueError(
                f"{self.source} must have one cell tagged 'parameters', got"
                f" {len(cells)}"
            )
        return parse("".join(cells[0]["source"]), self.name)

    @property
    def minutes(self) -> int:
        """How long the text takes to read, rounded up to five minutes."""
        words = 0
        for cell in _json(self.source)["cells"]:
            if cell["cell_type"] == "markdown":
                words += len("".join(cell["source"]).split())
        return 5 * math.ceil(words / (5 * _WORDS))

    @property
    def book_parameters(self) -> dict[str, Any]:
        """Parameters with which the book executes the chapter, where they differ from
        its defaults.

        With these parameters, the chapter reads only stored results and runs no
        experiment.
        """
        return {"compute": "stored"} if "compute" in self.parameters else {}

    def check(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Check parameters, and convert them to the types of the chapter.

        Parameters
        ----------
        given : mapping of str to object
            Values by name; text is read as a Python literal if the default of the
            chapter is not text.

        Raises
        ------
        ValueError
            If the chapter has no parameter of that name; the message lists the known
            names.
        TypeError
            If a value has another type than the default of the chapter.
        """
        checked = check(self.parameters, given, self.name)
        # noticed before anything is computed
        if checked.get("device") == "cuda":
            from dpnotes.learners import device_name

            device_name("cuda")
        return checked

    def digest(self, parameters: Mapping[str, Any] | None = None) -> str:
        """Compute the SHA-256 sum of everything that determines the executed chapter.

        This includes the notebook, its checks, the package, the parameters and the
        stored results.
        These results are the files whose names begin with the name of the chapter
        (``book/results/bagging*.csv``) and the files in ``book/results/published``
        whose names contain this name, and the page of evidence, which has the claims. A
        chapter and its evidence read no other results; the scorecard and the ledger
        read all. If a parameter names a file, the content
        of the file counts too.

        Parameters
        ----------
        parameters : mapping of str to object, optional
            Parameters of the execution. Default: the parameters with which the book
            executes the chapter.
        """
        results = self.root / "book" / "results"
        # the summaries read every result
        name = "" if self.name in SUMMARIES else self.of
        stored = [
            *results.glob(f"{name}*.csv"),
            *(results / "published").glob(f"*{name}?*"),
            # the texts of its claims
            *(self.root / "book" / "evidence").glob(f"{name}*.ipynb"),
        ]
        total = hashlib.sha256()
        # of a checkout; where the package is installed, it lies elsewhere
        own = self.root / "dpnotes"
        package = own if own.is_dir() else PACKAGE
        checks = [path for path in [checks_file(self)] if path.is_file()]
        for folder, paths in (
            (self.root, [self.source, *stored, *checks]),
            (package.parent, package.rglob("*.py")),
        ):
            for path in sorted(paths):
                # a file that moves changes what is read
                total.update(f"{path.relative_to(folder).as_posix()}\n".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
        total.update(_told(self.book_parameters if parameters is None else parameters))
        return total.hexdigest()

    def run_name(self, parameters: Mapping[str, Any]) -> str:
        """Make the name of the executed notebook from the parameters and the content
        of the files that they name.
        """
        return self.name + (
            f"-{hashlib.sha256(_told(parameters)).hexdigest()[:6]}"
            if parameters
            else ""
        )

    def is_fresh(self) -> bool:
        """Check whether the executed copy exists and an execution now would show the
        same.
        """
        return bool(self.recorded(self.executed).get("digest") == self.digest())

    def recorded(self, path: Path) -> dict[str, Any]:
        """Read the record of an execution from a notebook; it is empty if the notebook
        has none or is damaged.

        The record has the digest and the parameters.
        """
        try:
            return dict(_json(path)["metadata"]["dpnotes"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def checks_file(chapter: Chapter) -> Path:
    """The file of the checks of a chapter's text; it need not exist."""
    return chapter.root / "book" / "checks" / f"{chapter.name}.py"


def pages(root: Path) -> list[PurePosixPath]:
    """List the pages of a book in the order of its table of contents, without their
    endings.
    """
    text = (root / "_toc.yml").read_text(encoding="utf-8")
    return [PurePosixPath(page) for page in _PAGE.findall(text)]


def all_chapters(root: Path | None = None) -> list[Chapter]:
    """List the chapters in the order of the table of contents.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Raises
    ------
    FileNotFoundError
        If there is no book.
    """
    root = root or book_folder()
    found = [Chapter(page.name, root, str(page.parent)) for page in pages(root)]
    # other pages are Markdown
    return [chapter for chapter in found if chapter.source.is_file()]


def chapter(name: str, root: Path | None = None) -> Chapter:
    """Find a chapter by its name.

    Parameters
    ----------
    name : str
        Name of the chapter's file without the ending.
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Raises
    ------
    ValueError
        If there is no such chapter; the message lists the known chapters.
    FileNotFoundError
        If there is no book.
    """
    known = {chapter.name: chapter for chapter in all_chapters(root)}
    if name not in known:
        raise ValueError(f"unknown chapter {name!r}; known: {', '.join(known)}")
    return known[name]


def check_parameters(name: str, namespace: dict[str, Any]) -> None:
    """Check the parameters of a chapter that runs, whoever has set them, and give them
    the types of the chapter.

    Each chapter calls this function before it computes anything, so that a wrong value
    of plain papermill or of an editor is named as `dpnotes run` would name it.

    Parameters
    ----------
    name : str
        Name of the chapter.
    namespace : dict
        ``globals()`` of the notebook.

    Raises
    ------
    ValueError, TypeError
        As in :meth:`Chapter.check`.
    """
    running = chapter(name, book_or_packaged())
    given = {parameter: namespace[parameter] for parameter in running.parameters}
    namespace.update(running.check(given))


def _told(parameters: Mapping[str, Any]) -> bytes:
    """Digest of parameters, and of the files that they name: a reader's own data,
    and what is public of them.
    """
    total = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    for value in parameters.values():
        if isinstance(value, str) and value and Path(value).is_file():
            for path in filter(
                Path.is_file, (Path(value), Path(value).with_suffix(".toml"))
            ):
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.digest()


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
