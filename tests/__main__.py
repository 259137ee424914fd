"""Print what the book shows of tests; with ``--keep`` store the rows for it, too.

python -m tests attacks     the figure of each attack, on a broken copy and on ours
python -m tests checks      scikit-learn's checks of all estimators, and which of them
an estimator is exempt from
"""

import argparse
import os
import warnings
from collections.abc import Iterator

import pandas as pd
from sklearn.utils.estimator_checks import check_estimator

from dpnotes.lab.store import provenance, published_store
from tests.attacks.catalogue import figures
from tests.test_scikit_learn import cases

ABOUT = {
    "attacks": ("machine", "python", "commit", "date"),
    "checks": ("machine", "python", "scikit_learn", "commit", "date"),
}


def checks() -> Iterator[dict[str, object]]:
    """A row for each check that an estimator is exempt from, or one without a check;
    with counts of all checks.
    """
    for case in cases():
        with warnings.catch_warnings(action="ignore"):
            exempt = dict(case.exempt)
            found = check_estimator(
                case.estimator,
                expected_failed_checks=exempt,
                on_skip=None,
                on_fail=None,
            )
        status = pd.Series([entry["status"] for entry in found]).value_counts()
        counts = {
            name: int(status.get(name, 0))
            for name in ("passed", "failed", "skipped", "xfail")
        }
        needed = {entry["check_name"] for entry in found if entry["status"] == "xfail"}
        shown = {
            check: reason for check, reason in exempt.items() if check in needed
        } or {"": ""}
        yield from (
            {"estimator": case.name, **counts, "check": name, "reason": why}
            for name, why in shown.items()
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=ABOUT)
    parser.add_argument(
        "--keep",
        action="store_true",
        help="store the rows in book/results/implementations_*.csv",
    )
    given, kept = parser.parse_args(), []
    for row in figures() if given.which == "attacks" else checks():
        print(" | ".join(map(str, row.values())), flush=True)
        kept.append(row)
    if given.keep:
        here = {
            name: value
            for name, value in provenance().items()
            if name in ABOUT[given.which]
        }
        path = published_store(f"implementations_{given.which}")
        draft = path.with_suffix(".new")
        pd.DataFrame([{**row, **here} for row in kept]).to_csv(draft, index=False)
        os.replace(draft, path)  # whole or not at all


if __name__ == "__main__":
    main()
