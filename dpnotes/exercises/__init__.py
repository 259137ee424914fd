"""Check your own solutions of the exercises, for example by ``check("dp-sgd-6",
function)``.

Each check runs your function on small inputs, or takes your numbers, and compares the
result with what the exercise requires. It says what is wrong, but not how to solve the
exercise.
"""

from dpnotes.exercises import (
    _course as _course,  # each registers its checks
    _papers as _papers,
)
from dpnotes.exercises._check import (
    Wrong as Wrong,
    check as check,
    names as names,
    numeric as numeric,
)
