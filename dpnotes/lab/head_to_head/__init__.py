"""Experiments and verdicts of the head-to-head: all private learners on the same
tasks, at the same guarantees.
"""

from dpnotes.lab.head_to_head import experiments as experiments
from dpnotes.lab.head_to_head import grids as grids
from dpnotes.lab.head_to_head import tables as tables
from dpnotes.lab.head_to_head import tasks as tasks
