"""The tables of ARCHITECTURE.md that are made from kept rows, between marks of their names."""

import os
import re
from pathlib import Path

import pandas as pd

from dpnotes.lab.store import published_store

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
COLUMNS = {
    "store_faults": {
        "fault": "fault",
        "processes": "processes",
        "tried": "tried",
        "survived": "survived",
        "named": "of these named in an error",
        "rows_finished": "rows finished",
        "rows_lost": "rows lost",
    },
    "store_costs": {
        "rows": "rows in the file",
        "append_ms": "appending a row, ms of CPU",
        "open_cpu_seconds": "opening, s of CPU",
    },
}


def keep(name: str, row: dict[str, object]) -> None:
    """Keep a row, in place of an earlier one of the same first cell, and put the table of all into its place."""
    path, texts = published_store(name), {column: str(value) for column, value in row.items()}
    first = next(iter(row))
    known = _rows(name).to_dict("records") if path.exists() else []
    places = {old[first]: old for old in known} | {texts[first]: texts}
    draft = path.with_suffix(".new")
    pd.DataFrame(places.values()).to_csv(draft, index=False)
    os.replace(draft, path)  # whole or not at all
    PAGE.write_text(_between(name).sub(lambda _: marked(name), PAGE.read_text()))


def marked(name: str) -> str:
    """The table of the kept rows, with its marks."""
    table = _rows(name)
    columns = COLUMNS[name]
    rows = [[row[column] for column in columns] for _, row in table.iterrows()]
    if name == "store_faults":
        numbers = table[list(columns)[2:]].astype(int).sum()
        rows.append(["all", "", *map(str, numbers)])
    lines = [list(columns.values()), ["---"] * len(columns), *rows]
    return "\n".join([f"<!-- {name} -->", *(f"| {' | '.join(line)} |" for line in lines), f"<!-- /{name} -->"])


def shown(name: str) -> str:
    """What the page has, with its marks."""
    found = _between(name).search(PAGE.read_text())
    return found.group() if found else ""


def _rows(name: str) -> pd.DataFrame:
    return pd.read_csv(published_store(name), dtype=str, keep_default_na=False)


def _between(name: str) -> re.Pattern[str]:
    return re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
