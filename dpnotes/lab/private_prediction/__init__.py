"""Experiments, results and figures of the chapter on one paper.

van der Maaten and Hannun: The Trade-Offs of Private Prediction.
"""

from dpnotes.lab.private_prediction import (
    experiments as experiments,
    figures as figures,
    grids as grids,
    results as results,
)
