"""Run an experiment over a grid: resume, progress, parallel back ends, tidy results.

An experiment is a pure function of plain parameters to a flat dict of metrics. Its finished rows are kept in a store,
one CSV file, each row with where it comes from: versions, commit, machine, device, digest of the data, seconds, date.
"""

from dpnotes.lab._places import book_folder as book_folder
from dpnotes.lab._places import published_store as published_store
from dpnotes.lab._places import runs_store as runs_store
from dpnotes.lab._places import unfinished as unfinished
from dpnotes.lab.store._checkpoint import checkpoint as checkpoint
from dpnotes.lab.store._checkpoint import row_under_way as row_under_way
from dpnotes.lab.store._code import code as code
from dpnotes.lab.store._format import StoreError as StoreError
from dpnotes.lab.store._grid import experiment_name as experiment_name
from dpnotes.lab.store._measured import Measured as Measured
from dpnotes.lab.store._measured import measured as measured
from dpnotes.lab.store._provenance import provenance as provenance
from dpnotes.lab.store._results import adopt as adopt
from dpnotes.lab.store._results import merge as merge
from dpnotes.lab.store._results import missing as missing
from dpnotes.lab.store._results import read_store as read_store
from dpnotes.lab.store._results import rename_columns as rename_columns
from dpnotes.lab.store._results import trace as trace
from dpnotes.lab.store._sweep import Compute as Compute
from dpnotes.lab.store._sweep import collect as collect
from dpnotes.lab.store._sweep import sweep as sweep
from dpnotes.lab.store._verify import Standing as Standing
from dpnotes.lab.store._verify import Tolerance as Tolerance
from dpnotes.lab.store._verify import cheapest as cheapest
from dpnotes.lab.store._verify import standing as standing
from dpnotes.lab.store._verify import verify as verify
