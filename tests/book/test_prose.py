"""Numbers in the text of the book have a source, and sentences that compare methods
rest on something.

A number of the text is glued from a cell, quoted by the comment of an assertion of its
page or of ``book/checks``, printed by the paper (in quotation marks, or in a sentence that speaks of print,
and among the stored printed values), or listed with a reason in
``book/constants.toml``. Numbers in formulas, theorems, code and labels (Table 2a, claim
7) are not of the text. A sentence that compares methods is quoted by an assertion, or
names the claim, theorem or paper that it rests on.
"""

import ast
import csv
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from sphinx_external_toc.parsing import parse_toc_yaml

from dpnotes.lab.store import book_folder

WORD = (
    "(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)"
)
NUMBER = re.compile(
    r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:\s?%)?"
    rf"|\b(?:none|one|all|{WORD}) of (?:the )?{WORD}\b(?!-)",
    re.IGNORECASE,
)
FENCE = re.compile(r"^ {0,3}(?P<ticks>`{3,}|:{3,})(?P<info>[^`]*)$")
THEOREM = re.compile(
    r"\{(?:prf:(?:theorem|lemma|corollary|definition|proposition|proof|algorithm)|math)\}"
)
NAMED = (
    r"(?:Algorithm|Appendix|Appendice|[Cc]laim|[Ss]tatement|[Ii]nequality|Corollary|Corollarie|Definition|[Ee]quation|Example|Figure|Lemma|[Ll]ine|"
    r"Proposition|Python|Section|[Ss]tep|[Jj]ob|Table|Theorem|[Vv]ersion)s?"
)
# in this order: what one has found, the next does not see
PLACES: list[tuple[str, str]] = [
    ("code", r"<!--.*?-->"),
    (
        "label",
        r"\{[a-z:]+\}`[^`]+`|^\([\w-]+\)=|\]\([^)]*\)|https?://\S+|^:(?:name|width|label|class):[^\n]*$",
    ),
    ("code", r"(`+)[^`].*?\1"),
    ("formula", r"\$\$.+?\$\$(?:\s*\([\w-]+\))?|\$[^$]+\$(?: = \d[\d,]*(?!\.?\d))?"),
    ("formula", r"\b[A-Za-z]\w* = (?:\d[\d,]*(?!\.?\d)|1e-\d+)"),  # a setting
    ("cited", r"\"[^\"]+\"|“[^”]+”"),
    (
        "label",
        (
            rf"\b{NAMED}[\s~]+\(?\d[\d.]*[a-z]?\b\)?(?:(?:,| and| or| to|–|,"
            r" and)\s\(?\d[\d.]*[a-z]?\b\)?)*"
        ),
    ),
    (
        "label",
        (
            r"(?<=[A-Za-z])-?\d[\d.]*|\((?:19|20)\d\d\)|\b(?:in|of)"
            r" (?:19|20)\d\d\b|^\d+\.(?=\s)|\b\d+(?:[a-z]|-[A-Z]+)\b"
        ),
    ),
    (
        "label",
        r"\*\*\d+ \(|\b1/[A-Za-z0-9]\b|(?<![\d.,])\b[01]\b(?![.,]\d| of|\s?%)",
    ),  # an exercise; a part; nothing, one
]
VALUE = re.compile(
    r"\$(?:[^$]*(?:=|\\approx|\\geq?|\\leq?|<|>)\s*)?(?:[+-]|\\pm|\s)*\d+\.\d(?:\\pm|[^a-z$^])*\$"
)  # no formula
SENTENCE = re.compile(
    r"(?<=[.!?:;])[)\"*]*\s+(?=[\"*$({\[A-Z])|\n\s*\n|\n(?=\s*[*|:#-]\s)"
)
COMPARES = re.compile(
    r"\b(?:ahead|behind|better|worse|(?:is|are|the) (?:best|worst)(?! case| on\b|"
    r" (?:membership )?test)|exceeds?|"
    r"beats?|overtakes?|outperforms?|higher|lower|[Ww]hat stands|(?:larger|smaller)"
    r" than|"
    r"(?:more|less|fewer) than(?!\s{4})|(?:about|at|than) half|twice)\b"
)
METHODS = re.compile(
    r"\b(?:[Bb]agging|[Bb]agged|DP-SGD|PATE|DPBag|GNMax|LossPerturbation|diffprivlib|opacus|[Bb]oosting|augment\w+|"
    r"[Ss]ubsample-and-aggregate|(?:[Ll]oss|[Oo]utput|[Oo]bjective)"
    r" perturbation|(?:[Ss]oft|[Nn]oisy) vot\w+|"
    r"(?:[Mm]odel|[Pp]rediction) sensitivity|released models?|private"
    r" (?:training|prediction|models?)|"
    r"logistic regressions?)\b"
)
PRINTED = re.compile(r"print|publish|\bpapers?\b|report|instead of|\{cite")
CARRIED = re.compile(
    r"\b[Cc]laims? \d|\{prf:ref\}|\{cite|\b[Tt]he paper"
    r" (?:says|reads|notes|finds|prints)"
)  # by the ledger, a proof, or who says it


