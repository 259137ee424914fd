"""Chapters of the book: find them, check their parameters, execute them, build the book, and show things inside them.

A chapter is a notebook ``book/NAME.ipynb`` that ``_toc.yml`` lists, committed without outputs. Its first code cell is
tagged ``parameters``. Executed copies are kept in ``_build/executed``, each with a digest of all that it shows: the
chapter, the package, the stored results and the parameters. ``dpnotes.lab.sphinxext`` lets the book show them.

Importing this package is cheap, since every chapter does; papermill is imported where it is used.
"""

from dpnotes.lab.chapters._build import build
from dpnotes.lab.chapters._chapter import ROOT, Chapter, all_chapters, chapter
from dpnotes.lab.chapters._display import glue, show_source
from dpnotes.lab.chapters._errors import BookError
from dpnotes.lab.chapters._execute import execute
from dpnotes.lab.chapters._parameters import Parameter

__all__ = [
    "ROOT",
    "BookError",
    "Chapter",
    "Parameter",
    "all_chapters",
    "build",
    "chapter",
    "execute",
    "glue",
    "show_source",
]
