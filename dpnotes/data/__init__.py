"""Data sets as plain arrays, with the papers' splits and preprocessing.

:func:`load` reads a data set from the data folder and never downloads; :func:`fetch`
downloads a data set; :func:`status` reports which data sets are present. Importing this
module is cheap: torchvision, scikit-learn and pandas are imported only where they are
used.
"""

from dpnotes import _extras

_extras.require("learn", part="dpnotes.data")

from dpnotes.data._catalogue import NAMES as NAMES
from dpnotes.data._catalogue import DataStatus as DataStatus
from dpnotes.data._catalogue import absent as absent
from dpnotes.data._catalogue import data_folder as data_folder
from dpnotes.data._catalogue import load as load
from dpnotes.data._catalogue import load_weights as load_weights
from dpnotes.data._catalogue import status as status
from dpnotes.data._dataset import DataDamaged as DataDamaged
from dpnotes.data._dataset import DataError as DataError
from dpnotes.data._dataset import DataMissing as DataMissing
from dpnotes.data._dataset import Dataset as Dataset
from dpnotes.data._dataset import DataUnreachable as DataUnreachable
from dpnotes.data._fetch import fetch as fetch
from dpnotes.data._own import OwnDataset as OwnDataset
from dpnotes.data._own import PublicColumn as PublicColumn
from dpnotes.data._own import draft as draft
from dpnotes.data._own import encode_file as encode_file
from dpnotes.data._own import load_file as load_file
from dpnotes.data._unit_ball import to_unit_ball as to_unit_ball
from dpnotes.data._unit_ball import to_unit_sphere as to_unit_sphere
