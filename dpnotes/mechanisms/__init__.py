"""Building blocks of private releases: random subsamples and partitions, noise, and
votes.
"""

from dpnotes.mechanisms._draws import (
    Partitions as Partitions,
    draw_partitions as draw_partitions,
    draw_subsets as draw_subsets,
    hash_chunks as hash_chunks,
)
from dpnotes.mechanisms._exact import normal_floats as normal_floats
from dpnotes.mechanisms._noise import (
    add_gaussian as add_gaussian,
    add_norm_noise as add_norm_noise,
    stream as stream,
)
from dpnotes.mechanisms._votes import (
    confident_vote as confident_vote,
    gaussian_vote as gaussian_vote,
    laplace_vote as laplace_vote,
    soft_vote as soft_vote,
    vote_counts as vote_counts,
)
