"""Whether published rows still hold: rows computed again, compared, and kept; what stands on which code."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from dpnotes.lab.store._format import Row, StoreError
from dpnotes.lab.store._frame import frame
from dpnotes.lab.store._grid import Experiment, experiment_name
from dpnotes.lab.store._results import compared, existing
from dpnotes.lab.store._run import compute, result
from dpnotes.lab.store._store import PathLike, Store
from dpnotes.lab.store._values import Scalar

# By how much a float may differ in any metric, as a fraction of it. Another processor or release adds up in another
# order: some units of the sixteenth digit an operation (2.6e-14 at most after 8,400 steps of SGD, where it was measured
# on rows that are right). What a wrong line of code changes is far more than a billionth.
RELATIVE = 1e-9
Tolerance: TypeAlias = Mapping[str, float | Callable[[float], float]]
_KEPT = "store.verification"  # name of verifications in their store
_REPORT = ("row", "metric", "stored", "recomputed", "difference", "tolerance", "agrees")


def verify(
    experiment: Experiment,
    store: PathLike,
    *,
    sample: int | Sequence[str],
    random_state: int | np.random.Generator | None,
    tolerance: Tolerance,
    keep: PathLike | None = None,
) -> pd.DataFrame:
    """Compute a random sample of a store's rows again, and compare them metric by metric with what is stored.

    Parameters
    ----------
    experiment : callable
        The function whose rows the store holds.
    store : path
        A CSV file that `sweep` wrote.
    sample : int, >= 1, or list of str
        How many rows, drawn without replacement; a store of no more than that is recomputed as a whole. Or which rows,
        by their ``row``.
    random_state : int, numpy.random.Generator or None
        Draws the sample.
    tolerance : dict of str to float or callable
        By how much a number may differ, metric by metric and in the metric's own unit, or a function of the stored
        number that tells it. A float may always differ by a
        billionth of itself, for sums in another order; all else must be equal.
    keep : path, optional
        A CSV file that keeps what was found, the newest for each row: see `standing`.

    Returns
    -------
    pandas.DataFrame
        ``row``, ``metric``, ``stored``, ``recomputed``, ``difference`` (recomputed - stored, NA where they are not both
        numbers), ``tolerance``, ``agrees`` (bool). The digest ``data`` is compared as well, where there is one.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    StoreError
        If the store is damaged, another experiment's, or without the rows.
    RuntimeError, TypeError
        As in `sweep`.
    """
    name, rows = experiment_name(experiment), existing(store, experiment_name(experiment)).rows
    if not rows:
        raise StoreError(f"{os.fspath(store)} has no rows to verify")
    if isinstance(sample, int):
        drawn = np.random.default_rng(random_state).permutation(len(rows))[:sample]
        sample = [key for index, key in enumerate(rows) if index in drawn]
    if lost := sorted(set(sample).difference(rows)):
        raise StoreError(f"{os.fspath(store)} has no row {lost[0]!r}")
    report: list[dict[str, Scalar]] = []
    for key in sample:
        start = time.process_time()
        new = result(compute(experiment, Row(name, rows[key].parameters), None))
        cpu_seconds = round(time.process_time() - start, 3)  # by itself; the row's own seconds were in a run of many
        lines = _compare(rows[key], new, tolerance)
        report += lines
        if keep is not None:
            differing = [str(line["metric"]) for line in lines if not line["agrees"]]
            found: dict[str, Scalar] = {"metrics": len(lines), "differing": " ".join(differing) or None}
            found["cpu_seconds"] = cpu_seconds
            asked = {"store": Store(store).path.stem, "key": key}
            Store(keep).put([Row(_KEPT, asked, found, new.provenance)], replace=True)
    return frame(report, _REPORT)


def _compare(old: Row, new: Row, tolerance: Tolerance) -> list[dict[str, Scalar]]:
    """Lines of the report on one row."""
    stored, recomputed = compared(old), compared(new)
    lines = []
    for metric in sorted(stored.keys() | recomputed.keys()):
        pair = stored.get(metric), recomputed.get(metric)
        own, difference, limit = tolerance.get(metric, 0.0), _difference(*pair), 0.0
        if difference is not None:
            numbers = [float(value) for value in pair if value is not None]
            limit = own(numbers[0]) if callable(own) else own
            if float in map(type, pair):
                limit = max(limit, RELATIVE * min(map(abs, numbers)))
        agrees = pair[0] == pair[1] if difference is None else abs(difference) <= limit
        lines.append(dict(zip(_REPORT, (old.key, metric, *pair, difference, limit, agrees), strict=True)))
    return lines


def _difference(stored: Scalar, recomputed: Scalar) -> float | None:
    """Signed difference of two numbers (0 for equal infinities), None of anything else."""
    if isinstance(stored, bool | str | None) or isinstance(recomputed, bool | str | None):
        return None
    return 0.0 if stored == recomputed else float(recomputed) - float(stored)


def cheapest(store: PathLike, cost: Callable[[Mapping[str, Scalar]], float]) -> list[str]:
    """Give the ``row`` of all rows of a store by ``cost`` of their parameters, then by the seconds that they took."""
    rows = existing(store).rows
    return sorted(rows, key=lambda key: (cost(rows[key].parameters), rows[key].provenance.get("seconds") or 0.0))


@dataclass(frozen=True)
class Standing:
    """How many rows there are, how many are of other code than today's, and what became of those computed again.

    Parameters
    ----------
    rows : int
    earlier : int
        Of earlier or unknown code.
    again, agree : int
        Of these: computed again by today's code, and with the same metrics.
    """

    rows: int = 0
    earlier: int = 0
    again: int = 0
    agree: int = 0

    def __add__(self, other: "Standing") -> "Standing":
        mine, others = ((s.rows, s.earlier, s.again, s.agree) for s in (self, other))
        return Standing(*map(int.__add__, mine, others))

    @property
    def stale(self) -> bool:
        """Whether rows are of earlier code, and no sample of them was computed again and agrees as a whole."""
        return self.earlier > 0 and (self.again == 0 or self.agree < self.again)

    def __str__(self) -> str:
        if not self.earlier:
            return "present code"
        if not self.again:
            return f"stale: {self.earlier} of earlier code"
        if self.agree < self.again:
            return f"stale: {self.earlier} of earlier code, {self.again - self.agree} of {self.again} differ now"
        return f"{self.earlier} of earlier code, {self.again} of them computed again: agree"


def standing(rows: Iterable[tuple[str, object]], now: str | None, verifications: PathLike) -> Standing:
    """Compare the code of rows with the present one, and look up which rows it was tried on.

    Parameters
    ----------
    rows : iterable of pairs
        ``row`` and ``code`` of each.
    now : str or None
        The present digest of their experiment's code, :func:`code`.
    verifications : path
        What `verify` kept; it need not exist.
    """
    kept = Store(verifications).read(_KEPT).rows.values()
    tried = {
        row.parameters["key"]: row.metrics.get("differing") is None
        for row in kept
        if row.provenance.get("code") == now is not None
    }
    rows = list(rows)
    earlier = [key for key, code in rows if code != now]
    agreeing = [tried[key] for key in earlier if key in tried]
    return Standing(len(rows), len(earlier), len(agreeing), sum(agreeing))
