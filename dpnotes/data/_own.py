"""A reader's own table: a ``.csv`` or ``.npz`` file, each row encoded separately by public bounds and categories."""

from __future__ import annotations

import csv
import hashlib
import tomllib
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import Dataset, cut

if TYPE_CHECKING:
    import pandas as pd

MOST = 50  # categories of a column, and classes
LEAST, OF_EACH = 200, 30  # records, and records of each class: so that each third of a file has some
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>")  # of cells that nothing declares
MISSES = "missing values: leave such records out, or fill them by a rule that looks at one record"
INFINITE = "infinite numbers"
UNDECLARED = 'must be declared: "{}" = [low, high] or [categories]; or declare that the records are public'
REST = "*"  # in the file of what is public: every other column of numbers


@dataclass(frozen=True)
class PublicColumn:
    """One column of features, with its public bounds or categories.

    Parameters
    ----------
    name : str
    known : tuple of float or tuple of str
        Bounds (low, high) of a numeric column, or the categories.
    given : bool
        Whether ``known`` was declared beforehand. If False, it was inferred from the records themselves, and no
        guarantee covers that step.
    """

    name: str
    known: tuple[float, float] | tuple[str, ...]
    given: bool

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, rather than categories."""
        return not isinstance(self.known[0], str)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDataset(Dataset):
    """Data set from a file, with its public facts; numbers are in [-1, 1], and categories are indicators.

    Parameters
    ----------
    columns : tuple of PublicColumn
        Columns in the order of the file; a column of categories has one feature for each category.
    classes_given : bool
        Whether the classes were declared beforehand.
    """

    columns: tuple[PublicColumn, ...]
    classes_given: bool

    @property
    def bound(self) -> float:
        """Norm that no row exceeds, whatever it contains: the square root of the number of columns."""
        return float(np.sqrt(len(self.columns)))


def load_file(path: str | Path, *, target: str = "", private: bool = False) -> OwnDataset:
    r"""Load your own table: its rows are private, and the function encodes each row separately, with public facts.

    The transformers of :mod:`dpnotes.preprocessing` map numbers from public bounds to [-1, 1], and text and truth
    values to indicators of public categories. Bounds, categories and classes are read from a file in the same folder as
    the table, ``NAME.toml``::

        classes = ["no", "yes"]       # in the order of their codes

        [columns]                     # other columns are not features; without this table all are
        age = [0, 120]                # bounds
        job = ["baker", "nurse"]      # categories; any other value belongs to none of them
        "*" = [0, 1]                  # every other column of numbers

    Each cell is read separately. Its text is used, or its value if only the value matches a category ("1.0" counts as
    "1", or as "01" if there is no "1"). Facts that the file does not declare are inferred from the records, as if they
    were public, and no guarantee covers that step: ``columns`` of the result shows which facts these are. Every fifth
    record, drawn by ``default_rng(0)``, is a test record.

    Parameters
    ----------
    path : str or Path
        File ``.csv`` with a header, or ``.npz`` with numbers ``X`` [n, d], whose columns are called "0", "1" and so on.
    target : str
        Column, or array, of the classes; by default the last column, or ``y``.
    private : bool
        Whether no record may decide if the table can be used, unless all records are wrong. Public facts must then be
        declared. A record whose label is not among the classes is an empty record, whose code is the number of classes.
        A value that is missing in another record counts as the middle of the bounds, or as no category. The error that
        all records are wrong is raised without noise, and no guarantee covers it: it is a check for the person who
        holds the table, before any release. By default a table with such a record raises an error.

    Returns
    -------
    OwnDataset

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not such a table. The message lists all faults by column; it does not show a value of a record.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": np.arange(300) % 90, "job": ["nurse", "baker", "cook"] * 100})
    >>> table.assign(ill=table["age"] > 50).to_csv(tmp / "mine.csv", index=False)
    >>> _ = (tmp / "mine.toml").write_text("[columns]\nage = [0, 120]\njob = ['baker', 'cook', 'nurse']")
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
    columns = _columns(table.drop(columns=target, errors="ignore"), public.get("columns"), faults, private=private)
    if len(table) < LEAST:
        faults.append(f"there must be at least {LEAST} records")
    if sum(1 if column.is_number else len(column.known) for column in columns) > len(table):
        faults.append("there are more features than records: is the table transposed?")
    if faults:
        raise ValueError(
            f"{path} cannot be used:\n"
            + "\n".join(f"- {fault}" for fault in faults)
            + f"\nIn {beside.name} give [low, high] for each numeric column (even a constant one), and categories for "
            "each text column; dates may be days since a public date; a table [columns] leaves out all other columns"
        )
    X, names = _encoded(table, columns)
    test = np.zeros(len(table), dtype=bool)
    test[np.random.default_rng(0).permutation(len(table))[: len(table) // 5]] = True
    total = hashlib.sha256(path.read_bytes() + (beside.read_bytes() if beside.is_file() else b"") + target.encode())
    return OwnDataset(
        name=path.stem,
        split="own",
        class_names=classes,
        feature_names=names,
        digest=f"{path.name}:{total.hexdigest()[:12]}",
        columns=tuple(columns),
        classes_given="classes" in public,
        **cut(X, y, {"train": ~test, "test": test}),
    )


def _read(path: Path, target: str) -> tuple[pd.DataFrame, str]:
    """The table with all its columns, and the name of the target among them."""
    import pandas as pd

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                names = next(csv.reader(file), [])
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):  # of lines that are longer
                table = pd.read_csv(path, skipinitialspace=True, index_col=False, dtype=object, na_filter=False)
            if doubled := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{path} must have columns of distinct names, got {_list(doubled)} twice")
            table.columns = table.columns.astype(str)
            return table, target or (table.columns[-1] if len(table.columns) else "")
        if path.suffix == ".npz":
            if not zipfile.is_zipfile(path):
                raise EOFError
            return _arrays(path, target or "y")
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, UnicodeDecodeError,
            zipfile.BadZipFile, EOFError):  # fmt: skip
        raise ValueError(f"{path} cannot be read: it is not a {path.suffix} file, or it is damaged") from None
    raise ValueError(f"a table must be a .csv or .npz file, got {path}")


