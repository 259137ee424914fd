"""``dpnotes compare``: recommend a private learner for a reader's table, and write a
one-page report.
"""

from __future__ import annotations

import html
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpnotes.comparing import Comparison, compare
from dpnotes.data import OwnDataset, load_file
from dpnotes.lab import own_data
from dpnotes.lab.own_training import Kept

STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0"
    " 1em}table{border-collapse:collapse}td,th{padding:.2em"
    " .6em;text-align:left;border-bottom:1px solid"
    " #ccc}.wide{overflow-x:auto}svg{max-width:100%}"
)


def compare_table(
    table: Path,
    *,
    target: str,
    data: str,
    report: Path | None,
    keep: Path | None,
    jobs: int,
    seed: int,
    **settings: Any,
) -> Comparison:
    """Compare methods on all records of a table, encoded by public bounds and
    categories.

    Parameters
    ----------
    table : Path
        The file of the table.
    target : str
        See :func:`dpnotes.data.load_file`.
    data : str
        See :func:`dpnotes.compare`.
    report : Path, optional
        File for the report, as HTML.
    keep : Path, optional
        See :class:`dpnotes.lab.own_training.Kept`.
    jobs, seed : int
        Number of fits at a time, and seed of the comparison.
    **settings
        Further parameters of :func:`dpnotes.compare`.

    Raises
    ------
    ValueError
        If a required public fact is not declared, the table cannot be used, or the
        report has no folder.
    """
    if report is not None and not report.parent.is_dir():
        raise ValueError(f"report must be a file in an existing folder, got {report}")
    own = load_file(table, target=target, private=data != "public")
    public = [
        own.n_train + own.n_test,
        own.class_names,
        [(column.name, column.known) for column in own.columns],
    ]
    about = {
        "table": public if data == "shape" else own.digest,
        "data": data,
        "seed": seed,
    } | settings
    result = compare(
        *own.records(),
        bounds=(-1.0, 1.0),
        classes=own.labels[:-1].tolist(),
        data=data,
        n_jobs=jobs,
        random_state=seed,
        progress=sys.stderr.isatty(),
        memory=None if keep is None else Kept(keep, about, kind="comparison"),
        **settings,
    )
    if data == "public":
        result = replace(result, remarks=(*result.remarks, *own.unread()))
    if report is not None:
        report.write_text(page(result, own, table, target), encoding="utf-8")
    return result


def _to_fit(result: Comparison, table: Path, target: str) -> str:
    """Code that fits what was chosen to the encoded rows and the labels of the
    table.
    """
    private = "" if result.data == "public" else ", private=True"
    kinds = [type(step) for step in (result.best, *result.best)]
    doors = sorted(
        {
            f"from {'.'.join(kind.__module__.split('.')[:2])} import {kind.__name__}"
            for kind in kinds
        }
    )
    lines = [
        "from dpnotes.data import load_file",
        *doors,
        "",
        f"X, y = load_file({table.name!r}, target={target!r}{private}).records()",
        f"model = {result.best!r}",
        "model.fit(X, y)",
    ]
    if (choice := result.profile) is not None:
        paid, epsilon = choice.epsilon(0.0), result.task.epsilon
        both = (
            f"The choice cost epsilon {paid:g}; the choice and this fit together have"
            f" epsilon {paid + epsilon:g}."
        )
        lines += [
            "# The statement of the fit alone does not count the choice, but says what"
            " both cost:"
        ]
        lines += [f"model[-1].tuning_ = {both!r}"]
    return "\n".join(lines)


def page(result: Comparison, own: OwnDataset, table: Path, target: str) -> str:
    """The report, as one HTML page without scripts; all that comes from the table's
    file is escaped.
    """
    from matplotlib import pyplot

    drawing = io.StringIO()
    figure = result.plot()
    figure.savefig(drawing, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    svg = drawing.getvalue()
    columns = own_data.public_columns(own).to_html(index=False, border=0)
    title = html.escape(f"{own.name}: which private learner?")
    return (
        '<!doctype html><html lang="en"><head><meta'
        f' charset="utf-8"><title>{title}</title><meta name="viewport"'
        ' content="width=device-width,'
        f' initial-scale=1"><style>{STYLE}</style></head><body><h1>{title}</h1><div'
        f' class="wide">{result._repr_html_()}</div><h2>Accuracy against'
        f' epsilon</h2><div class="wide">{svg[svg.index("<svg") :]}</div><h2>The'
        " estimator to"
        f" fit</h2><pre>{html.escape(_to_fit(result, table, target))}</pre><h2>Public"
        " facts about the columns</h2><div"
        f' class="wide">{columns}</div></body></html>\n'
    )
