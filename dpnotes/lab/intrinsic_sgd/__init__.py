"""Experiments, results and figures of the chapter on one paper.

Hyland and Tople: On the Intrinsic Privacy of Stochastic Gradient Descent.
"""

from dpnotes.lab.intrinsic_sgd import (
    data as data,
    experiments as experiments,
    figures as figures,
    grids as grids,
    printed as printed,
    results as results,
    runs as runs,
)
