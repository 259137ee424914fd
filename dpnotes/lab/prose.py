"""Where the numbers in the prose of the book come from, and which of its comparisons are asserted.

A number is *glued* from a cell; *asserted*, if an assertion of its page quotes the words around it in a comment;
*cited*, if it stands in quotation marks or in a sentence that speaks of print, and is among the stored printed values;
a *constant* of the text, which ``book/constants.toml`` lists with the reason; or *typed*, without any of these. Numbers
in formulas, theorems, code and labels (Table 2a, claim 7) are none of the text. A sentence that compares methods is
asserted in the same manner, or names the claim, the theorem or the paper that it rests on.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from dpnotes.lab._places import book_folder

Source: TypeAlias = Literal["glued", "asserted", "cited", "constant", "typed"]
SOURCES: tuple[Source, ...] = ("glued", "asserted", "cited", "constant", "typed")
Place: TypeAlias = Literal["code", "label", "formula", "cited"]  # that numbers of the text do not stand in

EVERYWHERE = ("95 % interval",)  # constants of all pages: the level of the one rule of verdicts
_WORD = (
    "(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)"
)
_NUMBER = re.compile(
    r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:\s?%)?"
    rf"|\b(?:none|one|all|{_WORD}) of (?:the )?{_WORD}\b(?!-)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^ {0,3}(?P<ticks>`{3,}|:{3,})(?P<info>[^`]*)$")
_THEOREM = re.compile(r"\{(?:prf:(?:theorem|lemma|corollary|definition|proposition|proof|algorithm)|math)\}")
_NAMED = (
    r"(?:Algorithm|Appendix|Appendice|[Cc]laim|[Ss]tatement|[Ii]nequality|Corollary|Corollarie|Definition|[Ee]quation|Example|Figure|Lemma|[Ll]ine|"
    r"Proposition|Python|Section|[Ss]tep|[Jj]ob|Table|Theorem|[Vv]ersion)s?"
)
_PLACES: list[tuple[Place, str]] = [  # in this order: what one has found, the next does not see
    ("code", r"<!--.*?-->"),
    ("label", r"\{[a-z:]+\}`[^`]+`|^\([\w-]+\)=|\]\([^)]*\)|https?://\S+|^:(?:name|width|label|class):[^\n]*$"),
    ("code", r"(`+)[^`].*?\1"),
    ("formula", r"\$\$.+?\$\$(?:\s*\([\w-]+\))?|\$[^$]+\$(?: = \d[\d,]*(?!\.?\d))?"),
    ("formula", r"\b[A-Za-z]\w* = (?:\d[\d,]*(?!\.?\d)|1e-\d+)"),  # a setting
    ("cited", r"\"[^\"]+\"|“[^”]+”"),
    ("label", rf"\b{_NAMED}[\s~]+\(?\d[\d.]*[a-z]?\b\)?(?:(?:,| and| or| to|–|, and)\s\(?\d[\d.]*[a-z]?\b\)?)*"),
    (
        "label",
        r"(?<=[A-Za-z])-?\d[\d.]*|\((?:19|20)\d\d\)|\b(?:in|of) (?:19|20)\d\d\b|^\d+\.(?=\s)|\b\d+(?:[a-z]|-[A-Z]+)\b",
    ),
    (
        "label",
        r"\*\*\d+ \(|\b1/[A-Za-z0-9]\b|(?<![\d.,])\b[01]\b(?![.,]\d| of|\s?%)",
    ),  # an exercise; a part; nothing, one
]
_VALUE = re.compile(
    r"\$(?:[^$]*(?:=|\\approx|\\geq?|\\leq?|<|>)\s*)?(?:[+-]|\\pm|\s)*\d+\.\d(?:\\pm|[^a-z$^])*\$"
)  # no formula
_SENTENCE = re.compile(r"(?<=[.!?:;])[)\"*]*\s+(?=[\"*$({\[A-Z])|\n\s*\n|\n(?=\s*[*|:#-]\s)")
_COMPARES = re.compile(
    r"\b(?:ahead|behind|better|worse|(?:is|are|the) (?:best|worst)(?! case| on\b| (?:membership )?test)|exceeds?|"
    r"beats?|overtakes?|outperforms?|higher|lower|[Ww]hat stands|(?:larger|smaller) than|"
    r"(?:more|less|fewer) than(?!\s{4})|(?:about|at|than) half|twice)\b"
)
_METHODS = re.compile(
    r"\b(?:[Bb]agging|[Bb]agged|DP-SGD|PATE|DPBag|GNMax|LossPerturbation|diffprivlib|opacus|[Bb]oosting|augment\w+|"
    r"[Ss]ubsample-and-aggregate|(?:[Ll]oss|[Oo]utput|[Oo]bjective) perturbation|(?:[Ss]oft|[Nn]oisy) vot\w+|"
    r"(?:[Mm]odel|[Pp]rediction) sensitivity|released models?|private (?:training|prediction|models?)|"
    r"logistic regressions?)\b"
)
_QUOTED = re.compile(r"\"([^\"]+)\"")
_PRINTED = re.compile(r"print|publish|\bpapers?\b|report|instead of|\{cite")
_CARRIED = re.compile(
    r"\b[Cc]laims? \d|\{prf:ref\}|\{cite|\b[Tt]he paper (?:says|reads|notes|finds|prints)"
)  # by the ledger, a proof, or who says it


@dataclass(frozen=True)
class Number:
    """A number of the prose, where it comes from, and the words around it."""

    text: str
    source: Source
    context: str


@dataclass(frozen=True)
class Page:
    """What a page says and what it asserts.

    Parameters
    ----------
    path : Path
        A notebook or a Markdown file of the book.
    """

    path: Path

    @property
    def name(self) -> str:
        """Name of the file, without its ending."""
        return self.path.stem

    @property
    def prose(self) -> str:
        """Markdown of the page."""
        text = self.path.read_text(encoding="utf-8")
        return text if self.path.suffix == ".md" else "\n\n".join(_cells(text, "markdown"))

    @property
    def assertions(self) -> list[tuple[str, list[str]]]:
        """Each assertion of the page's cells in one line, and what it quotes of the prose in its comments."""
        if self.path.suffix == ".md":
            return []
        cells = _cells(self.path.read_text(encoding="utf-8"), "code")
        return [found for cell in cells for found in _asserts(cell)]

    def numbers(self) -> list[Number]:
        """Every number of the text."""
        text = self.prose
        glued = [Number(role, "glued", role) for role in re.findall(r"\{glue:[a-z]+\}`[^`]+`", text)]
        inside = re.finditer(r"\"[^\"]+\"|“[^”]+”", _without(text, "code", "label", "formula"))
        quoted = [Number(n, "cited", m[0]) for m in inside for n in _NUMBER.findall(m[0])]
        return [*glued, *quoted, *self._others()]

    def _others(self) -> Iterator[Number]:
        text = self.prose
        sources: dict[Source, list[str]] = {"asserted": self.quotes, "constant": [*constants(self), *EVERYWHERE]}
        spans = [
            (source, *match.span())
            for source, phrases in sources.items()
            for phrase in phrases
            for match in re.finditer(r"\s+".join(map(re.escape, phrase.split())), text)
        ]
        sentences = _spans(text)
        for match in _NUMBER.finditer(_without(text, "code", "label", "formula", "cited")):
            start, end = match.span()
            first, last = next((a, b) for a, b in sentences if a <= start < b)
            source: Source = next((source for source, a, b in spans if a <= start and end <= b), "typed")
            if source == "typed" and _PRINTED.search(text[first:last]) and self._is_printed(match[0]):
                source = "cited"
            yield Number(match[0], source, _plain(text[max(first, start - 60) : min(last, end + 40)]))

    def _is_printed(self, number: str) -> bool:
        """Whether it is one of the stored values, and none of the digits that are always among them."""
        return len(number) > 1 and bool(_value(number) & printed(self))

    @property
    def quotes(self) -> list[str]:
        """What the assertions quote."""
        return [quote for _, quoted in self.assertions for quote in quoted]

    def comparisons(self) -> list[tuple[str, bool]]:
        """Sentences that compare methods, and whether each is asserted."""
        text, seen = self.prose, _without(self.prose, "code", "label", "cited")
        quotes = list(map(_plain, self.quotes))
        found = []
        for start, end in _spans(text):
            sentence = _plain(text[start:end])
            if _COMPARES.search(seen[start:end]) and _METHODS.search(seen[start:end]):
                found.append((sentence, any(quote in sentence for quote in quotes) or bool(_CARRIED.search(sentence))))
        return found

    def stale(self) -> list[str]:
        """Words that an assertion quotes, or that ``constants.toml`` lists, and the page does not say."""
        text = _plain(self.prose)
        return [phrase for phrase in dict.fromkeys((*self.quotes, *constants(self))) if _plain(phrase) not in text]


