"""Claims 30 to 36: the intrinsic privacy of stochastic gradient descent (Hyland and Tople 2019)."""

from functools import partial

from dpnotes.lab import _claim

claim = partial(_claim.claim, paper="hyland2019intrinsic", section="isgd-verdict")
