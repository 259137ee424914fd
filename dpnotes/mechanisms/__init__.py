"""Building blocks of private releases: random subsamples and partitions, noise, and
votes.
"""

from dpnotes.mechanisms._draws import Partitions as Partitions
from dpnotes.mechanisms._draws import draw_partitions as draw_partitions
from dpnotes.mechanisms._draws import draw_subsets as draw_subsets
from dpnotes.mechanisms._draws import hash_chunks as hash_chunks
from dpnotes.mechanisms._exact import normal_floats as normal_floats
from dpnotes.mechanisms._noise import add_gaussian as add_gaussian
from dpnotes.mechanisms._noise import add_norm_noise as add_norm_noise
from dpnotes.mechanisms._noise import norm_noise as norm_noise
from dpnotes.mechanisms._noise import stream as stream
from dpnotes.mechanisms._votes import confident_vote as confident_vote
from dpnotes.mechanisms._votes import gaussian_vote as gaussian_vote
from dpnotes.mechanisms._votes import laplace_vote as laplace_vote
from dpnotes.mechanisms._votes import soft_vote as soft_vote
from dpnotes.mechanisms._votes import vote_counts as vote_counts
