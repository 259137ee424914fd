"""Do the chapters notice when rows are wrong? ``python -m tests.row_mutants [CHAPTER]...``; ``--keep`` stores the rows.

Every store that a chapter reads is changed in memory: the metrics of its first method shifted by two standard errors up
or down, or the metrics of all rows shuffled, or put in the reverse order. The chapter's code cells are executed with
it, without figures; it notices if an assertion fails, a cell ends in an error, or a word of verdict in a table changes.
Glued numbers that change are counted, too: they carry a sentence by themselves; so are numbers of tables and pictures,
which carry none. A shift that stays unnoticed is no fault where a verdict rests on intervals. An order that does is
one, unless no sentence of the page rests on it: ``REASONS`` says for each why.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import itertools
import json
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import IPython.display
import joblib
import numpy as np
import pandas as pd

from dpnotes.lab import chapters, experiments, figures, tables
from dpnotes.lab.bagging import cells as bagging
from dpnotes.lab.dpbag import cells as dpbag
from dpnotes.lab.intrinsic_sgd import cells as intrinsic_sgd
from dpnotes.lab.private_prediction import cells as private_prediction
from dpnotes.lab.store import published_store, read_store

CHAPTERS = tuple(chapter.name for chapter in chapters.all_chapters() if "scale" in chapter.parameters)
CHANGES = ("shuffled", "reversed", "up", "down")
METHODS = (
    "method",
    "accountant",
    "noise",
    "record",
    "attack",
    "mode",
    "n_teachers",
    "subsample",
    "dataset",
    "quantity",
)
SEEDS = ("seed", "run", "model")
VERDICT = re.compile(
    r"holds|reversed|ties?|undecided|not testable here|ahead|behind|equal|agrees|explained|unexplained|yes|no|not run|"
    r"up|down|unchanged|up then down|down then up|supports|CONTRADICTS|true|false|↑|↓|=",
    re.IGNORECASE,
)
PICTURE = "they stand in pictures alone: no sentence of the page speaks of them"
REASONS: dict[tuple[str, ...], str] = {  # of orders that a page does not notice: (page, store), or with the change
    ("bagging", "bagging_pate"): PICTURE,
    (
        "dpbag_evidence",
        "dpbag_filtered",
    ): "they stand in a table alone: what is said of them stands in the chapter, which notices",
    ("intrinsic_sgd", "intrinsic_sgd_draws"): "their cells are judged by the scorecard and the evidence page",
    (
        "intrinsic_sgd",
        "intrinsic_sgd_repeats",
        "shuffled",
    ): "the interval of the mixed studies is wider, and still holds "
    "what is printed; the evidence page, which quotes the means, notices",
    ("intrinsic_sgd", "intrinsic_sgd_scaling", "reversed"): "the two scalings that fit, first and last in the store, "
    "change places, as do those that do not",
    ("intrinsic_sgd_evidence", "intrinsic_sgd_cost"): "the sentence quotes the sum of all rows, which no order changes",
    ("intrinsic_sgd_evidence", "intrinsic_sgd_distances"): PICTURE,
    ("intrinsic_sgd_evidence", "intrinsic_sgd_scaling", "reversed"): "the two scalings that fit, first and last in the "
    "store, change places, as do those that do not",
    ("intrinsic_sgd_evidence", "intrinsic_sgd_trajectories"): PICTURE,
    ("private_prediction", "private_prediction_delta", "shuffled"): "as many sentences hold as before, if others; the "
    "evidence page, which lists them, notices",
}


class Told:
    """What one execution of a chapter told: failed assertions and errors, words of verdict, glued values, stores."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.words: list[str] = []
        self.glued: dict[str, str] = {}
        self.seen: list[str] = []  # cells of tables, and what pictures are drawn from
        self.stores: dict[str, list[str]] = {}  # and their metrics

    def check(self, text: str, asserted: Callable[[], object]) -> None:
        """In the place of an assertion: goes on where it fails."""
        try:
            holds = bool(asserted())
        except Exception as error:
            holds, text = False, f"{text}: {type(error).__name__}"
        if not holds:
            self.failed.append(text)

    def show(self, frame: pd.DataFrame, **_: Any) -> None:
        """In the place of a table."""
        cells = [*map(str, frame.to_numpy(dtype=object).ravel())]
        self.seen += cells
        self.words += [text for text in cells if VERDICT.fullmatch(text)]

    def draw(self, *args: Any, **kwargs: Any) -> tuple[()]:
        """In the place of a picture; where panels are looped over, there are none."""
        with contextlib.suppress(Exception):  # axes, functions
            self.seen.append(joblib.hash((args, kwargs)))
        return ()


