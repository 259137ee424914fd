"""What a single paper needs: quantities that it defines and analyses that it states, kept apart from the mechanisms.

Most of this gives no guarantee by itself; each function says what its result is worth.
"""

from dpnotes.accounting.papers._dpbag import MOMENTS as MOMENTS
from dpnotes.accounting.papers._dpbag import personalised_answers as personalised_answers
from dpnotes.accounting.papers._dpbag import personalised_moments as personalised_moments
from dpnotes.accounting.papers._dpbag import personalised_vote as personalised_vote
from dpnotes.accounting.papers._intrinsic_sgd import augmenting_sigma as augmenting_sigma
from dpnotes.accounting.papers._intrinsic_sgd import intrinsic_sgd as intrinsic_sgd
from dpnotes.accounting.papers._intrinsic_sgd import sgd_sensitivity as sgd_sensitivity