def pages(root: Path | None = None) -> list[Page]:
    """Give the pages of the book in the order of the table of contents, without those of the interface."""
    from sphinx_external_toc.parsing import parse_toc_yaml

    root = root or book_folder()
    names = [name for name in parse_toc_yaml(root / "_toc.yml") if "api" not in name.split("/")]
    found = (root / f"{name}{ending}" for name in names for ending in (".md", ".ipynb"))
    return [Page(path) for path in found if path.is_file()]


def constants(page: Page) -> dict[str, str]:
    """Phrases of a page whose numbers are constants of the text, and the reason for each."""
    return _constants(_book(page) / "constants.toml").get(page.name, {})


def printed(page: Page) -> set[float]:
    """Values that the papers print, as they are stored for the page."""
    folder, chapter = _book(page) / "results" / "published", page.name.removesuffix("_evidence")
    files = (*folder.glob(f"{chapter}*.csv"), *folder.glob(f"cells_{chapter}.csv"))
    return set().union(*map(_stored, files))


def _book(page: Page) -> Path:
    return next(folder for folder in page.path.parents if folder.name == "book")


@cache
def _constants(path: Path) -> dict[str, dict[str, str]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _stored(path: Path) -> set[float]:
    with path.open(encoding="utf-8", newline="") as lines:
        return set().union(*(_value(cell) for row in csv.reader(lines) for cell in row))


def _value(text: str) -> set[float]:
    """Values that a number as written may stand for: a percentage may be stored as a fraction."""
    try:
        value = float(text.replace(",", "").rstrip("% \n"))
    except ValueError:
        return set()
    return {value, round(value / 100, 8)}


def _cells(text: str, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == kind]


def _asserts(cell: str) -> Iterator[tuple[str, list[str]]]:
    """Assertions of a cell, each with what is quoted in comments on its lines, or on the line that opens its block."""
    comments = {
        token.start[0]: _QUOTED.findall(token.string)
        for token in tokenize.generate_tokens(io.StringIO(cell).readline)
        if token.type == tokenize.COMMENT
    }

    def visited(statements: list[ast.stmt], above: list[str]) -> Iterator[tuple[str, list[str]]]:
        for statement in statements:
            if isinstance(statement, ast.Assert):
                lines = range(statement.lineno - 1, (statement.end_lineno or statement.lineno) + 1)
                own = [quote for line in lines for quote in comments.get(line, [])]
                yield ast.unparse(statement), list(dict.fromkeys(above + own))
            else:
                opened = above + comments.get(statement.lineno, [])
                yield from visited([s for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt)], opened)

    yield from visited(ast.parse(cell).body, [])


def _without(text: str, *places: Place) -> str:
    """Text with spaces in the place of what is not its own, and of theorems and code between fences."""
    text = _unfenced(text)
    for place, pattern in _PLACES:
        if place in places:
            text = re.sub(pattern, _blank, text, flags=re.MULTILINE | re.DOTALL)
    return text


def _blank(match: re.Match[str]) -> str:
    return match[0] if _VALUE.fullmatch(match[0]) else re.sub(r"\S", " ", match[0])


def _unfenced(text: str) -> str:
    """Text without theorems, formulas and code between fences; what other directives hold is prose."""
    lines, outer = text.splitlines(keepends=True), ""
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if outer or fence:
            lines[number] = re.sub(r"\S", " ", line)
        if outer:
            outer = "" if fence and fence["ticks"].startswith(outer) and not fence["info"].strip() else outer
        elif fence and fence["info"].strip() and (not fence["info"].startswith("{") or _THEOREM.match(fence["info"])):
            outer = fence["ticks"]
    return "".join(lines)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends."""
    ends = [match.start() + len(match[0].rstrip()) for match in _SENTENCE.finditer(text)]
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def _plain(text: str) -> str:
    return " ".join(text.split())
