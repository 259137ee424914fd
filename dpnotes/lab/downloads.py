"""Notebooks to download: an executed chapter as it reads outside of the book.

Jupyter knows neither the roles nor the directives of MyST. In a notebook that is
downloaded, roles are therefore text, and boxes are quotations with a bold title.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nbformat.v4 import new_code_cell

from dpnotes.lab.chapters import VALUES

_ROLE = re.compile(r"\{([a-z:]+)\}`([^`]+)`")
_TITLED = re.compile(r"(?P<title>.*?)\s*<(?P<target>[^>]+)>", re.DOTALL)
_LABEL = re.compile(r"^\([\w-]+\)=\n", re.MULTILINE)
# a box: its fence, its kind, its title, its options, and what is in it
_BOX = re.compile(
    r"^(?P<fence>`{3,})\{(?P<kind>[a-z:]+)\} ?(?P<title>[^\n]*)\n"
    r"(?P<options>(?::[^\n]*\n)*)(?P<body>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_NAMES = ("class", "func", "meth", "py:class", "py:func", "py:meth")

Named = Callable[[str, str], str]


def downloadable(
    notebook: Mapping[str, Any],
    glued: Mapping[str, str],
    named: Named,
    install: str = "",
) -> dict[str, Any]:
    """Make the notebook that a reader downloads.

    Parameters
    ----------
    notebook : dict
        An executed chapter, with its outputs.
    glued : mapping of str to str
        What its cells have saved, by name.
    named : callable
        ``named(role, target)`` says how the book names a figure, section, theorem,
        equation, term or work.
    install : str
        What pip installs so that the notebook runs. The first cell does so; without it
        there is none.

    Returns
    -------
    dict
        A notebook without roles and directives, and without outputs that only the book
        can show.
    """
    cells = []
    if install:
        cells.append(new_code_cell(f'%pip install --quiet "{install}"', id="install"))
    for cell in notebook["cells"]:
        # no cell of the author's: its values are in the text by now
        if cell.get("id") == VALUES:
            continue
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = in_words(source, glued, named)
        kept = {**cell, "source": source, "metadata": {}}
        if tags := cell["metadata"].get("tags"):
            kept["metadata"] = {"tags": tags}
        if "outputs" in cell:
            kept["outputs"] = [_shown(each) for each in cell["outputs"]]
            kept["outputs"] = [each for each in kept["outputs"] if each]
        cells.append(kept)
    return {**notebook, "cells": cells}


def in_words(text: str, glued: Mapping[str, str], named: Named) -> str:
    r"""Write text of MyST without its roles, labels and directives.

    Examples
    --------
    >>> box = "```{admonition} Hint\n:class: tip\nLook at {numref}`fig-a`.\n```"
    >>> print(in_words(box, {}, lambda role, target: "Fig. 1"))
    > **Hint**
    >
    > Look at Fig. 1.
    >>> in_words("its {glue:text}`n` patients", {"n": "456"}, str)
    'its 456 patients'
    """

    def plain(role: re.Match[str]) -> str:
        kind, target = role.groups()
        if kind in ("glue:text", "glue:"):
            name, _, form = target.partition(":")
            value = glued.get(name, target)
            return format(float(value), form) if form else value
        if kind == "math":
            return f"${target}$"
        if kind in _NAMES:
            return f"`{target.rpartition('.')[2]}`"
        if titled := _TITLED.fullmatch(target):
            return titled["title"]
        return named(kind, target)

    def quoted(box: re.Match[str]) -> str:
        kind = box["kind"].rpartition(":")[2]
        body = box["body"].strip("\n")
        if kind == "math":
            return f"$$\n{body}\n$$"
        title = box["title"] or ""
        if kind != "admonition":
            title = f"{kind.capitalize()}{': ' if title else ''}{title}"
        lines = [f"**{title}**", "", *body.split("\n")]
        return "\n".join(f"> {line}".rstrip() for line in lines)

    text = _LABEL.sub("", text)
    # a box may hold another, whose fence is shorter
    while (boxed := _BOX.sub(quoted, text)) != text:
        text = boxed
    return _ROLE.sub(plain, text)


def _shown(output: Mapping[str, Any]) -> dict[str, Any] | None:
    """An output without what only the book reads; None if nothing is left."""
    if "data" not in output:
        return dict(output)
    data = {
        kind: value
        for kind, value in output["data"].items()
        if not kind.startswith("application/")
    }
    return {**output, "data": data, "metadata": {}} if data else None
