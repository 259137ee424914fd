"""Experiments, results and figures of the chapter on one paper.

Jordon, Yoon and van der Schaar: Differentially Private Bagging.
"""

from dpnotes.lab.dpbag import experiments as experiments
from dpnotes.lab.dpbag import figures as figures
from dpnotes.lab.dpbag import grids as grids
from dpnotes.lab.dpbag import results as results
from dpnotes.lab.dpbag import runs as runs
from dpnotes.lab.dpbag import votes as votes
