"""Training of many models on subsets of one data set.

Only :func:`fit_dp_sgd_linear` and :func:`fit_dp_sgd_network` clip gradients and add
noise. Their weights are private only if the seed and the source of the noise are
secret. On their own, the other learners give no privacy.
"""

import lazy_loader

from dpnotes import _extras

_extras.require("learn", part="dpnotes.learners")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
