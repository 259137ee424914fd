"""How a release is randomised or combined: subsamples, noise and votes. No learning and no accounting in here."""

from dpnotes.mechanisms._noise import gaussian_noise, norm_noise
from dpnotes.mechanisms._partitions import Partitions, draw_partitions, hash_chunks
from dpnotes.mechanisms._private_votes import (
    ConfidentAnswers,
    confident_vote,
    gaussian_vote,
    laplace_vote,
    soft_vote,
)
from dpnotes.mechanisms._subsample import draw_subsets
from dpnotes.mechanisms._votes import majority_vote, vote_counts

__all__ = [
    "ConfidentAnswers",
    "Partitions",
    "confident_vote",
    "draw_partitions",
    "draw_subsets",
    "gaussian_noise",
    "gaussian_vote",
    "hash_chunks",
    "laplace_vote",
    "majority_vote",
    "norm_noise",
    "soft_vote",
    "vote_counts",
]
