"""Methods as scikit-learn estimators: a learner, a mechanism and the privacy profile of what is released."""

from dpnotes.methods._bagging import Bagging

__all__ = ["Bagging"]
