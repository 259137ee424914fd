"""Tables of a page, made from tidy rows.

Rows hold plain columns. Only this module turns rows into text, and no code reads this
text.

A chapter declares a table as a :class:`Table`: the columns, their order, headings and
formats. :func:`show` is for a table that a page shows once.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

GAP = "not run yet"
# how one method stands to another: tiles of custom.css
STANDINGS = {name: f"tile {name}" for name in ("ahead", "behind", "equal", "undecided")}
# columns of a mean over seeds, by the statistic
OVER_SEEDS: Any = {
    "reproduced": "mean",
    "std": "std",
    "low": "min",
    "high": "max",
    "seeds": "count",
}
NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps its line together
PLUS_MINUS = f"{NO_BREAK}±{NO_BREAK}"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Column of the tidy rows; if they lack it, all of its cells are empty.
    heading : str, optional
        Heading of the column. Default: the name.
    format : str, optional
        Format string, such as ``"{:.2%}"``. Default: four significant digits for float,
        no change otherwise.
    labels : mapping of value to text, optional
        Text for each value; a value without a label is shown unchanged.
    text : callable, optional
        Function ``text(row) -> str`` that makes the text from the whole row; give it
        instead of ``format`` if the text needs several columns.
    scale : float
        Factor by which a value is multiplied before it is shown (100 for percentage
        points).
    gap : str
        Text of an empty cell.
    """

    name: str
    heading: str = ""
    format: str | None = None
    labels: Mapping[Any, str] | None = None
    text: Callable[[Any], str] | None = None
    scale: float = 1.0
    gap: str = ""

    def values(self, rows: pd.DataFrame) -> Any:
        """Give the cells of the column: text, or the values that ``format`` will
        show.
        """
        if self.text is not None:
            return [self.text(row) for row in rows.itertuples()]
        # rows of a gap may lack the column
        found = (
            rows[self.name]
            if self.name in rows
            else pd.Series(np.nan, index=rows.index)
        )
        if self.labels is not None:
            return [self.labels.get(value, value) for value in found]
        return found if self.scale == 1 else self.scale * found


def columns(
    format: str | None, *names: str, gap: str = "", **headings: str
) -> tuple[Column, ...]:
    """Declare several columns of one format.

    Parameters
    ----------
    format, gap : str
        See :class:`Column`.
    names : str
        Columns whose names serve as headings.
    headings : str
        Other columns, as ``name="heading"``.

    Examples
    --------
    >>> [column.heading for column in columns("{:.2f}", "sigma", epsilon_exact="exact")]
    ['', 'exact']
    """
    # a heading is empty where the name serves
    both = {**dict.fromkeys(names, ""), **headings}
    return tuple(
        Column(name, heading, format, gap=gap) for name, heading in both.items()
    )


FORMULA = re.compile(r"\$([^$]+)\$")
PERCENT = ("{:.2%}", "{:.2%}")  # of a mean and of its standard deviation


def mean_text(
    mean: float, std: float, *, formats: tuple[str, str] = PERCENT, gap: str = GAP
) -> str:
    r"""Format a mean and its standard deviation, which has no per cent sign and is
    omitted if missing.

    Examples
    --------
    >>> (
    ...     mean_text(0.5, 0.0125),
    ...     mean_text(85, np.nan, formats=("{:.0f}", "{:.1f}")),
    ...     mean_text(np.nan, np.nan),
    ... )
    ('50.00%\xa0±\xa01.25', '85', 'not run yet')
    """
    if pd.isna(mean):
        return gap
    shown = formats[0].format(mean)
    return (
        shown
        if pd.isna(std)
        else f"{shown}{PLUS_MINUS}{formats[1].format(std).removesuffix('%')}"
    )


def mean_and_std(
    name: str,
    heading: str = "",
    *,
    std: str = "std",
    formats: tuple[str, str] = PERCENT,
) -> Column:
    """Declare a column of means with their standard deviations, in per cent unless
    other formats are given.

    Parameters
    ----------
    name, heading : str
        See :class:`Column`.
    std : str
        Column of the standard deviations; an empty value is omitted.
    formats : pair of str
        Formats of the mean and of its standard deviation.
    """

    def text(row: Any) -> str:
        return mean_text(getattr(row, name), getattr(row, std), formats=formats)

    return Column(name, heading, text=text)


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def written(pattern: str, value: object) -> str:
    """Write a number as the text of a page does, where Python has an exponent.

    Examples
    --------
    >>> written("{:g}", 1e-5), written("{:.2e}", 12345678.0), written("{:.1%}", 0.5)
    ('10⁻⁵', '1.23 · 10⁷', '50.0%')
    """
    text = pattern.format(value)
    # a name may have an "e", too
    found = re.fullmatch(r"(\S*\d)e([+-]\d+)", text)
    if not found:
        return text
    mantissa, exponent = found.groups()
    raised = str(int(exponent)).translate(SUPERSCRIPTS)
    return ("" if mantissa == "1" else f"{mantissa} · ") + f"10{raised}"


