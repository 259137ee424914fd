"""Experiments, results and figures of the chapter on one paper.

van der Maaten and Hannun: The Trade-Offs of Private Prediction.
"""

from dpnotes.lab.private_prediction import experiments as experiments
from dpnotes.lab.private_prediction import figures as figures
from dpnotes.lab.private_prediction import grids as grids
from dpnotes.lab.private_prediction import results as results
