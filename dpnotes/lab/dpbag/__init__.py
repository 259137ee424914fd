"""Experiments, results and figures of the chapter on one paper.

Jordon, Yoon and van der Schaar: Differentially Private Bagging.
"""

from dpnotes.lab.dpbag import (
    experiments as experiments,
    figures as figures,
    grids as grids,
    results as results,
    runs as runs,
    votes as votes,
)
