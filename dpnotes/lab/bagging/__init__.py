"""Experiments, results and figures of the chapter on one paper.

Liu, Jia and Gong: On the Intrinsic Differential Privacy of Bagging.
"""

from dpnotes.lab.bagging import (
    experiments as experiments,
    exposure as exposure,
    figures as figures,
    grids as grids,
    results as results,
)
