"""What the pages of the book fold: proofs, checks and long code, each under its name.

Everything that is folded is a ``details`` element, which works without JavaScript. A
page may have such elements of its own, of the class ``fold-more``, around details of an
argument. ``book/_static/depths.js`` adds a switch that opens them, and remembers it.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx_proof.nodes import NODE_TYPES, proof_node

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html import HTML5Translator

LONGEST = 6  # lines of a cell that is shown open
_ASSERTS = re.compile(r"^\s*assert\b", re.MULTILINE)
_STATED = tuple(NODE_TYPES.values())  # theorems, definitions, ...
_UNNAMED = "Show code cell"  # begins what MyST-NB calls an output without a name
_HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


def fold_cells(cells: list[dict[str, Any]]) -> None:
    """Fold the code of cells that set parameters, assert something or are long."""
    for cell in cells:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or _HIDDEN & set(tags):
            continue
        source = "".join(cell["source"])
        long = len(_lines(source)) > LONGEST
        if long or _ASSERTS.search(source) or "parameters" in tags:
            cell["metadata"]["tags"] = [*tags, "hide-input"]


def _lines(source: str) -> list[str]:
    return [line for line in source.splitlines() if line.strip()]


def fold_proofs(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put each proof into a ``details`` element that says what it proves."""
    if app.builder.format != "html":
        return
    for number, proof in enumerate(list(doctree.findall(proof_node)), 1):
        section = proof.children[0]
        if "proof" not in section.get("classes", [])[1:]:
            continue
        # every proof of a page has the same id otherwise
        section["ids"] = [f"proof-{number}"]
        name = f"Proof{_of_what(app, docname, proof)}"
        opening = f'<details class="fold fold-proof"><summary>{name}</summary>'
        proof.insert(0, nodes.raw("", opening, format="html"))
        proof.append(nodes.raw("", "</details>", format="html"))


def _of_what(app: Sphinx, docname: str, proof: nodes.Element) -> str:
    """The theorem before a proof, such as " of Theorem 8.1"; empty without one."""
    siblings = proof.parent.children
    for before in reversed(siblings[: siblings.index(proof)]):
        if isinstance(before, _STATED):
            kind = before["realtype"]
            numbers = app.env.toc_fignumbers.get(docname, {})
            label = (before.get("ids") or [""])[0]
            for counted in (before.get("countertype", kind), kind):
                if label in numbers.get(counted, {}):
                    number = ".".join(map(str, numbers[counted][label]))
                    return f" of {kind.title()} {number}"
            return ""
    return ""


def open_fold(self: HTML5Translator, node: nodes.Element) -> None:
    """Begin what a cell folds, with its name: "Code of Fig. 8.3, 22 lines"."""
    classes = " ".join(node["classes"])
    self.body.append(f'<details class="fold fold-code hide {classes}">')
    name = _name_of_cell(self, node)
    self.body.append(f"<summary>{name}</summary>\n")


def _name_of_cell(self: HTML5Translator, node: nodes.Element) -> str:
    if "above-input" not in node["classes"]:
        named = node["prompt_show"]
        return "Output" if named.startswith(_UNNAMED) else escape(named)
    block = next(node.findall(nodes.literal_block), None)
    source = "" if block is None else block.astext()
    count = len(_lines(source))
    length = f"{count} line{'s' if count > 1 else ''}"
    if "tag_parameters" in node.parent["classes"]:
        return f"Parameters, {length}"
    for figure in node.parent.findall(nodes.figure):
        numbers = self.builder.fignumbers.get("figure", {})
        for label in figure["ids"]:
            if label in numbers:
                number = ".".join(map(str, numbers[label]))
                return f"Code of Fig. {number}, {length}"
    kind = "Check" if _ASSERTS.search(source) else "Code"
    return f"{kind}, {length}"


def close_fold(self: HTML5Translator, node: nodes.Element) -> None:
    """End what a cell folds."""
    self.body.append("</details>\n")


def setup(app: Sphinx) -> None:
    """Register what folds, and the switch of the pages."""
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    app.connect("doctree-resolved", fold_proofs)
