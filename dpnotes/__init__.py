"""Differential privacy in machine learning: methods, their exact guarantees, and many
models trained at once.

The estimators are here (``dpnotes.Bagging``); guarantees are in
:mod:`dpnotes.accounting`, data sets in :mod:`dpnotes.data`, learners in
:mod:`dpnotes.learners`. Importing the package is cheap: a part is imported when it is
used. Accounting and mechanisms need numpy, scipy and dp-accounting only. The extra
``[learn]`` brings what estimators, learners and data sets need, and ``[book]`` also
what the book is made with.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
