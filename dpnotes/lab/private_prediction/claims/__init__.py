"""Claims 9 to 21: the trade-offs of private prediction (van der Maaten and Hannun 2020)."""

from dpnotes.lab._claim import Claim
from dpnotes.lab.private_prediction.claims import minimiser, output, training, votes

_FOUND = [value for module in (minimiser, output, training, votes) for value in vars(module).values()]
CLAIMS = tuple(sorted((value for value in _FOUND if isinstance(value, Claim)), key=lambda claim: claim.number))