def _arrays(path: Path, target: str) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    with np.load(path, allow_pickle=False) as arrays:
        missing = [name for name in ("X", target) if name not in arrays]
        if missing:
            raise ValueError(f"{path} must have the arrays X and {target}, got {_list(arrays)}")
        X, y = arrays["X"], arrays[target]
    if X.ndim != 2 or y.shape != (len(X),) or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} must have numbers X [n, d] and {target} [n], got X of {X.dtype} {X.shape}, {target} {y.shape}"
        )
    table = pd.DataFrame(X.astype(np.float64), columns=[str(i) for i in range(X.shape[1])])
    table[target] = y
    return table, target


def _public(beside: Path) -> dict[str, Any]:
    """What is said to be public; an empty dict if nothing is."""
    if not beside.is_file():
        return {}
    try:
        public = tomllib.loads(beside.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{beside} is not a TOML file: {error}") from error
    columns, classes = public.get("columns", {}), public.get("classes", ["a", "b"])
    if public.keys() - {"columns", "classes"} or not isinstance(columns, dict) or not isinstance(classes, list):
        raise ValueError(f"{beside} may only hold classes = [...] and a table [columns], got {_list(public)}")
    return public


def _classes(
    table: pd.DataFrame, target: str, given: list[Any] | None, faults: list[str], *, private: bool
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes [n] of the classes, and their names; the function adds any faults to ``faults``."""
    if target not in table:
        faults.append(f"there is no column {target!r} for the target; there are {_list(table.columns)}")
        return np.zeros(len(table), np.int64), ()
    if private and not given:
        faults.append("classes must be declared: classes = [all labels]")
        return np.zeros(len(table), np.int64), ()
    labels = table[target].map(_cell)
    there = labels[~labels.isin(MISSING)]
    if (not private or there.empty) and len(there) < len(labels):
        faults.append(f"the target {target!r} has missing values")
    classes = tuple(map(str, given)) if given else tuple(_distinct(there))
    if not 2 <= len(set(classes)) == len(classes) <= MOST:
        faults.append(f"the target {target!r} must have 2 to {MOST} classes, so it cannot hold numbers of a wide range")
        return np.zeros(len(table), np.int64), ()
    codes = _codes(labels, classes)
    unknown = _codes(there, classes) == len(classes)
    if unknown.all() if private else unknown.any():
        faults.append(f"the target {target!r} has values that are not among the given classes")
    if not private and np.bincount(codes, minlength=len(classes))[: len(classes)].min() < OF_EACH:
        faults.append(f"a class of {target!r} has fewer than {OF_EACH} records")
    return codes, classes


def _columns(
    table: pd.DataFrame, given: Mapping[str, Any] | None, faults: list[str], *, private: bool
) -> list[PublicColumn]:
    """Columns of features with their public facts; the function adds any faults to ``faults``."""
    given = {REST: None} if given is None else given
    if unknown := [name for name in given if name not in table and name != REST]:
        faults.append(f"the table [columns] names columns {_list(unknown)} that the file does not have")
    wrong: dict[str, list[str]] = {MISSES: [], INFINITE: []}
    found = []
    for name in map(str, table):
        known = given.get(name)
        if name not in given and REST not in given:
            continue
        cells, numbers = table[name].map(_cell), _numbers(table[name])
        missing = cells.isin(MISSING) & ~cells.isin(known if isinstance(known, list) else ())
        is_number = bool((missing | numbers.notna()).all() and not missing.all())
        if known is None and (is_number or private):
            known = given.get(REST)
        if missing.all() if private else missing.any():
            wrong[MISSES].append(name)
        if not private and is_number and np.isinf(numbers).any():
            wrong[INFINITE].append(name)
        if known is not None:
            column, fault = _said(name, known, bool(numbers.notna().any()))
        elif private:
            column, fault = PublicColumn(name, (0.0, 1.0), False), UNDECLARED.format(name)
        else:
            column, fault = _from_records(name, numbers[~missing] if is_number else cells[~missing], is_number)
        if fault:
            wrong.setdefault(fault, []).append(name)
        else:
            found.append(column)
    faults += [f"column{'s' * (len(names) > 1)} {_list(names)}: {fault}" for fault, names in wrong.items() if names]
    if not any(wrong.values()) and not found:
        faults.append("there are no columns of features")
    return found


def _from_records(name: str, values: pd.Series, is_number: bool) -> tuple[PublicColumn, str]:
    """Bounds or categories inferred from the records, and the fault; an empty text if there is no fault."""
    if values.nunique() < 2:
        return PublicColumn(name, (0.0, 1.0), False), "constant, or empty"
    if is_number:
        return PublicColumn(name, (float(values.min()), float(values.max())), False), ""
    if values.nunique() > MOST:
        return PublicColumn(name, (0.0, 1.0), False), f"text of more than {MOST} categories"
    return PublicColumn(name, tuple(_distinct(values)), False), ""


def _said(name: str, known: Any, has_numbers: bool) -> tuple[PublicColumn, str]:
    """Declared bounds or categories of a column, and the fault; an empty text if there is no fault."""
    pair = isinstance(known, list) and len(known) == 2 and all(type(value) in (int, float) for value in known)
    if pair and not has_numbers:
        return PublicColumn(name, (0.0, 1.0), True), "text, for which categories must be given, not bounds"
    if pair and -np.inf < known[0] < known[1] < np.inf:
        return PublicColumn(name, (float(known[0]), float(known[1])), True), ""
    if isinstance(known, list) and known and all(isinstance(value, str | bool) for value in known):
        categories = tuple(map(str, known))
        if len(set(categories)) == len(categories) > 1:
            return PublicColumn(name, categories, True), ""
    return PublicColumn(name, (0.0, 1.0), True), "declare [low, high], low < high, or at least two categories as text"


def _encoded(table: pd.DataFrame, columns: Iterable[PublicColumn]) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Features of all records, float32 [n, d], and their names."""
    from dpnotes.preprocessing import PublicOneHot, PublicScaler

    parts, names = [], []
    for column in columns:
        values = table[column.name]
        if column.is_number:
            low, high = column.known
            parts.append(PublicScaler(low, high).fit_transform(_numbers(values).to_numpy(np.float64)[:, None]))
            names.append(column.name)
        else:
            codes = _codes(values.map(_cell), column.known)
            parts.append(PublicOneHot(range(len(column.known))).fit_transform(codes[:, None]))
            names += [f"{column.name}={category}" for category in column.known]
    return np.ascontiguousarray(np.hstack(parts), dtype=np.float32), tuple(names)


def _cell(value: Any) -> str:
    """One value as text, regardless of its column: whole numbers without a point, and one form for truth values."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else repr(float(value))
    text = str(value).strip()
    return text.capitalize() if text.lower() in ("true", "false") else text


def _numbers(values: pd.Series) -> pd.Series:
    """Each value as a float; NaN if it is not a number."""
    import pandas as pd

    return pd.to_numeric(values, errors="coerce").astype(np.float64)


def _codes(cells: pd.Series, known: Iterable[Any]) -> NDArray[np.int64]:
    """Place of each cell among the known names, by its text or else by its value; their number if it has none."""
    import pandas as pd

    names = [_cell(name) for name in known]
    exact = {name: code for code, name in enumerate(names)}
    values = dict[float, int]()
    for code, value in enumerate(_numbers(pd.Series(names, dtype=object))):
        values[value] = len(names) if value in values else code  # what two of them are tells neither
    distinct = pd.Series(cells.unique(), dtype=object)
    places = {
        cell: exact.get(cell, values.get(value, len(names)))
        for cell, value in zip(distinct, _numbers(distinct), strict=True)
    }
    return np.asarray(cells.map(places), dtype=np.int64)


def _distinct(cells: pd.Series) -> list[str]:
    """Distinct labels, numbers by their size and text by its letters."""
    import pandas as pd

    distinct = pd.Series(cells.unique(), dtype=object)
    numbers = _numbers(distinct)
    return sorted(distinct) if numbers.isna().any() else [_cell(number) for number in np.unique(numbers)]


def _list(names: Iterable[object]) -> str:
    shown = [repr(str(name)) for name in names]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
