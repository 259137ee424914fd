"""Runs of an experiment over a grid, which can be resumed, show their progress and can
use parallel back ends.

An experiment is a pure function that takes plain parameters and returns a flat dict of
metrics. Each finished row is saved in a separate file of a folder, with its provenance:
versions, commit, machine, device, digest of the data, seconds and date. Published rows
are the lines of one CSV file.
"""

from dpnotes.lab._places import (
    book_folder as book_folder,
    published_store as published_store,
    runs_store as runs_store,
    unfinished as unfinished,
)
from dpnotes.lab.store._checkpoint import (
    checkpoint as checkpoint,
    row_under_way as row_under_way,
)
from dpnotes.lab.store._provenance import provenance as provenance
from dpnotes.lab.store._results import (
    Tolerance as Tolerance,
    adopt as adopt,
    read_store as read_store,
    verify as verify,
)
from dpnotes.lab.store._rows import (
    StoreError as StoreError,
    load as load,
    publish as publish,
    replace_file as replace_file,
)
from dpnotes.lab.store._sweep import (
    Compute as Compute,
    RowError as RowError,
    collect as collect,
    experiment_name as experiment_name,
    experiment_version as experiment_version,
    missing as missing,
    requests as requests,
    sweep as sweep,
)