class _Checks(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        call = ast.parse(f"_told.check({ast.unparse(node.test)!r}, lambda: 0)").body[0]
        call.value.args[1].body = node.test  # type: ignore[attr-defined]
        return ast.copy_location(ast.fix_missing_locations(call), node)


@contextlib.contextmanager
def _reading(told: Told, change: Callable[[str, pd.DataFrame], pd.DataFrame]) -> Iterator[None]:
    """Stores are read through ``change(name, frame)``; tables and glue are told; nothing is drawn."""
    collect, read_csv, folder = experiments.collect, pd.read_csv, published_store("any").parent

    def collected(*args: Any, published: Path, **kwargs: Any) -> pd.DataFrame:
        return change(published.stem, collect(*args, published=published, **kwargs))

    def read(path: Any, *args: Any, **kwargs: Any) -> pd.DataFrame:
        frame = read_csv(path, *args, **kwargs)
        return change(Path(path).stem, frame) if isinstance(path, Path) and path.parent == folder else frame

    def stored(path: Path) -> pd.DataFrame:
        return change(path.stem, read_store(path))

    def quiet(*_: Any, **__: Any) -> None:
        pass

    drawn = [figures, *(m for name, m in sys.modules.items() if re.fullmatch(r"dpnotes\.lab\.\w+\.figures", name))]
    with (
        mock.patch.object(experiments, "collect", collected),
        mock.patch.object(pd, "read_csv", read),
        mock.patch.object(bagging, "collect", collected),
        mock.patch.object(dpbag, "read_store", stored),
        mock.patch.object(intrinsic_sgd, "read_store", stored),
        mock.patch.object(private_prediction, "read_store", stored),
        mock.patch.object(tables, "show", told.show),
        mock.patch.object(chapters, "glue", lambda name, value: told.glued.update({name: str(value)})),
        mock.patch.object(chapters, "show_source", quiet),
        mock.patch.object(IPython.display, "display", quiet),
    ):
        kept = [(module, name, value) for module in drawn for name, value in vars(module).items()]
        try:
            for module, name, value in kept:
                if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                    setattr(module, name, told.draw)
            yield
        finally:
            for module, name, value in kept:
                setattr(module, name, value)


def told_by(name: str, change: Callable[[str, pd.DataFrame], pd.DataFrame] = lambda _, frame: frame) -> Told:
    """Execute a chapter's code cells in this process, with changed stores; what its tables and assertions say."""
    told = Told()

    def changed(store: str, frame: pd.DataFrame) -> pd.DataFrame:
        told.stores.setdefault(store, metrics(store, frame))
        return change(store, frame)

    chapter = chapters.chapter(name)
    cells = [c for c in json.loads(chapter.source.read_text())["cells"] if c["cell_type"] == "code"]
    space: dict[str, Any] = {"__name__": "__main__", "_told": told, "display": lambda *_, **__: None}
    with _reading(told, changed), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for number, cell in enumerate(cells):
            tree = _Checks().visit(ast.parse("".join(cell["source"])))
            try:
                exec(compile(tree, f"{name}, cell {number}", "exec"), space)
            except Exception as error:
                told.failed.append(f"cell {number}: {type(error).__name__}: {error}")
            if number == 0:
                space |= chapter.book_parameters
    return told


def metrics(store: str, frame: pd.DataFrame) -> list[str]:
    """Numbers that a store's rows measure: the columns of an experiment's rows between ``seconds`` and ``data``."""
    names, path = [*frame.columns], published_store(store)
    if store in experiments.EXPERIMENTS:
        if not path.is_file():  # a gap
            return []
        stored = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
        named = stored[stored.index("seconds") + 1 : stored.index("data")]
    else:
        named = [name for name in names if name.startswith(("delta", "epsilon", "ratio"))]
    return [name for name in named if name in names and frame[name].dtype.kind in "iuf"]


def mutated(frame: pd.DataFrame, measured: list[str], change: str) -> pd.DataFrame:
    """Rows with the metrics of the first method shifted by two standard errors, or of all rows in another order."""
    if change in ("shuffled", "reversed"):
        order = (
            np.random.default_rng(0).permutation(len(frame)) if change == "shuffled" else np.arange(len(frame))[::-1]
        )
        return frame.assign(**{name: frame[name].to_numpy()[order] for name in measured})
    column = next((name for name in METHODS if _varies(frame, name)), None)
    first = frame[column] == frame[column].dropna().iloc[0] if column else pd.Series(True, index=frame.index)
    sign = 1.0 if change == "up" else -1.0
    shifted = {
        name: frame[name].astype(float) + sign * 2 * standard_error(frame[first], name) * first for name in measured
    }
    return frame.assign(**shifted)


def standard_error(frame: pd.DataFrame, metric: str) -> float:
    """Of a mean over runs that differ in the seed alone; a hundredth of the value where there is one run of each."""
    values = frame[metric].astype(float)
    if f"{metric}_std" in frame and "repeats" in frame:
        return float((frame[f"{metric}_std"] / frame["repeats"] ** 0.5).mean())
    if seed := next((name for name in SEEDS if _varies(frame, name)), None):
        one = frame.groupby(seed)[metric].mean().astype(float)
        return float(one.std() / len(one) ** 0.5)
    return 0.01 * float(values.abs().mean())


def _varies(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and len(frame[name].dropna().unique()) > 1


def tried(chapter: str, changes: Sequence[str] = CHANGES) -> Iterator[dict[str, object]]:
    """Rows of the table: each store of a chapter, each change."""
    base, again = told_by(chapter), told_by(chapter)
    steady = {name: value for name, value in base.glued.items() if again.glued.get(name) == value}  # not a time
    if base.failed:
        raise ValueError(f"{chapter} must pass with its own rows, got {base.failed}")
    timed = _differ(base.seen, again.seen)  # what the page itself trains and times
    for store, measured in base.stores.items():
        for change in changes if measured else ():
            told = told_by(
                chapter,
                lambda name, frame, store=store, measured=measured, change=change: (
                    mutated(frame, measured, change) if name == store else frame
                ),
            )
            glued = sum(told.glued.get(name) != value for name, value in steady.items())
            found = {"failed": len(set(told.failed)), "verdicts": _differ(base.words, told.words), "glued": glued}
            row = {"chapter": chapter, "store": store, "change": change, **found, "noticed": any(found.values())}
            unseen = change in ("shuffled", "reversed") and not row["noticed"]
            reasons = (REASONS.get(key, "") for key in ((chapter, store), (chapter, store, change)))
            seen = max(0, _differ(base.seen, told.seen) - timed)
            yield {**row, "seen": seen, "reason": "".join(reasons) if unseen else ""}


def _differ(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(a != b for a, b in itertools.zip_longest(one, other))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", default=CHAPTERS, metavar="CHAPTER")
    parser.add_argument("--keep", action="store_true", help="store the rows in book/results/row_mutants.csv")
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=CHANGES)
    given = parser.parse_args()
    path = published_store("row_mutants")
    for chapter in given.chapters:
        rows = []
        for row in tried(chapter, given.changes):
            print(*row.values(), flush=True)
            rows.append(row)
        if given.keep:
            before = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=["chapter"])
            draft = path.with_suffix(".new")
            pd.concat([before[before["chapter"] != chapter], pd.DataFrame(rows)]).to_csv(draft, index=False)
            os.replace(draft, path)  # whole or not at all
        missed = [f"{row['store']} {row['change']}" for row in rows if not row["noticed"]]
        print(f"{chapter}: {len(rows)} changes, {len(missed)} without a notice: {', '.join(missed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
