"""Checks of a reader's own code for the exercises of the course: ``check("dp-sgd-6", function)``.

A check asks what the text of the exercise asks, on small inputs; it says what is wrong, and nothing of how to do it.
"""

# Each module of exercises registers the checks of one chapter.
from dpnotes.exercises import _attacks as _attacks
from dpnotes.exercises import _bagging as _bagging
from dpnotes.exercises import _composition as _composition
from dpnotes.exercises import _dp_sgd as _dp_sgd
from dpnotes.exercises import _dpbag as _dpbag
from dpnotes.exercises import _guarantee as _guarantee
from dpnotes.exercises import _head_to_head as _head_to_head
from dpnotes.exercises import _intrinsic_sgd as _intrinsic_sgd
from dpnotes.exercises import _mechanisms as _mechanisms
from dpnotes.exercises import _private_prediction as _private_prediction
from dpnotes.exercises import _votes as _votes
from dpnotes.exercises._check import Wrong as Wrong
from dpnotes.exercises._check import check as check
from dpnotes.exercises._check import names as names