class Table:
    """A table that a chapter shows, made from tidy rows.

    Parameters
    ----------
    caption : str
        A caption that is clear without the page; it may have fields that a call fills
        in (``"{data}"``).
    columns : Column, str, or tuple of these
        The columns in order; a str is a column without settings.
    cards : bool
        Whether a phone shows each row as a block, its cells under each other with their
        headings; for a table of many columns. The headings must be plain text.
    """

    def __init__(
        self,
        caption: str,
        *columns: Column | str | tuple[Column | str, ...],
        cards: bool = False,
    ) -> None:
        # columns that belong together are given together
        flat = itertools.chain.from_iterable(
            given if isinstance(given, tuple) else (given,) for given in columns
        )
        self.caption = caption
        self.cards = cards
        self.columns = [
            Column(column) if isinstance(column, str) else column for column in flat
        ]

    def __call__(self, rows: pd.DataFrame, **fields: object) -> Styler:
        """Make the table in the style of the book; ``fields`` are inserted into the
        caption.
        """
        cells = {column.name: column.values(rows) for column in self.columns}
        # the classes of cells need an index without repetitions, which nobody sees
        shown = pd.DataFrame(cells).reset_index(drop=True)
        dtypes = shown.dtypes
        # of true and false, too
        numbers = shown.select_dtypes(["number", "bool", "boolean"]).columns
        for name in shown.columns.difference(numbers):
            shown[name] = shown[name].map(_with_formulas)
        headings = [column.heading or column.name for column in self.columns]
        # columns keep their names, which are unique, under headings that may not be
        style = shown.style.hide(axis="index").relabel_index(
            [_with_formulas(heading) for heading in headings], axis="columns"
        )
        caption = self.caption.format(**fields) if fields else self.caption
        style = style.set_caption(_with_formulas(caption))
        kind = "dataframe dpnotes-table" + (" cards" if self.cards else "")
        style = style.set_table_attributes(f'class="{kind}"')
        style = style.set_td_classes(shown.map(lambda value: STANDINGS.get(value, "")))
        # numbers flush right, on one line
        right: Any = [{"selector": "th, td", "props": [("text-align", "right")]}]
        right.append({"selector": "td", "props": [("white-space", "nowrap")]})
        style = style.set_table_styles(dict.fromkeys(numbers, right), overwrite=False)
        if self.cards:
            labels: Any = {}
            for column, heading in zip(self.columns, headings, strict=True):
                # custom.css writes it before the cell
                label = [("--label", json.dumps(heading, ensure_ascii=False))]
                labels[column.name] = [{"selector": "td", "props": label}]
            style = style.set_table_styles(labels, overwrite=False)
        for column in self.columns:
            pattern = column.format
            if pattern is None and dtypes[column.name].kind == "f":
                pattern = "{:.4g}"
            style = style.format(
                None if pattern is None else partial(written, pattern),
                subset=[column.name],
                na_rep=column.gap,
            )
        return style


def show(
    frame: pd.DataFrame,
    *,
    caption: str,
    formats: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    gaps: Mapping[str, str] | None = None,
) -> Styler:
    """Show a table in the style of the book: no index, a caption, numbers flush right,
    a text for empty cells.

    Parameters
    ----------
    frame : DataFrame
        The table. Text between dollar signs, in cells, headings and the caption, is set
        as a formula; other text is shown unchanged.
    caption : str
        A caption that is clear without the page.
    formats : mapping of column to format string, e.g. ``{"delta": "{:.4f}"}``
        Formats of columns.
    names : mapping of column to heading
        Headings of columns.
    gaps : mapping of column to the text of an empty cell
        Texts of the empty cells of these columns; empty cells of other columns stay
        empty.

    Returns
    -------
    pandas Styler
        The styled table.
    """
    columns = []
    for name in frame.columns:
        heading = (names or {}).get(name, "")
        pattern = (formats or {}).get(name)
        columns.append(Column(name, heading, pattern, gap=(gaps or {}).get(name, "")))
    return Table(caption, *columns)(frame)


def _with_formulas(text: Any) -> Any:
    """Text as HTML, its formulas marked for MathJax, which does not look for dollar
    signs in a cell's output.
    """
    # the span that Sphinx itself writes
    marked = r'<span class="math notranslate nohighlight">\\(\1\\)</span>'
    return (
        FORMULA.sub(marked, escape(text, quote=False))
        if isinstance(text, str)
        else text
    )
