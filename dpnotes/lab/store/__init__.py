"""Runs of an experiment over a grid, which can be resumed, show their progress and can
use parallel back ends.

An experiment is a pure function that takes plain parameters and returns a flat dict of
metrics. Each finished row is saved in a separate file of a folder, with its provenance:
versions, commit, machine, device, digest of the data, seconds and date. Published rows
are the lines of one CSV file.
"""

from dpnotes.lab._places import book_folder as book_folder
from dpnotes.lab._places import published_store as published_store
from dpnotes.lab._places import runs_store as runs_store
from dpnotes.lab._places import unfinished as unfinished
from dpnotes.lab.store._checkpoint import checkpoint as checkpoint
from dpnotes.lab.store._checkpoint import row_under_way as row_under_way
from dpnotes.lab.store._provenance import provenance as provenance
from dpnotes.lab.store._results import Tolerance as Tolerance
from dpnotes.lab.store._results import adopt as adopt
from dpnotes.lab.store._results import read_store as read_store
from dpnotes.lab.store._results import verify as verify
from dpnotes.lab.store._rows import StoreError as StoreError
from dpnotes.lab.store._rows import load as load
from dpnotes.lab.store._rows import publish as publish
from dpnotes.lab.store._rows import replace_file as replace_file
from dpnotes.lab.store._sweep import Compute as Compute
from dpnotes.lab.store._sweep import RowError as RowError
from dpnotes.lab.store._sweep import collect as collect
from dpnotes.lab.store._sweep import experiment_name as experiment_name
from dpnotes.lab.store._sweep import experiment_version as experiment_version
from dpnotes.lab.store._sweep import missing as missing
from dpnotes.lab.store._sweep import requests as requests
from dpnotes.lab.store._sweep import sweep as sweep
