"""Training many models on subsets of one data set. No privacy in here: a learner fits what it is told."""

from dpnotes.learners._classifier import NetworkClassifier
from dpnotes.learners._convolution import convolutional_network
from dpnotes.learners._networks import Networks, device_name, fit_networks

__all__ = ["NetworkClassifier", "Networks", "convolutional_network", "device_name", "fit_networks"]
