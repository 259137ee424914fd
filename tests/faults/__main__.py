"""Try all faults of a store: ``python -m tests.faults``; with ``--keep`` store what became of them for the table."""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from dpnotes.lab.store import provenance
from tests.faults.damages import DAMAGES, TIMES
from tests.faults.kills import DASK, LOCAL, Dask, Kind
from tests.faults.place import Place, Tally, undisturbed
from tests.faults.tables import keep

ABOUT = ("machine", "python", "commit", "date")


def campaign(
    folder: Path, kills: float = 1.0, times: int = TIMES, names: tuple[str, ...] = ()
) -> Iterator[dict[str, object]]:
    """A row for each kind of fault (of one of the names), with a fraction of the kills and so many of other faults."""
    undisturbed(folder / "undisturbed")
    cluster = Dask(folder)
    kinds: dict[str, tuple[str, Kind, int]] = {}
    kinds |= {f"SIGKILL: {name}": (processes, kind, round(kills * n)) for name, (processes, kind, n) in LOCAL.items()}
    kinds |= {
        f"SIGKILL: {name}": ("1 + 3", getattr(cluster, kind), round(kills * n)) for name, (kind, n) in DASK.items()
    }
    kinds |= {name: ("1", kind, times) for name, kind in DAMAGES.items()}
    try:
        for name, (processes, kind, number) in kinds.items():
            if not names or any(part in name for part in names):
                yield _row(folder, name, processes, kind, number)
    finally:
        cluster.stop()


def _row(folder: Path, name: str, processes: str, kind: Kind, number: int) -> dict[str, object]:
    tally, draw, start, places = Tally(), random.Random(name), _cpu(), 0
    while tally.tried < number:
        place = Place(folder / f"{name.translate({32: '_', 58: '', 39: ''})}-{places}")
        kind(tally, place, draw)
        tally.complete(place)
        places += 1
    for trouble in tally.troubles:
        print(f"{name}: {trouble}", flush=True)
    counts = {name: value for name, value in vars(tally).items() if name != "troubles"}
    return {"fault": name, "processes": processes, **counts, "cpu_seconds": round(_cpu() - start, 1)}


def _cpu() -> float:
    return sum(os.times()[:4])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only kinds of faults that have one of these texts in their names")
    parser.add_argument("--keep", action="store_true", help="store the rows, and the table made of them")
    chosen, rows, began = parser.parse_args(), [], time.monotonic()
    about = {name: provenance().get(name) for name in ABOUT}
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o755)  # one fault is a process of another user
        for row in campaign(Path(temporary), names=tuple(chosen.names)):
            print(*row.values(), flush=True)
            rows.append({**row, **about})
            if chosen.keep:
                keep("store_faults", rows[-1])
    table = pd.DataFrame(rows)
    kills = table["tried"][table["fault"].str.startswith("SIGKILL")].sum()
    failed = int((table["tried"] - table["survived"]).sum())
    print(f"{kills} kills, {table['tried'].sum()} faults, {failed} not survived, {table['rows_lost'].sum()} rows lost")
    print(f"{time.monotonic() - began:.0f} s, {table['cpu_seconds'].sum():.0f} s of CPU")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
