"""What a row costs: ``python -m tests.faults.costs``; with ``--keep`` the figures are stored for the table."""

import argparse
import os
import tempfile
import time
from pathlib import Path

from dpnotes.lab.store import provenance
from dpnotes.lab.store._format import Row
from dpnotes.lab.store._store import Store
from tests.faults.tables import keep

SIZES = (1_000, 10_000, 100_000)
APPENDED = 300  # rows whose appending is measured, the fastest of three times


def costs(size: int, path: Path) -> dict[str, object]:
    """Append rows to a file that has so many, each by itself, and open it."""
    about = provenance()
    rows = [
        Row("toy.f", {"x": x, "kind": "a"}, {"y": x / 3, "z": x / 7}, {"seconds": 0.5, **about})
        for x in range(size + 3 * APPENDED)
    ]
    writer = Store(path)
    writer.put(rows[:size])
    before, taken = path.stat().st_size, []
    for start in range(size, len(rows), APPENDED):
        begun = time.process_time()
        for row in rows[start : start + APPENDED]:
            writer.put([row])
        taken.append((time.process_time() - begun) / APPENDED)
    written = (path.stat().st_size - before) / (3 * APPENDED)
    opened = []
    for _ in range(3):
        begun = time.process_time()
        assert len(Store(path).read().rows) == len(rows)
        opened.append(time.process_time() - begun)
    milliseconds = f"{1000 * min(taken):.2f}"
    return {
        "rows": size,
        "append_ms": milliseconds,
        "open_cpu_seconds": f"{min(opened):.2g}",
        "bytes_written": round(written),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="store the figures, and the table made of them")
    kept = parser.parse_args().keep
    about = {name: provenance().get(name) for name in ("machine", "python", "commit", "date")}
    with tempfile.TemporaryDirectory() as temporary:
        for size in SIZES:
            row = costs(size, Path(temporary) / f"{size}.csv")
            print(*row.values(), flush=True)
            if kept:
                keep("store_costs", {**row, "cores": os.cpu_count(), **about})


if __name__ == "__main__":
    main()
