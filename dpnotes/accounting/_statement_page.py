"""The page of a privacy statement: self-contained HTML for phones, for dark mode and
for printing on A4, and the same as text.
"""

from __future__ import annotations

import html
import textwrap
import unicodedata
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from dpnotes._validation import rounded

STYLE = files("dpnotes.accounting").joinpath("statement.css").read_text("utf-8")
WIDTH = 100  # of a page of text
# characters that reorder others, and that no page has
BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
CONTROL = ("Cc", "Cs", "Zl", "Zp")
LEVELS = ("mu", "misfit", "tpr", "advantage")
# of a profile; other entries are in other sections of the page, or a forger's
DESCRIBED = (
    "mechanism",
    "parameters",
    "status",
    "assumption",
    "source",
    "remark",
    "exactness",
)
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


def page(content: Mapping[str, Any], titles: Mapping[str, Any], *, whole: bool) -> str:
    """HTML of a statement: a whole document, or the part that can be placed within
    another.
    """
    title = _escaped(_title(content))
    parts = [f"<h1>{title}</h1>"]
    for kind, sentence in _lead(content):
        parts.append(f'<p class="{kind}">{_escaped(sentence)}</p>')
    for heading, rows in _sections(content, titles):
        parts.append(f"<h2>{heading}</h2>\n<table>")
        for name, shown in rows:
            cell = _escaped(shown) if isinstance(shown, str) else _listed(shown)
            parts.append(f'<tr><th scope="row">{name}</th><td>{cell}</td></tr>')
        parts.append("</table>")
    digest = _escaped(content["digest"])
    parts.append(f"<p><b>Digest</b> <code>{digest}</code> (SHA-256, no signature)</p>")
    parts.append(f'<p class="sign">{SIGNED}</p>')
    body = "\n".join(parts)
    # its own style, as the page may stand within another one
    inner = f"<style>\n{STYLE}</style>\n<section class='dp-statement'>\n{body}\n"
    inner += "</section>\n"
    if not whole:
        return inner
    head = f'<!doctype html>\n<html lang="en">\n<head>\n{HEAD}<title>{title}</title>\n'
    return f"{head}</head>\n<body>\n{inner}</body>\n</html>\n"


def text_of(content: Mapping[str, Any], titles: Mapping[str, Any]) -> str:
    """The page as text for a terminal, without the place to sign."""
    lines = [_title(content), *(sentence for _, sentence in _lead(content))]
    for heading, rows in _sections(content, titles):
        lines += ["", heading]
        for name, shown in rows:
            words = [shown] if isinstance(shown, str) else shown
            label = f"{name}: " if name else ""
            lines += [f"  {label}{word}" for word in words]
    lines += ["", f"Digest {content['digest']} (SHA-256, no signature)"]
    return "\n".join(
        textwrap.fill(_printable(line), WIDTH, subsequent_indent="    ")
        for line in lines
    )


def _title(content: Mapping[str, Any]) -> str:
    name = content["release"]["name"]
    return "Privacy statement" if name == "unknown" else f"Privacy statement: {name}"


def _lead(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Class and words of the first sentences: the guarantee, and the reason not to rely
    on it, if any.
    """
    guarantee = content["guarantee"]
    unit = content["protection"]["unit"]
    told = guarantee["profile"]
    no_epsilon = all(pair["epsilon"] == "infinity" for pair in guarantee["pairs"])
    # some test may be right each time, at every epsilon
    certain = guarantee["advantage"] == 1 and no_epsilon
    warnings = {
        "This guarantee is refuted: its figures were claimed, but they do not hold.": (
            told["status"] == "refuted"
        ),
        "There is no guarantee: the release may reveal a record whole.": certain,
        "An audit refuted this guarantee, see below.": (
            content["audit"]["verdict"].startswith("REFUTED")
        ),
        "The noise came from a seed: it does not protect against anyone who knows the"
        " seed.": told["implementation"] == "reproducible",
    }
    lines = [("lead warn", warning) for warning, holds in warnings.items() if holds]
    # then there is no true bound to tell
    if told["exactness"] == "claimed" or certain:
        return lines
    done = "exchanged" if told["adjacency"] == "replace-one" else "used"
    sentence = (
        f"Anyone who sees the release and guesses whether {unit} was {done}, with at"
        f" most 0.1 % false positives, has at most {_level(100 * guarantee['tpr'])} %"
        f" true positives{CONDITIONS[told['status']]}."
    )
    return [*lines, ("lead", sentence)]


def _sections(
    content: Mapping[str, Any], titles: Mapping[str, Any]
) -> list[tuple[str, list[tuple[str, str | list[str]]]]]:
    """Heading and rows of each section; entries that are not known share a row."""
    found = []
    for section, names in titles.items():
        rows: list[tuple[str, str | list[str]]] = []
        unknown = []
        for name, title in names.items():
            if name == "title":
                continue
            value = content[section][name]
            if value == "unknown":
                unknown.append(title.lower())
            elif name == "profile":
                rows += _profile(value)
            elif name in LEVELS:
                rows.append((title, _level(value)))
            elif value not in ("", []):
                rows.append((title, _shown(value)))
        if unknown:
            rows.append(("Unknown", ", ".join(unknown)))
        found.append((names["title"], rows))
    found.append(("Not protected", [("", [*content["not_protected"]])]))
    return found


def _profile(told: Mapping[str, Any]) -> list[tuple[str, str | list[str]]]:
    rows = []
    for name in DESCRIBED:
        if value := told.get(name):
            rows.append((name.capitalize(), _shown(value)))
    return rows


def _shown(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        entries = []
        for key, each in value.items():
            told = each if isinstance(each, str) else repr(each)
            entries.append(f"{key}={told}")
        return ", ".join(entries)
    pairs = []
    for each in value:
        if isinstance(each, Mapping):
            epsilon = _epsilon(each["epsilon"])
            pairs.append(f"{epsilon} at delta {_level(each['delta'])}")
    if not pairs:
        return [*value]
    return "; ".join(pairs)


def _epsilon(value: float | str) -> str:
    return "no epsilon" if value == "infinity" else f"epsilon {_level(value)}"


def _level(value: float | str) -> str:
    """A level to four digits, from above."""
    if value == "infinity":
        return "infinity"
    if isinstance(value, str | bool):
        raise TypeError(f"a level must be a number, got {value!r}")
    return rounded(float(value))


def _listed(items: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{_escaped(each)}</li>' for each in items)}</ul>"


def _printable(text: str) -> str:
    """Text whose characters that no page has, or that reorder it, are shown by their
    numbers.
    """

    def kept(one: str) -> bool:
        # a text that reorders its page could show another one than it is
        apart = unicodedata.category(one) in CONTROL
        return one in "\n\t" or not (apart or unicodedata.bidirectional(one) in BIDI)

    return "".join(one if kept(one) else f"\\u{ord(one):04x}" for one in text)


def _escaped(text: str) -> str:
    return html.escape(_printable(text))
