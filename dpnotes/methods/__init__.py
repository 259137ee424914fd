"""Methods as scikit-learn estimators: a learner, a mechanism and the privacy profile
of the release.
"""

import lazy_loader

from dpnotes import _extras

_extras.require("learn", part="dpnotes.methods")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
