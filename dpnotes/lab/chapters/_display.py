"""What chapters show of values and of the library's source."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpnotes.lab._places import PACKAGE

_RECORD = "application/papermill.record/"  # a mime type that nothing shows but glue
_DOCSTRING = re.compile(r'^ *r?""".*?"""\n+', re.MULTILINE | re.DOTALL)

# id of the cell that the build adds to an executed chapter
VALUES = "values-of-the-text"


def glue(name: str, value: object) -> None:
    r"""Save a value in the executed chapter; ``{glue:text}`name``` in a Markdown cell
    shows it.

    The effect is the same as ``myst_nb.glue(name, value, display=False)``, without
    Jupyter Book in the kernel.

    Parameters
    ----------
    name : str
        Name of the value, unique in the book.
    value : object
        Text, a number, a table, or any other value that a cell can show.
    """
    import numpy as np
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display

    # its own text would name its type
    if isinstance(value, np.generic):
        value = value.item()
    formatter = InteractiveShell.instance().display_formatter
    shown, about = formatter.format(value)  # type: ignore[union-attr]
    data = {_RECORD + kind: content for kind, content in shown.items()}
    metadata = {_RECORD + kind: content for kind, content in about.items()}
    # where MyST-NB looks for glued values
    metadata["scrapbook"] = {"name": name, "mime_prefix": _RECORD}
    display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]


def values_cell(values: Mapping[str, object]) -> dict[str, Any]:
    """Make an executed cell that saves values for the text, as `glue` does, and that
    no page shows.

    Parameters
    ----------
    values : mapping of str to object
        Values by name: text, numbers, or objects that also have an attribute ``html``.
    """
    outputs = []
    for name, value in values.items():
        data = {f"{_RECORD}text/plain": repr(str(value))}
        if html := getattr(value, "html", ""):
            data[f"{_RECORD}text/html"] = html
        output = {
            "output_type": "display_data",
            "data": data,
            "metadata": {"scrapbook": {"name": name, "mime_prefix": _RECORD}},
        }
        outputs.append(output)
    return {
        "cell_type": "code",
        "id": VALUES,
        "source": "# values that the text shows, from book/checks",
        "metadata": {"tags": ["remove-cell"]},
        "execution_count": None,
        "outputs": outputs,
    }


def show_source(thing: object) -> None:
    """Show in a chapter the highlighted source of a function, class or module of the
    library.

    Parameters
    ----------
    thing : function, class, method, property or module
        The object whose source is shown. Its docstring is left out, because a page of
        the library shows it.

    Raises
    ------
    TypeError
        If ``thing`` is not of such a kind, or is not written in Python.
    """
    from IPython.display import Markdown, display

    # As Markdown, not as IPython's Code: that brings colours of its own, which are for
    # light pages only.
    display(Markdown(f"```python\n{source(thing)}\n```"))  # type: ignore[no-untyped-call]


def source(thing: object) -> str:
    """Give the source that `show_source` shows: where it is, and the code.

    Parameters
    ----------
    thing
        See `show_source`.

    Examples
    --------
    >>> print(source(source).splitlines()[0])
    # dpnotes/lab/chapters/_display.py
    """
    function: Any = thing.fget if isinstance(thing, property) else thing
    # decorated functions show their own source
    function = inspect.unwrap(function)
    code = textwrap.dedent(inspect.getsource(function)).rstrip()
    file = Path(inspect.getfile(function))
    place = (
        file.relative_to(PACKAGE.parent)
        if file.is_relative_to(PACKAGE)
        else Path(file.name)
    )
    return f"# {place.as_posix()}\n" + _DOCSTRING.sub("", code, count=1)
