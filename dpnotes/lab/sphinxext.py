"""Sphinx extension of the book: shows the executed chapters, and repairs what its theme
and docutils get wrong.

``_config.yml`` names it under ``local_extensions``, so that the plain ``jupyter-book
build .`` works as well.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from sphinx.errors import ConfigError
from sphinx.util import logging

from dpnotes import __version__, accounting, exercises
from dpnotes._extras import REPOSITORY, repository_source
from dpnotes.lab import folds, ledger
from dpnotes.lab.chapters import Chapter, all_chapters, pages
from dpnotes.lab.downloads import downloadable
from dpnotes.lab.experiments import EXPERIMENTS, verified
from dpnotes.lab.figures import NARROW
from dpnotes.lab.tables import NO_BREAK

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

# docutils marks up the references as a list of entries, but the elements between are
# none: readers of the page aloud then announce a list that is empty.
_ROLES = (
    ('<div role="list" class="citation-list">', '<div class="citation-list">'),
    (' role="doc-biblioentry"', ""),
)


_HOW_TO_RUN = re.compile(
    r"```\{admonition\} To run this notebook\n:class: .*\n(.*\n)```\n*"
)
_IN_A_CLONE = re.compile(r'pip install (?:\\?"\.(\[[\w,]+\])\\?"|\.(?=[\s`]))')
# punctuation after a formula stays on its line; so does "-differentially", after a
# formula with which it fits on the line of a phone
_FORMULA = '<span class="math notranslate nohighlight">[^<]{%s}</span>'
_AFTER_FORMULA = re.compile(rf'{_FORMULA % "0,"}[.,;:!?)”"]+|{_FORMULA % "0,60"}-\w+')
# "95%" and "95 %" of a page's text, beside what is code or of the markup
_PER_CENT = re.compile(
    r"(<(pre|code|script|style)\b.*?</\2>|<[^>]*>)|(?<=\d)[ \u00a0]?%", re.DOTALL
)
_FOOTER = """<p>dpnotes {version}, {date}. <a href="{licence}">Apache License 2.0</a>.
{source}To cite it, name "dpnotes: differential privacy in machine learning,
recomputed", its version, and the paper whose chapter you use.</p>"""
_BINDER = {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"}


def link_repository(app: Sphinx, config: Config) -> None:
    """Link the repository and its issues, and launch chapters on Binder, where
    ``DPNOTES_REPOSITORY`` has its address.

    That is ``https://HOST/OWNER/NAME``, with ``@BRANCH`` behind it unless the branch is
    ``main``. Without it no page has such a link.
    """
    if not (address := os.environ.get("DPNOTES_REPOSITORY", "")):
        return
    if (found := REPOSITORY.fullmatch(address)) is None:
        raise ConfigError(
            "DPNOTES_REPOSITORY must be https://HOST/OWNER/NAME or that and @BRANCH,"
            f" got {address!r}"
        )
    known = (name for name in ("github", "bitbucket") if name in found["host"])
    config.html_theme_options |= {
        "repository_url": found["url"],
        "repository_branch": found["branch"] or "main",
        # addresses of files on other hosts look like GitLab's
        "repository_provider": next(known, "gitlab"),
        **dict.fromkeys(
            ("use_repository_button", "use_issues_button", "use_source_button"), True
        ),
        "launch_buttons": _BINDER,
    }


def write_footer(app: Sphinx, config: Config) -> None:
    """Let the foot of each page say which version of the book it is, of which day, how
    it may be used and cited, and where errors are reported.
    """
    source = ""
    if found := REPOSITORY.fullmatch(os.environ.get("DPNOTES_REPOSITORY", "")):
        url = found["url"]
        source = (
            f'<a href="{url}/issues">Report an error</a>. <a href="{url}">Source</a>. '
        )
    config.html_theme_options["extra_footer"] = _FOOTER.format(
        version=__version__,
        date=f"{datetime.now(UTC):%-d %B %Y}",
        licence="https://www.apache.org/licenses/LICENSE-2.0",
        source=source,
    )


def tell_minutes(app: Sphinx, config: Config) -> None:
    """Let pages say ``{{ minutes_NAME }}``: how long the text of a chapter takes to
    read.
    """
    for chapter in all_chapters(Path(app.srcdir)):
        config.myst_substitutions[f"minutes_{chapter.name}"] = chapter.minutes


def tell_facts(app: Sphinx, config: Config) -> None:
    """Let the first page say what the book has: ``{{ papers }}``, ``{{ results }}``,
    ``{{ claims }}``, ``{{ corrections }}``, ``{{ verdict }}`` and ``{{ outcomes }}``
    (the scorecard's first sentence and its bar), and ``{{ exposed }}`` (the people whom
    bagging exposes in tradeoff.svg).
    """
    root = Path(app.srcdir)
    exposed = accounting.bagging(n=60_000, subsample=5000).advantage
    scores = _glued(Chapter("scorecard", root))
    config.myst_substitutions |= {
        "papers": len(ledger.PAPERS),
        "results": scores.get("score-results", ""),
        "claims": len(ledger.LEDGER),
        "corrections": sum(page.parent.name == "corrections" for page in pages(root)),
        "verdict": scores.get("score-verdict", ""),
        "outcomes": scores.get("score-bar", ""),
        "exposed": f"{100 * exposed:.0f} %",
    }


def _executed(chapter: Chapter) -> dict[str, Any]:
    """The executed copy of a chapter, which has no cell without one.

    Papermill's cell is left out: the parameters of the book, which tell a reader
    nothing.
    """
    if not chapter.executed.is_file():
        return {"cells": []}
    notebook: dict[str, Any]
    notebook = json.loads(chapter.executed.read_text(encoding="utf-8"))
    cells = []
    for cell in notebook["cells"]:
        if "injected-parameters" not in cell["metadata"].get("tags", ()):
            cells.append(cell)
    return notebook | {"cells": cells}


def _glued(chapter: Chapter) -> dict[str, str]:
    """What an executed chapter has saved, by name: HTML where it has some, or text."""
    found = {}
    for cell in _executed(chapter)["cells"]:
        for output in cell.get("outputs", ()):
            if scrap := output.get("metadata", {}).get("scrapbook"):
                kinds = output["data"]
                # of words, what Python writes: in quotation marks
                text = "".join(kinds[f"{scrap['mime_prefix']}text/plain"]).strip("'\"")
                html = kinds.get(f"{scrap['mime_prefix']}text/html", text)
                found[scrap["name"]] = "".join(html)
    return found


def use_executed(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the executed copy of a chapter in the place of its source; warn if there
    is none, or it is not fresh.
    """
    if (chapter := _chapter(app, docname)) is None:
        return
    app.env.note_dependency(str(chapter.executed))
    notebook = _executed(chapter)
    kind = "absent"
    message = "the chapter has not been executed: run `dpnotes build`"
    if cells := notebook["cells"]:
        for cell in cells:
            for output in cell.get("outputs", ()):
                output.get("data", {}).pop(NARROW, None)  # offer_narrow sees to it
        _fold_bookkeeping(cells, chapter.of)
        folds.fold_cells(cells)
        source[0] = json.dumps(notebook)
        kind = "stale"
        message = "the chapter, the package or its results changed since: run `dpnotes"
        message += " build`"
    if not chapter.is_fresh():
        logger.warning(message, location=docname, type="dpnotes", subtype=kind)


def _fold_bookkeeping(cells: list[dict[str, Any]], chapter: str) -> None:
    """Move how to run a chapter into a folded note at its end, with the rows that were
    computed again.

    The notebook that a reader downloads stays as it is.

    Parameters
    ----------
    cells : list of dict
    chapter : str
        Name of the chapter whose experiments the page reads.
    """
    notes: list[str] = []

    def moved(found: re.Match[str]) -> str:
        notes.append(found[1].strip())
        return ""

    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = _HOW_TO_RUN.sub(moved, "".join(cell["source"]))
    if any(experiment.chapter == chapter for experiment in EXPERIMENTS.values()):
        notes.insert(0, verified(chapter))
    if not notes:
        return
    text = "\n\n".join(notes)
    note = f"```{{admonition}} About this page\n:class: note dropdown\n{text}\n```"
    about = {"cell_type": "markdown", "id": "about-this-page", "metadata": {}}
    cells.append({**about, "source": note})


def name_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Say how the package is installed from ``DPNOTES_REPOSITORY`` where a page says
    how it is in a clone.
    """
    if address := repository_source():
        # in a notebook's JSON it is escaped
        quote = '\\"' if re.match(r'{\s*"', source[0]) else '"'
        source[0] = _IN_A_CLONE.sub(
            lambda found: (
                f"pip install {quote}dpnotes{found[1] or ''} @ {address}{quote}"
            ),
            source[0],
        )


def _chapter(app: Sphinx, docname: str) -> Chapter | None:
    """The chapter that a page shows."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".ipynb":
        return None
    return Chapter(
        page.stem, Path(app.srcdir), page.parent.relative_to(app.srcdir).as_posix()
    )


def offer_narrow(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: object,
) -> None:
    """Let phones take the pictures that a chapter's figures have for them."""
    chapter = _chapter(app, pagename) if doctree is not None else None
    if chapter is None:
        return
    for cell in _executed(chapter)["cells"]:
        for shown in (output.get("data", {}) for output in cell.get("outputs", ())):
            if NARROW not in shown:
                continue
            # as myst-nb calls the file
            name = hashlib.sha256(base64.b64decode(shown["image/png"])).hexdigest()
            (Path(app.outdir) / "_images").mkdir(exist_ok=True)
            (Path(app.outdir) / "_images" / f"{name}.narrow.png").write_bytes(
                base64.b64decode(shown[NARROW])
            )
            picture = (
                r'<picture><source media="(max-width: 576px)" srcset="\1.narrow.png"'
                r" />\g<0></picture>"
            )
            context["body"] = re.sub(
                rf'<img [^>]*src="([^"]*{name})\.png"[^>]*>', picture, context["body"]
            )


def offer_downloads(app: Sphinx, error: Exception | None) -> None:
    """Put the executed chapters, in words that Jupyter shows, where the pages offer
    their source to download, and the wheel that they install beside them.
    """
    if error is not None or app.builder.name != "html":
        return
    standard = app.env.get_domain("std")
    equations = app.env.get_domain("math").equations

    def named(role: str, target: str) -> str:
        if role.startswith("cite"):
            return "; ".join(map(_cited, target.split(",")))
        if role == "eq" and target in equations:
            return f"({equations[target][1]})"
        place = standard.anonlabels.get(target)
        if role == "numref" and place:
            numbers = app.env.toc_fignumbers.get(place[0], {}).get("figure", {})
            if number := numbers.get(place[1]):
                return f"Fig. {'.'.join(map(str, number))}"
        if target in standard.labels:
            return str(standard.labels[target][2])
        return target

    address = repository_source()
    install = f"dpnotes[book] @ {address}" if address else ""
    # of `make wheel`; book.js puts the address of the site before its name
    for wheel in (Path(app.srcdir) / "dist").glob(f"dpnotes-{__version__}-*.whl"):
        shutil.copy(wheel, Path(app.outdir) / "_static")
        install = f"{wheel.name}[book]"
    for chapter in all_chapters(Path(app.srcdir)):
        offered = Path(app.outdir) / "_sources" / chapter.folder
        if chapter.executed.is_file() and offered.is_dir():
            ready = downloadable(_executed(chapter), _glued(chapter), named, install)
            path = offered / f"{chapter.name}.ipynb"
            path.write_text(json.dumps(ready, indent=1), encoding="utf-8")


def _cited(key: str) -> str:
    """A work as author and year, from its key.

    Examples
    --------
    >>> _cited("balle2018gaussian")
    'Balle 2018'
    """
    found = re.match(r"\s*([a-z]+)(\d{4})", key)
    return f"{found[1].capitalize()} {found[2]}" if found else key.strip()


def ask_in_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: object,
) -> None:
    """Give a page the answers of its exercises that ask for numbers: book.js puts a box
    under each.
    """
    asked = {}
    for name, (right, wrong) in exercises.numeric().items():
        if f'<span class="pre">{name}</span>' in context.get("body", ""):
            hints: list[Any] = []
            for hint, values in wrong.items():
                # JSON has no NaN
                numbers = [None if np.isnan(each) else float(each) for each in values]
                hints.append([hint, numbers])
            asked[name] = [list(map(float, right)), hints]
    if asked:
        text = json.dumps(asked).replace("<", "\\u003c")
        context["body"] += (
            f'<script type="application/json" id="given-exercises">{text}</script>'
        )


def number_by_page(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Number the figures and tables of a page without a chapter's number from 1, where
    Sphinx counts them through the whole book.
    """
    for kinds in env.toc_fignumbers.values():
        for numbers in kinds.values():
            for place, name in enumerate(numbers, 1):
                if len(numbers[name]) == 1:
                    numbers[name] = (place,)
    return []


def tidy(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: object,
) -> None:
    """Drop the scripts of thebe (live code), which clash with each other on every
    page, mend roles, write per cent in one way, and say how long the next chapter
    takes.
    """
    for files in ("script_files", "css_files"):
        context[files] = [file for file in context[files] if not _of_thebe(file)]
    if context.get("body"):
        for wrong, right in _ROLES:
            context["body"] = context["body"].replace(wrong, right)
        context["body"] = _AFTER_FORMULA.sub(
            r'<span class="keep">\g<0></span>', context["body"]
        )
        context["body"] = _PER_CENT.sub(
            lambda found: found[1] or f"{NO_BREAK}%", context["body"]
        )
    if following := context.get("next"):
        name = PurePosixPath(following["link"]).stem
        if minutes := app.config.myst_substitutions.get(f"minutes_{name}"):
            following["title"] += f" ({minutes} minutes)"


def say_types(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Say the types of a class's attributes in words, as its docstring does, where
    napoleon makes links of them.
    """
    if what not in ("class", "exception"):
        return
    for index, line in reversed(list(enumerate(lines))):
        if (text := line.lstrip()).startswith(":type: "):
            indent = line.removesuffix(text)
            lines[index : index + 1] = ["", f"{indent}*{text.removeprefix(':type: ')}*"]


def keep_bars(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Show the bars of a norm, which docutils takes for a substitution, outside of
    literals.
    """
    for index, line in enumerate(lines):
        parts = line.split("``")
        lines[index] = "``".join(
            part if place % 2 else part.replace("|", "\\|")
            for place, part in enumerate(parts)
        )


def skip_fields(
    app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of a named tuple, whose docstrings count them; the
    class's own says what they are.
    """
    return (
        True
        if str(getattr(thing, "__doc__", "")).startswith("Alias for field number")
        else None
    )


def leave_constants(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Say nothing of a constant in the words of its type, such as how a ``str`` is
    made from bytes.
    """
    if (
        what == "data"
        and "\n".join(lines).strip() == (inspect.getdoc(type(thing)) or "").strip()
    ):
        lines.clear()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    folds.setup(app)
    app.connect("config-inited", link_repository)
    # before MyST takes its settings
    app.connect("config-inited", tell_minutes, priority=100)
    app.connect("config-inited", tell_facts, priority=100)
    app.connect("config-inited", write_footer)
    # with another, all pages are read again
    app.add_config_value("dpnotes_repository", repository_source(), "env")
    # the index of search loses terms of pages not read
    app.connect("env-get-outdated", lambda *_: ["book/glossary"])
    app.connect("source-read", use_executed)
    app.connect("source-read", name_source, priority=900)  # of the executed copy
    app.connect("autodoc-process-docstring", say_types, priority=900)  # after napoleon
    app.connect("autodoc-process-docstring", keep_bars, priority=900)
    app.connect("autodoc-process-docstring", leave_constants)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("html-page-context", offer_narrow)
    app.connect("html-page-context", ask_in_page)
    app.connect("build-finished", offer_downloads)
    app.connect("env-get-updated", number_by_page, priority=900)  # once Sphinx has
    # after the extensions that add what is dropped
    app.connect("html-page-context", tidy, priority=900)
    return {
        "version": __version__,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }


def _of_thebe(file: object) -> bool:
    """Tell whether a script or style sheet, linked or inline, is thebe's."""
    inline = getattr(file, "attributes", {}).get("body") or ""
    return (
        "thebe" in str(getattr(file, "filename", "")).lower()
        or "THEBE_JS_URL" in inline
    )
