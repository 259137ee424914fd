"""Recommendations of a private learner, from a comparison of all methods under one
adjacency and preparation.
"""

from dpnotes import _extras

_extras.require("learn", part="dpnotes.comparing")

from dpnotes.comparing._candidates import OURS as OURS
from dpnotes.comparing._candidates import Candidate as Candidate
from dpnotes.comparing._candidates import MajorityClass as MajorityClass
from dpnotes.comparing._candidates import Task as Task
from dpnotes.comparing._candidates import Unsuited as Unsuited
from dpnotes.comparing._compare import compare as compare
from dpnotes.comparing._others import OTHERS as OTHERS
from dpnotes.comparing._recommend import Recommendation as Recommendation
from dpnotes.comparing._recommend import recommend as recommend
from dpnotes.comparing._result import Comparison as Comparison
from dpnotes.comparing._selection import private_choice as private_choice
from dpnotes.comparing._selection import tuned as tuned
