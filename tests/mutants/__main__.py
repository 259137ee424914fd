"""Run all mutants of verdicts and results: ``python -m tests.mutants``; with ``--keep`` store what became of them."""

import argparse
import os
import sys

import pandas as pd

from dpnotes.lab.store import published_store
from tests.mutants.catalogue import ALL, baseline, noticed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="store the rows in book/results/mutants.csv")
    keep = parser.parse_args().keep
    rows = []
    baseline([wrong for mutants in ALL.values() for wrong in mutants])
    for kind, mutants in ALL.items():
        for wrong in mutants:
            killed = noticed(wrong)
            print(f"{'noticed' if killed else 'MISSED '} {wrong.mutant}  ({wrong.fault})", flush=True)
            about = {"kind": kind, "place": wrong.mutant.place, "fault": wrong.fault}
            piece = {"old": wrong.mutant.old, "new": wrong.mutant.new, "tests": " ".join(wrong.tests)}
            rows.append({**about, **piece, "noticed": killed})
    if keep:
        path = published_store("mutants")
        draft = path.with_suffix(".new")
        pd.DataFrame(rows).to_csv(draft, index=False)
        os.replace(draft, path)  # whole or not at all
    missed = sum(not row["noticed"] for row in rows)
    print(f"{len(rows)} mutants, {missed} not noticed by the tests")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
