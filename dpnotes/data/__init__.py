"""Data sets as plain arrays, with the papers' splits and preprocessing.

:func:`load` reads a data set from the data folder and never downloads; :func:`fetch`
downloads a data set; :func:`status` reports which data sets are present. Importing this
module is cheap: a part, with what it needs, is imported when it is used.
"""

import lazy_loader

from dpnotes import _extras

_extras.require("learn", part="dpnotes.data")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
