"""Checks of a reader's own code for the exercises of the course: ``check("dp-sgd-6", function)``.

A check asks what the text of the exercise asks, on small inputs; it says what is wrong, and nothing of how to do it.
"""

from dpnotes.exercises import _course as _course  # each registers its checks
from dpnotes.exercises import _papers as _papers
from dpnotes.exercises._check import Wrong as Wrong
from dpnotes.exercises._check import check as check
from dpnotes.exercises._check import names as names
