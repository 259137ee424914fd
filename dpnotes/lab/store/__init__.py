"""Run an experiment over a grid: resume, progress, parallel back ends, tidy results.

An experiment is a pure function of plain parameters to a flat dict of metrics. Its finished rows are kept in a store,
one CSV file, each row with where it comes from: versions, commit, machine, device, digest of the data, seconds, date.
"""

from dpnotes.lab.store._folders import published_store, runs_store
from dpnotes.lab.store._format import StoreError
from dpnotes.lab.store._grid import experiment_name
from dpnotes.lab.store._results import adopt, missing, read_store, rename_columns, verify
from dpnotes.lab.store._sweep import Compute, collect, sweep

__all__ = [
    "Compute",
    "StoreError",
    "adopt",
    "collect",
    "experiment_name",
    "missing",
    "published_store",
    "read_store",
    "rename_columns",
    "runs_store",
    "sweep",
    "verify",
]