@dataclass(frozen=True)
class Page:
    """What a page says, and what its number's sources are."""

    text: str
    cells: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    printed: frozenset[float] = frozenset()

    @property
    def quotes(self) -> list[str]:
        """What the assertions of the page's cells quote of its text in their
        comments.
        """
        return [quote for cell in self.cells for quote in quoted(cell)]

    def typed(self) -> list[str]:
        """Numbers without a source, each with the words around it."""
        sourced = [
            match.span()
            # the level of the one rule of verdicts
            for phrase in (*self.quotes, *self.constants, "95 % interval")
            for match in re.finditer(
                r"\s+".join(map(re.escape, phrase.split())), self.text
            )
        ]
        found = []
        for match in NUMBER.finditer(
            without(self.text, "code", "label", "formula", "cited")
        ):
            start, end = match.span()
            first, last = next(
                (a, b) for a, b in sentences(self.text) if a <= start < b
            )
            stored = len(match[0]) > 1 and bool(values(match[0]) & self.printed)
            if any(a <= start and end <= b for a, b in sourced) or (
                stored and PRINTED.search(self.text[first:last])
            ):
                continue
            found.append(
                f"{match[0]}:"
                f" {plain(self.text[max(first, start - 60) : min(last, end + 40)])}"
            )
        return found

    def unasserted(self) -> list[str]:
        """Sentences that compare methods and rest on nothing."""
        seen, quotes = (
            without(self.text, "code", "label", "cited"),
            list(map(plain, self.quotes)),
        )
        found = []
        for start, end in sentences(self.text):
            sentence = plain(self.text[start:end])
            if (
                COMPARES.search(seen[start:end])
                and METHODS.search(seen[start:end])
                and not CARRIED.search(sentence)
            ):
                found += [sentence] * (not any(quote in sentence for quote in quotes))
        return found

    def stale(self) -> list[str]:
        """Words that an assertion quotes, or that ``constants.toml`` lists, and the
        page does not say.
        """
        text = plain(self.text)
        return [
            phrase
            for phrase in dict.fromkeys((*self.quotes, *self.constants))
            if plain(phrase) not in text
        ]


def pages() -> dict[str, Page]:
    """Pages of the book by name, without those of the interface."""
    root = book_folder()
    listed = tomllib.loads(
        (root / "book" / "constants.toml").read_text(encoding="utf-8")
    )
    found = {}
    for path in (
        root / f"{name}{end}"
        for name in parse_toc_yaml(root / "_toc.yml")
        for end in (".md", ".ipynb")
    ):
        if not path.is_file() or "api" in path.parts:
            continue
        text, chapter = (
            path.read_text(encoding="utf-8"),
            path.stem.removesuffix("_evidence"),
        )
        cells = (
            json.loads(text)["cells"]
            if path.suffix == ".ipynb"
            else [{"cell_type": "markdown", "source": [text]}]
        )
        kinds = [
            ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]
            for kind in ("markdown", "code")
        ]
        # the findings below the text of a claim are its sources
        kinds[0] = [text for text in kinds[0] if not text.startswith("(claim-")]
        # what the chapter says of published rows is asserted there
        checks = root / "book" / "checks" / f"{path.stem}.py"
        if checks.is_file():
            kinds[1].append(checks.read_text(encoding="utf-8"))
        printed = set()
        published = root / "book" / "results" / "published"
        for table in (
            *published.glob(f"{chapter}*.csv"),
            *published.glob(f"cells_{chapter}.csv"),
        ):
            with table.open(encoding="utf-8", newline="") as lines:
                printed.update(
                    *(values(cell) for row in csv.reader(lines) for cell in row)
                )
        found[path.stem] = Page(
            "\n\n".join(kinds[0]),
            kinds[1],
            listed.pop(path.stem, {}),
            frozenset(printed),
        )
    assert not listed, (
        f"constants.toml lists pages that are not there: {', '.join(listed)}"
    )
    return found


