"""Trainings that claim a guarantee: thirty with a planted fault, and sound ones; what audits are measured on.

The broken ones protect nothing that they claim to protect. Each is written as its author would write it: a right
engine (:mod:`~dpnotes.lab.faults.descent`, :mod:`~dpnotes.lab.faults.sums`, :mod:`~dpnotes.lab.faults.votes`) of which
a line or two are wrong.
"""

from dpnotes.lab.faults.catalogue import ATTAINED as ATTAINED
from dpnotes.lab.faults.catalogue import FAULTS as FAULTS
from dpnotes.lab.faults.catalogue import SOUND as SOUND
from dpnotes.lab.faults.catalogue import Target as Target
