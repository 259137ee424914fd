"""How a release is randomised or combined: random subsamples and votes. No learning in here."""

from dpnotes.mechanisms._subsample import draw_subsets
from dpnotes.mechanisms._votes import majority_vote, vote_counts

__all__ = ["draw_subsets", "majority_vote", "vote_counts"]
