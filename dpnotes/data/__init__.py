"""Data sets as plain arrays, with the papers' splits and preprocessing.

:func:`load` reads a set from the data folder and never downloads; :func:`fetch` downloads one; :func:`status` says
which are here. Importing this module is cheap: torchvision, scikit-learn and pandas are imported where they are used.
"""

from dpnotes.data._catalogue import NAMES, DataStatus, load, status
from dpnotes.data._dataset import DataDamaged, DataError, DataMissing, Dataset, DataUnreachable
from dpnotes.data._fetch import fetch
from dpnotes.data._folder import data_folder
from dpnotes.data._unit_ball import to_unit_ball, to_unit_sphere

__all__ = [
    "NAMES",
    "DataDamaged",
    "DataError",
    "DataMissing",
    "DataStatus",
    "DataUnreachable",
    "Dataset",
    "data_folder",
    "fetch",
    "load",
    "status",
    "to_unit_ball",
    "to_unit_sphere",
]
