"""Check your own solutions of the exercises, for example by ``check("dp-sgd-6",
function)``.

Each check runs your function on small inputs, or takes your numbers, and compares the
result with what the exercise requires. It says what is wrong, but not how to solve the
exercise.
"""

from dpnotes.exercises import _course as _course  # each registers its checks
from dpnotes.exercises import _papers as _papers
from dpnotes.exercises._check import Wrong as Wrong
from dpnotes.exercises._check import check as check
from dpnotes.exercises._check import names as names
from dpnotes.exercises._check import numeric as numeric
