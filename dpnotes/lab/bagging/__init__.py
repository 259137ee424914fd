"""Experiments, tables, figures and claims of the chapter on one paper.

Liu, Jia and Gong: On the Intrinsic Differential Privacy of Bagging.
"""

from dpnotes.lab.bagging import candidates as candidates
from dpnotes.lab.bagging import claims as claims
from dpnotes.lab.bagging import comparisons as comparisons
from dpnotes.lab.bagging import experiments as experiments
from dpnotes.lab.bagging import figures as figures
from dpnotes.lab.bagging import grids as grids
from dpnotes.lab.bagging import handcrafted as handcrafted
from dpnotes.lab.bagging import live as live
from dpnotes.lab.bagging import means as means
from dpnotes.lab.bagging import orderings as orderings
from dpnotes.lab.bagging import rates as rates
from dpnotes.lab.bagging import sampler as sampler
from dpnotes.lab.bagging import tables as tables
