"""A reader's own table: a ``.csv`` or ``.npz`` file, each row encoded separately by
public bounds and categories.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes._validation import CONTINUOUS, MOST_CLASSES, Booleans
from dpnotes.data._dataset import Dataset, cut

MOST = MOST_CLASSES  # also of a column's categories
LARGEST = sys.float_info.max
# records, and records of each class: so that each third of a file has some
LEAST = 200
OF_EACH = 30
# of cells that nothing declares
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>")
READERS = {
    ".xlsx": "excel",
    ".xls": "excel",
    ".ods": "excel",
    ".parquet": "parquet",
    ".sav": "spss",
    ".dta": "stata",
}
UNDECLARED = "must be declared"
ADVICE = (
    "must give [low, high] for numbers, [1900-01-01, 2010-01-01] for dates and"
    " categories for text"
)
Known = tuple[float, float] | tuple[date, date] | tuple[str, ...]
NUMBERS = "numbers: [low, high]"
REST = "*"  # in the file of what is public: every other column of numbers


@dataclass(frozen=True)
class PublicColumn:
    """One column of features, with its public bounds or categories.

    Parameters
    ----------
    name : str
    known : tuple of float, tuple of datetime.date or tuple of str
        Bounds (low, high) of a column of numbers or dates, or the categories.
    given : bool
        Whether ``known`` was declared beforehand. If False, it was inferred from the
        records themselves, and no guarantee covers that step.
    unread : int
        Number of values that are missing, or not as declared: they count as the middle
        of the bounds, or as none of the categories. This number is as private as the
        records.
    """

    name: str
    known: Known
    given: bool
    unread: int = 0

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers or dates, rather than categories."""
        return not isinstance(self.known[0], str)

    @property
    def n_features(self) -> int:
        """One, or one for each category."""
        return 1 if self.is_number else len(self.known)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDataset(Dataset):
    """Data set from a file, with its public facts; numbers are in [-1, 1], and
    categories are indicators.

    Parameters
    ----------
    columns : tuple of PublicColumn
        Columns in the order of the file; a column of categories has one feature for
        each category.
    classes_given : bool
        Whether the classes were declared beforehand.
    test : ndarray of bool, shape [n]
        Whether each record, in the order of the file, is a test record.
    left_out : int
        Number of records of a public table that were left out because their label is
        missing or not among the classes.
    """

    columns: tuple[PublicColumn, ...]
    classes_given: bool
    test: Booleans
    left_out: int = 0

    @property
    def bound(self) -> float:
        """Square root of the number of columns; no row has a larger norm, whatever
        it contains.
        """
        return float(np.sqrt(len(self.columns)))

    @property
    def labels(self) -> NDArray[Any]:
        """Labels by class code, as numbers if all are numbers; the last entry is for
        empty records, not for a class.
        """
        numbers = pd.to_numeric(
            pd.Series(self.class_names, dtype=object), errors="coerce"
        )
        # "01" is a code, not a number
        padded = any(re.match(r"0\d", name) for name in self.class_names)
        if not (padded or numbers.isna().any()):
            labels = np.append(numbers, numbers.max().item() + 1)
            # the largest numbers have no next one in their dtype
            if len(np.unique(labels)) == len(labels):
                return labels
        return np.array([*self.class_names, ""])

    @property
    def encoding(self) -> tuple[PublicColumn, ...]:
        """Columns in a form that a release can contain, without their private counts of
        unread values.

        Raises
        ------
        ValueError
            If the bounds or categories of a column were inferred from the records.
        """
        # bounds and categories taken from the records would be released with the model
        if inferred := [column.name for column in self.columns if not column.given]:
            raise ValueError(
                "columns must be declared before they are released, got"
                f" {_list(inferred)}, inferred from the records"
            )
        return tuple(replace(column, unread=0) for column in self.columns)

    def records(self) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Features [n, d] of all records and their labels [n], in the order of the
        file.
        """
        # the place of each record, where the test records follow all others
        place = np.argsort(np.argsort(self.test, kind="stable"))
        X = np.concatenate([self.X_train, self.X_test])
        y = np.concatenate([self.y_train, self.y_test])
        return X[place], self.labels[y[place]]

    def unread(self) -> list[str]:
        """List of sentences that count the labels and values that are missing or not
        as declared; it may be empty.
        """
        labels = np.concatenate([self.y_train, self.y_test])
        empty = self.left_out + int((labels == self.n_classes).sum())
        told = (
            f"records with a label that is missing or not among the classes ({empty} in"
            " all) contribute nothing"
        )
        return [told] * bool(empty) + _told(self.columns)


def load_file(
    path: str | Path, *, target: str = "", private: bool = False
) -> OwnDataset:
    r"""Load your own table, whose rows may be private; each row is encoded separately,
    by public facts.

    The transformers of :mod:`dpnotes.preprocessing` map numbers from public bounds to
    [-1, 1], and text and truth values to indicators of public categories. Bounds,
    categories and classes are read from a file in the same folder as the table,
    ``NAME.toml``::

        classes = ["no", "yes"]       # in the order of their codes

        [columns]                     # only these columns are features; without this table, all columns are
        age = [0, 120]                # bounds
        born = [1900-01-01, 2010-01-01]  # bounds of dates, written YYYY-MM-DD in the table
        job = ["baker", "nurse"]      # categories; any other value belongs to none of them
        "*" = [0, 1]                  # every other column of numbers

    Each cell is read separately. It belongs to the category with the same text. If
    there is none, it belongs to the category with the same value, but only if exactly
    one category has this value: "1.0" counts as "1" or as "01", whichever of them is a
    category, but if both are, it belongs to no category. Facts that the file does not
    declare are inferred from the records, as if they were public, and no guarantee
    covers that step. The attribute ``columns`` of the result shows which facts were
    inferred. The method ``records`` keeps the order of the file. Every fifth record, drawn by ``default_rng(0)``, is a test record.

    A value that is missing, or not as declared, does not raise an error: it counts as
    the middle of the bounds, or as none of the categories. The attribute ``columns``
    has the number of these values. A record whose label is missing or not among the
    classes is empty. By default the table is public: the function leaves empty records
    out, and the attribute ``left_out`` is their number.

    Parameters
    ----------
    path : str or Path
        File ``.csv`` with a header, or ``.npz`` with numbers ``X`` [n, d], whose
        columns are called "0", "1" and so on.
    target : str
        Column, or array, of the classes; by default the last column, or ``y``.
    private : bool
        If True, faulty records do not decide whether the table can be used, unless all
        records are faulty. Public facts must then be declared, and an empty record
        keeps its place, with the number of classes as its code. If all records are
        faulty, or a line is damaged, an error is raised without noise. No guarantee
        covers these errors: they are checks for the person who holds the table, before
        any release.

    Returns
    -------
    OwnDataset

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not such a table. The message lists all faults by column; it does
        not show a value of a record. If a required declaration is missing, the message
        has a draft of ``NAME.toml``.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"age": np.arange(300) % 90, "job": ["nurse", "baker", "cook"] * 100}
    ... )
    >>> table.assign(ill=table["age"] > 50).to_csv(tmp / "mine.csv", index=False)
    >>> _ = (tmp / "mine.toml").write_text(
    ...     "[columns]\nage = [0, 120]\njob = ['baker', 'cook', 'nurse']"
    ... )
    >>> mine = load_file(tmp / "mine.csv", target="ill")
    >>> mine.n_train, mine.feature_names, mine.class_names
    (240, ('age', 'job=baker', 'job=cook', 'job=nurse'), ('False', 'True'))
    """
    path = Path(path)
    table, target = _read(path, target)
    beside = path.with_suffix(".toml")
    public = _public(beside)
    faults: list[str] = []
    y, classes = _classes(table, target, public.get("classes"), faults, private=private)
    columns = _columns(
        table.drop(columns=target, errors="ignore"),
        public.get("columns"),
        faults,
        private=private,
    )
    # an empty record of a private table keeps its place, as it does in a fit
    there = np.ones(len(y), dtype=bool)
    if classes and not private:
        there = y < len(classes)
    table = table[there]
    y = y[there]
    if len(table) < LEAST:
        faults.append(f"there must be at least {LEAST} records")
    if sum(column.n_features for column in columns) > len(table):
        faults.append("there are more features than records: is the table transposed?")
    if faults:
        # all faults at once, and no value of a record
        told = "\n- ".join([f"{path} cannot be used:", *faults])
        told += f"\n{beside.name} {ADVICE}"
        if any(UNDECLARED in fault for fault in faults):
            told += (
                "\nFill in the blanks of this draft with what is known without the"
                f" records:\n\n{_draft(table, target, public)}"
            )
        raise ValueError(told)
    X, names, counted = _encoded(table, columns)
    test = np.zeros(len(table), dtype=bool)
    order = np.random.default_rng(0).permutation(len(table))
    test[order[: len(table) // 5]] = True
    # other declarations or another target give other data
    total = hashlib.sha256(path.read_bytes())
    if beside.is_file():
        total.update(beside.read_bytes())
    total.update(target.encode())
    return OwnDataset(
        name=path.stem,
        split="own",
        class_names=classes,
        feature_names=names,
        digest=f"{path.name}:{total.hexdigest()[:12]}",
        columns=counted,
        classes_given="classes" in public,
        test=test,
        left_out=int((~there).sum()),
        **cut(X, y, {"train": ~test, "test": test}),
    )


def encode_file(
    path: str | Path, encoding: Iterable[PublicColumn]
) -> NDArray[np.float32]:
    r"""Encode the records of another file, such as new patients, as :func:`load_file`
    does.

    Parameters
    ----------
    path : str or Path
        File as in :func:`load_file`, with any number of records; it needs no labels,
        and other columns are ignored.
    encoding : iterable of PublicColumn
        The ``encoding`` of the data set that the model was fitted to.

    Returns
    -------
    ndarray of float32, shape [n, d]
        Features in the order that the model expects, one row for each record of the
        file. A warning counts the values that are missing or not as declared.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, or the file is not a table.

    Examples
    --------
    >>> _ = (tmp / "new.csv").write_text("name,job,age\nAda,nurse,30\n")
    >>> columns = (
    ...     PublicColumn("age", (0.0, 120.0), True),
    ...     PublicColumn("job", ("baker", "nurse"), True),
    ... )
    >>> encode_file(tmp / "new.csv", columns).tolist()
    [[-0.5, 0.0, 1.0]]
    """
    # labels are not needed
    table, _ = _read(Path(path), "")
    columns = list(encoding)
    if missing := [column.name for column in columns if column.name not in table]:
        raise ValueError(
            f"{path} must have the columns that the model was fitted to, got none named"
            f" {_list(missing)}"
        )
    X, _, counted = _encoded(table, columns)
    # of new records, which are not in the guarantee
    for told in _told(counted):
        warnings.warn(f"{path}: {told}", stacklevel=2)
    return X


def _told(columns: Sequence[PublicColumn]) -> list[str]:
    """A sentence that counts the unread values by column, if there are any."""
    counts = [f"{each.unread} of {each.name!r}" for each in columns if each.unread]
    how = "count as the middle of the bounds or as none of the categories"
    told = f"values that are missing or not as declared ({', '.join(counts)}) {how}"
    return [told] * bool(counts)


def draft(path: str | Path, target: str = "") -> str:
    r"""Draft of the file ``NAME.toml`` that declares the public facts of a table, with
    blanks.

    For each column it says whether most of the values are numbers, dates or text. This
    is the only fact that it takes from the records.

    Parameters
    ----------
    path : str or Path
        The file of the table.
    target : str
        See :func:`load_file`.

    Examples
    --------
    >>> _ = (tmp / "few.csv").write_text("age,job,ill\n41,nurse,no\n,baker,yes\n")
    >>> print(draft(tmp / "few.csv"))
    classes = []  # all labels of ill, as ["no", "yes"]
    [columns]  # delete the lines of names and identifiers
    "age" = []  # numbers: [low, high]
    "job" = []  # text: categories, as ["a", "b"]
    """
    table, target = _read(Path(path), target)
    return _draft(table, target, _public(Path(path).with_suffix(".toml")))


def _draft(table: pd.DataFrame, target: str, public: Mapping[str, Any]) -> str:
    given = public.get("columns", {REST: None})
    classes = _toml(public.get("classes") or [])
    lines = [f'classes = {classes}  # all labels of {target}, as ["no", "yes"]']
    lines.append("[columns]  # delete the lines of names and identifiers")
    # what a star declares holds for all columns of numbers without a line
    rest = given.get(REST)
    for name in map(str, table):
        if name == target or (name not in given and REST not in given):
            continue
        kind = _kind(table[name])
        known = given.get(name) or []
        # the star stands for it
        if not known and rest and kind == NUMBERS:
            continue
        lines.append(f"{_toml(name)} = {_toml(known)}  # {kind}")
    if rest:
        lines.append(f'"*" = {_toml(rest)}  # every other column of numbers')
    return "\n".join(lines)


def _toml(known: Any) -> str:
    if _are_dates(known):
        return f"[{known[0]}, {known[1]}]"
    return json.dumps(known, ensure_ascii=False, default=str)


def _kind(values: pd.Series) -> str:
    """What most of the values are, and how that is declared."""
    there = values[~values.map(_cell).isin(MISSING)]
    # most, because a few cells may say "unknown"
    if _numbers(there).notna().mean() > 0.5:
        return NUMBERS
    day = date(1970, 1, 1)
    if _values(there, (day, day)).notna().mean() > 0.5:
        return "dates: [1900-01-01, 2010-01-01]"
    return 'text: categories, as ["a", "b"]'


def _read(path: Path, target: str) -> tuple[pd.DataFrame, str]:
    """Read the table with all its columns, and the name of the target column."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if path.suffix == ".csv":
            names = _header(path)
            # every cell is read as text, so that none decides how others are read;
            # a line that is longer gives a warning
            with warnings.catch_warnings(
                action="error", category=pd.errors.ParserWarning
            ):
                table = pd.read_csv(
                    path,
                    skipinitialspace=True,
                    index_col=False,
                    dtype=object,
                    na_filter=False,
                )
            if doubled := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(
                    f"{path} must have columns of distinct names, got {_list(doubled)}"
                    " twice"
                )
            table.columns = table.columns.astype(str)
            return table, target or (table.columns[-1] if len(table.columns) else "")
        if path.suffix == ".npz":
            # numpy would try to unpickle it
            if not zipfile.is_zipfile(path):
                raise EOFError
            return _arrays(path, target or "y")
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        # pandas says the line, and words that would tell of cells
        place = next(iter(re.findall(r"(?:line|row) \d+", str(error))), "a line")
        raise ValueError(
            f"{path} is damaged: {place} has too many cells, or a quotation mark is"
            " open"
        ) from None
    except (pd.errors.EmptyDataError, zipfile.BadZipFile, EOFError):
        raise ValueError(f"{path} is empty, or a damaged {path.suffix} file") from None
    how = _converted(path, READERS[path.suffix]) if path.suffix in READERS else ""
    raise ValueError(f"a table must be a .csv or .npz file, got {path}{how}")


