"""Sentences of a chapter against the published rows.

``book/checks/NAME.py`` has functions without parameters. Each one asserts what the text
of the chapter says of the published results, and returns the values that the text
shows: ``{glue:text}`key``` in the chapter stands for the entry ``key``. Whoever runs a
chapter with other parameters runs none of them.
"""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Callable, Mapping

from dpnotes.lab.chapters._chapter import Chapter, checks_file
from dpnotes.lab.chapters._execute import BookError

Check = Callable[[], Mapping[str, object] | None]


def checks(chapter: Chapter) -> dict[str, Check]:
    """Read the functions of ``book/checks/NAME.py`` by their names, in its order.

    A chapter without such a file has none. A name that begins with an underscore is a
    helper's.
    """
    path = checks_file(chapter)
    if not path.is_file():
        return {}
    found = runpy.run_path(str(path), run_name=f"checks_of_{chapter.name}")
    return {
        name: thing
        for name, thing in found.items()
        # defined there, not imported
        if getattr(thing, "__module__", "") == found["__name__"]
        and callable(thing)
        and not name.startswith("_")
    }


def values_of_text(chapter: Chapter) -> dict[str, object]:
    """Run the checks of a chapter, and return the values that its text shows.

    Raises
    ------
    BookError
        If a sentence is not true of the published rows; the message names the check and
        shows its line.
    """
    values: dict[str, object] = {}
    for name, check in checks(chapter).items():
        try:
            values |= check() or {}
        except AssertionError as error:
            # the line of the assertion, wherever it was called from
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise BookError(
                f"{checks_file(chapter)}:{place.lineno}: the published rows contradict"
                f" the text ({name}): {place.line}",
                traceback.format_exc(),
            ) from None
    return values
