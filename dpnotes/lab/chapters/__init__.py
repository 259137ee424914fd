"""Find, check and execute the chapters of the book, build the book, and show values and
source in a chapter.

A chapter is a notebook ``book/NAME.ipynb`` that ``_toc.yml`` lists, committed without
outputs. Its first code cell is tagged ``parameters``. Executed copies are saved in
``_build/executed``, each with a digest of everything that determines what it shows: the
chapter, the package, the stored results and the parameters. The book shows these copies
through ``dpnotes.lab.sphinxext``.

Every chapter imports this package, so the import must be quick: papermill is imported
only where it is used.
"""

from dpnotes.lab.chapters._begin import Scale as Scale, begin as begin
from dpnotes.lab.chapters._build import (
    build as build,
    page_of as page_of,
    print_book as print_book,
)
from dpnotes.lab.chapters._chapter import (
    Chapter as Chapter,
    Parameter as Parameter,
    all_chapters as all_chapters,
    chapter as chapter,
    check_parameters as check_parameters,
    checks_file as checks_file,
    pages as pages,
)
from dpnotes.lab.chapters._checks import values_of_text as values_of_text
from dpnotes.lab.chapters._display import (
    VALUES as VALUES,
    glue as glue,
    show_source as show_source,
)
from dpnotes.lab.chapters._execute import (
    BookError as BookError,
    execute as execute,
    is_unchanged as is_unchanged,
)
from dpnotes.lab.chapters._layout import lay_out as lay_out
