"""Experiments, results and figures of the chapter on one paper.

Liu, Jia and Gong: On the Intrinsic Differential Privacy of Bagging.
"""

from dpnotes.lab.bagging import experiments as experiments
from dpnotes.lab.bagging import exposure as exposure
from dpnotes.lab.bagging import figures as figures
from dpnotes.lab.bagging import grids as grids
from dpnotes.lab.bagging import results as results