def _converted(path: Path, reader: str = "csv", how: str = "") -> str:
    """The line of pandas code that makes a CSV file of another one."""
    plain = path.with_name(f"{path.stem}_plain.csv")
    made = f"pd.read_{reader}({str(path)!r}{how}).to_csv({str(plain)!r}, index=False)"
    return f"; pandas can make such a file: {made}"


def _header(path: Path) -> list[str]:
    """Names of the columns of a CSV file in UTF-8; for another file, an error that
    says how to convert it.
    """
    content = path.read_bytes()
    # arguments of read_csv that the file needs
    how = ""
    # how gzip and zip archives begin, and spreadsheets with them
    if content.startswith((b"\x1f\x8b", b"PK")):
        raise ValueError(
            f"{path} is compressed, or a file of another program with the ending .csv:"
            " unpack it"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        encoding = (
            "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin-1"
        )
        text = content.decode(encoding, errors="replace")
        how = f", encoding={encoding!r}"
    # readers end a line there, writers do not quote it: one record would become two
    if re.search(r"\r(?!\n)", text):
        raise ValueError(
            f"{path} is damaged: a carriage return stands without a line feed; replace"
            " it by a space"
        )
    # the separator that occurs most often in the first line
    header = text.partition("\n")[0]
    if (separator := max(",;\t|", key=header.count)) != ",":
        how += f", sep={separator!r}" + ", decimal=','" * (separator != "|")
    if how:
        must = (
            "must be in UTF-8, with commas between its cells and points in its numbers"
        )
        raise ValueError(
            f"{path} {must}{_converted(path, how=how)} (or another encoding=, and"
            " decimal='.')"
        )
    return next(csv.reader([header]), [])


def _arrays(path: Path, target: str) -> tuple[pd.DataFrame, str]:
    with np.load(path, allow_pickle=False) as arrays:
        if not {"X", target} <= set(arrays):
            raise ValueError(
                f"{path} must have the arrays X and {target}, got {_list(arrays)}"
            )
        X = arrays["X"]
        y = arrays[target]
    if X.ndim != 2 or y.shape != (len(X),) or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} must have numbers X [n, d] and {target} [n], got X of {X.dtype}"
            f" {X.shape}, {target} {y.shape}"
        )
    table = pd.DataFrame(
        X.astype(np.float64), columns=[str(i) for i in range(X.shape[1])]
    )
    table[target] = y
    return table, target


