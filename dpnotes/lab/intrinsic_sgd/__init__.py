"""Experiments, results and figures of the chapter on one paper.

Hyland and Tople: On the Intrinsic Privacy of Stochastic Gradient Descent.
"""

from dpnotes.lab.intrinsic_sgd import data as data
from dpnotes.lab.intrinsic_sgd import experiments as experiments
from dpnotes.lab.intrinsic_sgd import figures as figures
from dpnotes.lab.intrinsic_sgd import grids as grids
from dpnotes.lab.intrinsic_sgd import printed as printed
from dpnotes.lab.intrinsic_sgd import results as results
from dpnotes.lab.intrinsic_sgd import runs as runs
