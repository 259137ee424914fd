"""The page of a privacy statement: self-contained HTML for phones, for dark mode,
and for printing on A4.
"""

from __future__ import annotations

import html
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from importlib.resources import files
from typing import Any

STYLE = files("dpnotes.accounting").joinpath("statement.css").read_text("utf-8")
UNKNOWN = "unknown"
UP = Context(prec=4, rounding=ROUND_CEILING)  # levels are stated from above
# characters that reorder others
BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
# of a profile: another section of the page has them
ELSEWHERE = ("adjacency", "implementation")
CONDITIONS = {
    "proved": "",
    "assumption": ", if what it assumes holds",
    "conjecture": ", if a conjecture holds",
}
SIGNED = "".join(
    f"<span>{who}: name, date</span>" for who in ("For the law", "For the code")
)
HEAD = """<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; }
body { margin: 0; }
@media print { :root { color-scheme: light; } }
@page { size: A4; margin: 10mm; }
</style>
"""


def page(
    content: Mapping[str, Any], sections: Mapping[str, Any], *, whole: bool
) -> str:
    """HTML of a statement: a whole document, or the part that can be placed within
    another.
    """
    title = "Privacy statement"
    if (name := content["release"]["name"]) != UNKNOWN:
        title = _escaped(f"{title}: {name}")
    parts = [f"<h1>{title}</h1>", *_lead(content)]
    for section, schema in sections.items():
        if section not in ("schema", "digest"):
            parts += [f"<h2>{schema['title']}</h2>", _section(content[section], schema)]
    parts += [
        f"<p><b>Digest</b> <code>{content['digest']}</code> (SHA-256, no signature)</p>"
    ]
    parts += [f'<p class="sign">{SIGNED}</p>']
    inner = (
        f"<style>\n{STYLE}</style>\n<section class='dp-statement'>\n"
        + "\n".join(parts)
        + "\n</section>\n"
    )
    head = (
        "<!doctype html>\n<html"
        f' lang="en">\n<head>\n{HEAD}<title>{title}</title>\n</head>\n<body>\n'
    )
    return f"{head}{inner}</body>\n</html>\n" if whole else inner


def text_of(html_page: str) -> str:
    """Turn the page into text for a terminal, at most 100 characters wide, without
    the place to sign.
    """
    body = re.sub(r'(?s)<style>.*?</style>|<p class="sign">.*?</p>', "", html_page)
    for tag, put in (
        ("</th>", ": "),
        ("<h2>", "\0"),
        ("<tr>", "  "),
        ("</li>", " "),
        ("<[^>]+>", ""),
        (r"(?<=\S)  +", " "),
    ):
        body = re.sub(tag, put, body)
    lines = (html.unescape(line) for line in body.splitlines() if line.strip())
    return "\n".join(
        textwrap.fill(line, 100, subsequent_indent="    ") for line in lines
    ).replace("\0", "\n")


def _lead(content: Mapping[str, Any]) -> list[str]:
    """The guarantee in a sentence, and the reason not to rely on it, if any."""
    guarantee, unit = content["guarantee"], content["protection"]["unit"]
    told, nothing = guarantee["profile"], guarantee["variant"] == "no guarantee"
    warnings = {
        "This guarantee is refuted: its figures were claimed, but they do not hold.": (
            told["status"] == "refuted"
        ),
        "There is no guarantee: the release may reveal a record whole.": nothing,
        "An audit refuted this guarantee, see below.": (
            content["audit"]["verdict"].startswith("REFUTED")
        ),
        "The noise came from a seed: it does not protect against anyone who knows the seed.": (
            told["implementation"] == "reproducible"
        ),
    }
    lines = [
        f'<p class="lead warn">{warning}</p>'
        for warning, holds in warnings.items()
        if holds
    ]
    if told["exactness"] == "claimed" or nothing:
        return lines
    done = "exchanged" if told["adjacency"] == "replace-one" else "used"
    sentence = (
        f"Anyone who sees the release and guesses whether {unit} was {done}, with at"
        f" most 0.1 % false positives, has at most {_level(100 * guarantee['tpr'])} %"
        f" true positives{CONDITIONS[told['status']]}."
    )
    return [*lines, f'<p class="lead">{_escaped(sentence)}</p>']


def _section(value: Any, schema: Mapping[str, Any]) -> str:
    if isinstance(value, list):
        return _shown(value)
    entries = _entries(value, schema)
    rows = [
        (title, _shown(each))
        for title, each in entries
        if each not in (UNKNOWN, "", [])
    ]
    if unknown := ", ".join(
        title.lower() for title, each in entries if each == UNKNOWN
    ):
        rows.append(("Unknown", unknown))
    lines = "".join(
        f'<tr><th scope="row">{title}</th><td>{shown}</td></tr>\n'
        for title, shown in rows
    )
    return f"<table>\n{lines}</table>"


def _entries(
    value: Mapping[str, Any], schema: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Title and value of each entry, those of the profile in the place of it."""
    found: list[tuple[str, Any]] = []
    for name, own in schema["properties"].items():
        if name == "profile":
            rest = {
                each: about
                for each, about in own["properties"].items()
                if each not in ELSEWHERE
            }
            found += _entries(value[name], {"properties": rest})
        else:
            found.append((own["title"], value[name]))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (
            f"{key}={each}" if isinstance(each, str) else f"{key}={each!r}"
            for key, each in value.items()
        )
        return _escaped(", ".join(pairs))
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return f"<ul>{''.join(f'<li>{_escaped(each)}</li>' for each in value)}</ul>"
    if isinstance(value, list):
        return "; ".join(
            f"{_epsilon(each['epsilon'])} at delta {_level(each['delta'])}"
            for each in value
        )
    return _escaped(value) if isinstance(value, str) else _level(value)


def _epsilon(value: float | str) -> str:
    return "no epsilon" if isinstance(value, str) else f"epsilon {_level(value)}"


def _level(value: float) -> str:
    """A level to four digits, from above."""
    return f"{float(UP.create_decimal(repr(float(value)))):g}"


def _escaped(text: str) -> str:
    """Text of a page: markup as text, and characters that no page has, or that
    reorder it, by their numbers.
    """

    def kept(one: str) -> bool:
        apart = (
            unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(one) in BIDI
        )
        return one in "\n\t" or not apart

    return html.escape(
        "".join(one if kept(one) else f"\\u{ord(one):04x}" for one in text)
    )