def _public(beside: Path) -> dict[str, Any]:
    """Public facts that are declared; an empty dict if there are none."""
    if not beside.is_file():
        return {}
    try:
        public = tomllib.loads(beside.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{beside} is not a TOML file: {error}") from error
    are_right = isinstance(public.get("columns", {}), dict)
    are_right = are_right and isinstance(public.get("classes", []), list)
    if not are_right or public.keys() - {"columns", "classes"}:
        raise ValueError(
            f"{beside} may only hold classes = [...] and a table [columns], got"
            f" {_list(public)}"
        )
    return public


def _classes(
    table: pd.DataFrame,
    target: str,
    given: list[Any] | None,
    faults: list[str],
    *,
    private: bool,
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes [n] of the classes, and their names; the function adds any faults to
    ``faults``.
    """
    labels = table[target].map(_cell) if target in table else None
    nothing = np.zeros(len(table), np.int64), ()
    if labels is None:
        faults.append(
            f"there is no column {target!r} for the target; there are"
            f" {_list(table.columns)}"
        )
        return nothing
    if private and not given:
        faults.append(f"classes {UNDECLARED}")
        return nothing
    # cells that nothing declares a category
    there = labels[~labels.isin(MISSING)]
    if there.empty and len(labels):
        faults.append(f"all values of the target {target!r} are missing")
    classes = tuple(map(str, given)) if given else tuple(_distinct(there))
    # an empty cell is a missing label
    if "" in classes or not 2 <= len(set(classes)) == len(classes) <= MOST:
        is_ = f"must have 2 to {MOST} classes, each with a name"
        if not given and len(classes) > MOST and _numbers(there).notna().all():
            is_ = f"is {CONTINUOUS}"
        faults.append(f"the target {target!r} {is_}")
        return nothing
    # len(classes) is the code of a label that is none of them
    codes = _codes(labels, classes)
    if (codes == len(classes)).all():
        faults.append(
            f"no value of the target {target!r} is among classes = {list(classes)}"
        )
    # of a private table the number of records of a class is a secret
    sizes = np.bincount(codes, minlength=len(classes))[: len(classes)]
    if not private and sizes.min() < OF_EACH:
        faults.append(f"a class of {target!r} has fewer than {OF_EACH} records")
    return codes, classes


def _columns(
    table: pd.DataFrame,
    given: Mapping[str, Any] | None,
    faults: list[str],
    *,
    private: bool,
) -> list[PublicColumn]:
    """Columns of features with their public facts; the function adds any faults to
    ``faults``.
    """
    # without a table [columns], all columns are features
    given = {REST: None} if given is None else given
    if unknown := [name for name in given if name not in table and name != REST]:
        faults.append(
            f"the table [columns] names columns {_list(unknown)} that the file does not"
            " have"
        )
    # names of the columns by their fault, so that each fault is said once
    wrong: dict[str, list[str]] = {}
    found = []
    for name in map(str, table):
        if name not in given and REST not in given:
            continue
        # a blank of the draft declares nothing
        said = given.get(name) or None
        cells = table[name].map(_cell)
        numbers = _values(table[name], said)
        # "None" is a category if it was declared as one
        there = ~cells.isin(MISSING)
        if isinstance(said, list):
            there |= cells.isin(said)
        if said is None and (private or numbers[there].notna().all()):
            said = given.get(REST) or None
        # what the records would tell must be declared
        if private and said is None:
            known: Known | str = UNDECLARED
        elif not there.any():
            known = "all values are missing"
        elif said is None:
            # no guarantee covers this
            known = _from_records(cells[there], numbers[there])
        else:
            known = _said(said, has_numbers=bool(numbers.notna().any()))
        if isinstance(known, str):
            wrong.setdefault(known, []).append(name)
        else:
            found.append(PublicColumn(name, known, said is not None))
    for fault, names in wrong.items():
        faults.append(f"column{'s' * (len(names) > 1)} {_list(names)}: {fault}")
    if not wrong and not found:
        faults.append("there are no columns of features")
    return found


def _from_records(cells: pd.Series, numbers: pd.Series) -> Known | str:
    """Bounds or categories inferred from the present values, or the fault as one
    text.
    """
    finite = numbers[np.isfinite(numbers)]
    are_numbers = numbers.notna()
    if (finite if are_numbers.all() else cells).nunique() < 2:
        return "constant"
    if are_numbers.all():
        return float(finite.min()), float(finite.max())
    if are_numbers.any():
        return (
            "numbers and text: declare [low, high] (text then counts as missing) or the"
            " categories"
        )
    if cells.nunique() > MOST:
        return f"text of more than {MOST} categories"
    return tuple(_distinct(cells))


def _said(known: Any, *, has_numbers: bool) -> Known | str:
    """Declared bounds or categories of a column, or the fault as one text."""
    if _are_dates(known):
        if not has_numbers:
            return "the bounds are dates, but no value is a date such as 1990-12-31"
        if known[0] < known[1]:
            return known[0], known[1]
    elif _are(known, int, float) and len(known) == 2:
        if not has_numbers:
            return (
                "text or dates, which need categories or dates as bounds; numbers must"
                " have points, not commas"
            )
        if -LARGEST <= known[0] < known[1] <= LARGEST:
            return float(known[0]), float(known[1])
    elif _are(known, str, bool):
        categories = tuple(map(str, known))
        if all(re.fullmatch(r"\d{4}-\d\d-\d\d", name) for name in categories):
            return "dates as bounds are written without quotation marks"
        if len(set(categories)) == len(categories) > 1:
            return categories
    return (
        "the entry must be [low, high] with low < high, numbers or dates, or at least"
        " two categories as text"
    )


def _encoded(
    table: pd.DataFrame, columns: Iterable[PublicColumn]
) -> tuple[NDArray[np.float32], tuple[str, ...], tuple[PublicColumn, ...]]:
    """Features of all records, float32 [n, d], their names, and the columns with a
    count of unread values.
    """
    from dpnotes.preprocessing import PublicOneHot, PublicScaler, RowTransformer

    parts = []
    names = []
    counted = []
    for column in columns:
        values = table[column.name]
        if column.is_number:
            low, high = _values(column.known, column.known)
            step: RowTransformer = PublicScaler(low, high)
            cells = _values(values, column.known).to_numpy(np.float64)[:, None]
            # dates and numbers have one feature
            names.append(column.name)
        else:
            step = PublicOneHot(range(len(column.known)))
            cells = _codes(values.map(_cell), column.known)[:, None]
            names += [f"{column.name}={category}" for category in column.known]
        parts.append(step.fit_transform(cells))
        counted.append(replace(column, unread=int(step.unread(cells)[0])))
    return (
        np.ascontiguousarray(np.hstack(parts), dtype=np.float32),
        tuple(names),
        tuple(counted),
    )


def _cell(value: Any) -> str:
    """One value as text, regardless of its column: whole numbers without a point,
    and one form for truth values.
    """
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return ""
        # numbers of an .npz file: "1" and "1.0" are one category
        if float(value).is_integer():
            return str(int(value))
        # the shortest text that is read as the same number
        return repr(float(value))
    text = str(value).strip()
    return text.capitalize() if text.lower() in ("true", "false") else text


def _numbers(values: pd.Series) -> pd.Series:
    """Each value as a float; NaN if it is not a number."""
    return pd.to_numeric(values, errors="coerce").astype(np.float64)


def _are(known: Any, *types: type) -> bool:
    # by the type itself: a truth value is an integer, too, and a time a date
    return isinstance(known, list | tuple) and {*map(type, known)} <= {*types}


def _are_dates(known: Any) -> bool:
    return _are(known, date) and len(known) == 2


def _values(values: Any, known: Any) -> pd.Series:
    """Each value as a float, NaN if it is none: days since 1970 if the bounds are
    dates.
    """
    if not _are_dates(known):
        return _numbers(pd.Series(values))
    # read separately, so that no value decides how another one is read
    return pd.Series(values).astype(str).map(_day).astype(float)


def _day(text: str) -> float:
    """Days from 1970 to a date such as 2020-12-31; NaN for any other text."""
    try:
        found = datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        return math.nan
    return float((found - datetime(1970, 1, 1)).days)


def _codes(cells: pd.Series, known: Iterable[Any]) -> NDArray[np.int64]:
    """Place of each cell among the known names, by its text or else by its value;
    ``len(names)`` if it has none.
    """
    names = [_cell(name) for name in known]
    exact = {name: code for code, name in enumerate(names)}
    values = dict[float, int]()
    for code, value in enumerate(_numbers(pd.Series(names, dtype=object))):
        # what two of them are tells neither
        values[value] = len(names) if value in values else code
    # each text is read once, however many cells have it
    distinct = pd.Series(cells.unique(), dtype=object)
    places = {}
    for cell, value in zip(distinct, _numbers(distinct), strict=True):
        places[cell] = exact.get(cell, values.get(value, len(names)))
    return np.asarray(cells.map(places), dtype=np.int64)


def _distinct(cells: pd.Series) -> list[str]:
    """Distinct labels, sorted by size if they are numbers and alphabetically if they
    are text.
    """
    # "10" comes after "2"
    distinct = pd.Series(cells.unique(), dtype=object)
    numbers = _numbers(distinct)
    if numbers.isna().any():
        return sorted(distinct)
    return [_cell(number) for number in np.unique(numbers)]


def _list(names: Iterable[object]) -> str:
    shown = [repr(str(name)) for name in names]
    if len(shown) > 20:
        shown = [", ".join(shown[:20]) + f" and {len(shown) - 20} more"]
    return ", ".join(shown)