def values(text: str) -> set[float]:
    """Values that a number as written may stand for: a percentage may be stored as a
    fraction.
    """
    try:
        value = float(text.replace(",", "").rstrip("% \n"))
    except ValueError:
        return set()
    return {value, round(value / 100, 8)}


def quoted(cell: str) -> Iterator[str]:
    """What comments quote on the lines of an assertion, or on a line that opens a
    block with one.
    """
    comments = {
        token.start[0]: re.findall(r"\"([^\"]+)\"", token.string)
        for token in tokenize.generate_tokens(io.StringIO(cell).readline)
        if token.type == tokenize.COMMENT
    }
    for node in ast.walk(ast.parse(cell)):
        if isinstance(node, ast.Assert):
            for line in range(node.lineno - 1, (node.end_lineno or node.lineno) + 1):
                yield from comments.get(line, [])
        elif isinstance(node, ast.stmt) and any(
            isinstance(child, ast.Assert) for child in ast.walk(node)
        ):
            yield from comments.get(node.lineno, [])


def without(text: str, *places: str) -> str:
    """Text with spaces in the place of what is not its own, and of theorems and code
    between fences.
    """
    lines, outer = text.splitlines(keepends=True), ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if outer or fence:
            lines[number] = re.sub(r"\S", " ", line)
        if outer:
            outer = (
                ""
                if fence
                and fence["ticks"].startswith(outer)
                and not fence["info"].strip()
                else outer
            )
        elif (
            fence
            and fence["info"].strip()
            and (not fence["info"].startswith("{") or THEOREM.match(fence["info"]))
        ):
            outer = fence["ticks"]
    text = "".join(lines)
    for place, pattern in PLACES:
        if place in places:
            text = re.sub(pattern, blank, text, flags=re.MULTILINE | re.DOTALL)
    return text


def blank(match: re.Match[str]) -> str:
    return match[0] if VALUE.fullmatch(match[0]) else re.sub(r"\S", " ", match[0])


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends."""
    ends = [match.start() + len(match[0].rstrip()) for match in SENTENCE.finditer(text)]
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def plain(text: str) -> str:
    return " ".join(text.split())


PAGES = pages()
each_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@each_page
def test_every_number_has_a_source(page):
    """Glue it, quote its words in the comment of an assertion, or list them with the
    reason in book/constants.toml.
    """
    assert not (typed := page.typed()), "\n".join(typed)


@each_page
def test_what_is_quoted_is_still_said(page):
    assert page.stale() == []


@each_page
def test_comparisons_are_asserted(page):
    """The comment of an assertion of the page quotes words of the sentence, or the
    sentence names a claim.
    """
    assert not (unasserted := page.unasserted()), "\n".join(unasserted)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It reaches 12 points.", 1),
        ("It reaches {glue:text}`a` points.", 0),
        ("Three of nine hold, at 10 %.", 2),
        (r"So $\varepsilon = 0.43$, $x \approx 1.2 \pm 0.1$, not $10^{-5}$.", 3),
        ("```{prf:theorem}\nAt most 12.\n```\nThen 13.", 1),
        (
            (
                "As in Table 2a, claims 3, 5 and 7, `x = 12` and {numref}`fig-3` of"
                " CIFAR-10."
            ),
            0,
        ),
        ('The paper says "more than 12 points", printed 86.6 %.', 0),
        ("We find 0.866.", 1),
        ("It is 13 ahead; with 14 channels.", 0),
    ],
)
def test_sources_are_told_apart(text, count):
    cells = [
        'for x in y:\n    assert x > (\n        12\n    )  # "13 ahead"\nz = 1  # "12'
        ' points"'
    ]
    assert (
        len(
            Page(
                text, cells, {"with 14 channels": "the paper's"}, frozenset({0.866})
            ).typed()
        )
        == count
    )


def test_a_comparison_rests_on_an_assertion_or_a_claim():
    text = (
        "DPBag is better. PATE is\nworse. Bagging is ahead of DP-SGD, wrong by claim 7."
        " Bagging is one. It is ahead."
    )
    page = Page(
        text, ['if x:  # "PATE is worse"\n    assert y', 'assert z  # "13 points"']
    )
    assert page.unasserted() == ["DPBag is better."]
    assert page.stale() == ["13 points"]
